"""Gathering a batch from images that live on a GPU, as one Triton kernel.

Unpacks bits, or scales bytes by 1/255, while it gathers: each pixel is written once. Tensor
operations make several passes over the batch for that.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _gather(stored, index, out, size, PACKED: tl.constexpr, BLOCK: tl.constexpr):
    """One block of pixels of one image of the batch."""
    image = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = k < size
    row = tl.load(index + image)
    if PACKED:
        byte = tl.load(stored + row * (size // 8) + k // 8, ok, 0).to(tl.int32)
        value = ((byte >> (7 - k % 8)) & 1).to(tl.float32)
    else:
        value = tl.load(stored + row * size + k, ok, 0).to(tl.float32)
        value = tl.div_rn(value, 255.0)
    tl.store(out + image * size + k, value.to(out.dtype.element_ty), ok)


def gather(stored: Tensor, index: Tensor, shape: tuple[int, ...], *, packed: bool,
           dtype: torch.dtype) -> Tensor:
    """Images `[*index, *shape]` in [0, 1] from rows of bytes, or of packed bits."""
    out = torch.empty(*index.shape, *shape, dtype=dtype, device=stored.device)
    size = out[(0,) * index.ndim].numel()
    block = min(4096, 1 << (size - 1).bit_length())
    _gather[(index.numel(), -(-size // block))](
        stored, index.contiguous(), out, size, PACKED=packed, BLOCK=block, num_warps=4)
    return out
