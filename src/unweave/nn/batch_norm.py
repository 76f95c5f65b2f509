"""Normalisation for a stack of runs: every run by its own batches and statistics.

Beside its weights batch normalisation has running statistics, which are buffers: not trained by
gradients but moved in place by every training pass. As in `layers.py` there is a general path and
one for CPUs. Layer normalisation looks at one image alone and keeps nothing.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.nn.layers import activate, check_activation, on_cpu_path
from unweave.types import Float, UserError

MOMENTUM, EPSILON = 0.1, 1e-5
"""The weight of the newest batch in the running statistics, and what is added to variances: the
defaults of `torch.nn.BatchNorm2d`."""


def norm(
    x: Float[Tensor, "run batch *grid channel"],
    weight: Float[Tensor, "run channel"],
    bias: Float[Tensor, "run channel"],
    mean: Float[Tensor, "run channel"] | None = None,
    var: Float[Tensor, "run channel"] | None = None,
    *,
    train: bool = False,
    activation: str = "none",
) -> Float[Tensor, "run batch *grid channel"]:
    """Batch normalisation of every run, and an activation. Ioffe & Szegedy 2015, algorithm 1.

    With `train` each channel is normalised by its mean and biased variance over the batch and all
    positions, and the running statistics `mean` and `var`, where given, move in place towards
    these (the variance unbiased, as in `torch.nn.BatchNorm2d`). Without, by the running ones.
    Statistics are in the type of the weights, whatever the type of x.
    """
    check_activation(activation)
    count = math.prod(x.shape[1:-1])
    if train and count < 2:
        raise UserError("batch normalisation cannot train on one value a channel: "
                        "use a batch size of 2 or more")
    if not train and (mean is None or var is None):
        raise UserError("batch normalisation outside of training needs its running statistics: "
                        "pass the buffers")
    if on_cpu_path(x):
        return activate(_norm_by_run(x, weight, bias, mean, var, train), activation)
    v = x.to(weight.dtype)
    if train:
        over = tuple(range(1, x.ndim - 1))
        spread, centre = torch.var_mean(v, dim=over, correction=0)
        if mean is not None and var is not None:
            with torch.no_grad():
                mean.mul_(1.0 - MOMENTUM).add_(MOMENTUM * centre)
                var.mul_(1.0 - MOMENTUM).add_(MOMENTUM * count / (count - 1) * spread)
    else:
        centre, spread = mean.to(v.dtype), var.to(v.dtype)
    each = (slice(None), *(None,) * (x.ndim - 2))
    y = (v - centre[each]) * (torch.rsqrt(spread + EPSILON) * weight)[each] + bias[each]
    return activate(y.to(x.dtype), activation)


def layer_norm(
    x: Float[Tensor, "run batch *grid channel"],
    weight: Float[Tensor, "run *grid channel"],
    bias: Float[Tensor, "run *grid channel"],
    *,
    activation: str = "none",
) -> Float[Tensor, "run batch *grid channel"]:
    """Layer normalisation of every image, and an activation. Ba et al. 2016, eq. 4.

    Mean and biased variance are over all that the layer gives for an image. Tensor operations on
    every path: a gradient penalty needs second derivatives.
    """
    check_activation(activation)
    v = x.to(weight.dtype)
    over = tuple(range(2, x.ndim))
    spread, centre = torch.var_mean(v, dim=over, correction=0, keepdim=True)
    y = (v - centre) * torch.rsqrt(spread + EPSILON) * weight[:, None] + bias[:, None]
    return activate(y.to(x.dtype), activation)


def _norm_by_run(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor | None, var: Tensor | None, train: bool
) -> Tensor:
    """The CPU path: PyTorch's own, a run at a time."""
    outputs = []
    for m, run in enumerate(x):
        # Channels second, as a permuted view: the layout for which PyTorch's loops are fast.
        first = run.permute(0, 3, 1, 2) if run.ndim == 4 else run
        running = (None, None) if mean is None or var is None else (mean[m], var[m])
        y = F.batch_norm(first, *running, weight[m], bias[m], train, MOMENTUM, EPSILON)
        outputs.append(y.permute(0, 2, 3, 1) if run.ndim == 4 else y)
    return torch.stack(outputs)
