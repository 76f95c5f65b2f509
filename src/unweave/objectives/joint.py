"""JointVAE: continuous and categorical latents, each with a capacity of its own."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unweave.objectives.annealed import capacity
from unweave.objectives.elbo import elbo_terms
from unweave.types import Forward, Positive, Strength, Terms


def category_kl(logits: Tensor) -> Tensor:
    """KL(Categorical(softmax(logits)) || uniform) = log K - H, in nats, of every image."""
    log_p = torch.log_softmax(logits, -1)
    return (log_p.exp() * (log_p + math.log(logits.shape[-1]))).sum(-1)


def joint_vae(
    out: Forward,
    *,
    gamma_z: Strength = 30.0,
    c_max_z: Strength = 5.0,
    gamma_c: Strength = 30.0,
    c_max_c: Strength = 5.0,
    anneal_steps: Positive = 25_000.0,
    step: Tensor | float | int,
) -> Terms:
    """Capacities for continuous and categorical latents. Dupont 2018, eq. 7; Kaddah 2020, 2.2.

    loss = E[-log p(x|z,c)] + gamma_z |KL(q(z|x) || N(0, I)) - C_z|
                            + gamma_c |KL(q(c|x) || uniform) - C_c|

    `gamma_z`, `gamma_c`: weights; C_z and C_c grow to `c_max_z` and `c_max_c` nats over
    `anneal_steps` updates, both KLs are batch means. C_c stops at sum_i log K_i, all that
    categorical latents of K_i values can carry, so a c_max_c beyond it is no extra pressure. KLs
    of the categories are exact, of the class probabilities and not of the relaxed samples.
    """
    terms = elbo_terms(out)
    each = torch.stack([category_kl(logits).mean(-1) for logits in out.category_logits], -1)
    kl_category = each.sum(-1)
    most = sum(math.log(logits.shape[-1]) for logits in out.category_logits)
    capacity_z = capacity(step, c_max_z, anneal_steps, terms["kl"])
    capacity_c = capacity(step, c_max_c, anneal_steps, kl_category).clamp(max=most)
    loss = (terms["recon"] + gamma_z * (terms["kl"] - capacity_z).abs()
            + gamma_c * (kl_category - capacity_c).abs())
    return {"loss": loss} | terms | {
        "elbo": terms["elbo"] - kl_category, "kl_category": kl_category,
        "kl_category_latent": each, "capacity_z": capacity_z, "capacity_c": capacity_c,
    }
