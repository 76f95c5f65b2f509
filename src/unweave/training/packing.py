"""Packing: which runs share a stack, and how many run side by side on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch

from unweave import nn
from unweave.config import RunConfig
from unweave.objectives import METHODS, letters, pick

MOST_RUNS = 256
"""Of a stack on a GPU: beyond, nothing gets faster and a failure costs more."""

_SHARE = 0.7  # of the free memory that a stack may take: the rest is for graphs and libraries


def per_run_letters(method: str) -> frozenset[str]:
    """Letters of a method that may differ within a stack."""
    return frozenset(k for k, letter in letters(method).items() if letter.per_run)


def pack(configs: Sequence[RunConfig], starts: Sequence[int]) -> list[list[int]]:
    """Groups of positions in `configs` that can train together: equal pack key, equal start."""
    groups: dict[tuple, list[int]] = {}
    for i, (config, start) in enumerate(zip(configs, starts)):
        key = (start, *config.pack_key(per_run_letters(config.method)))
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def lanes(group: Sequence[int], device: torch.device) -> list[list[int]]:
    """How a group is laid out on a device: one stack on a GPU; on a CPU one run after another.

    A CPU has no idle units for a second model to fill: layer by layer is 5 to 10 % faster there
    (`bench/cpu.py` prints both), which is what it costs that a run, alone in its operations, is
    bit-identical whatever its neighbours.
    """
    return [[i] for i in group] if device.type == "cpu" else [list(group)]


def head_and_code(config: RunConfig) -> tuple[int, int]:
    """Numbers that the encoder gives for an image, and that the decoder gets."""
    posterior, hyper = METHODS[config.method].posterior, dict(config.hyper)
    return (posterior.head_size(config.num_latents, hyper),
            posterior.code_size(config.num_latents, hyper))


def stack_bytes(config: RunConfig, image_shape: nn.ImageShape, *, by_kernels: bool) -> int:
    """About how much memory a run takes in a stack on a GPU, from its shapes.

    Weights, two moments, a copy and a gradient; and what layers keep for the way back, nearly
    twice for the gradients beside them. The plain path has the patches of a convolution, too, as
    long as it lasts; what it takes was measured when it kept all of them, and is a bound.
    """
    method, hyper = METHODS[config.method], dict(config.hyper)
    sizes = head_and_code(config)
    architecture = nn.ARCHITECTURES[config.architecture]
    weights = sum(math.prod(p.shape)
                  for p in architecture.parameters(image_shape, *sizes).values())
    numbers = architecture.num_activations(image_shape, *sizes)
    if method.critic is not None:
        one = {k: torch.tensor([float(v)]) if letters(config.method)[k].per_run else v
               for k, v in hyper.items()}
        plan = method.critic.plan(**pick(method.critic.plan, one))
        shapes = nn.critic_parameters(config.num_latents, plan.width, plan.depth)
        weights += sum(math.prod(p.shape) for p in shapes.values())
        numbers += 6 * plan.width * plan.depth  # two batches of codes, and the encoder's
    if method.game is not None:  # real, made and between them, and the way back of the way back
        numbers, by_kernels = 5 * numbers, False
    width = 2 if config.precision == "bfloat16" else 4
    kept = 1.8 if by_kernels else 12.0
    return round(18 * weights + config.batch_size * numbers * width * kept)


def stack_size(config: RunConfig, image_shape: nn.ImageShape, device: torch.device, *,
               by_kernels: bool) -> int:
    """How many runs like this one fit into the free memory of a GPU at once."""
    free, _ = torch.cuda.mem_get_info(device)
    each = stack_bytes(config, image_shape, by_kernels=by_kernels)
    return max(1, min(MOST_RUNS, int(_SHARE * free / each)))


def in_pieces(group: Sequence[int], most: int) -> list[list[int]]:
    """A group cut into as few pieces of at most `most` as can be, of nearly equal size."""
    num = -(-len(group) // most)
    bounds = [round(i * len(group) / num) for i in range(num + 1)]
    return [list(group[a:b]) for a, b in pairwise(bounds)]
