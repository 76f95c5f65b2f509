"""Running a study on this machine: stacks are trained, encoded and handed on to be scored.

While the GPU (or the CPU) trains the next stack, other processes score the last one. What a run
leaves is appended to the store in an order that makes a kill harmless: scores, curves, and last the
row of the run, which says that the others are there. A run without that row is made again, from its
checkpoint, its finished weights or the start, whichever there is; rows that come twice count once.

Several runners may share a store. A run is claimed before it is trained, and claims of a runner
that has not been heard of for a quarter of an hour are void.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path

import torch

from unweave import nn
from unweave.config import RunConfig
from unweave.data import load_data
from unweave.data.dataset import FactorDataset
from unweave.data.fetch import data_folder
from unweave.metrics import CONVENTIONS, METRICS
from unweave.studies.adding import check_best, prune_weights
from unweave.studies.catalog import Study
from unweave.studies.claims import Runner, abandoned, check_exclusive, clear_leftovers
from unweave.studies.memory import recall, remember
from unweave.studies.rows import WEIGHTS, Scored, ScoreJob, check_apart, prepare, score_and_store
from unweave.studies.store import Store
from unweave.studies.tally import Outcome, Tally
from unweave.training import choose_device, train_runs
from unweave.training.packing import in_pieces, pack, stack_size
from unweave.training.progress import Listener, Report
from unweave.types import unknown_name

RUNS_ON_CPU = 4
"""Of a stack on a CPU, where a larger one is no faster: rows come sooner, runners share better."""

_STACKS_AHEAD = 2  # trained but not yet scored, at most: codes take memory
_LOOK_EVERY = 2.0  # seconds of training between looks at what else has happened


class StopRequested(Exception):
    """`unweave study stop` was called: what is checkpointed stays."""


def run_study(study: Study, configs: Sequence[RunConfig], store: Store, *,
              metrics: Sequence[str] | None = None, device: str = "auto",
              work: str | Path | None = None, weights: str = "none", best: str = "mig",
              num_workers: int | None = None, most_runs: int | None = None,
              details: bool = True, listener: Listener | None = None,
              say: Callable[[str], None] = print,
              datasets: dict[str, FactorDataset] | None = None, log: str | None = None) -> Outcome:
    """Train, score and store what is missing of a study; call it again to go on.

    `work` is a folder of this machine for unfinished runs (in the store if that is a folder);
    `weights`: which are kept, "all", "none", or the "best" of each cell by the score `best`;
    `num_workers`: processes that score; `most_runs`: of a stack; `details`: intervals, floors and
    ceilings of the scores; `datasets`: those that exist in memory only. `say` gets a line for each
    stack, `listener` the steps of a stack and the runs of all; the log of the store gets both.
    `log` sends curves to TensorBoard or Weights & Biases too, as `train` does; event files go into
    `tensorboard` in the store.
    """
    metrics = tuple(study.metrics if metrics is None else metrics)
    check_weights(weights, best, metrics)
    check_scores(study, metrics)
    where = choose_device(device)
    folder = work_folder(store, work)
    if log == "tensorboard":  # folders of runs are removed when their rows are stored
        log = f"tensorboard:{(store.folder or folder) / 'tensorboard'}"
    todo, outcome = begin(study, configs, store, metrics, folder)
    if not todo:
        keep_best(store, study, weights, best)  # a call before may have ended just ahead of this
        return outcome
    known = dict(datasets or {})
    with Runner(store).at_work() as runner, _scorers(num_workers) as scorers:
        tally = Tally(store, runner.owner, len(todo), outcome, listener=listener, say=say)
        tally.begin(study.name, f"on {where}")
        waiting: list[dict[Future, ScoreJob]] = []

        def collect() -> None:
            _collect(waiting.pop(0), runner, tally)
            keep_best(store, study, weights, best)

        def collect_scored() -> None:
            while waiting and all(future.done() for future in waiting[0]):
                collect()

        try:
            for piece in pieces(todo, where, known, most_runs):
                if stop_requested(store, tally.began):  # a short stack ends before it looks
                    raise StopRequested
                mine = taken(runner, piece)
                outcome.elsewhere += len(piece) - len(mine)
                if not mine:
                    continue
                jobs = _train_and_encode(study, mine, store, folder, metrics, where, weights,
                                         details, known,
                                         watching(store, listener, tally.began,
                                                  collect_scored), log)
                waiting.append({scorers.submit(job): job for job in jobs})
                tally.stack(mine)
                collect_scored()
                while len(waiting) > _STACKS_AHEAD:
                    collect()
        except StopRequested:
            outcome.stopped = True
        finally:
            for futures in waiting:
                _collect(futures, runner, tally)
            tally.end()
    keep_best(store, study, weights, best)
    return outcome


def check_weights(weights: str, best: str, metrics: Sequence[str]) -> None:
    """Refuse a policy that is none, or a score that the study does not make."""
    if weights not in WEIGHTS:
        raise unknown_name("policy for weights", weights, WEIGHTS)
    if weights == "best":
        check_best(best, metrics)


def check_scores(study: Study, metrics: Sequence[str]) -> None:
    """Refuse metrics, a convention or settings that are none, before anything is trained."""
    for name in metrics:
        if name not in METRICS and name != "clusters":
            raise unknown_name("metric", name, METRICS)
    check_apart(METRICS[name] for name in metrics if name in METRICS)
    if study.convention not in CONVENTIONS:
        raise unknown_name("convention", study.convention, CONVENTIONS)
    known = sorted({name for metric in study.metrics if metric in METRICS
                    for name in METRICS[metric].conventions[study.convention]})
    for name in study.settings:
        if name not in known:
            raise unknown_name(f"setting of the metrics of {study.name}", name, known)


def keep_best(store: Store, study: Study, weights: str, best: str) -> None:
    """Where only the best weights are kept, remove those of the study's others.

    Other studies of the store may keep all of theirs, or go by another score.
    """
    if weights == "best" and store.files("weights"):
        record = recall(store, study.name)
        prune_weights(store, keep=1, best=best, per_cell=True, among=record and record["runs"])


def begin(study: Study, configs: Sequence[RunConfig], store: Store, metrics: Sequence[str],
          folder: Path) -> tuple[list[RunConfig], Outcome]:
    """Remember a study in its store; the runs that are missing, and a count of the others.

    Nobody comes back to a finished run: what a runner that was killed left of it goes.
    """
    remember(store, study, configs, metrics)
    finished = store.finished()
    over = abandoned(store, finished)
    for run_id in over:
        shutil.rmtree(folder / run_id, ignore_errors=True)
    clear_leftovers(store, over)
    todo = [config for config in configs if config.run_id not in finished]
    if todo and not store.is_local:
        check_exclusive(store)
    return todo, Outcome(skipped=len(configs) - len(todo))


def taken(runner: Runner, configs: Sequence[RunConfig]) -> list[RunConfig]:
    """Those runs that are now this runner's to make."""
    mine = set(runner.take([config.run_id for config in configs]))
    done = mine & runner.store.finished()  # another may have been faster: its claim is gone
    runner.finish(done)
    return [config for config in configs if config.run_id in mine - done]


def work_folder(store: Store, work: str | Path | None) -> Path:
    """Where unfinished runs of a store lie on this machine."""
    if work is not None:
        return Path(work)
    if store.folder is not None:
        return store.folder / "work"
    # The same for every call, so that a killed runner of this machine goes on from its checkpoints.
    return data_folder() / "work" / hashlib.sha256(store.address.encode()).hexdigest()[:16]


def data_of(configs: Iterable[RunConfig]) -> dict[str, FactorDataset]:
    """The data sets of runs by name; one that cannot be loaded is an error."""
    return {name: load_data(name) for name in dict.fromkeys(config.data for config in configs)}


def pieces(configs: list[RunConfig], device: torch.device, datasets: dict[str, FactorDataset],
            most_runs: int | None) -> Iterator[list[RunConfig]]:
    """Runs that share a stack, no more than the device holds."""
    for group in pack(configs, [0] * len(configs)):
        first = configs[group[0]]
        if first.data not in datasets:
            datasets[first.data] = load_data(first.data)
        most = most_runs or RUNS_ON_CPU
        if device.type == "cuda" and most_runs is None:
            by_kernels = nn.chosen_path(torch.empty(0, device=device)) == "triton"
            most = stack_size(first, datasets[first.data].image_shape, device,
                              by_kernels=by_kernels)
        for piece in in_pieces(group, most):
            yield [configs[i] for i in piece]


def _train_and_encode(study: Study, configs: list[RunConfig], store: Store, folder: Path,
                      metrics: Sequence[str], device: torch.device, weights: str, details: bool,
                      datasets: dict[str, FactorDataset],
                      listener: Listener | None, log: str | None) -> Iterator[ScoreJob]:
    runs = train_runs(configs, out=folder, device=str(device), resume=True, listener=listener,
                      datasets=datasets, log=log)
    return prepare(runs, store, study=study.name, metrics=metrics, convention=study.convention,
                   settings=study.settings, weights=weights, details=details)


def _collect(futures: dict[Future, ScoreJob], runner: Runner, tally: Tally) -> None:
    """Wait for the scores of a stack; a run that could not be scored is named, not lost."""
    wait(futures)
    stored = []
    for future, job in futures.items():
        if isinstance(future.exception(), BrokenProcessPool):
            tally.failed(job.run_id, "the process that scored it ended, perhaps for want of "
                                     "memory: its weights are kept, run the study again")
            continue
        if count(future.result(), runner, tally):
            stored.append(job.run_id)
    tally.scored(stored)


def count(result: Scored, runner: Runner, tally: Tally) -> bool:
    """Note what became of a run; True if its rows are in the store."""
    if result.error is not None:
        tally.failed(result.run_id, result.error)
        return False
    if result.status == "diverged":
        tally.outcome.diverged += 1
    else:
        tally.outcome.done += 1
    if result.folder is not None:
        shutil.rmtree(result.folder, ignore_errors=True)
    runner.finish([result.run_id])
    return True


class _Scorers:
    """Processes that score. One that is killed ends all of its pool; the next job has a new one."""

    def __init__(self, num_workers: int) -> None:
        self._num = num_workers
        self._pools = [self._made()]

    def _made(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._num, mp_context=get_context("spawn"),
                                   initializer=_end_with_parent)

    def submit(self, job: ScoreJob) -> Future:
        """The scores of a run, in the making."""
        try:
            return self._pools[-1].submit(score_and_store, job)
        except BrokenProcessPool:
            self._pools.append(self._made())
            return self._pools[-1].submit(score_and_store, job)

    def shutdown(self) -> None:
        """Wait for the processes to end."""
        for pool in self._pools:
            pool.shutdown()


def _end_with_parent() -> None:
    """Nobody tells a pool's processes that theirs was killed: they would wait for jobs for ever."""
    parent = parent_process()

    def watch() -> None:
        parent.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _scorers(num_workers: int | None) -> Iterator[_Scorers]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # One thread each: the processes are the parallelism. Read when libraries are imported.
    before = {k: os.environ.get(k) for k in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    os.environ |= dict.fromkeys(before, "1")
    scorers = _Scorers(num_workers or max(1, (cores or 2) - 1))
    try:
        yield scorers
    finally:
        scorers.shutdown()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def watching(store: Store, listener: Listener | None, began: float,
             also: Callable[[], None] = lambda: None) -> Listener:
    """A listener that also looks, every few seconds, for a request to stop made since `began`.

    `also` is called then, too: a stack may train for hours, and what was scored meanwhile is to be
    counted as it comes.
    """
    last = time.monotonic()

    def listen(report: Report) -> None:
        nonlocal last
        if listener is not None:
            listener(report)
        if time.monotonic() - last > _LOOK_EVERY:
            last = time.monotonic()
            also()
            if stop_requested(store, began):
                raise StopRequested

    return listen


def request_stop(store: Store) -> None:
    """Ask the runners that are at work now to stop; those that start later do not mind."""
    store.write_file("stop.json", json.dumps({"time": time.time()}).encode())


def stop_requested(store: Store, began: float) -> bool:
    """Whether a runner that began at a time has been asked to stop."""
    payload = store.read_file("stop.json")
    try:
        return payload is not None and float(json.loads(payload)["time"]) >= began
    except (ValueError, KeyError, TypeError):
        return False
