"""VaDE: a VAE whose prior is a mixture of Gaussians, for clustering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from unweave.objectives.elbo import reconstruction
from unweave.objectives.mixture import assign, component_kl
from unweave.types import Forward, PerRun, PerRunTensor, Positive, Range, Terms

Updates = Annotated[int, Range(0.0)]
"""A number of updates, none included."""

Share = Annotated[PerRun, Range(0.0, 1.0)]
"""A part of a whole."""


class Warmup(NamedTuple):
    """The phase before a method's own: an autoencoder whose codes have no noise."""

    steps: int
    rate: PerRun
    """Of its Adam, whose moments are then forgotten."""
    loss: str = "squares"
    """See `autoencoder_loss`; `auto` is settled by `training.warmup`, which sees the images."""


def vade(out: Forward, *, prior: Mapping[str, Tensor]) -> Terms:
    """The bound under a mixture. Jiang et al. 2017, eq. 12 (eq. 9 of the arXiv version).

    loss = E[-log p(x|z)] + sum_c q(c|x) KL(q(z|x) || p(z|c)) + KL(q(c|x) || p(c))

    with q(c|x) = p(c|z) at the drawn z. `kl` is the second term, `kl_category` the third; both are
    exact given q(c|x), and gradients pass through q(c|x).
    """
    log_q = assign(prior, out.z)
    weights = torch.exp(log_q)
    latents = (weights[..., None] * component_kl(prior, out.mu, out.logvar)).sum(-2).mean(-2)
    log_p = torch.log_softmax(prior["logits"], -1)[..., None, :]
    kl_category = (weights * (log_q - log_p)).sum(-1).mean(-1)
    recon, kl = reconstruction(out), latents.sum(-1)
    # How sure images are of their cluster, and how many clusters are in use: 1 to K.
    used = weights.mean(-2)
    in_use = torch.exp(-(used * torch.log(used.clamp(min=1e-12))).sum(-1))
    return {"loss": recon + kl + kl_category, "recon": recon, "kl": kl,
            "elbo": -recon - kl - kl_category, "kl_latent": latents,
            "kl_category": kl_category, "certainty": weights.amax(-1).mean(-1).detach(),
            "clusters_in_use": in_use.detach()}


def autoencoder_loss(out: Forward, kind: str) -> PerRunTensor:
    """What a warm-up minimises: `squares` of pixels, or the run's own `likelihood`, a sum each."""
    if kind == "likelihood":
        return reconstruction(out)
    return ((out.x - torch.sigmoid(out.logits)) ** 2).sum((-3, -2, -1)).mean(-1)


def vade_warmup(*, pretrain_steps: Updates = 35_000, pretrain_rate: Positive = 1e-3,
                pretrain_loss: Literal["auto", "squares", "likelihood"] = "auto") -> Warmup:
    """An autoencoder first: the decoder sees the means, and its errors alone are minimised.

    `pretrain_steps`: its updates; the mixture is then fitted to the means. 0, or a run that starts
    from another one: none. `pretrain_rate`: of Adam meanwhile. `pretrain_loss`: squared errors, as
    stacked autoencoders minimise, or the run's likelihood; auto: squares, but the likelihood of
    dark images.
    """
    return Warmup(pretrain_steps, pretrain_rate, pretrain_loss)


def vade_schedule(step: Tensor | int, *, decay: Share = 0.9, decay_steps: Positive = 7000.0,
                  least_rate: Share = 0.1) -> Tensor | float:
    """What the rate is multiplied by after `step` updates. Jiang et al. 2017, section 4.

    `decay`: the factor after every `decay_steps` updates (10 epochs of MNIST's 70,000 images in
    batches of 100). `least_rate`: where it stops.
    """
    turns = torch.floor(torch.as_tensor(step) / decay_steps)
    return torch.as_tensor(decay, dtype=torch.float32).to(turns.device).pow(turns).clamp(
        min=torch.as_tensor(least_rate).to(turns.device))
