"""Encoders and decoders by name: a tuple of layers each, read by three short functions.

To add an architecture, write a function that returns an `Architecture` and a line in
`ARCHITECTURES`. Weights are named "encoder.conv1.weight", without the run axis in `parameters`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from unweave.nn.layers import conv, conv_transpose, linear
from unweave.types import Float, Params, UserError, unknown_name

ImageShape = tuple[int, int, int]


class Parameter(NamedTuple):
    """The shape of a weight of one run, and the fans that its initialisation needs.

    Fans are those that TensorFlow and PyTorch compute, which for a transposed convolution count
    the output channels as inputs.
    """

    shape: tuple[int, ...]
    fan_in: int
    fan_out: int
    is_bias: bool = False


@dataclass(frozen=True)
class Dense:
    """A dense layer.

    `features` None means what the place asks for: two numbers a latent at the end of an encoder,
    all pixels at the end of a decoder. Before a decoder's first `Conv`, `features` are channels of
    the small image that it starts from.
    """

    name: str
    features: int | None = None
    relu: bool = True


@dataclass(frozen=True)
class Conv:
    """A convolution with stride 2 that halves the image; in a decoder, one that doubles it.

    `channels` None means: as many as the image has.
    """

    name: str
    channels: int | None = None
    kernel: int = 4
    relu: bool = True


@dataclass(frozen=True)
class Architecture:
    """An encoder and a decoder. The encoder's last layer gives mean and log-variance."""

    name: str
    paper: str
    encoder: tuple[Dense | Conv, ...]
    decoder: tuple[Dense | Conv, ...]

    def parameters(self, image_shape: ImageShape, num_latents: int) -> dict[str, Parameter]:
        """Name to shape and fans, for images (height, width, channels)."""
        found: dict[str, Parameter] = {}
        for side, layer, shape, out in self._walk(image_shape, num_latents):
            prefix = f"{side}.{layer.name}"
            if isinstance(layer, Dense):
                weight = (math.prod(shape), out[0])
                fans = weight
            else:
                big, small = (shape, out) if side == "encoder" else (out, shape)
                weight = (layer.kernel, layer.kernel, big[-1], small[-1])
                fans = layer.kernel**2 * big[-1], layer.kernel**2 * small[-1]
            found[f"{prefix}.weight"] = Parameter(weight, *fans)
            found[f"{prefix}.bias"] = Parameter((out[-1],), *fans, is_bias=True)
        return found

    def encode(
        self, params: Params, x: Float[Tensor, "run batch height width channel"]
    ) -> Float[Tensor, "run batch _"]:
        """`[run, batch, 2 * latent]`: means, then log-variances. Computes in the type of x."""
        h: Tensor = x
        for layer in self.encoder:
            weight, bias = _weights(params, "encoder", layer.name)
            if isinstance(layer, Dense):
                h = linear(h.flatten(2), weight, bias, relu=layer.relu)
            else:
                h = conv(h, weight, bias, relu=layer.relu)
        return h

    def decode(
        self,
        params: Params,
        z: Float[Tensor, "run batch latent"],
        image_shape: ImageShape | None = None,
    ) -> Float[Tensor, "run batch _ _ _"]:
        """Logits `[run, batch, height, width, channel]` in the type of the weights.

        `image_shape` is needed only where the image is not square.
        """
        h: Tensor = z
        last = self.decoder[-1]
        for layer in self.decoder:
            weight, bias = _weights(params, "decoder", layer.name)
            if isinstance(layer, Dense):
                h = linear(h, weight, bias, relu=layer.relu)
                continue
            if h.ndim == 3:
                h = self._as_image(h, weight.shape[-1], image_shape)
            out_dtype = weight.dtype if layer is last else None
            h = conv_transpose(h, weight, bias, relu=layer.relu, out_dtype=out_dtype)
        return h if h.ndim == 5 else self._as_image(h, 1, image_shape)

    def _as_image(self, h: Tensor, channels: int, image_shape: ImageShape | None) -> Tensor:
        """Give the dense layers' output back its rows and columns."""
        if image_shape is None:
            side = math.isqrt(h.shape[-1] // channels)
            return h.unflatten(-1, (side, side, channels))
        scale = 2 ** sum(isinstance(layer, Conv) for layer in self.decoder)
        return h.unflatten(-1, (image_shape[0] // scale, image_shape[1] // scale, -1))

    def _walk(
        self, image_shape: ImageShape, num_latents: int
    ) -> Iterator[tuple[str, Dense | Conv, tuple[int, ...], tuple[int, ...]]]:
        """Every layer with its side and the shapes of its input and output."""
        height, width, _ = image_shape
        halvings = max(
            sum(isinstance(layer, Conv) for layer in side) for side in (self.encoder, self.decoder)
        )
        if height % 2**halvings or width % 2**halvings:
            raise UserError(
                f"images of {height}x{width} do not fit {self.name!r}: "
                f"height and width must be multiples of {2**halvings}"
            )
        shape: tuple[int, ...] = image_shape
        for layer in self.encoder:
            if isinstance(layer, Dense):
                out: tuple[int, ...] = (layer.features or 2 * num_latents,)
            else:
                out = (shape[0] // 2, shape[1] // 2, layer.channels or shape[2])
            yield "encoder", layer, shape, out
            shape = out
        shape = (num_latents,)
        doublings = sum(isinstance(layer, Conv) for layer in self.decoder)
        grid = (height // 2**doublings, width // 2**doublings)
        for layer, after in zip(self.decoder, (*self.decoder[1:], None)):
            if isinstance(layer, Dense):
                before_image = isinstance(after, Conv)
                features = layer.features or math.prod(image_shape)
                out = (grid[0] * grid[1] * features,) if before_image else (features,)
            else:
                if len(shape) == 1:
                    shape = (*grid, shape[0] // (grid[0] * grid[1]))
                out = (shape[0] * 2, shape[1] * 2, layer.channels or image_shape[2])
            yield "decoder", layer, shape, out
            shape = out


def _weights(params: Params, side: str, name: str) -> tuple[Tensor, Tensor]:
    return params[f"{side}.{name}.weight"], params[f"{side}.{name}.bias"]


def _conv64(name: str, paper: str, *, late_kernel: int = 4, narrow: int = 1) -> Architecture:
    thin, thick, dense = 32 // narrow, 64 // narrow, 256 // narrow
    return Architecture(
        name=name,
        paper=paper,
        encoder=(
            Conv("conv1", thin),
            Conv("conv2", thin),
            Conv("conv3", thick, kernel=late_kernel),
            Conv("conv4", thick, kernel=late_kernel),
            Dense("dense1", dense),
            Dense("dense2", relu=False),
        ),
        decoder=(
            Dense("dense1", dense),
            Dense("dense2", thick),
            Conv("deconv1", thick),
            Conv("deconv2", thin),
            Conv("deconv3", thin),
            Conv("deconv4", relu=False),
        ),
    )


def conv64() -> Architecture:
    """The network of the field's papers. Locatello et al. 2019, table 2."""
    return _conv64("conv64", "Locatello et al. 2019, table 2")


def conv64_study2019() -> Architecture:
    """What produced the published runs: encoder convolutions 3 and 4 are 2x2, not 4x4."""
    paper = "Locatello et al. 2019, table 2 as it was run: encoder convolutions 3 and 4 are 2x2"
    return _conv64("conv64-study2019", paper, late_kernel=2)


def conv64_small() -> Architecture:
    """Ours: conv64 with half the channels, about a quarter of its work, for CPUs and first looks."""
    return _conv64("conv64-small", "unweave: conv64 with half the channels", narrow=2)


ARCHITECTURES: dict[str, Architecture] = {
    "conv64": conv64(),
    "conv64-study2019": conv64_study2019(),
    "conv64-small": conv64_small(),
}


def architecture(name: str) -> Architecture:
    """The architecture of that name; an unknown one raises, with the near misses."""
    if name not in ARCHITECTURES:
        raise unknown_name("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]
