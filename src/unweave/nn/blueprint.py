"""What an architecture is made of: layers as records, and the short functions that read them.

Nothing here is drawn or trained. `parameters` and `buffers` say which tensors a network needs,
without the run axis; `encode` and `decode` compute with them. Weights are named
"encoder.conv1.weight", running statistics "encoder.norm1.mean".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unweave.nn.batch_norm import layer_norm, norm
from unweave.nn.layers import Flow, conv_same
from unweave.types import Float, Params, UserError

ImageShape = tuple[int, int, int]

Buffers = dict[str, Tensor]
"""Running statistics by name, each `[run, channel]`; training updates them in place."""


class Parameter(NamedTuple):
    """The shape of a weight of one run, and what its initialisation needs.

    Fans are those that TensorFlow and PyTorch compute, which for a transposed convolution count
    the output channels as inputs.
    """

    shape: tuple[int, ...]
    fan_in: int
    fan_out: int
    is_bias: bool = False
    fill: float | None = None
    """A constant to start from, whatever the scheme."""


class Buffer(NamedTuple):
    """The shape of a running statistic of one run, and the value that it starts from."""

    shape: tuple[int, ...]
    fill: float


@dataclass(frozen=True)
class Dense:
    """A dense layer.

    `features` None means what the place asks for: the head at the end of an encoder, all pixels
    at the end of a decoder. Before a decoder's first `Conv`, `features` are channels of the small
    image that it starts from.
    """

    name: str
    features: int | None = None
    activation: str = "relu"
    bias: bool = True


@dataclass(frozen=True)
class Conv:
    """A convolution with stride 2 that halves the image; in a decoder, one that doubles it.

    `channels` None means: as many as the image has. With stride 1, on either side, it keeps the
    size.
    """

    name: str
    channels: int | None = None
    kernel: int = 4
    activation: str = "relu"
    bias: bool = True
    stride: int = 2


@dataclass(frozen=True)
class Norm:
    """Batch normalisation of each channel, with a scale and a shift. Ioffe & Szegedy 2015.

    The layer before needs no bias: its effect would be subtracted again, its gradient is
    rounding alone, and Adam would scale that up to full steps.
    """

    name: str
    activation: str = "relu"


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalisation of all that the layer before gives for an image. Ba et al. 2016."""

    name: str
    activation: str = "relu"


Layer = Dense | Conv | Norm | LayerNorm
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Architecture:
    """An encoder from images to a head, and a decoder from codes to logits.

    A head is whatever the posterior reads (for a Gaussian one means and log-variances, twice the
    number of latents); a code is what it draws (the latents).
    """

    name: str
    paper: str
    encoder: tuple[Layer, ...]
    decoder: tuple[Layer, ...]
    trunk: str = ""
    """The last of the encoder's layers that a critic of images shares; all but the head if empty.
    """

    @property
    def num_shared(self) -> int:
        """How many of the encoder's layers a critic of images shares."""
        names = [layer.name for layer in self.encoder]
        return names.index(self.trunk) + 1 if self.trunk else len(names) - 1

    def trunk_size(self, image_shape: ImageShape) -> int:
        """Numbers for an image that a critic gets from the layers that it shares."""
        shapes = [out for side, *_, out in self._walk(image_shape, 1, 1) if side == "encoder"]
        return math.prod(shapes[self.num_shared - 1])

    def parameters(
        self, image_shape: ImageShape, head_size: int, code_size: int
    ) -> dict[str, Parameter]:
        """Name to shape and fans, for images (height, width, channels)."""
        found: dict[str, Parameter] = {}
        for side, layer, shape, out in self._walk(image_shape, head_size, code_size):
            prefix = f"{side}.{layer.name}"
            if isinstance(layer, Norm | LayerNorm):
                own = shape[-1:] if isinstance(layer, Norm) else shape
                found[f"{prefix}.weight"] = Parameter(own, 1, 1, fill=1.0)
                found[f"{prefix}.bias"] = Parameter(own, 1, 1, is_bias=True, fill=0.0)
                continue
            if isinstance(layer, Dense):
                weight: Shape = (math.prod(shape), math.prod(out))
                fans, num_biases = weight, weight[1]
            else:
                forwards = side == "encoder" or layer.stride == 1
                big, small = (shape, out) if forwards else (out, shape)
                weight = (layer.kernel, layer.kernel, big[-1], small[-1])
                fans = layer.kernel**2 * big[-1], layer.kernel**2 * small[-1]
                num_biases = out[-1]
            found[f"{prefix}.weight"] = Parameter(weight, *fans)
            if layer.bias:
                found[f"{prefix}.bias"] = Parameter((num_biases,), *fans, is_bias=True)
        return found

    def buffers(
        self, image_shape: ImageShape, head_size: int, code_size: int
    ) -> dict[str, Buffer]:
        """Name to shape and first value of the running statistics; empty without a `Norm`."""
        found: dict[str, Buffer] = {}
        for side, layer, shape, _ in self._walk(image_shape, head_size, code_size):
            if isinstance(layer, Norm):
                found[f"{side}.{layer.name}.mean"] = Buffer(shape[-1:], 0.0)
                found[f"{side}.{layer.name}.var"] = Buffer(shape[-1:], 1.0)
        return found

    def num_activations(
        self, image_shape: ImageShape, head_size: int, code_size: int
    ) -> int:
        """Numbers that the layers give for one image, all together."""
        return sum(math.prod(out) for *_, out in self._walk(image_shape, head_size, code_size))

    def encode(
        self,
        params: Params,
        x: Float[Tensor, "run batch height width channel"],
        buffers: Buffers | None = None,
        train: bool = False,
        head_dtype: torch.dtype | None = None,
    ) -> Float[Tensor, "run batch _"]:
        """The head `[run, batch, head_size]`. Computes in the type of x.

        `head_dtype` is the type of the head where a path can give more than that of x.
        """
        return self._encoded(params, Flow(x), self.encoder, buffers, train, head_dtype)

    def encode_shared(
        self,
        params: Params,
        x: Float[Tensor, "run batch height width channel"],
        buffers: Buffers | None = None,
        train: bool = False,
    ) -> Float[Tensor, "run batch *shape"]:
        """What a critic gets to see of images; `encode_own` goes on from there to the head."""
        return self._encoded(params, Flow(x), self.encoder[:self.num_shared], buffers, train)

    def encode_own(
        self,
        params: Params,
        shared: Float[Tensor, "run batch *shape"],
        buffers: Buffers | None = None,
        train: bool = False,
    ) -> Float[Tensor, "run batch _"]:
        """The head, from what `encode_shared` gave."""
        return self._encoded(params, Flow(shared), self.encoder[self.num_shared:], buffers, train)

    def _encoded(self, params: Params, flow: Flow, layers: tuple[Layer, ...],
                 buffers: Buffers | None, train: bool,
                 head_dtype: torch.dtype | None = None) -> Tensor:
        given = flow.shape
        for layer in layers:
            if isinstance(layer, Norm | LayerNorm) or _keeps_size(layer):
                flow = Flow(_plainly(layer, "encoder", params, flow.result(), buffers, train))
                continue
            weight, bias = _weights(params, "encoder", layer.name)
            is_dense = isinstance(layer, Dense)
            inputs = math.prod(flow.shape[2:]) if is_dense else flow.shape[-1]
            if inputs != weight.shape[-2]:
                size = "x".join(map(str, given[2:]))
                raise UserError(f"images of {size} do not fit these weights of {self.name!r}: "
                                "they were made for another image size")
            flow.add("linear" if is_dense else "conv", weight, bias, layer.activation,
                     out_dtype=head_dtype if layer is self.encoder[-1] else None)
        return flow.result()

    def decode(
        self,
        params: Params,
        code: Float[Tensor, "run batch code"],
        image_shape: ImageShape | None = None,
        buffers: Buffers | None = None,
        train: bool = False,
        logits_dtype: torch.dtype | None = None,
    ) -> Float[Tensor, "run batch _ _ _"]:
        """Logits `[run, batch, height, width, channel]`.

        They are in `logits_dtype` (if None, the type of the weights), or in that of the code where
        the last layer is dense and its path cannot give more.
        `image_shape` is needed only where the image is not square.
        """
        flow = Flow(code)
        last, start = self.decoder[-1], self._image_start()
        for layer in self.decoder:
            if isinstance(layer, Norm | LayerNorm) or _keeps_size(layer):
                flow = Flow(_plainly(layer, "decoder", params, flow.result(), buffers, train))
                continue
            weight, bias = _weights(params, "decoder", layer.name)
            out_dtype = (logits_dtype or weight.dtype) if layer is last else None
            if isinstance(layer, Conv):
                flow.add("conv_transpose", weight, bias, layer.activation, out_dtype=out_dtype)
                continue
            if flow.shape[-1] != weight.shape[-2]:
                raise UserError(f"codes of {flow.shape[-1]} numbers do not fit these weights of "
                                f"{self.name!r}: they were made for {weight.shape[-2]}")
            grid = None
            if layer is start or layer is last:
                grid = self._grid(weight.shape[-1], layer.features, image_shape)
            flow.add("linear", weight, bias, layer.activation, out_dtype=out_dtype, grid=grid)
        return flow.result()

    def _image_start(self) -> Dense | None:
        """The dense layer whose output is the small image that the decoder's `Conv`s double."""
        found = None
        for layer in self.decoder:
            if isinstance(layer, Conv):
                return found
            if isinstance(layer, Dense):
                found = layer
        return None

    def _grid(
        self, size: int, channels: int | None, image_shape: ImageShape | None
    ) -> ImageShape:
        """Rows, columns and channels of a dense layer's output; channels None: grey, or colour."""
        if image_shape is not None:
            scale = 2 ** _halvings(self.decoder)
            grid = (image_shape[0] // scale, image_shape[1] // scale)
            channels = channels or image_shape[2]
        else:
            if channels is None:
                channels = 1 if math.isqrt(size) ** 2 == size else 3
            grid = (math.isqrt(size // channels),) * 2
        if grid[0] * grid[1] * channels != size:
            wrong = "these weights make images that are not square"
            if image_shape is not None:
                wrong = f"these weights do not make images of {'x'.join(map(str, image_shape))}"
            raise UserError(f"{wrong}: pass the image_shape that they were made for")
        return (*grid, channels)

    def _walk(
        self, image_shape: ImageShape, head_size: int, code_size: int
    ) -> Iterator[tuple[str, Layer, Shape, Shape]]:
        """Every layer with its side and the shapes of its input and output."""
        height, width, num_channels = image_shape
        halvings = max(_halvings(self.encoder), _halvings(self.decoder))
        if height % 2**halvings or width % 2**halvings:
            raise UserError(
                f"images of {height}x{width} do not fit {self.name!r}: "
                f"height and width must be multiples of {2**halvings}"
            )
        shape: Shape = image_shape
        for layer in self.encoder:
            out = shape
            if isinstance(layer, Dense):
                out = (layer.features or head_size,)
            elif isinstance(layer, Conv):
                out = (shape[0] // layer.stride, shape[1] // layer.stride,
                       layer.channels or num_channels)
            yield "encoder", layer, shape, out
            shape = out
        shape, start = (code_size,), self._image_start()
        doublings = _halvings(self.decoder)
        for layer in self.decoder:
            out = shape
            if layer is start:
                out = (height // 2**doublings, width // 2**doublings, layer.features or 1)
            elif isinstance(layer, Dense):
                out = (layer.features or math.prod(image_shape),)
            elif isinstance(layer, Conv):
                out = (shape[0] * layer.stride, shape[1] * layer.stride,
                       layer.channels or num_channels)
            yield "decoder", layer, shape, out
            shape = out


def _weights(params: Params, side: str, name: str) -> tuple[Tensor, Tensor | None]:
    return params[f"{side}.{name}.weight"], params.get(f"{side}.{name}.bias")


def _keeps_size(layer: Layer) -> bool:
    return isinstance(layer, Conv) and layer.stride == 1


def _halvings(layers: tuple[Layer, ...]) -> int:
    return sum(isinstance(layer, Conv) and layer.stride == 2 for layer in layers)


def _plainly(
    layer: Norm | LayerNorm | Conv, side: str, params: Params, h: Tensor, buffers: Buffers | None,
    train: bool
) -> Tensor:
    """Layers that no chain takes."""
    prefix = f"{side}.{layer.name}"
    if isinstance(layer, Conv):
        return conv_same(h, *_weights(params, side, layer.name), activation=layer.activation)
    if isinstance(layer, LayerNorm):
        return layer_norm(h, params[f"{prefix}.weight"], params[f"{prefix}.bias"],
                          activation=layer.activation)
    mean = var = None
    if buffers is not None:
        mean, var = buffers[f"{prefix}.mean"], buffers[f"{prefix}.var"]
    weight, bias = params[f"{prefix}.weight"], params[f"{prefix}.bias"]
    return norm(h, weight, bias, mean, var, train=train, activation=layer.activation)
