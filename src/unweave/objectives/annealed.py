"""Capacity that grows during training: AnnealedVAE, which Kaddah calls CC-VAE.

Unusual: `equal_kl`, the experiment of Kaddah 2020, section 5, as a weight that is 0 unless
asked for.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unweave.objectives.elbo import elbo_terms
from unweave.types import Forward, PerRun, PerRunTensor, Positive, Strength, Terms

ACTIVE = 0.01
"""Nats of batch-mean KL above which a latent counts as active."""

_SOFTNESS = 0.0025  # width of the step of `activity` around ACTIVE, in nats


def capacity(step: Tensor | float | int, c_max: PerRun, anneal_steps: PerRun,
             like: PerRunTensor) -> PerRunTensor:
    """C = c_max min(step / anneal_steps, 1), shaped as `like`. Burgess et al. 2018, section 4.

    `step`: updates done so far, a number or a 0-dim tensor; `c_max`: the capacity in the end, in
    nats; `anneal_steps`: updates until then. The first update sees C = 0.
    """
    if isinstance(step, Tensor):
        step = step.to(like.dtype)
    ramp = step / anneal_steps
    ramp = ramp.clamp(max=1.0) if isinstance(ramp, Tensor) else min(ramp, 1.0)
    return torch.zeros_like(like) + c_max * ramp


def activity(kl_latent: Tensor) -> Tensor:
    """How active each latent is, in (0, 1): sigmoid((KL_j - 0.01) / 0.0025), a constant.

    A unit above 0.02 nats has weight above 0.98, a dead one 0.018. Never 0, so that a mean among
    active units exists when none is. No gradient: it would pay a run to switch units off, with a
    slope of 100 per nat at the edge.
    """
    return torch.sigmoid((kl_latent.detach() - ACTIVE) / _SOFTNESS)


def kl_variance(kl_latent: Tensor) -> Tensor:
    """Variance of the KL among active units. Kaddah 2020, section 5, which has no formula.

    sum_j w_j (KL_j - m)^2 / sum_j w_j, with m = sum_j w_j KL_j / sum_j w_j and w = `activity`.
    """
    weight = activity(kl_latent)
    weight = weight / weight.sum(-1, keepdim=True)
    mean = (weight * kl_latent).sum(-1, keepdim=True)
    return (weight * (kl_latent - mean) ** 2).sum(-1)


def annealed_vae(
    out: Forward,
    *,
    gamma: Strength = 1000.0,
    c_max: Strength = 25.0,
    anneal_steps: Positive = 100_000.0,
    equal_kl: Strength = 0.0,
    step: Tensor | float | int,
) -> Terms:
    """KL held at a capacity that grows. Burgess et al. 2018; Kaddah 2020, eq. 3.

    loss = E[-log p(x|z)] + gamma |KL - C| + equal_kl Var_active(KL_j)

    `gamma`: weight of the distance; KL is the batch mean, before the absolute value (Hartmann
    2021, eq. 9, leaves it open; the published study did it so); C is `capacity`, which grows to
    `c_max` nats over `anneal_steps` updates.
    `equal_kl`: weight of the variance of the KL among active units: `kl_variance`.
    """
    terms = elbo_terms(out)
    c = capacity(step, c_max, anneal_steps, terms["kl"])
    variance = kl_variance(terms["kl_latent"])
    loss = terms["recon"] + gamma * (terms["kl"] - c).abs() + equal_kl * variance
    return {"loss": loss} | terms | {"capacity": c, "kl_variance": variance}
