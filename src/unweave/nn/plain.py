"""One run's networks as plain PyTorch: `nn.Sequential` of the layers that everybody knows.

A run keeps images channels last and kernels as `[row, column, big, small]`; PyTorch keeps channels
first. `to_plain` and `from_plain` turn the weights over, both ways and exactly: nothing is
computed, numbers change their places. Names stay: "encoder.conv1.weight" is the name there too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from unweave.nn.batch_norm import EPSILON, MOMENTUM
from unweave.nn.blueprint import Architecture, Conv, Dense, ImageShape, Layer, LayerNorm, Norm
from unweave.nn.cpu import LEAK
from unweave.types import Params, UserError

_STATISTICS = {"mean": "running_mean", "var": "running_var"}


def plain_networks(architecture: Architecture, image_shape: ImageShape, head_size: int,
                   code_size: int) -> tuple[nn.Sequential, nn.Sequential]:
    """An encoder from images `[batch, channel, height, width]` in [0, 1] to heads, and a decoder
    from codes to logits of such images, with PyTorch's own initial weights.
    """
    sides: dict[str, nn.Sequential] = {"encoder": nn.Sequential(), "decoder": nn.Sequential()}
    for side, layer, before, after in architecture._walk(image_shape, head_size, code_size):
        network = sides[side]
        if isinstance(layer, Dense):
            if len(before) == 3:
                network.add_module("flatten", nn.Flatten())
            network.add_module(layer.name, nn.Linear(math.prod(before), math.prod(after),
                                                     bias=layer.bias))
        elif isinstance(layer, Conv) and layer.stride == 1:  # 'same', on either side
            start, end = (layer.kernel - 1) // 2, layer.kernel // 2
            network.add_module(f"{layer.name}_edge", nn.ZeroPad2d((start, end, start, end)))
            network.add_module(layer.name, nn.Conv2d(before[-1], after[-1], layer.kernel,
                                                     bias=layer.bias))
        elif isinstance(layer, Conv):
            kind = nn.Conv2d if side == "encoder" else nn.ConvTranspose2d
            network.add_module(layer.name, kind(before[-1], after[-1], layer.kernel, stride=2,
                                                padding=(layer.kernel - 2) // 2, bias=layer.bias))
        elif isinstance(layer, LayerNorm):
            network.add_module(layer.name, nn.LayerNorm(_channels_first(before), eps=EPSILON))
        else:
            kind = nn.BatchNorm2d if len(before) == 3 else nn.BatchNorm1d
            network.add_module(layer.name, kind(before[-1], eps=EPSILON, momentum=MOMENTUM))
        activation = _activation(layer.activation)
        if activation is not None:
            network.add_module(f"{layer.name}_{layer.activation}", activation)
        # A dense layer whose output is an image: the small one that is doubled, or the whole.
        grid = _grid(architecture, side, layer, after, image_shape)
        if grid is not None:
            network.add_module("image", nn.Unflatten(1, (grid[2], grid[0], grid[1])))
    return sides["encoder"], sides["decoder"]


def to_plain(architecture: Architecture, image_shape: ImageShape, head_size: int, code_size: int,
             params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of one run, without the run axis, as state of the two networks:
    `encoder.NAME` and `decoder.NAME`.
    """
    found = {}
    for name, target, turn, _ in _turns(architecture, image_shape, head_size, code_size):
        found[target] = turn(params[name]).contiguous()
        if target.endswith("running_var"):  # PyTorch counts batches; nothing depends on it here
            found[target.replace("running_var", "num_batches_tracked")] = torch.tensor(0)
    return found


def from_plain(architecture: Architecture, image_shape: ImageShape, head_size: int,
               code_size: int, state: Mapping[str, Tensor]) -> Params:
    """The inverse of `to_plain`; a UserError if a weight is missing or has another shape."""
    specs = {**architecture.parameters(image_shape, head_size, code_size),
             **architecture.buffers(image_shape, head_size, code_size)}
    found = {}
    for name, target, _, back in _turns(architecture, image_shape, head_size, code_size):
        if target not in state:
            raise UserError(f"there is no weight {target!r}: these are not the weights of a "
                            f"{architecture.name!r}")
        try:
            tensor = back(state[target].float()).contiguous()
        except (RuntimeError, IndexError):
            tensor = state[target]
        if tuple(tensor.shape) != specs[name].shape:
            raise UserError(f"the weight {target!r} has the shape {list(state[target].shape)}, "
                            f"which is not that of a {architecture.name!r} for images of "
                            f"{'x'.join(map(str, image_shape))}")
        found[name] = tensor
    return found


def _turns(architecture: Architecture, image_shape: ImageShape, head_size: int,
           code_size: int) -> Iterator[tuple]:
    """(our name, PyTorch's name, our tensor to PyTorch's, PyTorch's to ours) of every weight."""
    for side, layer, before, after in architecture._walk(image_shape, head_size, code_size):
        prefix = f"{side}.{layer.name}"
        if isinstance(layer, Norm):
            for ours in ("weight", "bias", "mean", "var"):
                yield f"{prefix}.{ours}", f"{prefix}.{_STATISTICS.get(ours, ours)}", _same, _same
            continue
        if isinstance(layer, LayerNorm):
            turn = (lambda w: w.permute(2, 0, 1)) if len(before) == 3 else _same
            back = (lambda w: w.permute(1, 2, 0)) if len(before) == 3 else _same
            for part in ("weight", "bias"):
                yield f"{prefix}.{part}", f"{prefix}.{part}", turn, back
            continue
        if isinstance(layer, Conv):
            # Both kinds of kernel are [row, column, big, small] here and [small, big, row, column]
            # there: a transposed convolution's inputs are the small side. With stride 1 the inputs
            # are the big side in the decoder too.
            yield (f"{prefix}.weight", f"{prefix}.weight", lambda w: w.permute(3, 2, 0, 1),
                   lambda w: w.permute(2, 3, 1, 0))
            if layer.bias:
                yield f"{prefix}.bias", f"{prefix}.bias", _same, _same
            continue
        rows = _order(before if len(before) == 3 else (before[0],))
        grid = _grid(architecture, side, layer, after, image_shape)
        columns = _order(grid if grid is not None else (math.prod(after),))
        yield (f"{prefix}.weight", f"{prefix}.weight",
               lambda w, r=rows, c=columns: w[r][:, c].T,
               lambda w, r=rows, c=columns: w.T[_inverse(r)][:, _inverse(c)])
        if layer.bias:
            yield (f"{prefix}.bias", f"{prefix}.bias", lambda b, c=columns: b[c],
                   lambda b, c=columns: b[_inverse(c)])


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _grid(architecture: Architecture, side: str, layer: Layer, after: tuple[int, ...],
          image_shape: ImageShape) -> tuple[int, ...] | None:
    """Height, width and channels of a dense layer's output, if it is an image; else None."""
    if side != "decoder" or not isinstance(layer, Dense):
        return None
    if len(after) == 3:
        return after
    return image_shape if layer is architecture.decoder[-1] else None


def _channels_first(shape: tuple[int, ...]) -> list[int]:
    return [shape[2], shape[0], shape[1]] if len(shape) == 3 else list(shape)


def _order(shape: tuple[int, ...]) -> Tensor:
    """For each number of an image channels first, its place in the image channels last."""
    places = torch.arange(math.prod(shape)).reshape(shape)
    return places.permute(2, 0, 1).reshape(-1) if len(shape) == 3 else places


def _inverse(order: Tensor) -> Tensor:
    return torch.argsort(order)


def _activation(name: str) -> nn.Module | None:
    if name == "relu":
        return nn.ReLU()
    if name == "leaky_relu":
        return nn.LeakyReLU(LEAK)
    return nn.Tanh() if name == "tanh" else None
