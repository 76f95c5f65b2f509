"""A stack: M runs with equal pack keys, advanced in lock step by one sequence of operations.

`terms["loss"].sum()` below is the only line that collapses the run axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unweave import nn
from unweave.config import RunConfig, log_every
from unweave.data.dataset import FactorDataset
from unweave.objectives import METHODS, context, letters
from unweave.random import Purpose, Streams
from unweave.training.adam import Adam
from unweave.types import Params

_DRAW_AHEAD = 32  # steps whose random numbers are made at once: a few large operations, not many


class Stack:
    """M runs in lock step on one device. All configs must have the same pack key."""

    def __init__(self, configs: Sequence[RunConfig], dataset: FactorDataset,
                 device: torch.device) -> None:
        self.configs = list(configs)
        first = self.configs[0]
        self.device, self.step = device, 0
        self.method = METHODS[first.method]
        self.architecture = nn.ARCHITECTURES[first.architecture]
        self.images, self.dataset_size = dataset.on(device), len(dataset)
        self.streams = Streams([c.seed for c in configs], device)
        self._ahead = Streams([c.seed for _ in range(_DRAW_AHEAD) for c in configs], device)
        self._drawn: tuple[int, Tensor, Tensor] | None = None
        self.params = nn.init_params(self.architecture, dataset.image_shape, first.num_latents,
                                     self.streams, first.init)
        for p in self.params.values():
            p.requires_grad_()
        self.optimiser = Adam(self.params, [c.learning_rate for c in configs],
                              beta1=first.adam_beta1, beta2=first.adam_beta2, eps=first.adam_eps)
        self.hyper: dict[str, Any] = {
            name: torch.tensor([float(c[name]) for c in configs], device=device)
            if letter.per_run else first[name]
            for name, letter in letters(first.method).items()
        }
        if "dataset_size" in context(first.method):
            self.hyper["dataset_size"] = self.dataset_size

    def __len__(self) -> int:
        return len(self.configs)

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Image indices `[M, B]` and latent noise `[M, B, D]` of a step."""
        block = step // _DRAW_AHEAD
        if self._drawn is None or self._drawn[0] != block:
            first, runs = self.configs[0], len(self)
            steps = torch.arange(_DRAW_AHEAD, device=self.device) + block * _DRAW_AHEAD
            steps = steps.repeat_interleave(runs)
            index = self._ahead.integers(Purpose.BATCH, steps, self.dataset_size, first.batch_size)
            noise = self._ahead.normal(Purpose.NOISE, steps, first.batch_size, first.num_latents)
            self._drawn = (block, index.unflatten(0, (_DRAW_AHEAD, runs)),
                           noise.unflatten(0, (_DRAW_AHEAD, runs)))
        return self._drawn[1][step % _DRAW_AHEAD], self._drawn[2][step % _DRAW_AHEAD]

    def train_step(self) -> dict[str, Tensor]:
        """One update of every run; the objective's terms, detached."""
        first = self.configs[0]
        index, noise = self._batch(self.step)
        x = self.images.batch(index, partial(self.streams.uniform, Purpose.OBSERVATION, self.step))
        out = nn.forward(self.architecture, self.params, x, noise,
                         likelihood=first.likelihood, precision=first.precision)
        hyper = self.hyper
        if "step" in context(first.method):
            hyper = hyper | {"step": self.step}
        terms = self.method.loss(out, **hyper)
        terms["loss"].sum().backward()
        self.optimiser.step()
        self.step += 1
        return {k: v.detach() for k, v in terms.items()}

    def advance(self) -> dict[str, Tensor]:
        """Train to the next point of the curves; the mean of every term since the last, `[M]`."""
        every = log_every(self.configs[0].steps)
        until = min(self.step - self.step % every + every, self.configs[0].steps)
        sums: dict[str, Tensor] = {}
        num = until - self.step
        for _ in range(num):
            for name, value in self.train_step().items():
                sums[name] = sums[name] + value if name in sums else value
        means = {}
        for name, total in sums.items():
            mean = (total / num).double().cpu()
            if mean.ndim == 1:
                means[name] = mean
            else:  # a term for each latent: kl_latent becomes kl.0, kl.1, ...
                means |= {f"{name.removesuffix('_latent')}.{j}": mean[:, j]
                          for j in range(mean.shape[1])}
        return means

    def run_state(self, run: int) -> Params:
        """Everything that one run needs to go on, by name, without the run axis."""
        weights = {f"weight.{k}": p.detach()[run] for k, p in self.params.items()}
        return weights | self.optimiser.state(run)

    @torch.no_grad()
    def restore(self, run: int, state: Mapping[str, Tensor], step: int) -> None:
        """Put one run back to where it was; all runs of a stack must be at the same step."""
        for k, p in self.params.items():
            p[run].copy_(state[f"weight.{k}"])
        self.optimiser.restore(run, dict(state))
        self.step = self.optimiser.num_steps = step
