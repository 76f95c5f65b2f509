"""Random streams of runs: Philox4x32-10, written in tensor operations.

A number is a pure function of (seed, purpose, step, position). There is no state to save, so a
run draws the same numbers alone or among others, before or after a restart, and the same integers
on the CPU and on a GPU (normal deviates agree up to the device's log, sin and cos).
Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".

The key is the run's seed; the counter is (position, step, purpose, 0). Runs that share a seed
share their numbers whatever their method and strength: comparisons between them are paired.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

_MUL = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


@functools.cache
def has_triton() -> bool:
    """Whether Triton, which makes the numbers on a GPU faster, can be imported."""
    return importlib.util.find_spec("triton") is not None


class Purpose(IntEnum):
    """What a stream is for. The numbers are part of every result: never reuse or reorder them."""

    INIT = 1
    BATCH = 2
    NOISE = 3
    OBSERVATION = 4
    EVALUATION = 5
    CRITIC_INIT = 6
    CRITIC_BATCH = 7
    CRITIC_NOISE = 8
    PERMUTATION = 9
    GUMBEL = 10
    PRIOR = 11
    CRITIC_OBSERVATION = 12
    EVALUATION_NOISE = 13
    EVALUATION_GUMBEL = 14
    GENERATOR_CODE = 40
    GENERATOR_NOISE = 41
    CRITIC_CODE = 42
    CRITIC_GENERATOR_NOISE = 43
    BETWEEN = 44
    PRIOR_FIT = 45
    EVALUATION_GENERATOR_NOISE = 46


def philox(counter: Sequence[Tensor | int], key: Sequence[Tensor | int]) -> list[Tensor]:
    """Ten rounds of Philox4x32. All words are int64 tensors (or ints) in [0, 2^32)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        # Products wrap modulo 2^64 in int64, which keeps all 64 bits; the shift's sign is masked.
        p0, p1 = c0 * _MUL[0], c2 * _MUL[1]
        c0, c2 = (p1 >> 32 & _LOW) ^ c1 ^ k0, (p0 >> 32 & _LOW) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = k0 + _WEYL[0] & _LOW, k1 + _WEYL[1] & _LOW
    return [c0, c1, c2, c3]


class Streams:
    """The random numbers of M runs, as tensors `[M, *shape]`.

    `step` is an int, or an int64 tensor (a scalar, or `[M]`) on the same device.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.seeds = [int(s) for s in seeds]
        self.device = torch.device(device)
        words = [(s & _LOW, s >> 32 & _LOW) for s in self.seeds]
        self._key = torch.tensor(words, dtype=torch.int64, device=self.device)
        # The same 64 bits as one number, whose sign a device does not care for.
        self._whole = self._key[:, 0] | self._key[:, 1] << 32

    def bits(self, purpose: Purpose, step: int | Tensor, count: int) -> Tensor:
        """`[M, count]` words of 32 random bits, as int64."""
        if self.device.type == "cuda" and count and has_triton():
            from unweave.philox import bits

            now = torch.as_tensor(step, dtype=torch.int64, device=self.device).reshape(-1)
            return bits(self._whole, int(purpose), now, count)
        blocks = -(-count // 4)
        position = torch.arange(blocks, dtype=torch.int64, device=self.device)[None, :]
        runs = len(self.seeds)
        step = torch.as_tensor(step, dtype=torch.int64, device=self.device).reshape(-1, 1)
        key = self._key[:, 0:1], self._key[:, 1:2]
        counter = (position.expand(runs, -1), step & _LOW, torch.full_like(step, int(purpose)),
                   step >> 32 & _LOW)
        words = torch.stack(philox(counter, key), dim=-1)
        return words.reshape(runs, blocks * 4)[:, :count]

    def uniform(self, purpose: Purpose, step: int | Tensor, *shape: int) -> Tensor:
        """Uniform float32 in [0, 1), 24 bits each, shape `[M, *shape]`."""
        words = self.bits(purpose, step, math.prod(shape))
        return ((words >> 8).to(torch.float32) * 2.0**-24).reshape(len(self.seeds), *shape)

    def normal(self, purpose: Purpose, step: int | Tensor, *shape: int) -> Tensor:
        """Standard normal float32, shape `[M, *shape]`, by Box and Muller's transform."""
        count, runs = math.prod(shape), len(self.seeds)
        pairs = -(-count // 2)
        words = self.bits(purpose, step, 2 * pairs).reshape(runs, 2, pairs)
        # (0, 1] and [0, 1): the logarithm never sees zero.
        radius = torch.sqrt(-2.0 * torch.log(((words[:, 0] >> 8) + 1).to(torch.float32) * 2.0**-24))
        angle = (words[:, 1] >> 8).to(torch.float32) * (2.0**-24 * 2.0 * math.pi)
        flat = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)
        return flat[:, :count].reshape(runs, *shape)

    def integers(self, purpose: Purpose, step: int | Tensor, high: int, *shape: int) -> Tensor:
        """Uniform int64 in [0, high), shape `[M, *shape]`; bias below high / 2^32."""
        words = self.bits(purpose, step, math.prod(shape))
        return (words * high >> 32).reshape(len(self.seeds), *shape)


def numpy_generator(seed: int, purpose: Purpose, step: int = 0) -> np.random.Generator:
    """A numpy generator for draws on the host (metrics, samplers), keyed as the streams are."""
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF, int(purpose)], dtype=np.uint64)
    counter = np.array([0, step, 0, 0], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
