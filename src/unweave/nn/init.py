"""Initial weights, each run from its own stream.

The draw of a parameter is numbered by a checksum of its name: its values depend on the run's seed,
its name and its shape, not on the order of the parameters or on other runs of the stack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from zlib import crc32

import torch

from unweave.nn.blueprint import Architecture, Buffers, ImageShape, Parameter
from unweave.random import Purpose, Streams
from unweave.types import Params, unknown_name

SCHEMES = ("glorot", "pytorch")


def init_params(
    architecture: Architecture,
    image_shape: ImageShape,
    head_size: int,
    code_size: int,
    streams: Streams,
    scheme: str = "glorot",
    purpose: Purpose = Purpose.INIT,
) -> Params:
    """Float32 weights `[run, ...]` by name, for `Architecture.parameters` of these sizes.

    "glorot": uniform within sqrt(6 / (fan_in + fan_out)), biases zero, as Keras does and the
    study did (Glorot & Bengio 2010, eq. 16). "pytorch": weights and biases uniform within
    1 / sqrt(fan_in), the default of `torch.nn.Linear` and `torch.nn.Conv2d`.
    """
    specs = architecture.parameters(image_shape, head_size, code_size)
    return draw_params(specs, streams, scheme, purpose)


def init_buffers(
    architecture: Architecture,
    image_shape: ImageShape,
    head_size: int,
    code_size: int,
    num_runs: int,
    device: torch.device | str = "cpu",
) -> Buffers:
    """Running statistics `[run, channel]` by name, float32; empty where nothing is normalised."""
    specs = architecture.buffers(image_shape, head_size, code_size)
    return {name: torch.full((num_runs, *spec.shape), spec.fill, device=device)
            for name, spec in specs.items()}


def draw_params(
    specs: Mapping[str, Parameter], streams: Streams, scheme: str, purpose: Purpose
) -> Params:
    """Float32 weights `[run, ...]` by name, for any network; see `init_params`."""
    if scheme not in SCHEMES:
        raise unknown_name("initialisation", scheme, SCHEMES)
    params = {}
    for name, spec in specs.items():
        bound = _bound(spec, scheme)
        if spec.fill is not None or bound == 0.0:
            shape = (len(streams.seeds), *spec.shape)
            params[name] = torch.full(shape, spec.fill or 0.0, device=streams.device)
        else:
            draw = streams.uniform(purpose, crc32(name.encode()), *spec.shape)
            params[name] = draw.mul_(2.0 * bound).sub_(bound)
    return params


def _bound(spec: Parameter, scheme: str) -> float:
    if scheme == "pytorch":
        return 1.0 / math.sqrt(spec.fan_in)
    return 0.0 if spec.is_bias else math.sqrt(6.0 / (spec.fan_in + spec.fan_out))
