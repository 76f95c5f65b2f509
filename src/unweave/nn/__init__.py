"""Networks for stacks of runs: layers with a leading run axis, architectures, the VAE's pass."""

from unweave.nn.architectures import ARCHITECTURES, Architecture, Conv, Dense, Parameter
from unweave.nn.cpu import has_bfloat16_units, keep_freed_memory
from unweave.nn.init import init_params
from unweave.nn.layers import conv, conv_transpose, linear, path
from unweave.nn.vae import PRECISIONS, decode, encode, forward

__all__ = [
    "ARCHITECTURES",
    "PRECISIONS",
    "Architecture",
    "Conv",
    "Dense",
    "Parameter",
    "conv",
    "conv_transpose",
    "decode",
    "encode",
    "forward",
    "has_bfloat16_units",
    "init_params",
    "keep_freed_memory",
    "linear",
    "path",
]
