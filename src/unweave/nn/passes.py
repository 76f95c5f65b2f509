"""The two halves of a pass of a stack of VAEs: images to heads, codes to logits.

What lies between is the posterior's: it reads a head and draws a code. Heads and logits leave in
float32 (float64 for float64 weights) whatever the precision inside; objectives never see bfloat16.
Gradients flow; for inference call these under `torch.inference_mode()`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unweave.nn import autograd
from unweave.nn.blueprint import Architecture, Buffers, ImageShape
from unweave.nn.layers import chosen_path
from unweave.types import Float, Params, unknown_name

PRECISIONS = ("float32", "bfloat16")


def encode_head(
    architecture: Architecture,
    params: Params,
    x: Float[Tensor, "run batch height width channel"],
    *,
    precision: str = "float32",
    buffers: Buffers | None = None,
    train: bool = False,
) -> Float[Tensor, "run batch head"]:
    """The encoder's raw output for images in [0, 1].

    With "bfloat16" the layers run in it on copies of the float32 weights; weights in float64
    compute in float64. `buffers` and `train` matter to architectures with batch normalisation:
    `train` normalises by the batch and moves the buffers in place, where they are passed.
    """
    inside, outside = compute_types(params, precision)
    head = architecture.encode(params, x.to(inside), buffers, train, head_dtype=outside)
    return head.to(outside)


def decode(
    architecture: Architecture,
    params: Params,
    code: Float[Tensor, "run batch code"],
    *,
    image_shape: ImageShape | None = None,
    precision: str = "float32",
    buffers: Buffers | None = None,
    train: bool = False,
) -> Float[Tensor, "run batch height width channel"]:
    """Logits of the images of codes; the other arguments are as in `encode_head`.

    `image_shape` is needed where it does not follow from the weights: images that are not square.
    """
    inside, outside = compute_types(params, precision)
    logits = architecture.decode(params, code.to(inside), image_shape, buffers, train,
                                 logits_dtype=outside)
    return logits.to(outside)


def image_nats(
    logits: Float[Tensor, "run batch height width channel"],
    x: Float[Tensor, "run batch height width channel"],
    likelihood: str,
) -> Float[Tensor, "run batch"] | None:
    """-log p(x|z) of every image, if the path of the layers has a kernel for it, else None."""
    if likelihood == "bernoulli" and chosen_path(logits) == "triton":
        return autograd.bernoulli_nats(logits, x)
    return None


def compute_types(params: Params, precision: str) -> tuple[torch.dtype, torch.dtype]:
    """The type inside the layers, and the type that leaves them: bfloat16 never does."""
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    outside = next(iter(params.values())).dtype
    if outside == torch.bfloat16:  # a copy of float32 weights, made for the layers
        outside = torch.float32
    return torch.bfloat16 if precision == "bfloat16" else outside, outside
