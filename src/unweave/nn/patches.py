"""Convolutions as products with the patch under every pixel: tensor operations for any device.

Layouts are those of `layers.py`. Those of stride 2 (`halve`, `double`, `kernel_gradient`) join a
big image and a small one; those of stride 1 (`same`, `same_back`, `same_kernel_gradient`) two of
one size. Each is linear in both arguments, and the gradients of the three are the three again.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_BEFORE, _AFTER = 1, 2  # rows and columns of zeros around an image whose size is kept


def halve(big: Tensor, weight: Tensor) -> Tensor:
    """Convolution with stride 2: `[run, batch, row, column, channel]` of half the size."""
    runs, batch, height, width, _ = big.shape
    y = torch.bmm(_unfold(big, weight.shape[1]), weight.flatten(1, 3))
    return y.reshape(runs, batch, height // 2, width // 2, weight.shape[-1])


def double(small: Tensor, weight: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    """Transposed convolution with stride 2; overlapping patches are added up in `out_dtype`."""
    columns = torch.bmm(small.flatten(1, 3), weight.flatten(1, 3).mT)
    columns = columns.reshape(*small.shape[:4], *weight.shape[1:4])
    return _fold(columns.to(out_dtype or small.dtype))


def kernel_gradient(big: Tensor, small: Tensor, size: int) -> Tensor:
    """The gradient of a kernel of `size`, from the big and the small image."""
    found = torch.bmm(_unfold(big, size).mT, small.flatten(1, 3))
    return found.reshape(len(big), size, size, big.shape[-1], small.shape[-1])


def same(x: Tensor, weight: Tensor) -> Tensor:
    """Convolution with stride 1 that keeps the size."""
    y = torch.bmm(_shifted(x, _BEFORE, _AFTER), weight.flatten(1, 3))
    return y.reshape(*x.shape[:4], weight.shape[-1])


def same_back(y: Tensor, weight: Tensor) -> Tensor:
    """The way back through `same`: the kernel turned round, the zeros on the other sides."""
    turned = weight.flip(1, 2).transpose(-1, -2)
    x = torch.bmm(_shifted(y, _AFTER, _BEFORE), turned.flatten(1, 3))
    return x.reshape(*y.shape[:4], weight.shape[-2])


def same_kernel_gradient(x: Tensor, y: Tensor, size: int) -> Tensor:
    """The gradient of the kernel of `same`, from the images before and behind it."""
    found = torch.bmm(_shifted(x, _BEFORE, _AFTER).mT, y.flatten(1, 3))
    return found.reshape(len(x), size, size, x.shape[-1], y.shape[-1])


def _shifted(x: Tensor, before: int, after: int) -> Tensor:
    """The patch of 4x4 around every pixel: `[run, pixel, row * column * channel]`."""
    runs, batch, height, width, channels = x.shape
    x = F.pad(x, (0, 0, before, after, before, after))
    taps = [x[:, :, i : i + height, j : j + width] for i in range(4) for j in range(4)]
    return torch.stack(taps, dim=-2).reshape(runs, batch * height * width, 16 * channels)


def _unfold(x: Tensor, size: int) -> Tensor:
    """The patch under every output pixel: `[run, pixel, row * column * channel]`."""
    runs, batch, height, width, channels = x.shape
    if size == 4:
        x = F.pad(x, (0, 0, 1, 1, 1, 1))
    taps = [x[:, :, i : i + height - 1 : 2, j : j + width - 1 : 2]
            for i in range(size) for j in range(size)]
    patches = torch.stack(taps, dim=-2)
    return patches.reshape(runs, batch * height * width // 4, size * size * channels)


def _fold(columns: Tensor) -> Tensor:
    """Add the patches `[run, batch, height, width, row, column, channel]` up into an image."""
    runs, batch, height, width, size, _, channels = columns.shape
    if size == 4:
        columns = _overlap(_overlap(columns, tap=4, pixel=2), tap=5, pixel=3)
    y = columns.transpose(3, 4)
    return y.reshape(runs, batch, 2 * height, 2 * width, channels)


def _overlap(taps: Tensor, *, tap: int, pixel: int) -> Tensor:
    """Four taps along axis `tap` become the two pixels that each small pixel owns.

    The even pixel lies under tap 1 of its own patch and tap 3 of the patch before; the odd one
    under tap 2 of its own and tap 0 of the patch after.
    """
    first, second, third, fourth = taps.unbind(tap)
    length = first.shape[pixel]
    zero = torch.zeros_like(first.narrow(pixel, 0, 1))
    before = torch.cat([zero, fourth.narrow(pixel, 0, length - 1)], dim=pixel)
    after = torch.cat([first.narrow(pixel, 1, length - 1), zero], dim=pixel)
    return torch.stack([second + before, third + after], dim=tap)
