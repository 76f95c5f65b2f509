"""The phase before a method's own: an autoencoder, and the fit of a prior to its codes.

Both belong to the same loop as everything after them: the warm-up's updates are steps of the run,
and the fit happens between two steps, so that a checkpoint on either side of it goes on alike. A
run that starts from another one has its codes already and needs the fit alone.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unweave import nn
from unweave.config import RunConfig
from unweave.objectives import METHODS, Warmup, pick
from unweave.objectives.mixture import NUM_RESTARTS, named
from unweave.objectives.posterior import split_head
from unweave.random import Purpose, Streams

if TYPE_CHECKING:
    from unweave.training.stack import Stack

MOST_CODES = 70_000
"""Codes that a prior is fitted to: all of MNIST; of larger data sets, as many draws."""

DARK = 0.1
"""Mean of pixels below which black images are nearly right: MNIST has 0.13, dSprites 0.04."""

_CHUNK = 1000  # images of each run at once
_QUIET = 0.01  # variance of noise at its start, as a share of the codes'


def warmup_of(config: RunConfig) -> Warmup:
    """What a run does before its method begins; no steps where there is nothing to do."""
    warmup = METHODS[config.method].warmup
    if warmup is None or config.init_from:
        return Warmup(0, 1.0)
    return warmup(**pick(warmup, dict(config.hyper)))


@torch.no_grad()
def settled(warmup: Warmup, stack: Stack) -> Warmup:
    """With its loss chosen, where it is left to the data: `auto`.

    Squared errors of dark images are small for black ones, which saturated logits make: gradients
    vanish there, Adam makes steps of any gradient, and the network does not come back.
    """
    if warmup.steps == 0 or warmup.loss != "auto":
        return warmup
    index = torch.linspace(0, stack.dataset_size - 1, _CHUNK, device=stack.device).long()[None]
    numbers = partial(Streams([0], stack.device).uniform, Purpose.OBSERVATION, 0)
    dark = float(stack.images.batch(index, numbers).float().mean()) < DARK
    return warmup._replace(loss="likelihood" if dark else "squares")


@torch.no_grad()
def fit_priors(stack: Stack) -> None:
    """Fit every run's prior to the means of its codes.

    A run alone and in a stack see the same codes and the same random numbers.
    """
    heads, _ = heads_of_stack(stack)
    codes, logvar, _ = split_head(heads, ())
    if warmup_of(stack.configs[0]).steps:
        _quieten(stack, codes, logvar)
    for m in range(len(stack)):
        clusters = stack.prior_params["prior.logits"].shape[-1]
        uniform = stack.streams.uniform(Purpose.PRIOR_FIT, 1, NUM_RESTARTS, clusters)[m]
        found = stack.method.prior.fit(codes[m], uniform, clusters)
        for name, value in named(found).items():
            stack.prior_params[name][m].copy_(value)


def _quieten(stack: Stack, codes: Tensor, logvar: Tensor) -> None:
    """Noise that is louder than the codes of a latent begins at a tenth of their spread.

    An autoencoder does not look at variances, but they share its layers: on dSprites they grow
    beyond all bounds, and the decoder would see nothing but noise.
    """
    spread = codes.var(1)
    loud = ~(torch.exp(logvar).mean(1) <= spread)
    name, num = f"encoder.{stack.architecture.encoder[-1].name}", codes.shape[-1]
    weight, bias = (stack.params[f"{name}.{kind}"][..., num : 2 * num]
                    for kind in ("weight", "bias"))
    weight.masked_fill_(loud[:, None], 0.0)
    bias.copy_(torch.where(loud, torch.log(spread.clamp(min=1e-6)) + math.log(_QUIET), bias))


def heads_of_stack(stack: Stack) -> tuple[Tensor, Tensor]:
    """The encoders' raw output `[run, sample, head]` of training images, and which they are."""
    size, runs = stack.dataset_size, len(stack)
    parts: list[Tensor] = []
    seen: list[Tensor] = []
    whole = size <= MOST_CODES and stack.sees_all
    for number, start in enumerate(range(0, min(size, MOST_CODES), _CHUNK)):
        count = min(_CHUNK, min(size, MOST_CODES) - start)
        if whole:
            index = torch.arange(start, start + count, device=stack.device).expand(runs, count)
        else:
            index = stack.draw_index(stack.streams, Purpose.PRIOR_FIT, 2 + number, count)
        numbers = partial(stack.streams.uniform, Purpose.OBSERVATION, (1 << 40) + number)
        x = stack.images.batch(index, numbers)
        parts.append(nn.encode_head(stack.architecture, stack.params, x, buffers=stack.buffers,
                                    precision=stack.configs[0].precision))
        seen.append(index)
    return torch.cat(parts, 1), torch.cat(seen, 1)
