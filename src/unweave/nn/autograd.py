"""Layers as operations of autograd: chains of layers by GPU kernels, and single layers.

A chain is the unit here, not a layer: the gradient of an activation is applied while the gradient
of the next layer is computed, activations stay in the layers' own type from end to end, and
autograd sees one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unweave.nn import gpu, patches
from unweave.nn.gpu import Link

_OPERATIONS = {"linear": gpu.product, "conv": gpu.halve, "conv_transpose": gpu.double}


class _Chain(torch.autograd.Function):
    """Layers one after another, and their gradients in one walk back."""

    @staticmethod
    def forward(ctx: Any, links: tuple[Link, ...], x: Tensor, *weights: Tensor | None) -> Tensor:
        """Inputs of every layer are kept; `weights` are a weight and a bias (or None) for each."""
        inputs, cast, shapes = [], [], []
        h = x
        for i, link in enumerate(links):
            shapes.append(h.shape)
            h = h.flatten(2) if link.kind == "linear" else h
            h = h.contiguous()
            low = weights[2 * i].to(x.dtype)
            bias = weights[2 * i + 1]
            inputs.append(h)
            cast.append(low)
            h = _OPERATIONS[link.kind](h, low, bias, link.activation, link.out_dtype or x.dtype)
            if link.grid is not None:
                h = h.unflatten(-1, link.grid)
        ctx.links, ctx.shapes = links, shapes
        ctx.dtypes = [None if w is None else w.dtype for w in weights]
        last = None if links[-1].activation == "none" else h
        ctx.save_for_backward(last, *inputs, *cast)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient before each activation comes from the layer after it."""
        last, *saved = ctx.saved_tensors
        links, num = ctx.links, len(ctx.links)
        inputs, weights = saved[:num], saved[num:]
        # Logits leave in float32; their gradient is read many times by the next two kernels.
        grad = grad.to(weights[-1].dtype).contiguous()
        if last is not None:
            grad = _before(grad, last, links[-1].activation)
        found: list[Tensor | None] = [None] * (2 * num)
        for i in reversed(range(num)):
            link, x, weight = links[i], inputs[i], weights[i]
            if link.kind == "linear":
                grad = grad.flatten(2)
            wants_weight, wants_bias = ctx.needs_input_grad[2 + 2 * i : 4 + 2 * i]
            if wants_weight or wants_bias:
                found[2 * i : 2 * i + 2] = _weight_gradients(link, x, weight, grad, wants_bias)
            if i == 0 and not ctx.needs_input_grad[1]:
                break
            before = links[i - 1].activation if i else "none"
            seen = x if before != "none" else None
            if link.kind == "linear":
                grad = gpu.product(grad, weight.mT, None, out_dtype=weight.dtype, seen=seen,
                               before=before)
            else:
                back = gpu.double if link.kind == "conv" else gpu.halve
                grad = back(grad, weight, None, out_dtype=weight.dtype, seen=seen, before=before)
            grad = grad.view(ctx.shapes[i])
        first = grad if ctx.needs_input_grad[1] else None
        found = [None if g is None else g.to(dtype) for g, dtype in zip(found, ctx.dtypes)]
        return None, first, *found


def _weight_gradients(link: Link, x: Tensor, weight: Tensor, grad: Tensor,
                      wants_bias: bool) -> tuple[Tensor, Tensor | None]:
    if link.kind == "linear":
        made = gpu.product(x.mT, grad.to(weight.dtype), out_dtype=weight.dtype)
        return made, gpu.sum_middle(grad, weight.dtype) if wants_bias else None
    if link.kind == "conv":
        return gpu.kernel_gradient(x, grad, weight, "small" if wants_bias else None)
    return gpu.kernel_gradient(grad, x, weight, "big" if wants_bias else None)


def _before(grad: Tensor, y: Tensor, activation: str) -> Tensor:
    """The gradient before an activation with output y."""
    if activation == "tanh":
        return grad * (1.0 - y * y)
    below = y <= 0
    return grad.masked_fill(below, 0.0) if activation == "relu" else torch.where(
        below, grad * 0.2, grad)


def chain(x: Tensor, links: Sequence[Link], weights: Sequence[Tensor | None]) -> Tensor:
    """Layers one after another; `weights` are a weight and a bias (or None) for each."""
    return _Chain.apply(tuple(links), x, *weights)


def _kernel_from(big: Tensor, small: Tensor, size: int) -> Tensor:
    """The gradient of a kernel of `size`, from the big and the small image."""
    like = big.new_empty(1).expand(len(big), size, size, big.shape[-1], small.shape[-1])
    return gpu.kernel_gradient(big, small, like, None)[0]


BILINEAR: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "conv": lambda a, b, _: gpu.halve(a.contiguous(), b, None),
    "conv_transpose": lambda a, b, _: gpu.double(a.contiguous(), b, None),
    "kernel": lambda a, b, size: _kernel_from(a.contiguous(), b.contiguous(), size),
    "linear": lambda a, b, _: gpu.product(a, b),
    "patches_conv": lambda a, b, _: patches.halve(a, b),
    "patches_transpose": lambda a, b, _: patches.double(a, b),
    "patches_kernel": patches.kernel_gradient,
    "same": lambda a, b, _: patches.same(a, b),
    "same_back": lambda a, b, _: patches.same_back(a, b),
    "same_kernel": patches.same_kernel_gradient,
}
"""Layers without bias and activation, and gradients of their kernels, of two arguments and the
kernel's size: by kernels of ours, and by tensor operations."""

# The gradients of f(a, b) for its two arguments, given that of its result, in the same terms.
_GRADIENTS: dict[str, tuple[Callable[..., tuple[str, Tensor, Tensor]], ...]] = {
    "conv": (lambda a, b, g: ("conv_transpose", g, b), lambda a, b, g: ("kernel", a, g)),
    "conv_transpose": (lambda a, b, g: ("conv", g, b), lambda a, b, g: ("kernel", g, a)),
    "kernel": (lambda a, b, g: ("conv_transpose", b, g), lambda a, b, g: ("conv", a, g)),
    "linear": (lambda a, b, g: ("linear", g, b.mT), lambda a, b, g: ("linear", a.mT, g)),
    "patches_conv": (lambda a, b, g: ("patches_transpose", g, b),
                     lambda a, b, g: ("patches_kernel", a, g)),
    "patches_transpose": (lambda a, b, g: ("patches_conv", g, b),
                          lambda a, b, g: ("patches_kernel", g, a)),
    "patches_kernel": (lambda a, b, g: ("patches_transpose", b, g),
                       lambda a, b, g: ("patches_conv", a, g)),
    "same": (lambda a, b, g: ("same_back", g, b), lambda a, b, g: ("same_kernel", a, g)),
    "same_back": (lambda a, b, g: ("same", g, b), lambda a, b, g: ("same_kernel", g, a)),
    "same_kernel": (lambda a, b, g: ("same_back", b, g), lambda a, b, g: ("same", a, g)),
}


class _Bilinear(torch.autograd.Function):
    """A layer without bias and activation, which can be differentiated as often as one likes.

    It is linear in its input and in its weight, and its gradients are such layers again.
    """

    @staticmethod
    def forward(ctx: Any, kind: str, size: int, a: Tensor, b: Tensor) -> Tensor:
        """`size`: of the kernel."""
        ctx.kind, ctx.size = kind, size
        ctx.save_for_backward(a, b)
        return BILINEAR[kind](a, b, size)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor | None, Tensor | None]:
        grad = grad if ctx.kind == "linear" else grad.contiguous()
        found = []
        for gradient, wanted in zip(_GRADIENTS[ctx.kind], ctx.needs_input_grad[2:]):
            kind, a, b = gradient(*ctx.saved_tensors, grad)
            found.append(_Bilinear.apply(kind, ctx.size, a, b) if wanted else None)
        return None, None, *found


def differentiable(kind: str, x: Tensor, weight: Tensor) -> Tensor:
    """A layer of a `Link`'s kind without bias and activation, which has all derivatives."""
    return _Bilinear.apply(kind, weight.shape[1], x, weight.to(x.dtype))


class _BernoulliNats(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, x: Tensor) -> Tensor:
        logits, x = logits.contiguous(), x.contiguous()
        ctx.save_for_backward(logits, x)
        return gpu.bernoulli_nats(logits, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return gpu.bernoulli_gradient(*ctx.saved_tensors, grad), None


def bernoulli_nats(logits: Tensor, x: Tensor) -> Tensor:
    """-log p(x|z) of every image, `[run, batch]`, in float32. x has no gradient."""
    return _BernoulliNats.apply(logits, x)
