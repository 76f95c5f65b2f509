"""The evidence lower bound and its weighted form; the parts that every objective shares.

One scale: nats per image. Sums over pixels and latents, means over the batch; nothing is divided
by the number of pixels, which would silently multiply beta by 4096 on 64x64 images.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from unweave.types import Forward, LatentBatch, PerRunTensor, Strength, Terms, unknown_name

LIKELIHOODS = ("bernoulli", "gaussian", "laplace")


def reconstruction(out: Forward) -> PerRunTensor:
    """Mean over the batch of -log p(x|z), in nats per image.

    `bernoulli`: cross-entropy with targets anywhere in [0, 1] (not only 0 and 1), as the published
    study used it. `gaussian` and `laplace`: unit scale around sigmoid(logits), constants included.
    """
    if out.nats is not None:
        return out.nats.mean(-1)
    pixels = (-3, -2, -1)
    if out.likelihood == "bernoulli":
        # log(1 + e^l) - x l; two passes over the pixels where the library's function makes six.
        nats = F.softplus(out.logits, threshold=50.0) - out.x * out.logits
    elif out.likelihood == "gaussian":
        nats = 0.5 * (out.x - torch.sigmoid(out.logits)) ** 2 + 0.5 * math.log(2.0 * math.pi)
    elif out.likelihood == "laplace":
        nats = (out.x - torch.sigmoid(out.logits)).abs() + math.log(2.0)
    else:
        raise unknown_name("likelihood", out.likelihood, LIKELIHOODS)
    return nats.sum(pixels).mean(-1)


def kl_per_latent(out: Forward) -> LatentBatch:
    """KL(q(z_j|x) || N(0, 1)) of every latent of every image. Kingma & Welling 2014, appendix B."""
    return 0.5 * (out.mu**2 + out.logvar.exp() - 1.0 - out.logvar)


def elbo_terms(out: Forward) -> Terms:
    """`recon`, `kl`, `elbo` and the batch mean of each latent's KL (`kl_latent`)."""
    latents = kl_per_latent(out).mean(-2)
    recon, kl = reconstruction(out), latents.sum(-1)
    return {"recon": recon, "kl": kl, "elbo": -recon - kl, "kl_latent": latents}


def vae(out: Forward) -> Terms:
    """The negative evidence lower bound. Kingma & Welling 2014; Locatello et al. 2019, section 2.3.

    loss = E[-log p(x|z)] + KL(q(z|x) || p(z))
    """
    terms = elbo_terms(out)
    return {"loss": terms["recon"] + terms["kl"]} | terms


def beta_vae(out: Forward, *, beta: Strength = 4.0) -> Terms:
    """The bound with its KL weighted by beta. Higgins et al. 2017; Kaddah 2020, eq. 2.

    loss = E[-log p(x|z)] + beta KL(q(z|x) || p(z)); beta = 1 is the VAE.
    """
    terms = elbo_terms(out)
    return {"loss": terms["recon"] + beta * terms["kl"]} | terms
