"""The evidence lower bound of a model and its parts. Kingma & Welling 2014; Burda et al. 2016.

In nats per image, means over images x of the data set:

    reconstruction = E_x E_{q(z|x)} [-log p(x|z)],   kl = E_x KL( q(z|x) || p(z) ),
    elbo = - reconstruction - kl.

One z is drawn for each image, as in training; the KL is exact. A categorical latent of K values
adds log K - H(q(c|x)) to it. A latent is active if its mean follows the image (Burda et al.
2016): Cov_x( E_{q(z|x)}[z] ) > 0.01; by its KL, if that is above 0.01 nats. Both are counts.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike
from unweave.metrics.encoding import as_finite, as_moments, log_probabilities
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Float, Range


def elbo(codes: ArrayLike | None = None, factors: ArrayLike | None = None, *, mu: ArrayLike,
         logvar: ArrayLike, reconstruction: ArrayLike, category_logits: ArrayLike | None = None,
         num_values: ArrayLike | None = None, active_variance: float = 0.01,
         active_kl: float = 0.01) -> dict[str, float]:
    """The bound from posteriors `[sample, latent]` and -log p(x|z) `[sample]`.

    `codes` and `factors` are not used. `elbo.active_units` counts latents whose mean has a
    variance above `active_variance`, for a categorical latent that of the probability of any of
    its classes; `elbo.active_units_kl` counts those with a KL above `active_kl` nats.

    A posterior N(1, 1) has a KL of 1/2 to the prior:

    >>> elbo(mu=[[1.0], [-1.0]], logvar=[[0.0], [0.0]], reconstruction=[3.0, 5.0])["elbo"]
    -4.5
    """
    mu, logvar = as_moments(mu, logvar)
    log_p = log_probabilities(category_logits, num_values)
    each = kl_per_latent(mu, logvar, log_p).mean(axis=0)
    nats, kl = float(as_finite("reconstruction", reconstruction, 1).mean()), float(each.sum())
    variance = [*mu.var(axis=0), *(np.exp(part).var(axis=0).max() for part in log_p)]
    return {
        "elbo": -nats - kl,
        "elbo.reconstruction": nats,
        "elbo.kl": kl,
        "elbo.active_units": float(np.count_nonzero(np.array(variance) > active_variance)),
        "elbo.active_units_kl": float(np.count_nonzero(each > active_kl)),
    }


def kl_per_latent(mu: np.ndarray, logvar: np.ndarray,
                  log_p: list[np.ndarray]) -> Float[np.ndarray, "sample latent"]:
    """KL to N(0, 1) of each Gaussian, then to uniform classes of each categorical latent."""
    gaussian = 0.5 * (mu**2 + np.exp(logvar) - 1.0 - logvar)
    classes = [(np.exp(part) * part).sum(axis=1) + np.log(part.shape[1]) for part in log_p]
    return np.maximum(np.column_stack([gaussian, *classes]), 0.0)  # not even by rounding


METRIC = Metric(
    name="elbo",
    function=elbo,
    draw=draw_points,
    keys={"elbo": Key(Range()),
          "elbo.reconstruction": Key(Range(), higher_is_better=False),
          "elbo.kl": Key(Range(0.0), higher_is_better=None),
          "elbo.active_units": Key(Range(0.0), higher_is_better=None),
          "elbo.active_units_kl": Key(Range(0.0), higher_is_better=None)},
    paper="Kingma & Welling 2014; active units: Burda et al. 2016",
    version="1",
    summary="how well the model explains images: reconstruction, KL and their sum, active latents",
    conventions={
        "paper": {"num_points": 10_000, "active_variance": 0.01, "active_kl": 0.01},
        "study2019": {"num_points": 10_000, "active_variance": 0.01, "active_kl": 0.01}},
    partial=True,
    bootstrap=bootstrap_of(elbo),
)
