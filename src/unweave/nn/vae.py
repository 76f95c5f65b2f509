"""One pass of a stack of VAEs, and its halves for inference.

Means, log-variances, codes and logits leave in float32 (float64 for float64 weights) whatever the
precision inside; objectives never see bfloat16.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unweave.nn.architectures import Architecture, ImageShape
from unweave.types import Forward, ImageBatch, LatentBatch, Params, unknown_name

PRECISIONS = ("float32", "bfloat16")


def forward(
    architecture: Architecture,
    params: Params,
    x: ImageBatch,
    noise: LatentBatch,
    *,
    likelihood: str = "bernoulli",
    precision: str = "float32",
) -> Forward:
    """Encode, draw codes z = mu + exp(logvar / 2) * noise, decode.

    Kingma & Welling 2014, eq. 10 is the draw. With "bfloat16" the layers run in it on copies of
    the float32 weights; weights in float64 compute in float64.
    """
    mu, logvar = _posterior(architecture, params, x, precision)
    z = mu + torch.exp(0.5 * logvar) * noise
    logits = _logits(architecture, params, z, tuple(x.shape[-3:]), precision)
    return Forward(x=x, logits=logits, z=z, mu=mu, logvar=logvar, likelihood=likelihood)


@torch.no_grad()
def encode(
    architecture: Architecture, params: Params, x: ImageBatch, *, precision: str = "float32"
) -> tuple[LatentBatch, LatentBatch]:
    """Means and log-variances of the codes of images, without gradients."""
    return _posterior(architecture, params, x, precision)


@torch.no_grad()
def decode(
    architecture: Architecture,
    params: Params,
    z: LatentBatch,
    *,
    image_shape: ImageShape | None = None,
    precision: str = "float32",
) -> ImageBatch:
    """Logits of the images of codes, without gradients.

    `image_shape` is needed where it does not follow from the weights: images that are not square.
    """
    return _logits(architecture, params, z, image_shape, precision)


def _posterior(
    architecture: Architecture, params: Params, x: Tensor, precision: str
) -> tuple[Tensor, Tensor]:
    inside, outside = _dtypes(params, precision)
    head = architecture.encode(params, x.to(inside)).to(outside)
    mu, logvar = head.chunk(2, dim=-1)
    return mu, logvar


def _logits(
    architecture: Architecture,
    params: Params,
    z: Tensor,
    image_shape: ImageShape | None,
    precision: str,
) -> Tensor:
    inside, outside = _dtypes(params, precision)
    return architecture.decode(params, z.to(inside), image_shape).to(outside)


def _dtypes(params: Params, precision: str) -> tuple[torch.dtype, torch.dtype]:
    """The type inside the layers, and the type that leaves them."""
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    outside = next(iter(params.values())).dtype
    return torch.bfloat16 if precision == "bfloat16" else outside, outside
