"""The phase before a method's own: an autoencoder, and the fit of a prior to its codes.

Both belong to the same loop as everything after them: the warm-up's updates are steps of the run,
and the fit happens between two steps, so that a checkpoint on either side of it goes on alike. A
run that starts from another one has its codes already and needs the fit alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unweave import nn
from unweave.config import RunConfig
from unweave.objectives import METHODS, Warmup, pick
from unweave.objectives.mixture import NUM_RESTARTS, named
from unweave.objectives.posterior import split_head
from unweave.random import Purpose

if TYPE_CHECKING:
    from unweave.training.stack import Stack

MOST_CODES = 70_000
"""Codes that a prior is fitted to: all of MNIST; of larger data sets, as many draws."""

_CHUNK = 1000  # images of each run at once


def warmup_of(config: RunConfig) -> Warmup:
    """What a run does before its method begins; no steps where there is nothing to do."""
    warmup = METHODS[config.method].warmup
    if warmup is None or config.init_from:
        return Warmup(0, 1.0)
    return warmup(**pick(warmup, dict(config.hyper)))


@torch.no_grad()
def fit_priors(stack: Stack) -> None:
    """Fit every run's prior to the means of its codes.

    A run alone and in a stack see the same codes and the same random numbers.
    """
    codes, _ = code_means(stack)
    for m in range(len(stack)):
        clusters = stack.prior_params["prior.logits"].shape[-1]
        uniform = stack.streams.uniform(Purpose.PRIOR_FIT, 1, NUM_RESTARTS, clusters)[m]
        found = stack.method.prior.fit(codes[m], uniform, clusters)
        for name, value in named(found).items():
            stack.prior_params[name][m].copy_(value)


def code_means(stack: Stack) -> tuple[Tensor, Tensor]:
    """Codes `[run, sample, latent]` of training images, and which they are, `[run, sample]`."""
    heads, index = heads_of_stack(stack)
    return split_head(heads, ())[0], index


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
