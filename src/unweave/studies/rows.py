"""From trained runs to rows: made ready where the models are, scored anywhere.

A stack is encoded in one pass. What metrics look at beside codes (posteriors, sampled codes,
reconstructions) is computed for the rows that they draw. All of it goes into one file a run, so
that a process on another core, or another machine, can make the scores without the model.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unweave.factors import FactorSpace, LabelTable
from unweave.metrics import METRICS
from unweave.metrics.encoding import MODEL_INPUTS, ROW_INPUTS, Encoding
from unweave.metrics.record import Metric, Score
from unweave.metrics.scoring import Plan, plan_scores
from unweave.studies.catalog import strength_of
from unweave.studies.clusters import can_score, score_clusters
from unweave.studies.scoring import flat
from unweave.studies.store import Store, open_store
from unweave.training import Encoded, Run
from unweave.training.encoding import heads_of_runs
from unweave.types import UserError

WEIGHTS = ("all", "best", "none")
"""Whose weights are kept in the store; best: of each cell, the runs that differ in their seed only,
the one with the best score. Until a stack is scored its weights are all there (`adding.py`)."""

POINTS_OF_A_CURVE = 100
"""Kept in the store, of at most 500: enough to see what happened."""


@dataclass(frozen=True)
class ScoreJob:
    """All that is needed to score a run and to store its rows."""

    run_id: str
    store: str
    row: dict[str, Any]
    """Of the table `runs`."""
    folder: Path | None
    """The run's folder, with its curves, weights and the file of inputs."""
    inputs: Path | None
    """None: nothing to score."""
    space: FactorSpace
    labels: Any
    metrics: tuple[str, ...]
    convention: str
    settings: tuple[tuple[str, Any], ...]
    """Of the metrics, where the study changes some of its convention."""
    num_values: tuple[int, ...]
    weights: str
    details: bool = True
    seed: int = 0
    own: tuple[Score, ...] = ()
    """Scores that were made with the model: those of its clusters."""


@dataclass(frozen=True)
class Scored:
    """What became of a job."""

    run_id: str
    status: str
    folder: Path | None
    error: str | None = None


def prepare(runs: Sequence[Run], store: Store, *, study: str, metrics: Sequence[str],
            convention: str, settings: Mapping[str, Any] | None = None, weights: str = "none",
            details: bool = True) -> Iterator[ScoreJob]:
    """Encode a stack, and write down for one run after the other what its scores need.

    Who takes a job may start on it while the next one is made ready. `settings` change some of the
    convention's, and rows say so; those that none of the metrics has are left out.
    """
    alive = [run for run in runs if run.status != "diverged"]
    clustered = {run.run_id: tuple(score_clusters(run, convention=convention)) for run in alive
                 if "clusters" in metrics and can_score(run)}
    metrics = [name for name in metrics if name != "clusters"]
    known = {name for metric in metrics for name in METRICS[metric].conventions[convention]}
    changed = tuple(sorted((k, v) for k, v in (settings or {}).items() if k in known))
    heads: dict[str, Any] = {}
    if alive and metrics:
        dataset = alive[0].dataset
        plan = _plan(dataset.space, dataset.labels, tuple(metrics), convention, changed)
        heads = {run.run_id: own for run, own in zip(alive, heads_of_runs(alive, plan.index))}
    for run in runs:
        path = None
        if run.run_id in heads:
            path = run.folder / "inputs.npz"
            encoded = Encoded(run, plan.index, heads=heads.pop(run.run_id))
            np.savez(path, **row_inputs(plan, encoded))
        yield ScoreJob(
            run_id=run.run_id, store=store.address, row=run_row(run, study), folder=run.folder,
            inputs=path, space=run.dataset.space, labels=run.dataset.labels,
            metrics=tuple(metrics), convention=convention, settings=changed,
            num_values=run.num_values, weights=weights, details=details,
            own=clustered.get(run.run_id, ()))


_ROWS = ".rows"  # after the name of an input: which rows its lines belong to


def check_apart(metrics: Iterable[Metric]) -> None:
    """Refuse metrics that cannot be scored apart from the model, with a word on how to get them."""
    for metric in metrics:
        if any(name in (*MODEL_INPUTS, "log_weights") for name in metric.needs):
            raise UserError(f"{metric.name} asks the model itself, which a study does not keep: "
                            "leave it out, and use `unweave score` on runs whose weights are kept")


def row_inputs(plan: Plan, encoded: Encoded) -> dict[str, np.ndarray]:
    """Codes, and the inputs that the plan's metrics look at, for the rows that they draw.

    `name.rows` says which rows the lines of `name` are.
    """
    check_apart(plan.metrics)
    found = {"codes": encoded.codes}
    for name in ROW_INPUTS:
        wanting = [draw for metric, draw in zip(plan.metrics, plan.draws) if name in metric.wants]
        here = wanting and name not in ("log_weights", *encoded.withheld)
        held = getattr(encoded, name) if here else None
        if held is None:
            continue
        rows = np.unique(np.concatenate([draw.points for draw in wanting]))
        found[name] = np.asarray(held(rows) if callable(held) else held[rows])
        found[name + _ROWS] = rows
    return found


def read_inputs(path: Path) -> Encoding:
    """What `row_inputs` gave, from its file."""
    with np.load(path, allow_pickle=False) as file:
        held = {name: file[name] for name in file.files}

    def lines(name: str, asked: np.ndarray) -> np.ndarray:
        return held[name][np.searchsorted(held[name + _ROWS], asked)]

    return Encoding(held["codes"], **{name: functools.partial(lines, name) for name in held
                                      if name + _ROWS in held})


def run_row(run: Run, study: str) -> dict[str, Any]:
    """The row of a run in the table `runs`."""
    config, (letter, strength) = run.config, strength_of(run.config)
    return {"run_id": run.run_id, "study": study, "source": "unweave", "status": run.status,
            "method": config.method, "data": config.data, "letter": letter, "strength": strength,
            "seed": config.seed, "steps": config.steps, "batch_size": config.batch_size,
            "num_latents": config.num_latents, "architecture": config.architecture,
            "precision": config.precision, "config": config.to_json(),
            "diverged_at": run.info["diverged_at"], "seconds": run.info["seconds"],
            "device": run.info["device"], "versions": json.dumps(run.info["versions"])}


def score_and_store(job: ScoreJob, *, only_scores: bool = False) -> Scored:
    """Score a run and append its rows; the row of the run comes last, and says that all are there.

    `only_scores`: of a run whose other rows are there already. Bad input becomes an error in the
    answer: one run does not stop the others.
    """
    try:
        store = open_store(job.store)
        if job.inputs is not None:
            plan = _plan(job.space, job.labels, job.metrics, job.convention, job.settings)
            records = plan.score(read_inputs(job.inputs), num_values=job.num_values,
                                 details=job.details)
            store.append("scores", [{"run_id": job.run_id} | flat(record) for record in records])
        if job.own:
            store.append("scores", [{"run_id": job.run_id} | flat(record) for record in job.own])
        if only_scores:
            return Scored(job.run_id, job.row["status"], job.folder)
        if job.folder is not None:
            store.append("curves", _thinned(job.run_id, job.folder))
            if job.weights == "all" or (job.weights == "best" and job.inputs is not None):
                payload = (job.folder / "weights.safetensors").read_bytes()
                store.write_file(f"weights/{job.run_id}.safetensors", payload)
        store.append("runs", [job.row])
    except UserError as error:
        return Scored(job.run_id, job.row["status"], job.folder, str(error))
    return Scored(job.run_id, job.row["status"], job.folder)


@functools.lru_cache(maxsize=4)
def _cached_plan(key: bytes, metrics: tuple[str, ...], convention: str,
                 settings: tuple[tuple[str, Any], ...]) -> Plan:
    space, labels = _PLANNED[key]
    return plan_scores(space, labels=labels, metrics=list(metrics), convention=convention,
                       **dict(settings))


_PLANNED: dict[bytes, Any] = {}


def _plan(space: FactorSpace, labels: Any, metrics: tuple[str, ...], convention: str,
          settings: tuple[tuple[str, Any], ...]) -> Plan:
    """One plan for all runs of a data set that this process sees."""
    key = _contents(space, labels)
    _PLANNED.setdefault(key, (space, labels))
    return _cached_plan(key, metrics, convention, settings)


def _contents(space: FactorSpace, labels: LabelTable | None) -> bytes:
    """What a plan is a function of, in short: data sets of one size may differ in all the rest."""
    said = repr((space.names, space.sizes, space.types, len(space))).encode()
    said += b"" if space.cells is None else space.cells.tobytes()
    if labels is not None:
        said += repr((labels.names, labels.types, labels.values.dtype)).encode()
        values = labels.values
        said += repr(values.tolist()).encode() if values.dtype.hasobject else values.tobytes()
    return hashlib.sha256(said).digest()


def _thinned(run_id: str, folder: Path) -> list[dict[str, Any]]:
    from unweave.training.folder import read_curves

    curves = read_curves(folder)
    steps = curves["step"]
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), POINTS_OF_A_CURVE)).round())
    return [{"run_id": run_id, "step": steps[int(i)], "term": term, "value": values[int(i)]}
            for term, values in curves.items() if term != "step" for i in kept]
