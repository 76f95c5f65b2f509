"""Philox4x32-10 as a Triton kernel: `random.philox` in one launch instead of a hundred.

The same integers to the last bit. Used by `random.Streams` on a GPU; also inside CUDA graphs, where
the step is a number on the device.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _bits(key, step, out, purpose, count, per_run, BLOCK: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    now = tl.load(step + run * per_run)
    zero = block * 0
    low = (now & 0xFFFFFFFF).to(tl.uint32) + zero.to(tl.uint32)
    high = ((now >> 32) & 0xFFFFFFFF).to(tl.uint32) + zero.to(tl.uint32)
    a, b, c, d = tl.philox(tl.load(key + run), block.to(tl.uint32), low,
                           (zero + purpose).to(tl.uint32), high)
    place = out + run * count + block * 4
    tl.store(place, a.to(tl.int64), block * 4 < count)
    tl.store(place + 1, b.to(tl.int64), block * 4 + 1 < count)
    tl.store(place + 2, c.to(tl.int64), block * 4 + 2 < count)
    tl.store(place + 3, d.to(tl.int64), block * 4 + 3 < count)


def bits(seeds: Tensor, purpose: int, step: Tensor, count: int) -> Tensor:
    """`[run, count]` words of 32 random bits as int64; `step` has one entry, or one a run."""
    out = torch.empty(len(seeds), count, dtype=torch.int64, device=seeds.device)
    block = 256
    _bits[(-(-count // (4 * block)), len(seeds))](
        seeds, step, out, purpose, count, int(step.numel() > 1), BLOCK=block, num_warps=2)
    return out
