"""The importance-weighted bound on the log-likelihood. Burda et al. 2016.

For K draws z_k of q(z|x),

    L_K = E_x log 1/K sum_k p(x, z_k) / q(z_k|x),

in nats per image. L_1 is the evidence lower bound with a sampled KL, L_K does not fall in K and
tends to log p(x). Kim & Mnih 2018, appendix E, report it with 5,000 particles.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from unweave.metrics.arrays import ArrayLike
from unweave.metrics.encoding import as_finite
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_points
from unweave.types import Range


def iwae(codes: ArrayLike | None = None, factors: ArrayLike | None = None, *,
         log_weights: ArrayLike) -> dict[str, float]:
    """The bound from log p(x, z) - log q(z|x), `[sample, particle]`: all particles are used.

    `codes` and `factors` are not used. `iwae.particles` is the effective number of particles,
    (sum w)^2 / sum w^2, mean over images: near 1, one draw decides and the bound is loose.

    Weights of 1 and 3 have the mean 2 and count for 16 / 10 particles:

    >>> made = iwae(log_weights=[[0.0, float(np.log(3))]])
    >>> {key: round(value, 4) for key, value in made.items()}
    {'iwae': 0.6931, 'iwae.particles': 1.6}
    """
    return {key: float(each.mean())
            for key, each in image_bounds(log_weights=log_weights).items()}


def image_bounds(codes: ArrayLike | None = None, factors: ArrayLike | None = None, *,
                 log_weights: ArrayLike) -> dict[str, np.ndarray]:
    """The bound and the effective number of particles of every image, by key; see `iwae`."""
    weights = as_finite("log_weights", log_weights, 2)
    total = logsumexp(weights, axis=1)
    effective = np.exp(2.0 * total - logsumexp(2.0 * weights, axis=1))
    return {"iwae": total - np.log(weights.shape[1]), "iwae.particles": effective}


METRIC = Metric(
    name="iwae",
    function=iwae,
    draw=draw_points,
    keys={"iwae": Key(Range()), "iwae.particles": Key(Range(1.0), higher_is_better=None)},
    paper="Burda et al. 2016; Kim & Mnih 2018, appendix E",
    version="1",
    summary="how likely the model finds images, by importance sampling",
    # Neither paper of the field says on how many images; 500 make an interval of a nat or so.
    conventions={"paper": {"num_points": 500, "num_particles": 5_000},
                 "study2019": {"num_points": 500, "num_particles": 5_000}},
    partial=True,
    terms=image_bounds,
    default=False,
)
