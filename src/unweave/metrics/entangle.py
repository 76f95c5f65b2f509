"""Theorem 1 of Locatello et al. 2019 as a function: the same distribution, fully entangled.

For codes with independent latents there are bijections that keep their distribution and yet mix
every latent into every other. Nothing that looks at the codes alone can tell the two apart, which
is why unsupervised disentanglement needs an inductive bias; supervised scores must tell them apart.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from unweave.metrics.arrays import ArrayLike, as_codes
from unweave.types import Codes


def entangle(codes: ArrayLike) -> Codes:
    """Codes `[sample, latent]` with the marginals of the given ones, every latent mixed into all.

    The construction of the theorem's proof (appendix A): each latent goes through its distribution
    function to a standard normal, the normals are rotated by an orthogonal matrix without a zero,
    and each coordinate goes back through the inverse of a distribution function. With the empirical
    functions used here every marginal is kept exactly, and the joint distribution as far as the
    given latents are independent. One latent alone cannot be entangled and comes back as it is.
    """
    codes = as_codes(codes)
    num, size = codes.shape
    if size == 1:
        return codes.copy()
    ranks = codes.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    rotated = ndtri((ranks + 0.5) / num) @ mixing(size)
    places = rotated.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return np.take_along_axis(np.sort(codes, axis=0), places, axis=0)


def mixing(size: int) -> np.ndarray:
    """An orthogonal matrix `[size, size]` without a zero: the cosine transform of type IV.

    sqrt(2/n) cos(pi (i + 1/2)(j + 1/2) / n) would be zero only if the odd (2i + 1)(2j + 1) were an
    odd multiple of the even 2n.
    """
    half = np.arange(size) + 0.5
    return np.sqrt(2.0 / size) * np.cos(np.pi / size * np.outer(half, half))
