"""The layers' CPU path: oneDNN convolutions and matrix products, a run at a time.

Runs are taken one after another through the same calls that a lone run would make, so a run's
numbers do not depend on its neighbours, to the last bit. What is unusual:

- Images stay channels last from end to end; a `[batch, height, width, channel]` tensor is handed
  to oneDNN as a permuted view, which is the layout that it wants.
- In bfloat16, layers on small grids are matrix products over gathered patches: oneDNN's weight
  gradient reaches half the rate of its matrix product there.
- A transposed convolution to a few channels is a matrix product to 16 taps a pixel and a sum of
  shifted planes. oneDNN's is ten times slower, as it fills 1 of 16 lanes.
- ReLU is not fused into the convolution: oneDNN's turns NaN into 0, and a run that diverged
  would go on as if it had not.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

DTYPES = (torch.float32, torch.bfloat16)
LEAK = 0.2
"""The slope of leaky ReLUs below zero: TensorFlow's default, in which the study was run."""

_FEW_CHANNELS = 4
_SMALL_GRID = 64
_ALIGNMENT = 64


def has_bfloat16_units() -> bool:
    """Whether this CPU multiplies bfloat16 natively: where not, float32 is the faster choice."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in checks)


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory of this process for the next allocation.

    By default glibc hands blocks of megabytes back to the system and asks for them again, page by
    page, at every layer of every step: a quarter of a training step on the CPU. Afterwards the
    process holds what it needed at most. Returns whether it took effect (Linux with glibc).
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    # 32 MiB is the most that glibc accepts; larger blocks are still mapped one by one.
    wanted = ((mmap_threshold, 32 << 20), (trim_threshold, 1 << 30), (top_pad, 64 << 20))
    return all([mallopt(option, value) == 1 for option, value in wanted])


def _stack(runs: list[Tensor]) -> Tensor:
    return runs[0].unsqueeze(0) if len(runs) == 1 else torch.stack(runs)


def _aligned(x: Tensor) -> Tensor:
    """MKL's sums depend on the alignment of its operands, which differs by slot in a stack."""
    return x.clone() if x.data_ptr() % _ALIGNMENT else x


def _activate_(y: Tensor, activation: str) -> Tensor:
    """In place; `y` must be new."""
    if activation == "tanh":
        return y.tanh_()
    if activation == "leaky_relu":
        return torch.nn.functional.leaky_relu_(y, LEAK)
    if activation == "none":
        return y
    if y.dtype != torch.bfloat16:
        return y.relu_()
    # As integers, bfloat16 numbers below zero are at most -128 and NaNs with a sign lie above.
    # Integer lanes need no conversion: five times faster.
    torch.ops.aten.threshold_(y.view(torch.int16), -128, 0)
    return y


def _before(grad: Tensor, y: Tensor | None, activation: str) -> Tensor:
    """The gradient before an activation with output y (None: there was none), contiguous."""
    grad = grad.contiguous()
    if y is None:
        return grad
    if activation == "tanh":
        return torch.ops.aten.tanh_backward(grad, y)
    if activation == "leaky_relu":
        return torch.ops.aten.leaky_relu_backward(grad, y, LEAK, True)
    if y.dtype != torch.bfloat16:
        return torch.ops.aten.threshold_backward(grad, y, 0)
    bits = grad.view(torch.int16), y.view(torch.int16)
    return torch.ops.aten.threshold_backward(*bits, 0).view(torch.bfloat16)


def _cast(weight: Tensor, dtype: torch.dtype) -> Tensor:
    return _aligned(weight) if weight.dtype == dtype else weight.to(dtype)


class Linear(torch.autograd.Function):
    """`activation(x @ weight + bias)`, x `[M, B, I]`, weight `[M, I, O]`, bias `[M, O]`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
        """Loop over runs; the cast weights are kept for the gradient."""
        inputs = [_aligned(run) for run in x]
        weights = [_cast(run, x.dtype) for run in weight]
        biases = [run.to(x.dtype) for run in bias]
        outputs = [torch.addmm(b, v, w) for v, w, b in zip(inputs, weights, biases)]
        outputs = [_activate_(y, activation) for y in outputs]
        ctx.dtypes, ctx.activation = (weight.dtype, bias.dtype), activation
        y = _stack(outputs)
        ctx.save_for_backward(None if activation == "none" else y, *inputs, *weights)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Three matrix products a run, the sums over a batch in the compute type."""
        y, *rest = ctx.saved_tensors
        runs = len(rest) // 2
        inputs, weights = rest[:runs], rest[runs:]
        grad = _before(grad, y, ctx.activation)
        grads = [_aligned(run) for run in grad]
        dx = None
        if ctx.needs_input_grad[0]:
            dx = _stack([g @ w.t() for g, w in zip(grads, weights)])
        dw = db = None  # not made for a frozen critic
        if ctx.needs_input_grad[1]:
            dw = _stack([(v.t() @ g).to(ctx.dtypes[0]) for v, g in zip(inputs, grads)])
        if ctx.needs_input_grad[2]:
            db = _stack([g.sum(0).to(ctx.dtypes[1]) for g in grads])
        return dx, dw, db, None


def _padding(weight: Tensor) -> int:
    return 1 if weight.shape[0] == 4 else 0


def _by_patches(small: tuple[int, ...], weight: Tensor, dtype: torch.dtype) -> bool:
    """Whether to gather patches; `small` is the shape of the small side, `[B, H, W, C]`."""
    grid = small[1] * small[2]
    return dtype == torch.bfloat16 and grid <= _SMALL_GRID and weight.shape[2] >= 16


def _patches(x: Tensor, size: int) -> Tensor:
    """`[B, H, W, C]` to `[B * H/2 * W/2, size * size * C]`."""
    batch, height, width, channels = x.shape
    if size == 4:
        x = torch.nn.functional.pad(x, (0, 0, 1, 1, 1, 1))
    rows, row, pixel = x.stride()[:3]
    shape = (batch, height // 2, width // 2, size, size * channels)
    windows = x.as_strided(shape, (rows, 2 * row, 2 * pixel, row, 1))
    return windows.reshape(-1, size * size * channels)


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool) -> Tensor:
    """Convolve `[B, H, W, C]` by oneDNN with the stored kernel `[k, k, big, small]`."""
    pad = _padding(weight)
    y = torch.ops.aten.convolution(
        x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), bias,
        [2, 2], [pad, pad], [1, 1], transposed, [0, 0], 1,
    )
    return y.permute(0, 2, 3, 1).contiguous()


def _gradients(
    grad: Tensor, x: Tensor, weight: Tensor, transposed: bool, mask: list[bool]
) -> list[Tensor | None]:
    pad = _padding(weight)
    outputs = grad.shape[-1]
    dx, dw, db = torch.ops.aten.convolution_backward(
        grad.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), [outputs],
        [2, 2], [pad, pad], [1, 1], transposed, [0, 0], 1, mask,
    )
    dx = dx.permute(0, 2, 3, 1).contiguous() if mask[0] else None
    dw = dw.permute(2, 3, 1, 0) if mask[1] else None
    return [dx, dw, db]


class Conv(torch.autograd.Function):
    """A halving convolution, x `[M, B, H, W, C]`, weight `[M, k, k, C, O]`, bias `[M, O]`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> Tensor:
        """Loop over runs; patches are kept where the gradient needs them again."""
        batch, height, width = x.shape[1:4]
        small = (batch, height // 2, width // 2, weight.shape[-1])
        inputs, weights, outputs = list(x.contiguous()), [], []
        ctx.by_patches = _by_patches(small, weight[0], x.dtype)
        for m, (w32, b32) in enumerate(zip(weight, bias)):
            w, b = _cast(w32, x.dtype), b32.to(x.dtype)
            if ctx.by_patches:
                inputs[m] = _patches(inputs[m], w.shape[0])
                y = torch.addmm(b, inputs[m], w.flatten(0, 2)).view(small)
            else:
                y = _convolve(inputs[m], w, b, False)
            weights.append(w)
            outputs.append(_activate_(y, activation))
        ctx.dtypes, ctx.activation = (weight.dtype, bias.dtype), activation
        y = _stack(outputs)
        ctx.save_for_backward(None if activation == "none" else y, *inputs, *weights)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the input is a transposed convolution with the same kernel."""
        y, *rest = ctx.saved_tensors
        runs = len(rest) // 2
        inputs, weights = rest[:runs], rest[runs:]
        grad = _before(grad, y, ctx.activation)
        need = ctx.needs_input_grad[0]
        dxs, dws, dbs = [], [], []
        for g, x, w in zip(grad, inputs, weights):
            if ctx.by_patches:
                flat = g.flatten(0, 2)
                dw, db = (x.t() @ flat).view(w.shape), flat.sum(0)
                dx = _convolve(g, w, None, True) if need else None
            else:
                dx, dw, db = _gradients(g, x, w, False, [need, True, True])
            dxs.append(dx)
            dws.append(_stored(dw, ctx.dtypes[0]))
            dbs.append(db.to(ctx.dtypes[1]))
        return _stack(dxs) if need else None, _stack(dws), _stack(dbs), None


class ConvTranspose(torch.autograd.Function):
    """A doubling convolution, x `[M, B, H, W, C]`, weight `[M, k, k, O, C]`, bias `[M, O]`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: str, out_dtype: torch.dtype
    ) -> Tensor:
        """Loop over runs."""
        inputs, weights, outputs = [_aligned(run) for run in x.contiguous()], [], []
        for v, w32, b32 in zip(inputs, weight, bias):
            w = _cast(w32, x.dtype)
            if w.shape[0] == 4 and w.shape[2] <= _FEW_CHANNELS:
                y = _by_planes(v, w, b32, out_dtype)
            else:
                y = _convolve(v, w, b32.to(x.dtype), True).to(out_dtype)
            weights.append(w)
            outputs.append(_activate_(y, activation))
        ctx.dtypes, ctx.activation = (weight.dtype, bias.dtype), activation
        y = _stack(outputs)
        ctx.save_for_backward(None if activation == "none" else y, *inputs, *weights)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the input is a convolution with the same kernel."""
        y, *rest = ctx.saved_tensors
        runs = len(rest) // 2
        inputs, weights = rest[:runs], rest[runs:]
        grad = _before(grad, y, ctx.activation)
        need = ctx.needs_input_grad[0]
        dxs, dws, dbs = [], [], []
        for g32, x, w in zip(grad, inputs, weights):
            dbs.append(g32.flatten(0, 2).sum(0).to(ctx.dtypes[1]))
            g = g32.to(x.dtype)
            if _by_patches(x.shape, w, x.dtype):
                columns = _patches(g, w.shape[0])
                dx = (columns @ w.flatten(0, 2)).view(x.shape) if need else None
                dw = (columns.t() @ x.flatten(0, 2)).view(w.shape)
            else:
                dx, dw, _ = _gradients(g, x, w, True, [need, True, False])
            dxs.append(dx)
            dws.append(_stored(dw, ctx.dtypes[0]))
        return _stack(dxs) if need else None, _stack(dws), _stack(dbs), None, None


def _stored(dw: Tensor, dtype: torch.dtype) -> Tensor:
    return dw.to(dtype).contiguous()


def _by_planes(x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """A 4x4 transposed convolution to a few channels: `[B, H, W, C]` to `[B, 2H, 2W, O]`.

    One plane `[B, H, W]` for each tap and channel, so that shifted sums run along memory.
    An even pixel lies under tap 1 of its own patch and tap 3 of the patch before; an odd one
    under tap 2 of its own and tap 0 of the patch after.
    """
    batch, height, width, _ = x.shape
    channels = weight.shape[2]
    planes = (weight.flatten(0, 2) @ x.flatten(0, 2).t()).to(dtype)
    row0, row1, row2, row3 = planes.view(4, 4, channels, batch, height, width)
    row1[..., 1:, :] += row3[..., :-1, :]
    row2[..., :-1, :] += row0[..., 1:, :]
    y = x.new_empty(batch, height, 2, width, 2, channels, dtype=dtype)
    for i, (tap0, tap1, tap2, tap3) in enumerate((row1, row2)):
        tap1[..., 1:] += tap3[..., :-1]
        tap2[..., :-1] += tap0[..., 1:]
        y[:, :, i, :, 0] = tap1.movedim(0, -1)
        y[:, :, i, :, 1] = tap2.movedim(0, -1)
    return y.view(batch, 2 * height, 2 * width, channels).add_(bias.to(dtype))
