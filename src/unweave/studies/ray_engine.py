"""A study on a Ray cluster: stacks on all its GPUs and cores, rows into one shared store.

Ray schedules; this file only says what a task needs. Training a stack is one task, with a value for
each of its runs; scoring a run is another, on one core, with that value as its input. When a node
is lost Ray runs its tasks again elsewhere, and makes values again that were kept there. A task that
comes twice changes nothing: a run whose row is in the store is not made again, and with a store in
a shared folder training goes on from the last checkpoint. The store must be one that every node
sees: a shared folder or s3://. The driver alone makes claims, so runners on other clusters or
machines may work on the same store.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unweave.config import RunConfig
from unweave.studies.catalog import Study
from unweave.studies.claims import Runner
from unweave.studies.rows import Scored, ScoreJob, prepare, score_and_store
from unweave.studies.runner import (
    StopRequested,
    begin,
    check_scores,
    check_weights,
    count,
    keep_best,
    pieces,
    stop_requested,
    taken,
    watching,
    work_folder,
)
from unweave.studies.store import Store, open_store
from unweave.studies.tally import Outcome, Tally
from unweave.training import choose_device, train_runs
from unweave.training.progress import Listener
from unweave.types import UserError

_LOOK_SECONDS = 2.0
_FILES = ("inputs.npz", "curves.parquet", "weights.safetensors")


@dataclass(frozen=True)
class Needs:
    """What a stack takes of a node."""

    gpus: float | None = None
    """A share of one, or some; None: one where the cluster has any, else none."""
    cpus: float = 1.0
    retries: int = 5
    """How often a task is run again when its node is lost."""


@dataclass(frozen=True)
class _Task:
    """What all stacks of a study have in common, on its way to the nodes."""

    study: str
    convention: str
    settings: Mapping[str, Any]
    store: str
    work: str | None
    metrics: tuple[str, ...]
    weights: str
    details: bool
    began: float


@dataclass(frozen=True)
class _Trained:
    """A run that waits for its scores, with the files that they need."""

    job: ScoreJob
    files: dict[str, bytes]


def connect(address: str | None) -> Any:
    """The module `ray`, connected to the cluster at an address (`auto`: the one of this node)."""
    try:
        import ray
    except ImportError:
        raise UserError("--engine ray needs Ray: pip install 'unweave[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except Exception as error:  # where a node of this machine is slow to start, a bare one
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if address is None:
                raise UserError(f"Ray does not start on this machine ({reason}): try again when "
                                "it has less to do, or leave --engine ray out") from None
            raise UserError(f"no Ray cluster answers at {address!r} ({reason}): start one with "
                            "`ray start --head`, or leave --address out for one of this machine "
                            "alone") from None
    return ray


def gpus_of(ray: Any, needs: Needs) -> float:
    """GPUs for a stack: as asked for, or one where the cluster has any."""
    there = ray.cluster_resources().get("GPU", 0.0)
    wanted = needs.gpus if needs.gpus is not None else min(1.0, there)
    if wanted < 0 or (wanted > 1 and wanted != int(wanted)):
        raise UserError(f"--gpus-per-stack {wanted:g} must be a share of one GPU, such as 0.5, or "
                        "a whole number")
    if wanted > there:
        raise UserError(f"a stack asks for {wanted:g} GPUs and the cluster has {there:g}: use "
                        "--gpus-per-stack 0 to train on cores")
    return float(wanted)


def plan_there(study: Study, chosen: dict[str, Any], *, address: str | None,
               needs: Needs | None = None) -> list[RunConfig]:
    """The runs of a study, planned where they will be trained.

    Their precision is that of the device, and the driver may have none.
    """
    ray, needs = connect(address), needs or Needs()
    gpus = gpus_of(ray, needs)
    if not gpus:
        return study.runs(**chosen | {"device": "cpu"})
    task = ray.remote(lambda: study.runs(**chosen | {"device": "cuda"}))
    return _answer(ray, task.options(num_gpus=gpus, num_cpus=needs.cpus).remote())


def run_on_ray(study: Study, configs: Sequence[RunConfig], store: Store, *,
               address: str | None = None, needs: Needs | None = None,
               metrics: Sequence[str] | None = None, work: str | Path | None = None,
               weights: str = "none", best: str = "mig", most_runs: int | None = None,
               details: bool = True, listener: Listener | None = None,
               say: Callable[[str], None] = print) -> Outcome:
    """Train, score and store what is missing of a study on a cluster: see `runner.run_study`.

    Data sets are loaded by name on every node: their files must be there.
    """
    metrics = tuple(study.metrics if metrics is None else metrics)
    check_weights(weights, best, metrics)
    check_scores(study, metrics)
    ray, needs = connect(address), needs or Needs()
    gpus = gpus_of(ray, needs)
    todo, outcome = begin(study, configs, store, metrics, work_folder(store, work))
    if not todo:
        keep_best(store, study, weights, best)
        return outcome
    room = {"num_gpus": gpus, "num_cpus": needs.cpus, "max_retries": needs.retries}
    device = "cuda" if gpus else "cpu"
    with Runner(store).at_work() as runner:
        tally = Tally(store, runner.owner, len(todo), outcome, listener=listener, say=say)
        tally.begin(study.name, f"on Ray, {gpus:g} GPUs and {needs.cpus:g} cores a stack")
        cut = ray.remote(_cut).options(**room).remote(todo, device, most_runs, gpus)
        common = ray.put(_Task(study.name, study.convention, dict(study.settings),
                               _seen_by_all(store), None if work is None else str(work), metrics,
                               weights, details, tally.began))
        train = ray.remote(_train)
        score = ray.remote(_score).options(num_cpus=1, max_retries=needs.retries)
        pending: dict[Any, tuple[Any, RunConfig]] = {}
        trained: dict[Any, list[RunConfig]] = {}
        for piece in _answer(ray, cut):
            mine = taken(runner, piece)
            outcome.elsewhere += len(piece) - len(mine)
            if mine:
                made = train.options(num_returns=len(mine), **room).remote(common, mine, device)
                made = [made] if len(mine) == 1 else list(made)
                trained[made[0]] = mine
                pending |= {score.remote(value): (value, config)
                            for value, config in zip(made, mine)}
        try:
            _gather(ray, pending, trained, runner, tally,
                    lambda: keep_best(store, study, weights, best))
        finally:
            for ref in pending:
                ray.cancel(ref)
            tally.end()
    keep_best(store, study, weights, best)
    return outcome


def _gather(ray: Any, pending: dict[Any, tuple[Any, RunConfig]],
            trained: dict[Any, list[RunConfig]], runner: Runner, tally: Tally,
            after: Callable[[], None]) -> None:
    """Take what comes until all is there or somebody asks to stop."""
    while pending:
        ready, _ = ray.wait([*trained, *pending], num_returns=1, timeout=_LOOK_SECONDS,
                            fetch_local=False)
        if stop_requested(runner.store, tally.began):
            tally.outcome.stopped = True
        stored = []
        for ref in ready:
            if ref in trained:
                tally.stack(trained.pop(ref))
                continue
            _, config = pending.pop(ref)
            try:
                result = ray.get(ref)
            except ray.exceptions.RayError as error:
                tally.failed(config.run_id, _sentence(error))
                continue
            if result is None:  # asked to stop
                tally.outcome.stopped = True
            elif count(result, runner, tally):
                stored.append(config.run_id)
        if stored:
            tally.scored(stored)
            after()


def _seen_by_all(store: Store) -> str:
    """The address of a store from whatever folder a task works in."""
    return store.address if store.folder is None else str(store.folder.resolve())


def _cut(configs: list[RunConfig], device: str, most_runs: int | None,
         gpus: float) -> list[list[RunConfig]]:
    """Stacks that fit on a node's device; a share of a GPU holds a share of a stack."""
    found = list(pieces(configs, choose_device(device), {}, most_runs))
    if most_runs is not None or not 0.0 < gpus < 1.0:
        return found
    smaller = [max(1, int(gpus * len(piece))) for piece in found]
    return [piece[i:i + most] for piece, most in zip(found, smaller)
            for i in range(0, len(piece), most)]


def _train(task: _Task, configs: list[RunConfig], device: str) -> Any:
    """Train a stack and encode it: for each run its job, or what is known of it already."""
    store = open_store(task.store)
    rows = {c.run_id for c in configs} & store.finished()
    left = [config for config in configs if config.run_id not in rows]
    if stop_requested(store, task.began):  # it waited in Ray's queue meanwhile
        left = []
    folder = work_folder(store, task.work)
    found: dict[str, Any] = {}
    try:
        runs = train_runs(left, out=folder, device=device, resume=True,
                          listener=watching(store, None, task.began)) if left else []
    except StopRequested:
        runs = []
    jobs = prepare(runs, store, study=task.study, metrics=task.metrics,
                   convention=task.convention, settings=task.settings, weights=task.weights,
                   details=task.details)
    for job in jobs:
        files = {name: (job.folder / name).read_bytes() for name in _FILES
                 if (job.folder / name).exists()}
        found[job.run_id] = _Trained(job, files)
        if not store.is_local:  # the value has it all, and this node may not be seen by others
            shutil.rmtree(job.folder, ignore_errors=True)
    if rows:  # stored by an attempt whose node was lost afterwards
        status = {row["run_id"]: row["status"] for row in store.runs()}
        found |= {run_id: Scored(run_id, status[run_id], None) for run_id in rows}
    values = [found.get(config.run_id) for config in configs]
    return values[0] if len(values) == 1 else values


def _score(trained: _Trained | Scored | None) -> Scored | None:
    """Score and store a run anywhere, from the files that came with it."""
    if not isinstance(trained, _Trained):
        return trained
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder)
        for name, payload in trained.files.items():
            (own / name).write_bytes(payload)
        inputs = own / "inputs.npz" if "inputs.npz" in trained.files else None
        job = replace(trained.job, folder=own, inputs=inputs)
        result = score_and_store(job)
    return replace(result, folder=trained.job.folder)


def _answer(ray: Any, ref: Any) -> Any:
    try:
        return ray.get(ref)
    except ray.exceptions.RayError as error:
        raise UserError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    """What a task said, without the trace of the node."""
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    if isinstance(cause, UserError) or not lines:
        return str(cause)
    return f"{type(cause).__name__}: {lines[-1].strip()}"
