"""Networks for stacks of runs: layers with a leading run axis, architectures, passes, critics."""

from unweave.nn.architectures import ARCHITECTURES
from unweave.nn.batch_norm import layer_norm, norm
from unweave.nn.blueprint import (
    Architecture,
    Buffer,
    Buffers,
    Conv,
    Dense,
    ImageShape,
    LayerNorm,
    Norm,
    Parameter,
)
from unweave.nn.cpu import has_bfloat16_units, keep_freed_memory
from unweave.nn.critic import (
    critic_logits,
    critic_parameters,
    init_critic,
    init_image_critic,
    judge,
)
from unweave.nn.init import init_buffers, init_params
from unweave.nn.layers import chosen_path, conv, conv_same, conv_transpose, linear, path
from unweave.nn.passes import PRECISIONS, decode, encode_head, image_nats

__all__ = [
    "ARCHITECTURES",
    "PRECISIONS",
    "Architecture",
    "Buffer",
    "Buffers",
    "Conv",
    "Dense",
    "ImageShape",
    "LayerNorm",
    "Norm",
    "Parameter",
    "chosen_path",
    "conv",
    "conv_same",
    "conv_transpose",
    "critic_logits",
    "critic_parameters",
    "decode",
    "encode_head",
    "has_bfloat16_units",
    "image_nats",
    "init_buffers",
    "init_critic",
    "init_image_critic",
    "init_params",
    "judge",
    "keep_freed_memory",
    "layer_norm",
    "linear",
    "norm",
    "path",
]
