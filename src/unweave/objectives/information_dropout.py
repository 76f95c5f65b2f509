"""Information Dropout: the bottleneck's own cost, the information that codes carry."""

from __future__ import annotations

from unweave.objectives.aggregate import Sampling
from unweave.objectives.elbo import elbo_terms
from unweave.objectives.tcvae import decomposition
from unweave.types import Forward, Strength, Terms


def information_dropout(
    out: Forward,
    *,
    beta: Strength = 1.0,
    sampling: Sampling = "stratified",
    dataset_size: int,
) -> Terms:
    """KL to the codes' own distribution, not to a prior. Kim & Mnih 2018, eq. 8.

    loss = E[-log p(x|z)] + beta E[KL(q(z|x) || q(z))]        (Achille & Soatto 2018)

    `beta`: weight of the KL, which averaged over the data is the index-code mutual information
    (`mi`). q(z) is intractable and the paper gives no estimate; ours is `mi` of `decomposition`:
    log q(z|x) - log q(z) at the sampled codes, with log q(z) from the batch. Stratified, because
    its density is unbiased and the image's own weight of 1/N bounds the estimate by log N, as
    the information itself is; the weighted estimate exceeds it by up to log B. Nothing here pulls
    the codes towards N(0, I): their scale is free, and samples from the prior are not images.
    """
    terms = elbo_terms(out)
    mi = decomposition(out, dataset_size=dataset_size, sampling=sampling)["mi"]
    return {"loss": terms["recon"] + beta * mi} | terms | {"mi": mi}
