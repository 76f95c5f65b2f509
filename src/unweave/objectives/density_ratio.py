"""Divergences by a discriminator: FactorVAE, its variant with the prior, AAE.

A critic tells codes of q(z), class 0, from those of another distribution r(z), class 1; the
difference of its two logits estimates log q(z) / r(z) (Kim & Mnih 2018, eq. 3). The trainer owns
the critic's network and optimiser. The two networks must not move each other: the critic learns
from `Critic.samples`, which are cut off from the encoder, and the encoder's objective sees logits
computed with `frozen` weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.objectives.elbo import elbo_terms
from unweave.objectives.letter import Count, Decay
from unweave.types import Forward, LatentBatch, Params, PerRun, Positive, Strength, Terms


class CriticPlan(NamedTuple):
    """What the trainer needs to build and train a critic."""

    rate: PerRun
    beta1: float
    beta2: float
    width: int
    depth: int
    second_batch: bool
    """Whether the codes of the other class are made from a batch of their own."""
    after_step: bool = False
    """Whether that batch is encoded by the weights after the step, not by those before it."""


@dataclass(frozen=True)
class Critic:
    """A discriminator: whom it compares, what it minimises, and its letters."""

    negatives: Callable[[Tensor, Tensor], Tensor]
    """(codes, uniform numbers in [0, 1) of their shape) -> codes of the other distribution."""
    plan: Callable[..., CriticPlan]
    """Its keyword-only parameters are the critic's letters."""
    loss: Callable[[Tensor, Tensor], Terms]
    """(logits of q's codes, logits of the others') -> critic_loss and critic_accuracy."""

    def samples(self, z: Tensor, z_other: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """What the critic is shown: codes of q and of the other class, without gradients.

        `z_other`: codes of the second batch, or `z` again where the plan has none.
        """
        return z.detach(), self.negatives(z_other.detach(), uniform)


def frozen(params: Params) -> Params:
    """The same weights as constants: gradients pass through the critic but not into it."""
    return {name: p.detach() for name, p in params.items()}


def permute_latents(z: LatentBatch, uniform: LatentBatch) -> LatentBatch:
    """Each latent permuted over the batch on its own, in every run. Kim & Mnih 2018, algorithm 1.

    The permutation of latent j sorts column j of `uniform`; stable, so that ties are settled
    alike everywhere.
    """
    order = torch.argsort(uniform, dim=-2, stable=True)
    return torch.gather(z, -2, order)


def prior_draws(z: LatentBatch, uniform: LatentBatch) -> LatentBatch:
    """Draws from p(z) = N(0, I) through the inverse of its distribution function.

    The uniforms have 24 bits; 0 becomes half their step, so that draws stay within 5.5.
    """
    return torch.special.ndtri(uniform.clamp(2.0**-25, 1.0 - 2.0**-24)).to(z.dtype)


def critic_loss(logits_q: Tensor, logits_other: Tensor) -> Terms:
    """Cross-entropy of the critic and its accuracy. Kim & Mnih 2018, algorithm 2.

    critic_loss = 1/2 (E_q[-log D] + E_r[-log(1 - D)]),  D = softmax(logits)_0

    Undecided logits count as half right: an untrained critic has accuracy 1/2.
    """
    ratio_q = logits_q[..., 0] - logits_q[..., 1]
    ratio_other = logits_other[..., 0] - logits_other[..., 1]
    loss = 0.5 * (F.softplus(-ratio_q).mean(-1) + F.softplus(ratio_other).mean(-1))
    right_q = (ratio_q >= 0).to(loss.dtype).mean(-1)
    right_other = (ratio_other < 0).to(loss.dtype).mean(-1)
    return {"critic_loss": loss, "critic_accuracy": 0.5 * (right_q + right_other)}


def density_ratio(critic_logits: Tensor) -> Tensor:
    """E_q[log D / (1 - D)] = E_q[logit_0 - logit_1], `[*stack]`. Kim & Mnih 2018, eq. 3."""
    return (critic_logits[..., 0] - critic_logits[..., 1]).mean(-1)


def prior_plan(
    *,
    critic_rate: Positive = 1e-4,
    critic_beta1: Decay = 0.5,
    critic_beta2: Decay = 0.9,
    critic_width: Count = 1000,
    critic_depth: Count = 6,
) -> CriticPlan:
    """A critic against the prior. Kim & Mnih 2018, appendix A, gives the defaults.

    `critic_rate`, `critic_beta1`, `critic_beta2`: of its Adam; `critic_width`, `critic_depth`:
    units of a hidden layer and number of them, leaky ReLU between, 2 logits.
    """
    return CriticPlan(critic_rate, critic_beta1, critic_beta2, critic_width, critic_depth, False)


def permutation_plan(
    *,
    critic_rate: Positive = 1e-4,
    critic_beta1: Decay = 0.5,
    critic_beta2: Decay = 0.9,
    critic_width: Count = 1000,
    critic_depth: Count = 6,
    convention: Literal["paper", "printed", "study2019"] = "paper",
) -> CriticPlan:
    """A critic against permuted codes: `prior_plan`'s letters, and `convention`.

    `paper`: the permuted codes come from a second batch (algorithm 2), encoded by the weights that
    encoded the first. `printed`: after the step, as algorithm 2 has it line by line. `study2019`:
    from the same batch, and the run makes half the updates (`factor_updates`).
    """
    return CriticPlan(critic_rate, critic_beta1, critic_beta2, critic_width, critic_depth,
                      second_batch=convention != "study2019", after_step=convention == "printed")


def factor_updates(steps: int, hyper: Mapping[str, Any]) -> int:
    """Updates of each network in a run of `steps`.

    In the published study both optimisers advanced one counter, and the run stopped once it had
    reached `steps`: half as many updates, rounded up.
    """
    return -(-steps // 2) if hyper["convention"] == "study2019" else steps


PERMUTATION_CRITIC = Critic(permute_latents, permutation_plan, critic_loss)
PRIOR_CRITIC = Critic(prior_draws, prior_plan, critic_loss)


def factor_vae(out: Forward, *, gamma: Strength = 10.0, critic_logits: Tensor) -> Terms:
    """The bound with a penalty on total correlation. Kim & Mnih 2018, eq. 2 and 3.

    loss = -ELBO + gamma TC,  TC = KL(q(z) || prod_j q(z_j)), by `density_ratio`

    `gamma`: weight of the total correlation (`tc`), beyond the share that the ELBO has.
    """
    terms, tc = elbo_terms(out), density_ratio(critic_logits)
    return {"loss": terms["recon"] + terms["kl"] + gamma * tc} | terms | {"tc": tc}


def factor_vae_prior(out: Forward, *, gamma: Strength = 10.0, critic_logits: Tensor) -> Terms:
    """FactorVAE with the prior in place of the product of marginals. Kim & Mnih 2018, eq. 12.

    loss = -ELBO + gamma KL(q(z) || p(z)), by `density_ratio`

    `gamma`: weight of the aggregate posterior's KL (`kl_qz`).
    """
    terms, kl_qz = elbo_terms(out), density_ratio(critic_logits)
    return {"loss": terms["recon"] + terms["kl"] + gamma * kl_qz} | terms | {"kl_qz": kl_qz}


def aae(out: Forward, *, gamma: Strength = 1.0, critic_logits: Tensor) -> Terms:
    """The adversarial autoencoder. Kim & Mnih 2018, eq. 7, with the gamma of their appendix F.

    loss = E[-log p(x|z)] + gamma KL(q(z) || p(z)), by `density_ratio`

    `gamma`: weight of the aggregate posterior's KL (`kl_qz`). No KL of single posteriors: not a
    bound on the likelihood (Kumar et al. 2018, section 4), and `kl` is only reported.
    """
    terms, kl_qz = elbo_terms(out), density_ratio(critic_logits)
    return {"loss": terms["recon"] + gamma * kl_qz} | terms | {"kl_qz": kl_qz}
