"""Dense layers and convolutions for a stack of runs.

Every tensor has a leading run axis: images `[run, batch, height, width, channel]`, weights
`[run, ...]`. Run m of the output depends on run m of the inputs and on nothing else.

A convolution and a transposed convolution both join a big image and a small one, and their weight
is stored the same way for both: `[run, row, column, channel of the big side, channel of the small
side]`. A convolution goes from big to small, a transposed one from small to big, and each is the
other's gradient. Kernels are 4x4 with stride 2 and one pixel of padding, or 2x2 with stride 2 and
none: what TensorFlow calls 'same' for an even image.

A layer ends in an activation by name and may do without a bias (None).
It computes in the type of its input; weights of another type (float32 masters under bfloat16
activations) are cast on the way in and their gradients come back in the weights' own type.

All paths give the same numbers up to rounding. `general` is a handful of differentiable tensor
operations: any device, any float type, `torch.func.vmap`, second derivatives. `cpu` (in `cpu.py`)
and `triton` (in `autograd.py`) are for training in float32 and bfloat16 on a CPU and on a GPU.
`twice` has the kernels of `triton` for layers whose gradients are differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.nn import autograd, cpu, gpu, patches
from unweave.nn.cpu import LEAK
from unweave.nn.gpu import Link
from unweave.types import Float, UserError, unknown_name

ACTIVATIONS = ("none", "relu", "leaky_relu", "tanh")

Kernel = Float[Tensor, "run row column big small"]
BigImages = Float[Tensor, "run batch _ _ big"]
SmallImages = Float[Tensor, "run batch _ _ small"]

PATHS = ("auto", "general", "cpu", "triton", "twice")
_path = "auto"


@contextmanager
def path(name: str) -> Iterator[None]:
    """Choose the path of the layers inside a `with` block: one of PATHS.

    "auto" takes the fastest that the device has. A layer without a kernel on the `triton` path and
    `twice` (channels that are neither few nor a power of two) takes the general one there.
    """
    global _path
    if name not in PATHS:
        raise unknown_name("layer path", name, PATHS)
    before, _path = _path, name
    try:
        yield
    finally:
        _path = before


def _is_transformed() -> bool:
    """Function transforms (vmap, jvp) cannot look into the hand-written gradients."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def chosen_path(x: Tensor) -> str:
    """The path that a layer with input x takes: one of PATHS but "auto"."""
    if _path != "auto":
        return _path
    if _is_transformed():
        return "general"
    if x.device.type == "cpu" and x.dtype in cpu.DTYPES:
        return "cpu"
    return "triton" if gpu.usable(x) else "general"


def on_cpu_path(x: Tensor) -> bool:
    """Whether a layer with input x takes the CPU path."""
    return chosen_path(x) == "cpu"


def _has_kernel(kind: str, x: Tensor, weight: Tensor) -> bool:
    return chosen_path(x) == "triton" and gpu.fits(Link(kind), weight.shape)


def _has_derivatives(kind: str, x: Tensor, weight: Tensor) -> bool:
    return chosen_path(x) == "twice" and gpu.fits(Link(kind), weight.shape)


class Flow:
    """Layers applied one after another, which the `triton` path takes as one chain.

    `shape` is that of the output so far; `result` computes what is still outstanding.
    """

    def __init__(self, x: Tensor) -> None:
        self._x, self.shape = x, tuple(x.shape)
        self._links: list[Link] = []
        self._weights: list[Tensor | None] = []

    def add(self, kind: str, weight: Tensor, bias: Tensor | None, activation: str, *,
            out_dtype: torch.dtype | None = None,
            grid: tuple[int, int, int] | None = None) -> None:
        """Apply `linear` (to flattened images), `conv` or `conv_transpose`; see those.

        `grid`: height, width and channels that the output of `linear` takes.
        """
        runs, batch, *rest = self.shape
        if not _has_kernel(kind, self._x, weight):
            h = self.result()
            if kind == "linear":
                h = linear(h.flatten(2), weight, bias, activation=activation)
                h = h.unflatten(-1, grid) if grid else h
            elif kind == "conv":
                h = conv(h, weight, bias, activation=activation)
            else:
                h = conv_transpose(h, weight, bias, activation=activation, out_dtype=out_dtype)
            self._x, self.shape = h, tuple(h.shape)
            return
        check_activation(activation)
        self._links.append(Link(kind, activation, out_dtype, grid))
        self._weights += [weight, bias]
        if kind == "linear":
            self.shape = (runs, batch, *(grid or (weight.shape[-1],)))
        elif kind == "conv":
            _check(rest, weight, even=True)
            self.shape = (runs, batch, rest[0] // 2, rest[1] // 2, weight.shape[-1])
        else:
            _check(rest, weight, even=False)
            self.shape = (runs, batch, 2 * rest[0], 2 * rest[1], weight.shape[-2])

    def result(self) -> Tensor:
        """The output of everything that was added."""
        if self._links:
            self._x = autograd.chain(self._x, self._links, self._weights)
            self._links, self._weights = [], []
        return self._x


def linear(
    x: Float[Tensor, "run batch input"],
    weight: Float[Tensor, "run input output"],
    bias: Float[Tensor, "run output"] | None = None,
    *,
    activation: str = "none",
) -> Float[Tensor, "run batch output"]:
    """`x @ weight + bias` for every run, and an activation."""
    check_activation(activation)
    if _has_kernel("linear", x, weight):
        return autograd.chain(x, [Link("linear", activation)], [weight, bias])
    if bias is None:
        bias = weight.new_zeros(weight.shape[0], weight.shape[-1])
    if on_cpu_path(x):
        return cpu.Linear.apply(x, weight, bias, activation)
    if _has_derivatives("linear", x, weight):
        y = autograd.differentiable("linear", x, weight) + bias.to(x.dtype)[:, None]
        return activate(y, activation)
    y = torch.baddbmm(bias.to(x.dtype)[:, None], x, weight.to(x.dtype))
    return activate(y, activation)


def conv(
    x: BigImages,
    weight: Kernel,
    bias: Float[Tensor, "run small"] | None = None,
    *,
    activation: str = "none",
) -> SmallImages:
    """Convolution with stride 2 that halves the image, and an activation."""
    check_activation(activation)
    _check(x.shape[2:], weight, even=True)
    if _has_kernel("conv", x, weight):
        return autograd.chain(x, [Link("conv", activation)], [weight, bias])
    if bias is None:
        bias = weight.new_zeros(weight.shape[0], weight.shape[-1])
    if on_cpu_path(x):
        return cpu.Conv.apply(x, weight, bias, activation)
    if _has_derivatives("conv", x, weight):
        y = autograd.differentiable("conv", x, weight) + bias.to(x.dtype)[:, None, None, None]
        return activate(y, activation)
    y = _by_patches("patches_conv", x, weight) + bias.to(x.dtype)[:, None, None, None]
    return activate(y, activation)


def conv_transpose(
    x: SmallImages,
    weight: Kernel,
    bias: Float[Tensor, "run big"] | None = None,
    *,
    activation: str = "none",
    out_dtype: torch.dtype | None = None,
) -> BigImages:
    """Transposed convolution with stride 2 that doubles the image, and an activation.

    `out_dtype` is for a decoder's last layer: float32 logits from bfloat16 activations.
    """
    check_activation(activation)
    _check(x.shape[2:], weight, even=False)
    if _has_kernel("conv_transpose", x, weight):
        return autograd.chain(x, [Link("conv_transpose", activation, out_dtype)], [weight, bias])
    if bias is None:
        bias = weight.new_zeros(weight.shape[0], weight.shape[-2])
    out_dtype = out_dtype or x.dtype
    if on_cpu_path(x):
        return cpu.ConvTranspose.apply(x, weight, bias, activation, out_dtype)
    if _has_derivatives("conv_transpose", x, weight):
        y = autograd.differentiable("conv_transpose", x, weight).to(out_dtype)
        return activate(y + bias.to(out_dtype)[:, None, None, None], activation)
    if out_dtype == x.dtype:
        y = _by_patches("patches_transpose", x, weight)
    else:  # patches overlap: added up in the type that is asked for
        y = patches.double(x, weight.to(x.dtype), out_dtype)
    return activate(y + bias.to(out_dtype)[:, None, None, None, :], activation)


def conv_same(
    x: Float[Tensor, "run batch row column input"],
    weight: Float[Tensor, "run 4 4 input output"],
    bias: Float[Tensor, "run output"] | None = None,
    *,
    activation: str = "none",
) -> Float[Tensor, "run batch row column output"]:
    """A 4x4 convolution with stride 1 that keeps the size, and an activation.

    One row and column of zeros before the image and two after, which is 'same' in TensorFlow. The
    transposed convolution of stride 1 is the same layer with its kernel turned round, which for
    weights that are learnt is no difference. Tensor operations on every path.
    """
    check_activation(activation)
    y = _by_patches("same", x, weight)
    if bias is not None:
        y = y + bias.to(x.dtype)[:, None, None, None]
    return activate(y, activation)


def _by_patches(kind: str, x: Tensor, weight: Tensor) -> Tensor:
    """A convolution by tensor operations, with gradients by hand where nothing looks into them.

    Torch would take the gradient of every one of the kernel's places by itself.
    """
    if _is_transformed():
        return autograd.BILINEAR[kind](x, weight.to(x.dtype), weight.shape[1])
    return autograd.differentiable(kind, x, weight)


def activate(y: Tensor, activation: str) -> Tensor:
    """The activation of that name."""
    if activation == "relu":
        return F.relu(y)
    if activation == "leaky_relu":
        return F.leaky_relu(y, LEAK)
    return torch.tanh(y) if activation == "tanh" else y


def check_activation(name: str) -> None:
    """Refuse an unknown name."""
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)


def _check(grid: Sequence[int], weight: Tensor, *, even: bool) -> None:
    rows, columns = weight.shape[1:3]
    if (rows, columns) not in ((4, 4), (2, 2)):
        raise UserError(f"a kernel of {rows}x{columns} is not known here: 4x4 and 2x2 are")
    if even and (grid[0] % 2 or grid[1] % 2):
        size = f"{grid[0]}x{grid[1]}"
        raise UserError(f"an image of {size} cannot be halved: height and width must be even")
