"""More of a finished study: metrics added later, weights that are no longer needed removed.

Adding a metric is the question of resuming, asked of scores: which runs lack it? Their codes are
made again from the weights that the store kept.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from unweave.config import RunConfig
from unweave.data import load_data
from unweave.metrics import METRICS
from unweave.studies.rows import prepare, score_and_store
from unweave.studies.standing import configs_of
from unweave.studies.store import Store
from unweave.training.folder import read_tensors
from unweave.training.packing import pack
from unweave.training.progress import Listener
from unweave.training.run import Run, choose_device
from unweave.types import UserError, unknown_name

_RUNS_AT_ONCE = 32


def add_metrics(store: Store, record: dict[str, Any], metrics: Sequence[str], *,
                device: str = "auto", listener: Listener | None = None) -> dict[str, int]:
    """Score `metrics` of the study's runs that lack them; counts of what was done."""
    for name in metrics:
        if name not in METRICS and name != "clusters":
            raise unknown_name("metric", name, METRICS)
    where = choose_device(device)
    scored = store.scored(record["convention"], 0)
    rows = {row["run_id"]: row for row in store.runs()}
    kept = set(store.files("weights"))
    done = [c for c in configs_of(record) if rows.get(c.run_id, {}).get("status") == "done"]
    lacking = [c for c in done if not set(metrics) <= scored.get(c.run_id, set())]
    able = [c for c in lacking if f"{c.run_id}.safetensors" in kept]
    counts = {"scored": 0, "complete": len(done) - len(lacking),
              "without_weights": len(lacking) - len(able)}
    if lacking and not able:
        raise UserError(f"{len(lacking)} runs lack these scores, and no weights of them were "
                        "kept: run the study into a new store with --weights all")
    for group in pack(able, [0] * len(able)):
        for start in range(0, len(group), _RUNS_AT_ONCE):
            configs = [able[i] for i in group[start:start + _RUNS_AT_ONCE]]
            missing = [m for m in metrics
                       if any(m not in scored.get(c.run_id, set()) for c in configs)]
            with tempfile.TemporaryDirectory() as folder:
                runs = [_run(store, c, rows[c.run_id], Path(folder), where) for c in configs]
                jobs = prepare(runs, store, study=record["name"], metrics=missing,
                               convention=record["convention"],
                               settings=record.get("settings"))
                for job in jobs:
                    done = score_and_store(job, only_scores=True)
                    if done.error is not None:
                        raise UserError(f"{done.run_id} could not be scored: {done.error}")
                    counts["scored"] += 1
    return counts


def _run(store: Store, config: RunConfig, row: dict[str, Any], folder: Path, device: Any) -> Run:
    """A run from its stored weights; its folder is for what scoring needs."""
    own = folder / config.run_id
    own.mkdir()
    path = own / "weights.safetensors"
    path.write_bytes(store.read_file(f"weights/{config.run_id}.safetensors") or b"")
    weights, _ = read_tensors(path, str(device))
    info = {"status": row["status"], "diverged_at": row["diverged_at"], "seconds": row["seconds"],
            "device": row["device"], "versions": {}}
    params = {k: t[None] for k, t in weights.items()}
    return Run(config, params, {}, info, load_data(config.data), own, device)


def prune_weights(store: Store, *, keep: int, best: str, per_cell: bool = False,
                  among: Collection[str] | None = None) -> dict[str, int]:
    """Remove the weights of all but the `keep` runs with the best score `best`, rows stay.

    `per_cell`: the best of each cell, the runs that differ in their seed only, as
    `run --weights best` keeps them. `among`: only these runs are looked at, weights of others stay.
    The order is the same for everybody who asks, so that runners that prune one store at the same
    time agree; a score that is not a number comes last.
    """
    if keep < 0:
        raise UserError(f"--keep must be at least 0, got {keep}")
    held = {name.removesuffix(".safetensors") for name in store.files("weights")}
    if among is not None:
        held &= set(among)
    if not held:
        return {"kept": 0, "removed": 0}
    scores = store.scores() if keep else []
    found = [row for row in scores if row["key"] == best and row["run_id"] in held]
    if keep and not found:
        keys = sorted({row["key"] for row in scores})
        raise UserError(f"no run with weights has the score {best!r}: there are "
                        f"{', '.join(keys) or 'none'}")
    sign = 1.0 if found and found[0]["higher_is_better"] is False else -1.0
    cells = {row["run_id"]: _cell(row) if per_cell else "" for row in store.runs()}
    chosen: dict[str, list[str]] = {}
    for row in sorted(found, key=lambda row: (_rank(sign, row["value"]), row["run_id"])):
        of_cell = chosen.setdefault(cells.get(row["run_id"], row["run_id"]), [])
        if len(of_cell) < keep and row["run_id"] not in of_cell:
            of_cell.append(row["run_id"])
    kept = {run_id for of_cell in chosen.values() for run_id in of_cell}
    # A run without a row is not finished: its runner looks again when it is.
    gone = {run_id for run_id in held - kept if run_id in cells}
    for run_id in gone:
        store.remove_file(f"weights/{run_id}.safetensors")
    return {"kept": len(held - gone), "removed": len(gone)}


def check_best(best: str, metrics: Sequence[str]) -> None:
    """Refuse to keep the best by a score that the study does not make."""
    if best.partition(".")[0] not in metrics:
        raise UserError(f"--weights best needs a score of the study, and {best!r} is none: name "
                        f"one of {', '.join(metrics) or 'none'} with --best")


def _rank(sign: float, value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else sign * value


def _cell(row: dict[str, Any]) -> str:
    """All of a run's config but its seed."""
    return json.dumps({k: v for k, v in json.loads(row["config"] or "{}").items() if k != "seed"},
                      sort_keys=True)
