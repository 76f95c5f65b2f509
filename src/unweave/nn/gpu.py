"""Calls of the Triton kernels of `nn/kernels.py`: shapes, tiles, and what there is a kernel for.

Sums run in float32, in an order that depends on the shapes of one run alone: a run's numbers do not
depend on its neighbours, to the last bit. `nn/autograd.py` makes layers of these.

Triton is needed, and a GPU that it knows. `usable` tells; without, the general path serves.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unweave.random import has_triton

ACTIVATION_NUMBERS = {"none": 0, "relu": 1, "leaky_relu": 2, "tanh": 3}
DTYPES = (torch.float32, torch.bfloat16)

# How float32 is multiplied: three products of the matrix units' 19-bit format, to about float32's
# own rounding. Plain float32 arithmetic would be slower and takes minutes to compile.
_PRECISION = "tf32x3"
_FEW_CHANNELS = 4
_MOST_CHANNELS = 128
_PIXELS_A_SPLIT = 4096
_MOST_NUMBERS = 2**31 - 1  # offsets within a run are 32-bit


class Link(NamedTuple):
    """One layer of a chain: "linear", "conv" (halves) or "conv_transpose" (doubles)."""

    kind: str
    activation: str = "none"
    out_dtype: torch.dtype | None = None
    """The type of its output, if not that of its input."""
    grid: tuple[int, int, int] | None = None
    """Height, width and channels that a linear layer's output takes."""


class Tile(NamedTuple):
    """How a kernel is cut up: rows a program, warps, pipeline stages, and one choice of its own.

    The choice is the number of parities a program makes (`double`), or the length of a run
    (`halve`, `kernel_gradient`).
    """

    rows: int
    warps: int
    stages: int
    choice: int = 0
    taps: bool = False
    """`kernel_gradient`: a program for each row of the kernel, not one for all four."""


# Best of those tried on an H200 (`bench/tune.py`), by kernel, small height, channels of the
# big and the small image, and kernel size.
TILES: dict[tuple[str, int, int, int, int], Tile] = {
    ("kernel_gradient", 32, 1, 32, 4): Tile(64, 2, 3),
    ("kernel_gradient", 32, 3, 32, 4): Tile(128, 4, 3),
    ("kernel_gradient", 16, 32, 32, 4): Tile(64, 4, 2, 64),
    ("kernel_gradient", 8, 32, 64, 4): Tile(64, 4, 2, 64),
    ("kernel_gradient", 8, 32, 64, 2): Tile(128, 4, 3, 64),
    ("kernel_gradient", 4, 64, 64, 2): Tile(64, 2, 2, 64),
    ("kernel_gradient_big", 32, 1, 32, 4): Tile(64, 2, 3),
    ("kernel_gradient_big", 32, 3, 32, 4): Tile(128, 4, 3),
    ("kernel_gradient_big", 16, 32, 32, 4): Tile(32, 4, 2, 64),
    ("double", 16, 32, 32, 4): Tile(256, 8, 1, 1),
    ("double", 8, 32, 64, 4): Tile(128, 4, 1, 1),
    ("double", 4, 64, 64, 4): Tile(128, 4, 1, 1),
    ("double", 8, 32, 64, 2): Tile(128, 8, 1, 4),
    ("double", 4, 64, 64, 2): Tile(64, 4, 1, 1),
    ("halve", 32, 1, 32, 4): Tile(64, 2, 1),
    ("halve", 32, 3, 32, 4): Tile(128, 4, 1),
    ("halve", 16, 32, 32, 4): Tile(128, 4, 1, 128),
}

_DEFAULTS = {
    "halve": Tile(128, 4, 1, 128), "halve_flat": Tile(64, 2, 1),
    "double": Tile(128, 4, 1, 1), "double_narrow": Tile(64, 4, 1),
    "kernel_gradient": Tile(64, 4, 2, 64), "kernel_gradient_flat": Tile(128, 4, 3),
    "kernel_gradient_big": Tile(64, 4, 2, 64), "kernel_gradient_big_flat": Tile(128, 4, 3),
}


def usable(x: Tensor) -> bool:
    """Whether this path can take x: on a GPU that Triton knows, in a type with kernels."""
    return x.is_cuda and x.dtype in DTYPES and has_triton() and _is_known(x.device.index or 0)


@functools.cache
def _is_known(index: int) -> bool:
    # Below 8.0 (Ampere) there are no bfloat16 units and Triton is not tested.
    return torch.version.hip is None and torch.cuda.get_device_capability(index) >= (8, 0)


def fits(link: Link, weight_shape: Sequence[int]) -> bool:
    """Whether there is a kernel for a layer with this weight `[run, ...]`."""
    if link.kind == "linear":
        return True
    big, small = weight_shape[-2:]
    return _is_power(small) and (_is_power(big) or big <= _FEW_CHANNELS)


def _is_power(channels: int) -> bool:
    return 16 <= channels <= _MOST_CHANNELS and channels & (channels - 1) == 0


@functools.cache
def _kernels() -> Any:
    from unweave.nn import kernels

    return kernels


def _tile(kind: str, height: int, big: int, small: int, size: int, dtype: torch.dtype) -> Tile:
    name = kind.removesuffix("_flat").removesuffix("_narrow")
    tile = TILES.get((name, height, big, small, size), _DEFAULTS[kind])
    if dtype == torch.float32:  # twice the bytes: half the tile, for checks rather than speed
        tile = tile._replace(rows=min(tile.rows, 64), stages=1, choice=min(tile.choice, 64)
                             if name != "double" else tile.choice)
    return tile


def _blocks(size: int, block: int) -> int:
    return -(-size // block)


def _padded(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


def halve(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none",
          out_dtype: torch.dtype | None = None, seen: Tensor | None = None,
          before: str = "none", tile: Tile | None = None) -> Tensor:
    """A convolution; or the gradient of a transposed one, before the activation with output `seen`.

    x `[run, batch, height, width, big]`, weight `[run, size, size, big, small]`.
    """
    runs, batch, height, width, big = x.shape
    size, small = weight.shape[1], weight.shape[-1]
    flat = big <= _FEW_CHANNELS
    tile = tile or _tile("halve_flat" if flat else "halve", height // 2, big, small, size,
                         weight.dtype)
    y = torch.empty(runs, batch, height // 2, width // 2, small, device=x.device,
                    dtype=out_dtype or weight.dtype)
    grid = (_blocks(batch * height * width // 4, tile.rows), runs)
    _kernels().halve[grid](
        x, weight, bias, y, seen, batch, H=height, W=width, BIG=big, SMALL=small,
        COLUMNS=_padded(small), SIZE=size, FLAT=_padded(size * size * big) if flat else 0,
        CHUNK=min(tile.choice or 128, size * big), HAS_BIAS=bias is not None,
        ACTIVATION=ACTIVATION_NUMBERS[activation], BEFORE=ACTIVATION_NUMBERS[before],
        PRECISION=_PRECISION, BLOCK=tile.rows, num_warps=tile.warps, num_stages=tile.stages)
    return y


def double(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none",
           out_dtype: torch.dtype | None = None, seen: Tensor | None = None,
           before: str = "none", tile: Tile | None = None) -> Tensor:
    """A transposed convolution; or the gradient of a convolution.

    x `[run, batch, height, width, small]`, weight `[run, size, size, big, small]`.
    """
    runs, batch, height, width, small = x.shape
    size, big = weight.shape[1], weight.shape[-2]
    narrow = big <= _FEW_CHANNELS and size == 4 and height % 2 == width % 2 == 0
    tile = tile or _tile("double_narrow" if narrow else "double", height, big, small, size,
                         weight.dtype)
    y = torch.empty(runs, batch, 2 * height, 2 * width, big, device=x.device,
                    dtype=out_dtype or weight.dtype)
    blocks = _blocks(batch * height * width, tile.rows)
    same: dict[str, Any] = {
        "H": height, "W": width, "SMALL": small, "BIG": big, "HAS_BIAS": bias is not None,
        "ACTIVATION": ACTIVATION_NUMBERS[activation], "BEFORE": ACTIVATION_NUMBERS[before],
        "PRECISION": _PRECISION, "BLOCK": tile.rows, "num_warps": tile.warps,
        "num_stages": tile.stages}
    if narrow:
        blocks = _blocks(batch * height * width // 4, tile.rows)
        _kernels().double_narrow[(blocks, runs)](
            x, weight, bias, y, seen, batch, COLUMNS=_padded(16 * big), **same)
    else:
        phases = tile.choice or 1
        _kernels().double[(blocks, runs, 4 // phases)](
            x, weight, bias, y, seen, batch, COLUMNS=_padded(big), SIZE=size,
            CHUNK=min(128, (size // 2) * small), PHASES=phases, **same)
    return y


def kernel_gradient(big_image: Tensor, small_image: Tensor, weight: Tensor, side: str | None,
                    tile: Tile | None = None) -> tuple[Tensor, Tensor | None]:
    """Gradients of a kernel and, if `side` ("big" or "small") is where its output is, of a bias."""
    runs, batch, height, width, small = small_image.shape
    size, big = weight.shape[1], weight.shape[-2]
    flat = big <= _FEW_CHANNELS
    kind = "kernel_gradient_big" if side == "big" else "kernel_gradient"
    tile = tile or _tile(f"{kind}_flat" if flat else kind, height, big, small, size, weight.dtype)
    chunk = min(tile.choice or 128, size * big)
    # Fixed by one run's shapes: more splits would be faster for few runs, and change the sums.
    splits = max(1, batch * height * width // _PIXELS_A_SPLIT)
    by_rows = size == 4 and not flat and not tile.taps
    length = size * size * big
    out = torch.empty(runs, splits, length * small, device=weight.device,
                      dtype=weight.dtype if splits == 1 else torch.float32)
    sums = None
    if side is not None:
        num = small if side == "small" else size * big if by_rows else length
        sums = torch.empty(runs, splits, num, device=weight.device)
    same: dict[str, Any] = {
        "H": height, "W": width, "BIG": big, "SMALL": small, "CHUNK": chunk, "SPLITS": splits,
        "SIDE": {None: 0, "small": 1, "big": 2}[side], "LOW": weight.dtype == torch.bfloat16,
        "PRECISION": _PRECISION, "BLOCK": tile.rows, "num_warps": tile.warps,
        "num_stages": tile.stages}
    if by_rows:
        _kernels().kernel_gradient_rows[(size * big // chunk, runs, splits)](
            big_image, small_image, out, sums, batch, **same)
    else:
        _kernels().kernel_gradient[(1 if flat else length // chunk, runs, splits)](
            big_image, small_image, out, sums, batch, SIZE=size,
            FLAT=_padded(length) if flat else 0, **same)
    grad = (out if splits == 1 else sum_middle(out, weight.dtype)).view_as(weight)
    if sums is None:
        return grad, None
    if side == "big":  # these taps lie on every pixel of the big image once
        taps = sums.view(runs, -1, size, big)
        taps = taps[:, :, 1:3] if size == 4 else taps
        if size == 4 and not by_rows:
            taps = taps.view(runs, splits, size, 2, big)[:, :, 1:3]
        sums = taps.reshape(runs, -1, big)
    return grad, sum_middle(sums, weight.dtype)


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str = "none",
            out_dtype: torch.dtype | None = None, seen: Tensor | None = None,
            before: str = "none") -> Tensor:
    """`activation(a @ b + bias)` of every run; any strides. Computes in the type of b."""
    a = a.to(b.dtype)  # cast in the kernel, it would be read from registers while they change
    runs, rows, inner = a.shape
    columns = b.shape[-1]
    low = b.dtype == torch.bfloat16
    c = torch.empty(runs, rows, columns, device=a.device, dtype=out_dtype or b.dtype)
    tall = 64 if rows > 16 else 16
    wide = 64 if columns > 32 else 32 if columns > 16 else 16
    deep = min(64 if low else 32, _padded(inner))
    _kernels().product[(_blocks(rows, tall) * _blocks(columns, wide), runs)](
        a, b, bias, c, seen, rows, columns, inner, *a.stride(), *b.stride(),
        HAS_BIAS=bias is not None, ACTIVATION=ACTIVATION_NUMBERS[activation],
        BEFORE=ACTIVATION_NUMBERS[before], LOW=low, PRECISION=_PRECISION, ROWS=tall, COLUMNS=wide,
        INNER=deep, num_warps=4, num_stages=3 if low else 2)
    return c


def sum_middle(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`[run, middle, size]` added up to `[run, size]`, in the same order for any stack."""
    runs, middle, size = x.shape
    x = x.contiguous()
    y = torch.empty(runs, size, device=x.device, dtype=dtype)
    _kernels().sum_middle[(_blocks(size, 256), runs)](x, y, middle, size, BLOCK=256, num_warps=2)
    return y


def bernoulli_nats(logits: Tensor, x: Tensor) -> Tensor:
    """-log p(x|z) of every image, `[run, batch]`, in float32; both contiguous."""
    size = logits[0, 0].numel()
    nats = torch.empty(logits.shape[:2], device=logits.device)
    _kernels().bernoulli_nats[(nats.numel(),)](logits, x, nats, size, BLOCK=_pixels(size),
                                               num_warps=4)
    return nats


def bernoulli_gradient(logits: Tensor, x: Tensor, grad: Tensor) -> Tensor:
    """The gradient of `bernoulli_nats` for the logits, given that of its result."""
    size = logits[0, 0].numel()
    made = torch.empty_like(logits)
    _kernels().bernoulli_gradient[(grad.numel(),)](
        logits, x, grad.contiguous(), made, size, BLOCK=_pixels(size), num_warps=4)
    return made


def _pixels(size: int) -> int:
    return min(4096, _padded(size))


@torch.no_grad()
def adam_step(params: Sequence[Tensor], grads: Sequence[Tensor], first: Sequence[Tensor],
              second: Sequence[Tensor], copies: Sequence[Tensor | None], rates: Tensor,
              root: Tensor, *, beta1: float, beta2: float, eps: float) -> None:
    """Update every tensor `[run, ...]` in place: see `kernels.adam`."""
    kernel = _kernels().adam
    for p, g, m, v, copy in zip(params, grads, first, second, copies):
        size = p[0].numel()
        block = min(1024, _padded(size))
        kernel[(_blocks(size, block), len(p))](
            p, g.contiguous(), m, v, copy, rates, root, size, BETA1=beta1, BETA2=beta2, EPS=eps,
            HAS_COPY=copy is not None, BLOCK=block, num_warps=4)
