"""Codes of many runs at once: the images are gathered once, and all encoders see them together.

What a study needs after training: one pass over the rows that its metrics look at, for a whole
stack. On a GPU a single small encoder leaves most of the chip idle.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unweave import nn
from unweave.objectives import METHODS
from unweave.training.progress import Listener, Report, clock
from unweave.training.run import Run
from unweave.types import UserError

_IMAGES_ON_GPU = 1 << 15  # of all runs together in one pass: about 2 GB for the papers' network
_IMAGES_ON_CPU = 1 << 10


def encode_runs(runs: Sequence[Run], index: Sequence[int] | np.ndarray, *, seed: int = 0,
                listener: Listener | None = None) -> np.ndarray:
    """Codes `[run, sample, code]`, float32, of the images at `index` of the runs' data set.

    As `Run.encode_at` of each. The runs must have the same data set, architecture, latents and
    precision, as those of a stack do.
    """
    heads = heads_of_runs(runs, index, seed=seed, listener=listener)
    posterior, letters = METHODS[runs[0].config.method].posterior, dict(runs[0].config.hyper)
    return posterior.codes(heads, letters).numpy()


def heads_of_runs(runs: Sequence[Run], index: Sequence[int] | np.ndarray, *, seed: int = 0,
                  listener: Listener | None = None) -> Tensor:
    """The encoders' raw output `[run, sample, head]`, float32 on the CPU: see `encode_runs`."""
    if not runs:
        raise UserError("there is no run to encode with")
    first = runs[0]
    for run in runs[1:]:
        for what in ("data", "architecture", "num_latents", "precision"):
            ours, theirs = getattr(first.config, what), getattr(run.config, what)
            if ours != theirs:
                raise UserError(f"{run.run_id} has the {what} {theirs!r} and {first.run_id} has "
                                f"{ours!r}: only runs that agree can be encoded together")
        if run.num_values != first.num_values:
            raise UserError(f"{run.run_id} and {first.run_id} have other latents: only runs that "
                            "agree can be encoded together")
    device, index = first.device, np.asarray(index, dtype=np.int64)
    params = {k: torch.cat([run.params[k].to(device) for run in runs]) for k in first.params}
    resident = first.dataset.on(device)
    # On a CPU each run by itself, in passes of one size: the bits of its codes do not depend on
    # who is encoded beside it, as those of its weights do not.
    alone = device.type == "cpu"
    size = _IMAGES_ON_CPU if alone else max(1, _IMAGES_ON_GPU // len(runs))
    lanes = [slice(m, m + 1) for m in range(len(runs))] if alone else [slice(None)]
    parts = []
    label, began = f"encoding with {len(runs)} runs", time.monotonic()
    for start in range(0, len(index), size):
        images = first.images_at(index[start:start + size], seed, resident)[None]
        with torch.inference_mode():
            heads = []
            for lane in lanes:
                some = {k: t[lane] for k, t in params.items()}
                num = 1 if alone else len(runs)
                heads.append(nn.encode_head(
                    first.architecture, some, images.expand(num, *images.shape[1:]),
                    buffers=some, precision=first.config.precision).float().cpu())
            parts.append(torch.cat(heads))
        if listener is not None:
            done = min(start + size, len(index))
            left = (time.monotonic() - began) / done * (len(index) - done)
            listener(Report(label, done, len(index), f"images  {clock(left)} left"))
    posterior, letters = METHODS[first.config.method].posterior, dict(first.config.hyper)
    width = posterior.head_size(first.config.num_latents, letters)
    return torch.cat(parts, 1) if parts else torch.zeros(len(runs), 0, width)
