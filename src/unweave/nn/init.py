"""Initial weights, each run from its own stream.

The draw of a parameter is numbered by a checksum of its name: its values depend on the run's seed,
its name and its shape, not on the order of the parameters or on other runs of the stack.
"""

from __future__ import annotations

import math
from zlib import crc32

import torch

from unweave.nn.architectures import Architecture, ImageShape, Parameter
from unweave.random import Purpose, Streams
from unweave.types import Params, unknown_name

SCHEMES = ("glorot", "pytorch")


def init_params(
    architecture: Architecture,
    image_shape: ImageShape,
    num_latents: int,
    streams: Streams,
    scheme: str = "glorot",
    purpose: Purpose = Purpose.INIT,
) -> Params:
    """Float32 weights `[run, ...]` by name.

    "glorot": uniform within sqrt(6 / (fan_in + fan_out)), biases zero, as Keras does and the
    study did (Glorot & Bengio 2010, eq. 16). "pytorch": weights and biases uniform within
    1 / sqrt(fan_in), the default of `torch.nn.Linear` and `torch.nn.Conv2d`.
    """
    if scheme not in SCHEMES:
        raise unknown_name("initialisation", scheme, SCHEMES)
    params = {}
    for name, spec in architecture.parameters(image_shape, num_latents).items():
        bound = _bound(spec, scheme)
        if bound == 0.0:
            shape = (len(streams.seeds), *spec.shape)
            params[name] = torch.zeros(shape, device=streams.device)
        else:
            draw = streams.uniform(purpose, crc32(name.encode()), *spec.shape)
            params[name] = draw.mul_(2.0 * bound).sub_(bound)
    return params


def _bound(spec: Parameter, scheme: str) -> float:
    if scheme == "pytorch":
        return 1.0 / math.sqrt(spec.fan_in)
    return 0.0 if spec.is_bias else math.sqrt(6.0 / (spec.fan_in + spec.fan_out))
