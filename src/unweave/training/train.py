"""Training: from names and numbers to runs in folders."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsInt

import torch

from unweave import nn
from unweave.config import RunConfig
from unweave.data import absolute_spec, load_data
from unweave.data.dataset import FactorDataset
from unweave.nn.init import SCHEMES
from unweave.objectives import LIKELIHOODS, METHODS, canonical, complete, letters
from unweave.training import folder as files
from unweave.training.loggers import open_logger
from unweave.training.loop import Job, train_group
from unweave.training.packing import head_and_code, in_pieces, pack, stack_size
from unweave.training.progress import Listener, display
from unweave.training.run import Run, choose_device, load
from unweave.training.warmup import MOST_CODES
from unweave.types import UserError, unknown_name

CHECKPOINT_SECONDS = 60.0

MOST_SEEDS = 10_000
"""Of one command: the largest published study has 50 for each of its settings."""

Seeds = SupportsInt | str | Iterable[SupportsInt]
"""Whole numbers, numpy's too; see `parse_seeds`."""


def parse_seeds(seeds: Seeds) -> list[int]:
    """Seeds from a number, a list, `"0..3"` (both ends included) or `"0,2,5..7"`."""
    if isinstance(seeds, str):
        found = _written_seeds(seeds)
    else:
        given = [seeds]
        if isinstance(seeds, Iterable):
            given = list(itertools.islice(seeds, MOST_SEEDS + 1))
        try:
            found = [int(s) for s in given]
            whole = all(isinstance(s, str) or s == n for s, n in zip(given, found))
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole:
            raise UserError(f"seeds {given} are not whole numbers: give 0, [0, 1, 2] or '0..3'")
    if len(found) > MOST_SEEDS:
        raise _too_many_seeds()
    if any(s < 0 for s in found):
        raise UserError(f"seeds must be at least 0, got {found}")
    if any(s >= 1 << 64 for s in found):  # random streams take 64 bits of it
        raise UserError(f"seeds must be below 2^64, got {max(found)}")
    return found


def _written_seeds(seeds: str) -> list[int]:
    found = []
    for part in seeds.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\.\.(\d+))?\s*", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"seeds {seeds!r} are not understood: write 0..3, or 0,2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MOST_SEEDS - len(found):
            raise _too_many_seeds()
        found += range(first, last + 1)
    return found


def _too_many_seeds() -> UserError:
    return UserError(f"seeds are more than {MOST_SEEDS:,}, which is the most at once: give fewer, "
                     "and the others later")


def plan(method: str, data: str = "dsprites", *, seeds: Seeds = 0,
         device: str = "auto", precision: str = "auto", **given: Any) -> list[RunConfig]:
    """The configs of a grid: every combination of seeds and of letters given as lists.

    `given` holds fields of RunConfig and letters of the method; `precision="auto"` is bfloat16
    where the device has matrix units for it, else float32. Bad values raise a UserError.
    """
    method = canonical(method)
    known = letters(method)
    fields = {k: v for k, v in given.items() if k in RunConfig.__dataclass_fields__}
    chosen = {k: v for k, v in given.items() if k not in fields}
    for name, instead in (("seed", "seeds"), ("hyper", "each letter by its own name")):
        if name in fields:
            raise UserError(f"{name} is not given by itself: give {instead}")
    if precision == "auto":
        precision = _best_precision(choose_device(device))
    fields = {"precision": precision} | fields
    _check(fields)
    if METHODS[method].game is not None and fields.get("init_from"):
        raise UserError(f"{method} cannot start from another run: its critic has no such weights")
    for name in ("learning_rate", "adam_beta1", "adam_beta2", "adam_eps"):
        if name in fields:  # 1 and 1.0 are one rate, and must be one run
            fields[name] = float(fields[name])
    for name, value in chosen.items():
        if isinstance(value, list | tuple) and not value:
            raise UserError(f"{name} has an empty list of values: give one, or several")
    grid = [dict(zip(chosen, combination)) for combination in itertools.product(
        *[v if isinstance(v, list | tuple) and k in known else [v] for k, v in chosen.items()])]
    data = absolute_spec(data)
    configs = [RunConfig(method=method, data=data, seed=seed, hyper=complete(method, letter),
                         **fields)
               for letter in grid for seed in parse_seeds(seeds)]
    if not configs:
        raise UserError("no seeds were given: write 0..3, or 0,2,5")
    seen: set[RunConfig] = set()
    for config in configs:
        if config in seen:
            raise UserError(f"the same run is asked for twice ({config.run_id}): drop repeated "
                            "seeds")
        seen.add(config)
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
          seeds: Seeds = 0, steps: int = 300_000,
          out: str | Path | None = "runs", device: str = "auto", resume: bool = False,
          progress: bool | None = None, init_from: str | Path | Run | None = None,
          log: str | None = None, **hyper: Any) -> list[Run]:
    """Train a method on a data set, one run for each seed (and each value in a list of values).

    `data` is a name, `name:FILE`, or a FactorDataset in memory (which `load` then asks for again).

    `hyper` takes the method's letters (`beta=4`, or `beta=[1, 4, 16]` for several runs) and the
    fields of RunConfig (`batch_size`, `num_latents`, `learning_rate`, `architecture`, ...).
    Runs are written to `out/<run_id>`; `out=None` keeps them in memory. An unfinished run goes on
    from its checkpoint with `resume=True`, and a finished one is then loaded, not trained again.

    `init_from` is a run, or its folder, whose encoder and decoder the new runs start from; a method
    with a warm-up then needs none.
    `log` sends the curves elsewhere too: `tensorboard` or `wandb:PROJECT` (see `loggers`).
    """
    known = {} if isinstance(data, str) else {data.name: data}
    donors = {}
    if init_from is not None:
        donor = init_from if isinstance(init_from, Run) else load(
            init_from, device="cpu", data=None if isinstance(data, str) else data)
        donors[donor.run_id] = donor
        hyper["init_from"] = donor.run_id
    configs = plan(method, data if isinstance(data, str) else data.name, seeds=seeds, steps=steps,
                   device=device, **hyper)
    with display(progress) as listener:
        return train_runs(configs, out=out, device=device, resume=resume, listener=listener,
                          datasets=known, donors=donors, log=log)


def train_runs(configs: Sequence[RunConfig], *, out: str | Path | None = "runs",
               device: str = "auto", resume: bool = False, listener: Listener | None = None,
               checkpoint_seconds: float = CHECKPOINT_SECONDS,
               datasets: Mapping[str, FactorDataset] | None = None,
               donors: Mapping[str, Run] | None = None, log: str | None = None) -> list[Run]:
    """Train the given configs, packed into stacks, and give their runs back in the same order.

    `datasets` holds those that are in memory only; others are loaded by name. `donors` are the runs
    that configs start from (`init_from`), by run id; others are looked for in `out`. `log`: see
    `train`.
    """
    where = choose_device(device)
    logger = None if log is None else open_logger(log, out)
    if where.type == "cpu":
        nn.keep_freed_memory()
    datasets = dict(datasets or {})
    for config in configs:
        if config.data not in datasets:
            datasets[config.data] = load_data(config.data)
        if config.batch_size > len(datasets[config.data]):
            raise UserError(f"batch_size={config.batch_size} is larger than {config.data}, which "
                            f"has {len(datasets[config.data])} images: use a smaller batch")
        if METHODS[config.method].prior is not None:
            _check_clusters(config, datasets[config.data])
    jobs = [_open(config, None if out is None else Path(out), resume, where,
                  datasets[config.data]) for config in configs]
    todo = [job for job in jobs if job.run is None]
    for job in todo:
        if job.config.init_from and job.state is None:
            job.donor = _donor(job.config, None if out is None else Path(out), donors or {},
                               datasets[job.config.data]).params
    for job in todo:
        if job.folder is not None:
            files.write_config(job.folder, job.config)
    groups = _grouped(todo, where, datasets)
    try:
        for number, members in enumerate(groups):
            label = f"{members[0].config.method} x {len(members)}"
            label += f" ({number + 1} of {len(groups)})" if len(groups) > 1 else ""
            train_group(members, datasets[members[0].config.data], where, label, listener,
                        checkpoint_seconds, logger)
    finally:
        if logger is not None:
            logger.close()
    return [job.run for job in jobs]


def _check_clusters(config: RunConfig, dataset: FactorDataset) -> None:
    """Refuse more clusters than the codes that they will be fitted to."""
    clusters = dict(config.hyper).get("clusters", 0)
    codes = min(dataset.num_training, MOST_CODES)
    if clusters > codes:
        raise UserError(f"{clusters} clusters cannot be fitted to the codes of {codes} images of "
                        f"{config.data}: ask for fewer clusters")


def _grouped(jobs: list[Job], device: torch.device,
             datasets: Mapping[str, FactorDataset]) -> list[list[Job]]:
    """Jobs that train together; on a GPU no more at once than its free memory holds."""
    found = []
    for group in pack([job.config for job in jobs], [job.start for job in jobs]):
        pieces = [group]
        if device.type == "cuda":
            config = jobs[group[0]].config
            probe = torch.empty(0, device=device)
            pieces = in_pieces(group, stack_size(
                config, datasets[config.data].image_shape, device,
                by_kernels=nn.chosen_path(probe) == "triton"))
        found += [[jobs[i] for i in piece] for piece in pieces]
    return found


def _donor(config: RunConfig, out: Path | None, donors: Mapping[str, Run],
           dataset: FactorDataset) -> Run:
    """The run that a config starts from, if its networks are the same."""
    donor = donors.get(config.init_from)
    if donor is None:
        folder = None if out is None else out / config.init_from
        if folder is None or not folder.is_dir():
            raise UserError(f"the run {config.init_from} to start from is not here: give its "
                            "folder as init_from, or the folder of runs that it is in as out")
        donor = load(folder, device="cpu", data=dataset)
    if donor.status == "diverged":
        raise UserError(f"{donor.run_id} diverged: start from another run")
    for what in ("architecture", "num_latents"):
        ours, theirs = getattr(config, what), getattr(donor.config, what)
        if ours != theirs:
            raise UserError(f"{donor.run_id} has the {what} {theirs!r}, the new run {ours!r}: they "
                            "must agree to start from it")
    sizes = head_and_code(config)
    if sizes != head_and_code(donor.config) or donor.dataset.image_shape != dataset.image_shape:
        raise UserError(f"{donor.run_id} ({donor.config.method} on {donor.config.data}) has other "
                        f"codes or images than {config.method} on {config.data}: start from a run "
                        "of the same images with Gaussian codes")
    return donor


def _open(config: RunConfig, out: Path | None, resume: bool, device: torch.device,
          dataset: FactorDataset) -> Job:
    """Decide what a run's folder means for training: new, to be resumed, done, or in the way."""
    if out is None:
        return Job(config, None)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: give a folder for the runs")
    folder = out / config.run_id
    job = Job(config, folder)
    if not folder.exists():
        return job
    if not resume:
        done = (folder / "run.json").exists()
        raise UserError(f"{folder} exists already ({'finished' if done else 'unfinished'}): add "
                        "--resume to keep it and go on, or give another --out")
    if files.is_empty(folder):  # killed before the config was in it
        return job
    if files.read_config(folder) != config:
        raise UserError(f"{folder} holds another run than its name says: remove it")
    if (folder / "run.json").exists():
        job.run = load(folder, device=str(device), data=dataset)
    elif (folder / "checkpoint.safetensors").exists():
        job.state, job.start, job.seconds, job.curves = files.read_checkpoint(folder)
    return job


