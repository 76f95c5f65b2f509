"""DIP-VAE: the covariance of the codes held at the identity.

Covariances are over the batch, centred, divided by B: E[m m^T] - E[m] E[m]^T, the estimate that
the published study used.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from unweave.objectives.elbo import elbo_terms
from unweave.objectives.letter import Momentum, trailing
from unweave.types import Forward, LatentBatch, PerRun, Strength, Terms, unknown_name

Estimate = Literal["batch", "running"]


def covariance(mu: LatentBatch) -> Tensor:
    """Cov[mu] over the batch, `[*stack, latent, latent]`, with 1/B."""
    centred = mu - mu.mean(-2, keepdim=True)
    # Products and a mean, not a matrix product: those may round to fewer bits on a GPU, and
    # differently with the number of runs.
    return (centred.unsqueeze(-1) * centred.unsqueeze(-2)).mean(-3)


def dip_state(num_latents: int) -> dict[str, Tensor]:
    """A running covariance that has seen nothing: `cov` and the weight behind it."""
    return {"cov": torch.zeros(num_latents, num_latents), "weight": torch.zeros(())}


def running_covariance(
    cov: Tensor, momentum: PerRun, state: dict[str, Tensor]
) -> tuple[Tensor, Terms]:
    """The running estimate after this batch, and its new state. Kumar et al. 2018, section 2.2.

    S' = momentum S + (1 - momentum) Cov_batch, the old S a constant. The paper gives no start and
    no rate: here S starts empty and is divided by the weight it has seen, so that the first
    estimate is the first batch's. A batch's gradient is then about 1 - momentum of what it is
    with the batch's own covariance.
    """
    old = {name: value.detach() for name, value in state.items()}
    total = trailing(momentum, 2) * old["cov"] + (1.0 - trailing(momentum, 2)) * cov
    weight = momentum * old["weight"] + (1.0 - momentum)
    estimate = total / trailing(weight, 2)
    return estimate, {"state.cov": total.detach(), "state.weight": weight}


def _dip(out: Forward, cov: Tensor, lambda_od: PerRun, lambda_d: PerRun, estimate: str,
         momentum: PerRun, state: dict[str, Tensor] | None) -> Terms:
    """ELBO + lambda_od sum_{i != j} cov_ij^2 + lambda_d sum_i (cov_ii - 1)^2."""
    new_state: Terms = {}
    if estimate == "running":
        if state is None:
            start, runs = dip_state(cov.shape[-1]), cov.shape[:-2]
            state = {name: v.to(cov).expand(*runs, *v.shape) for name, v in start.items()}
        cov, new_state = running_covariance(cov, momentum, state)
    elif estimate != "batch":
        raise unknown_name("estimate", estimate, ("batch", "running"))
    terms = elbo_terms(out)
    diagonal = torch.diagonal(cov, dim1=-2, dim2=-1)
    off = cov - torch.diag_embed(diagonal)
    dip_od, dip_d = (off**2).sum((-2, -1)), ((diagonal - 1.0) ** 2).sum(-1)
    loss = terms["recon"] + terms["kl"] + lambda_od * dip_od + lambda_d * dip_d
    return {"loss": loss} | terms | {"dip_od": dip_od, "dip_d": dip_d} | new_state


def dip_vae_i(
    out: Forward,
    *,
    lambda_od: Strength = 10.0,
    lambda_d: Strength = 100.0,
    estimate: Estimate = "batch",
    momentum: Momentum = 0.9,
    state: dict[str, Tensor] | None = None,
) -> Terms:
    """The covariance of the means held at the identity. Kumar et al. 2018, eq. 6.

    loss = -ELBO + lambda_od sum_{i != j} C_ij^2 + lambda_d sum_i (C_ii - 1)^2,  C = Cov_x[mu(x)]

    `lambda_od`: weight off the diagonal (`dip_od`); `lambda_d`: on it (`dip_d`), 10 lambda_od in
    the paper and the study; `estimate`: of C, from the `batch` (the study) or `running` (the
    paper: `running_covariance`) with `momentum`.
    """
    return _dip(out, covariance(out.mu), lambda_od, lambda_d, estimate, momentum, state)


def dip_vae_ii(
    out: Forward,
    *,
    lambda_od: Strength = 10.0,
    lambda_d: Strength = 10.0,
    estimate: Estimate = "batch",
    momentum: Momentum = 0.9,
    state: dict[str, Tensor] | None = None,
) -> Terms:
    """The covariance of the codes held at the identity. Kumar et al. 2018, eq. 5.

    As `dip_vae_i` with C = Cov_{q(z)}[z] = E_x[Sigma(x)] + Cov_x[mu(x)] (Hartmann 2021,
    eq. 14), where Sigma(x) = diag(exp(logvar)) touches the diagonal alone; lambda_d = lambda_od in
    the study. A running estimate is of all of C.
    """
    cov = torch.diag_embed(out.logvar.exp().mean(-2)) + covariance(out.mu)
    return _dip(out, cov, lambda_od, lambda_d, estimate, momentum, state)
