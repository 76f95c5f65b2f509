"""Critics: networks that tell two kinds of codes, or of images, apart.

Their weights are a dictionary of their own, drawn from streams of their own, so that a method with
a critic starts from the same encoder and decoder as one without. Depth is read from the weights.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor

from unweave.nn.blueprint import Architecture, Buffers, ImageShape, Parameter
from unweave.nn.init import draw_params
from unweave.nn.layers import Flow, linear
from unweave.nn.passes import compute_types
from unweave.random import Purpose, Streams
from unweave.types import Float, Params

NUM_CLASSES = 2


def critic_parameters(num_inputs: int, width: int, depth: int) -> dict[str, Parameter]:
    """Name to shape and fans: `depth` hidden layers of `width`, then two logits.

    Six of 1000 in Kim & Mnih 2018, appendix A, and in the runs of the study; Locatello et al.
    2019, table 4b, prints one of 1000.
    """
    found: dict[str, Parameter] = {}
    sizes = [num_inputs, *[width] * depth, NUM_CLASSES]
    for number, (fan_in, fan_out) in enumerate(pairwise(sizes), start=1):
        prefix = f"critic.dense{number}"
        found[f"{prefix}.weight"] = Parameter((fan_in, fan_out), fan_in, fan_out)
        found[f"{prefix}.bias"] = Parameter((fan_out,), fan_in, fan_out, is_bias=True)
    return found


def init_critic(
    num_inputs: int,
    width: int,
    depth: int,
    streams: Streams,
    scheme: str = "glorot",
    purpose: Purpose = Purpose.CRITIC_INIT,
) -> Params:
    """Float32 weights `[run, ...]` by name; the schemes are those of `init_params`."""
    return draw_params(critic_parameters(num_inputs, width, depth), streams, scheme, purpose)


def critic_logits(
    params: Params, z: Float[Tensor, "run batch latent"], *, precision: str = "float32"
) -> Float[Tensor, "run batch 2"]:
    """Logits of the two classes for each code, leaky ReLU between layers. Kim & Mnih, appendix A.

    They leave in float32 (float64 for float64 weights), as everything that objectives see.
    """
    inside, outside = compute_types(params, precision)
    flow = Flow(z.to(inside))
    last = len(params) // 2
    for number in range(1, last + 1):
        weight, bias = params[f"critic.dense{number}.weight"], params[f"critic.dense{number}.bias"]
        flow.add("linear", weight, bias, "none" if number == last else "leaky_relu",
                 out_dtype=outside if number == last else None)
    return flow.result().to(outside)


def init_image_critic(
    architecture: Architecture, image_shape: ImageShape, streams: Streams, scheme: str = "glorot"
) -> Params:
    """The last layer of a critic of images, which shares an encoder's first layers."""
    size = architecture.trunk_size(image_shape)
    return draw_params({"critic.out.weight": Parameter((size, 1), size, 1),
                        "critic.out.bias": Parameter((1,), size, 1, is_bias=True)},
                       streams, scheme, Purpose.CRITIC_INIT)


def judge(
    architecture: Architecture,
    params: Params,
    x: Float[Tensor, "run batch height width channel"],
    *,
    precision: str = "float32",
    buffers: Buffers | None = None,
    train: bool = False,
    with_head: bool = True,
) -> tuple[Float[Tensor, "run batch"], Float[Tensor, "run batch head"] | None]:
    """A critic's output for images, and the encoder's head from the layers that they share.

    `params` are the encoder's and the critic's together; `buffers` and `train` as in `encode_head`.
    """
    inside, outside = compute_types(params, precision)
    shared = architecture.encode_shared(params, x.to(inside), buffers, train)
    out = linear(shared.flatten(2), params["critic.out.weight"], params["critic.out.bias"])
    head = None
    if with_head:
        head = architecture.encode_own(params, shared, buffers, train).to(outside)
    return out[..., 0].to(outside), head
