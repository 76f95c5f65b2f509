"""The runs that a page offers: of run folders, of folders of runs, of stores.

A run is known by its id alone. Whoever asks for one gives an id, which is looked up in the list
that was made here: no path is ever put together from what somebody sent.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch

from unweave import nn
from unweave.config import RunConfig
from unweave.data import DATASETS, load_data, parse_spec, shown_name
from unweave.data.dataset import FactorDataset
from unweave.objectives import METHODS, letters
from unweave.studies.catalog import STRENGTHS
from unweave.studies.store import Store, open_store
from unweave.training import Run, load
from unweave.training import folder as files
from unweave.training.run import choose_device
from unweave.types import UserError, unknown_name

_RUNS_HELD = 8  # loaded at once; a network of the papers takes two megabytes
_CONVENTIONS = ("study2019", "paper")


class NotListed(UserError):
    """Somebody asked for what is not in the list."""


@dataclass(frozen=True)
class Listed:
    """A run as the list shows it; `problem` says why it cannot be opened."""

    run_id: str
    config: RunConfig | None
    status: str
    scores: Mapping[str, float]
    folder: Path | None = None
    store: Store | None = None
    problem: str = ""

    def record(self) -> dict[str, Any]:
        """Plain values for the page."""
        shared = {"id": self.run_id, "status": self.status, "problem": self.problem,
                  "scores": {k: round(v, 6) for k, v in self.scores.items()}}
        if self.config is None:
            return shared
        config = self.config
        return shared | {
            "method": config.method, "data": shown_name(config.data), "seed": config.seed,
            "steps": config.steps, "latents": config.num_latents,
            "architecture": config.architecture,
            "letters": {k: v for k, v in letters_of(config).items()
                        if isinstance(v, float | int | str)}}


@dataclass
class Catalogue:
    """Runs by id, loaded when they are asked for; `datasets` are those in memory, by name."""

    entries: dict[str, Listed]
    higher_is_better: dict[str, bool]
    datasets: dict[str, FactorDataset] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.RLock()
        self.data_keys = {data_key(entry.config.data): entry.config.data
                          for entry in self.entries.values() if entry.config is not None}

    def records(self) -> list[dict[str, Any]]:
        """The list as the page gets it."""
        return [entry.record() for entry in self.entries.values()]

    def dataset(self, key: str) -> FactorDataset:
        """The data set of a key of `data_keys`; unknown ones are refused."""
        if key not in self.data_keys:
            raise NotListed(f"there is no data set {key[:80]!r} here")
        return self._dataset(self.data_keys[key])

    def _dataset(self, spec: str) -> FactorDataset:
        with self._lock:
            if spec not in self.datasets:
                if problem := _without_data(spec, {}):
                    raise UserError(problem)
                self.datasets[spec] = load_data(spec)
            return self.datasets[spec]

    def run(self, run_id: str) -> Run:
        """The run of that id. UserError if it is not in the list or cannot be opened."""
        entry = self.entries.get(run_id)
        if entry is None:
            raise NotListed(f"there is no run {run_id[:80]!r} here")
        if entry.problem or entry.config is None:
            raise UserError(f"{run_id} cannot be opened: {entry.problem}")
        with self._lock:
            if run_id not in self._runs:
                data = self._dataset(entry.config.data)
                self._runs[run_id] = (_run_of_folder(entry.folder, data)
                                      if entry.folder is not None
                                      else _run_of_store(entry, data))
            self._runs.move_to_end(run_id)
            while len(self._runs) > _RUNS_HELD:
                self._runs.popitem(last=False)
            return self._runs[run_id]


def find_runs(targets: Iterable[str | Path], *,
              datasets: Mapping[str, FactorDataset] | None = None) -> Catalogue:
    """All runs of run folders, folders of runs and stores (a folder, or s3://...)."""
    found: dict[str, Listed] = {}
    better: dict[str, bool] = {}
    for target in targets:
        for entry in _listed(str(target), better):
            found.setdefault(entry.run_id, entry)
    for run_id, entry in found.items():
        problem = "" if entry.config is None else _without_data(entry.config.data, datasets or {})
        found[run_id] = entry if entry.problem else replace(entry, problem=problem)
    if not any(not entry.problem for entry in found.values()):
        reasons = [entry.problem for entry in found.values()]
        more = f" ({reasons[0]})" if reasons else ""
        raise UserError(f"there is no run that can be shown{more}: give a run folder, a folder of "
                        "runs, or a store whose study kept its weights (--weights all)")
    return Catalogue(found, better, dict(datasets or {}))


def _without_data(spec: str, held: Mapping[str, FactorDataset]) -> str:
    """Why there are no images for a run; nothing if there are."""
    if spec in held or parse_spec(spec)[0] in DATASETS:
        return ""
    return f"the data set {spec!r} was in memory when it was trained and is not here"


def _listed(target: str, better: dict[str, bool]) -> list[Listed]:
    path = Path(target)
    if "://" in target or (path / "store.json").is_file():
        return _of_store(open_store(target), better)
    if (path / "config.json").exists():
        return [_of_folder(path, better)]
    below = sorted(p.parent for p in path.glob("*/run.json")) if path.is_dir() else []
    if not below:
        raise UserError(f"{target} is neither a run folder, nor a folder of finished runs, nor a "
                        "store")
    return [_of_folder(folder, better) for folder in below]


def _of_folder(folder: Path, better: dict[str, bool]) -> Listed:
    try:
        config = files.read_config(folder)
        status = str(files.read_json(folder / "run.json").get("status", "unknown"))
    except UserError as error:
        return Listed(folder.name, None, "damaged", {}, problem=str(error))
    problem = "" if status == "done" else f"it is {status}"
    scores: dict[str, float] = {}
    path = folder / "scores.parquet"
    if path.exists():
        try:
            scores = _chosen_scores(pq.read_table(path).to_pylist(), better)
        except (OSError, pa.ArrowException, KeyError):
            status = f"{status}, scores damaged"  # the model itself can be looked at
    return Listed(config.run_id, config, status, scores, folder=folder, problem=problem)


def _of_store(store: Store, better: dict[str, bool]) -> list[Listed]:
    scores: dict[str, list[dict[str, Any]]] = {}
    for row in store.scores():
        scores.setdefault(row["run_id"], []).append(row)
    kept = {name.removesuffix(".safetensors") for name in store.files("weights")}
    found = []
    for row in store.runs():
        try:
            config = RunConfig.from_record(json.loads(row["config"] or "{}"))
        except (ValueError, TypeError):  # a published run: rows without a model
            continue
        problem = ""
        if row["status"] != "done":
            problem = f"it is {row['status']}"
        elif row["run_id"] not in kept:
            problem = "its weights were not kept"
        found.append(Listed(row["run_id"], config, row["status"],
                            _chosen_scores(scores.get(row["run_id"], []), better),
                            store=store, problem=problem))
    return found


def _chosen_scores(rows: Sequence[Mapping[str, Any]], better: dict[str, bool]) -> dict[str, float]:
    """One value for each key: of several conventions and seeds the first."""
    def order(row: Mapping[str, Any]) -> tuple[int, int]:
        name = row["convention"]
        return _CONVENTIONS.index(name) if name in _CONVENTIONS else 9, row["seed"] or 0

    found: dict[str, float] = {}
    for row in sorted(rows, key=order):
        if row["value"] is None or not math.isfinite(row["value"]):
            continue
        found.setdefault(row["key"], float(row["value"]))
        if row["higher_is_better"] is not None:
            better.setdefault(row["key"], bool(row["higher_is_better"]))
    return found


def _run_of_folder(folder: Path, data: FactorDataset) -> Run:
    """As `load`, but what is wrong is told without the folders of this machine."""
    try:
        return load(folder, device="cpu", data=data)
    except UserError as error:
        raise UserError(str(error).replace(f"{folder.parent}/", "")) from None


def _run_of_store(entry: Listed, data: FactorDataset) -> Run:
    """A run from the weights that a store kept, checked as `load` checks those of a folder."""
    assert entry.config is not None
    assert entry.store is not None
    config, where = entry.config, f"the weights of {entry.run_id}"
    for kind, name, known in (("architecture", config.architecture, nn.ARCHITECTURES),
                              ("method", config.method, METHODS)):
        if name not in known:
            raise unknown_name(kind, name, known)
    payload = entry.store.read_file(f"weights/{entry.run_id}.safetensors")
    if payload is None:
        raise UserError(f"{where} are no longer in the store")
    try:
        weights = safetensors.torch.load(payload)
    except (safetensors.SafetensorError, ValueError, RuntimeError) as error:
        raise UserError(f"{where} are damaged ({error}): restore them or train again") from None
    posterior, letters = METHODS[config.method].posterior, dict(config.hyper)
    sizes = (posterior.head_size(config.num_latents, letters),
             posterior.code_size(config.num_latents, letters))
    network = nn.ARCHITECTURES[config.architecture]
    expected = {**network.parameters(data.image_shape, *sizes),
                **network.buffers(data.image_shape, *sizes)}
    if {k: tuple(v.shape) for k, v in expected.items()} != {
            k: tuple(t.shape) for k, t in weights.items()}:
        raise UserError(f"{where} are not those of a {config.architecture} with "
                        f"{config.num_latents} latents")
    params = {k: t[None] for k, t in weights.items()}
    return Run(config, params, {}, {"status": entry.status}, data, device=choose_device("cpu"))


def letters_of(config: RunConfig) -> dict[str, Any]:
    """A run's letters, the strength first, then those that are not as they are by default.

    The page shows the first few only: by the alphabet, FactorVAEs of any gamma would look alike.
    """
    known = letters(config.method) if config.method in METHODS else {}
    strength = STRENGTHS.get(config.method)

    def order(item: tuple[str, Any]) -> int:
        name, value = item
        return 0 if name == strength else 1 if name in known and value != known[name].default else 2

    return dict(sorted(config.hyper, key=order))


def data_key(spec: str) -> str:
    """A short name for a data set that says nothing about folders of this machine."""
    return hashlib.sha256(spec.encode()).hexdigest()[:12]
