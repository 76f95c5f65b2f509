"""beta-TCVAE: the KL taken apart into mutual information, total correlation and the rest."""

from __future__ import annotations

from unweave.objectives.aggregate import Sampling, log_densities
from unweave.objectives.elbo import elbo_terms
from unweave.types import Forward, Strength, Terms


def decomposition(out: Forward, *, dataset_size: int, sampling: str) -> Terms:
    """The three parts of E[KL(q(z|x) || p(z))]. Chen et al. 2018, eq. 2; Kaddah 2020, eq. 7.

    mi   = E[log q(z|x) - log q(z)]              index-code mutual information
    tc   = E[log q(z) - sum_j log q(z_j)]        total correlation
    dwkl = E[sum_j log q(z_j) - log p(z)]        dimension-wise KL

    E is the mean over the sampled codes of the batch; q(z) and q(z_j) are estimated as
    `sampling` says. Whatever the estimate, the three add up to the sampled KL of the batch.
    """
    log = log_densities(out.z, out.mu, out.logvar, dataset_size=dataset_size, sampling=sampling)
    return {
        "mi": (log.given_image - log.aggregate).mean(-1),
        "tc": (log.aggregate - log.marginals).mean(-1),
        "dwkl": (log.marginals - log.prior).mean(-1),
    }


def beta_tcvae(
    out: Forward,
    *,
    alpha: Strength = 1.0,
    beta: Strength = 6.0,
    gamma: Strength = 1.0,
    sampling: Sampling = "weighted",
    dataset_size: int,
) -> Terms:
    """The bound with its three parts weighted. Chen et al. 2018, eq. 4; Kaddah 2020, eq. 8.

    The papers' loss is E[-log p(x|z)] + alpha mi + beta tc + gamma dwkl. Here it is

    loss = E[-log p(x|z)] + KL + (alpha - 1) mi + (beta - 1) tc + (gamma - 1) dwkl

    with the KL in closed form. Both have the same expectation, since the parts add up to the
    sampled KL; this one is exactly the VAE at (1, 1, 1) (Hartmann 2021, after eq. 12),
    has less noise, and at alpha = gamma = 1 is what the published study trained.

    `alpha`, `beta`, `gamma`: weights of `decomposition`'s parts; `sampling`: `aggregate`'s two
    estimates. The curves of the parts carry the estimate's bias: with `weighted`, tc is about
    (D - 1) log N too high for D latents (the study logged it without its constant,
    (D - 1) log(N B)).
    """
    terms = elbo_terms(out)
    parts = decomposition(out, dataset_size=dataset_size, sampling=sampling)
    loss = (terms["recon"] + terms["kl"] + (alpha - 1.0) * parts["mi"]
            + (beta - 1.0) * parts["tc"] + (gamma - 1.0) * parts["dwkl"])
    return {"loss": loss} | terms | parts
