"""Training: from names and numbers to runs in folders."""

from __future__ import annotations

import itertools
import platform
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from unweave import nn
from unweave.config import FORMAT, RunConfig, file_of
from unweave.data import load_data
from unweave.data.dataset import FactorDataset
from unweave.nn.init import SCHEMES
from unweave.objectives import LIKELIHOODS, canonical, complete, letters
from unweave.training import folder as files
from unweave.training.packing import lanes, pack
from unweave.training.progress import Listener, Report, clock, display
from unweave.training.run import Run, choose_device, load
from unweave.training.stack import Stack
from unweave.types import Params, UserError, unknown_name
from unweave.version import __version__

CHECKPOINT_SECONDS = 60.0


def parse_seeds(seeds: int | str | Iterable[int]) -> list[int]:
    """Seeds from a number, a list, `"0..3"` (both ends included) or `"0,2,5..7"`."""
    if isinstance(seeds, int):
        seeds = [seeds]
    if not isinstance(seeds, str):
        found = [int(s) for s in seeds]
        if any(s < 0 for s in found):
            raise UserError(f"seeds must be at least 0, got {found}")
        return found
    found = []
    for part in seeds.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\.\.(\d+))?\s*", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"seeds {seeds!r} are not understood: write 0..3, or 0,2,5")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def plan(method: str, data: str = "dsprites", *, seeds: int | str | Iterable[int] = 0,
         device: str = "auto", precision: str = "auto", **given: Any) -> list[RunConfig]:
    """The configs of a grid: every combination of seeds and of letters given as lists.

    `given` holds fields of RunConfig and letters of the method; `precision="auto"` is bfloat16
    where the device has matrix units for it, else float32. Bad values raise a UserError.
    """
    method = canonical(method)
    known = letters(method)
    fields = {k: v for k, v in given.items() if k in RunConfig.__dataclass_fields__}
    chosen = {k: v for k, v in given.items() if k not in fields}
    if precision == "auto":
        precision = _best_precision(choose_device(device))
    fields = {"precision": precision} | fields
    _check(fields)
    for name in ("learning_rate", "adam_beta1", "adam_beta2", "adam_eps"):
        if name in fields:  # 1 and 1.0 are one rate, and must be one run
            fields[name] = float(fields[name])
    grid = [dict(zip(chosen, combination)) for combination in itertools.product(
        *[v if isinstance(v, list | tuple) and k in known else [v] for k, v in chosen.items()])]
    path = file_of(data)
    if path is not None:  # a run must find its file again from any working directory
        data = f"{data.partition(':')[0]}:{path.expanduser().resolve()}"
    configs = [RunConfig(method=method, data=data, seed=seed, hyper=complete(method, letter),
                         **fields)
               for letter in grid for seed in parse_seeds(seeds)]
    if not configs:
        raise UserError("no seeds were given: write 0..3, or 0,2,5")
    repeated = [c.run_id for i, c in enumerate(configs) if c in configs[:i]]
    if repeated:
        raise UserError(f"the same run is asked for twice ({repeated[0]}): drop repeated seeds")
    return configs


def _best_precision(device: torch.device) -> str:
    """bfloat16 inside where the device multiplies it faster than float32."""
    fast = (torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda"
            else nn.has_bfloat16_units())
    return "bfloat16" if fast else "float32"


def _check(fields: Mapping[str, Any]) -> None:
    """Refuse values of RunConfig's fields that cannot be trained."""
    for name, low in (("steps", 1), ("batch_size", 1), ("num_latents", 1)):
        value = fields.get(name, low)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise UserError(f"{name}={value!r} must be a whole number of at least {low}")
    for name in ("learning_rate", "adam_eps"):
        value = fields.get(name, 1.0)
        if not isinstance(value, float | int) or not 0.0 < value < float("inf"):
            raise UserError(f"{name}={value!r} must be a number above 0")
    for name in ("adam_beta1", "adam_beta2"):
        value = fields.get(name, 0.0)
        if not isinstance(value, float | int) or not 0.0 <= value < 1.0:
            raise UserError(f"{name}={value!r} must be a number from 0 to below 1")
    for name, known in (("architecture", nn.ARCHITECTURES), ("likelihood", LIKELIHOODS),
                        ("init", SCHEMES), ("precision", nn.PRECISIONS)):
        if fields.get(name, next(iter(known))) not in known:
            raise unknown_name(name, fields[name], known)


def train(method: str, data: str | FactorDataset = "dsprites", *,
          seeds: int | str | Iterable[int] = 0, steps: int = 300_000,
          out: str | Path | None = "runs", device: str = "auto", resume: bool = False,
          progress: bool | None = None, **hyper: Any) -> list[Run]:
    """Train a method on a data set, one run for each seed (and each value in a list of values).

    `data` is a name, `name:FILE`, or a FactorDataset in memory (which `load` then asks for again).

    `hyper` takes the method's letters (`beta=4`, or `beta=[1, 4, 16]` for several runs) and the
    fields of RunConfig (`batch_size`, `num_latents`, `learning_rate`, `architecture`, ...).
    Runs are written to `out/<run_id>`; `out=None` keeps them in memory. An unfinished run goes on
    from its checkpoint with `resume=True`, and a finished one is then loaded, not trained again.
    """
    known = {} if isinstance(data, str) else {data.name: data}
    configs = plan(method, data if isinstance(data, str) else data.name, seeds=seeds, steps=steps,
                   device=device, **hyper)
    with display(progress) as listener:
        return train_runs(configs, out=out, device=device, resume=resume, listener=listener,
                          datasets=known)


@dataclass
class _Job:
    """A run in training: its config, where it stands, and what is known of it so far."""

    config: RunConfig
    folder: Path | None
    start: int = 0
    state: Params | None = None
    curves: files.Curves = field(default_factory=dict)
    seconds: float = 0.0
    diverged_at: int | None = None
    run: Run | None = None


def train_runs(configs: Sequence[RunConfig], *, out: str | Path | None = "runs",
               device: str = "auto", resume: bool = False, listener: Listener | None = None,
               checkpoint_seconds: float = CHECKPOINT_SECONDS,
               datasets: Mapping[str, FactorDataset] | None = None) -> list[Run]:
    """Train the given configs, packed into stacks, and give their runs back in the same order.

    `datasets` holds those that are in memory only; others are loaded by name.
    """
    where = choose_device(device)
    if where.type == "cpu":
        nn.keep_freed_memory()
    datasets = dict(datasets or {})
    for config in configs:
        if config.data not in datasets:
            datasets[config.data] = load_data(config.data)
        if config.batch_size > len(datasets[config.data]):
            raise UserError(f"batch_size={config.batch_size} is larger than {config.data}, which "
                            f"has {len(datasets[config.data])} images: use a smaller batch")
    jobs = [_open(config, None if out is None else Path(out), resume, where,
                  datasets[config.data]) for config in configs]
    todo = [job for job in jobs if job.run is None]
    for job in todo:
        if job.folder is not None:
            files.write_config(job.folder, job.config)
    groups = pack([job.config for job in todo], [job.start for job in todo])
    for number, group in enumerate(groups):
        members = [todo[i] for i in group]
        label = f"{members[0].config.method} x {len(members)}"
        label += f" ({number + 1} of {len(groups)})" if len(groups) > 1 else ""
        _train_group(members, datasets[members[0].config.data], where, label, listener,
                     checkpoint_seconds)
    return [job.run for job in jobs]


def _open(config: RunConfig, out: Path | None, resume: bool, device: torch.device,
          dataset: FactorDataset) -> _Job:
    """Decide what a run's folder means for training: new, to be resumed, done, or in the way."""
    if out is None:
        return _Job(config, None)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: give a folder for the runs")
    folder = out / config.run_id
    job = _Job(config, folder)
    if not folder.exists():
        return job
    if not resume:
        done = (folder / "run.json").exists()
        raise UserError(f"{folder} exists already ({'finished' if done else 'unfinished'}): add "
                        "--resume to keep it and go on, or give another --out")
    if files.read_config(folder) != config:
        raise UserError(f"{folder} holds another run than its name says: remove it")
    if (folder / "run.json").exists():
        job.run = load(folder, device=str(device), data=dataset)
    elif (folder / "checkpoint.safetensors").exists():
        job.state, job.start, job.seconds, job.curves = files.read_checkpoint(folder)
    return job


def _train_group(jobs: list[_Job], dataset: FactorDataset, device: torch.device, label: str,
                 listener: Listener | None, checkpoint_seconds: float) -> None:
    layout = [[jobs[i] for i in lane] for lane in lanes(range(len(jobs)), device)]
    stacks = [Stack([job.config for job in lane], dataset, device) for lane in layout]
    for stack, lane in zip(stacks, layout):
        for m, job in enumerate(lane):
            if job.state is not None:
                stack.restore(m, job.state, job.start)
                job.state = None
    steps, step = stacks[0].num_steps, jobs[0].start
    began = saved = time.monotonic()
    pace = _Pace(step)
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
                _append(job, stack.step, {k: float(v[m]) for k, v in means.items()})
        step = live[0][0].step
        if listener is not None:
            listener(pace.report(label, step, steps, jobs))
        if step < steps and time.monotonic() - saved >= checkpoint_seconds:
            _checkpoint(stacks, layout)
            saved = time.monotonic()
    for stack, lane in zip(stacks, layout):
        for m, job in enumerate(lane):
            _finish(job, stack, m, dataset, len(jobs), time.monotonic() - began)


def _append(job: _Job, step: int, means: dict[str, float]) -> None:
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

    def report(self, label: str, step: int, steps: int, jobs: list[_Job]) -> Report:
        self.points = [*self.points[-20:], (time.monotonic(), step)]
        (t0, s0), (t1, s1) = self.points[0], self.points[-1]
        speed = (s1 - s0) / max(t1 - t0, 1e-9)
        alive = [job for job in jobs if job.diverged_at is None]
        shown = [k for k in ("loss", "recon", "kl") if k in jobs[0].curves]
        terms = {k: sum(j.curves[k][-1] for j in alive) / len(alive) for k in shown if alive}
        losses = "  ".join(f"{k} {v:.1f}" for k, v in terms.items())
        lost = f"  {len(jobs) - len(alive)} diverged" if len(alive) < len(jobs) else ""
        left = clock((steps - step) / max(speed, 1e-9))
        return Report(label, step, steps,
                      f"{speed * len(jobs):.0f} model-steps/s  {losses}{lost}  {left} left")


def _checkpoint(stacks: list[Stack], layout: list[list[_Job]]) -> None:
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


def _finish(job: _Job, stack: Stack, m: int, dataset: FactorDataset, num_beside: int,
            wall: float) -> None:
    weights = stack.weights(m)
    info = {
        "format": FORMAT, "run_id": job.config.run_id,
        "status": "done" if job.diverged_at is None else "diverged",
        "diverged_at": job.diverged_at, "versions": versions(),
        "device": str(stack.device), "trained_beside": num_beside - 1,
        "seconds": round(job.seconds, 3), "wall_seconds_of_the_stack": round(wall, 3),
    }
    if job.folder is not None:
        files.write_tensors(job.folder / "weights.safetensors", weights,
                            {"format": str(FORMAT), "run_id": job.config.run_id})
        files.write_curves(job.folder, job.config.run_id, job.curves)
        files.write_json(job.folder / "run.json", info)
        (job.folder / "checkpoint.safetensors").unlink(missing_ok=True)
    params = {k: t.clone()[None] for k, t in weights.items()}
    job.run = Run(job.config, params, job.curves, info, dataset, job.folder, stack.device)
