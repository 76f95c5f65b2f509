"""The loop: a group of runs trained together, checkpointed, finished or given up.

What can go wrong on the way is met here: a run whose loss is no longer finite stops by itself, a
GPU whose memory is too small gets half of the runs at a time, one that fails ends in a sentence.
"""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from unweave.config import FORMAT, RunConfig
from unweave.data import DATASETS, parse_spec
from unweave.data.dataset import FactorDataset
from unweave.objectives import METHODS
from unweave.training import folder as files
from unweave.training.loggers import Logger
from unweave.training.packing import in_pieces, lanes, pack
from unweave.training.progress import Listener, Report, clock, main_terms
from unweave.training.run import Run
from unweave.training.stack import Stack
from unweave.types import Params, UserError
from unweave.version import __version__


@dataclass
class Job:
    """A run in training: its config, where it stands, and what is known of it so far."""

    config: RunConfig
    folder: Path | None
    start: int = 0
    state: Params | None = None
    donor: Params | None = None
    """Weights of another run to start from."""
    curves: files.Curves = field(default_factory=dict)
    seconds: float = 0.0
    diverged_at: int | None = None
    run: Run | None = None


def train_group(jobs: list[Job], dataset: FactorDataset, device: torch.device, label: str,
                    listener: Listener | None, checkpoint_seconds: float,
                    logger: Logger | None = None) -> None:
    """Train a group; if the GPU's memory is too small for it after all, one half after the other.

    What was checkpointed is kept. A GPU that fails is reported in a sentence.
    """
    try:
        _train_together(jobs, dataset, device, label, listener, checkpoint_seconds, logger)
        return
    except torch.OutOfMemoryError:
        if len(jobs) == 1:
            raise UserError(
                f"{jobs[0].config.run_id} does not fit into the memory of {device}: use a smaller "
                "batch, free the GPU, or train on another device (--device cpu)") from None
    except RuntimeError as error:
        if device.type != "cuda" or "CUDA" not in str(error):
            raise
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"the GPU failed ({reason}): what was checkpointed is kept, the same "
                        "command goes on (`unweave train` with --resume)") from error
    torch.cuda.empty_cache()
    for job in jobs:
        _rewind(job)
    for half in in_pieces(range(len(jobs)), -(-len(jobs) // 2)):
        members = [jobs[i] for i in half]
        for group in pack([job.config for job in members], [job.start for job in members]):
            train_group([members[i] for i in group], dataset, device,
                            f"{label}, {len(group)} at a time", listener, checkpoint_seconds,
                            logger)


def _rewind(job: Job) -> None:
    """Put a job back to its last checkpoint, or to its start."""
    job.state, job.start, job.seconds, job.curves, job.diverged_at = None, 0, 0.0, {}, None
    if job.folder is not None and (job.folder / "checkpoint.safetensors").exists():
        job.state, job.start, job.seconds, job.curves = files.read_checkpoint(job.folder)


def _train_together(jobs: list[Job], dataset: FactorDataset, device: torch.device, label: str,
                 listener: Listener | None, checkpoint_seconds: float,
                 logger: Logger | None) -> None:
    layout = [[jobs[i] for i in lane] for lane in lanes(range(len(jobs)), device)]
    stacks = [Stack([job.config for job in lane], dataset, device) for lane in layout]
    for stack, lane in zip(stacks, layout):
        for m, job in enumerate(lane):
            if job.state is not None:
                stack.restore(m, job.state, job.start)
                job.state = None
            elif job.donor is not None:
                stack.start_from(m, job.donor)
    steps, step = stacks[0].num_steps, jobs[0].start
    began = saved = time.monotonic()
    every = checkpoint_seconds
    pace = _Pace(step)
    if listener is not None:
        listener(Report(label, step, steps, stacks[0].how))
    while step < steps:
        # A lane in which every run has diverged has nothing left to learn.
        live = [(stack, lane) for stack, lane in zip(stacks, layout)
                if any(job.diverged_at is None for job in lane)]
        if not live:
            break
        for stack, lane in live:
            before = time.monotonic()
            means = stack.advance()
            seconds = time.monotonic() - before
            for m, job in enumerate(lane):
                job.seconds += seconds / len(lane)
                terms = {k: float(v[m]) for k, v in means.items()}
                if logger is not None and job.diverged_at is None:
                    logger.point(job.config, stack.step, terms)
                _append(job, stack.step, terms)
        step = live[0][0].step
        if listener is not None:
            listener(pace.report(label, step, steps, jobs))
        if step < steps and time.monotonic() - saved >= every:
            before = time.monotonic()
            _checkpoint(stacks, layout)
            saved = time.monotonic()
            # Large stacks take seconds to write: never more than a twentieth of the time.
            every = max(every, 20.0 * (saved - before)) if checkpoint_seconds else 0.0
    for stack, lane in zip(stacks, layout):
        for m, job in enumerate(lane):
            _finish(job, stack, m, dataset, len(jobs), time.monotonic() - began)
            if logger is not None:
                logger.finish(job.config, job.run.status)


def _append(job: Job, step: int, means: dict[str, float]) -> None:
    """Add a point to a run's curves; a run whose loss is not finite has diverged, and stays so."""
    if job.diverged_at is not None:
        return
    if not abs(means["loss"]) < float("inf"):
        job.diverged_at = step
    for name, value in ({"step": step} | means).items():
        job.curves.setdefault(name, []).append(value)


class _Pace:
    """Speed over the last points, so that the time left follows the present, not the start."""

    def __init__(self, step: int) -> None:
        self.points = [(time.monotonic(), step)]

    def report(self, label: str, step: int, steps: int, jobs: list[Job]) -> Report:
        self.points = [*self.points[-20:], (time.monotonic(), step)]
        (t0, s0), (t1, s1) = self.points[0], self.points[-1]
        speed = (s1 - s0) / max(t1 - t0, 1e-9)
        alive = [job for job in jobs if job.diverged_at is None]
        shown = main_terms(jobs[0].curves)
        terms = {k: sum(j.curves[k][-1] for j in alive) / len(alive) for k in shown if alive}
        losses = "  ".join(f"{k} {v:.1f}" for k, v in terms.items())
        lost = f"  {len(jobs) - len(alive)} diverged" if len(alive) < len(jobs) else ""
        left = clock((steps - step) / max(speed, 1e-9))
        return Report(label, step, steps,
                      f"{speed * len(jobs):.0f} model-steps/s  {losses}{lost}  {left} left")


def _checkpoint(stacks: list[Stack], layout: list[list[Job]]) -> None:
    for stack, lane in zip(stacks, layout):
        for m, job in enumerate(lane):
            if job.folder is not None and job.diverged_at is None:
                files.write_checkpoint(job.folder, stack.run_state(m), stack.step, job.seconds,
                                       job.curves)


def versions() -> dict[str, str]:
    """What a result depends on besides its config."""
    import numpy

    return {"unweave": __version__, "torch": torch.__version__, "numpy": numpy.__version__,
            "python": platform.python_version(), "platform": platform.platform()}


def _brought(config: RunConfig) -> dict[str, str]:
    """The package and version of a method or data set that is a plugin's and not ours."""
    found = {"method": METHODS.origins.get(config.method),
             "data": DATASETS.origins.get(parse_spec(config.data)[0])}
    return {what: package for what, package in found.items() if package is not None}


def _finish(job: Job, stack: Stack, m: int, dataset: FactorDataset, num_beside: int,
            wall: float) -> None:
    weights = stack.weights(m)
    info = {
        "format": FORMAT, "run_id": job.config.run_id,
        "status": "done" if job.diverged_at is None else "diverged",
        "diverged_at": job.diverged_at, "versions": versions() | _brought(job.config),
        "device": str(stack.device), "path": stack.path, "trained_beside": num_beside - 1,
        "seconds": round(job.seconds, 3), "wall_seconds_of_the_stack": round(wall, 3),
    }
    if job.folder is not None:
        files.write_tensors(job.folder / "weights.safetensors", weights,
                            {"format": str(FORMAT), "run_id": job.config.run_id})
        files.write_curves(job.folder, job.config.run_id, job.curves)
        files.write_json(job.folder / "run.json", info)
        (job.folder / "checkpoint.safetensors").unlink(missing_ok=True)
        files.sweep(job.folder)
    params = {k: t.clone()[None] for k, t in weights.items()}
    job.run = Run(job.config, params, job.curves, info, dataset, job.folder, stack.device)
