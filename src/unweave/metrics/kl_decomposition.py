"""The KL of a model taken apart, on the whole data set. Chen et al. 2018; Kaddah 2020, eq. 7.

With the aggregate posterior q(z) = 1/N sum_n q(z|x_n) of N images,

    E_x KL( q(z|x) || p(z) ) = I(z; n)                    mi:        what codes know of the image
                             + KL( q(z) || prod_j q(z_j) )    tc:        total correlation
                             + sum_j KL( q(z_j) || p(z_j) )   dimension: latents beside the prior

in nats. Expectations are means over codes drawn from q(z|x) of `num_samples` images; q(z) is the
whole mixture of N parts at each of them, nothing is estimated from batches. Training estimates
these terms from a batch, with a bias (see `objectives.aggregate`); these are the terms themselves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unweave.metrics.arrays import ArrayLike
from unweave.metrics.compiled import compiled
from unweave.metrics.encoding import as_finite, as_moments, log_probabilities
from unweave.metrics.mixture import Grid
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_mixture
from unweave.metrics.threads import available_threads, side_by_side
from unweave.types import Range, UserError

BLOCK = 256
NEGLIGIBLE = -50.0
"""Nats; even a million parts this far below a code's own do not show in the last digit."""


class LogDensities(NamedTuple):
    """Of the drawn codes, each `[draw]`."""

    given_image: np.ndarray
    """log q(z|x)"""
    aggregate: np.ndarray
    """log q(z)"""
    marginals: np.ndarray
    """sum_j log q(z_j)"""
    prior: np.ndarray
    """log p(z)"""

    def terms(self) -> dict[str, np.ndarray]:
        """The three terms at every code; their sum is log q(z|x) - log p(z)."""
        return {"kl_decomposition.mi": self.given_image - self.aggregate,
                "kl_decomposition.tc": self.aggregate - self.marginals,
                "kl_decomposition.dimension": self.marginals - self.prior}


def kl_decomposition(codes: ArrayLike | None = None, factors: ArrayLike | None = None, *,
                     sampled: ArrayLike, mu: ArrayLike, logvar: ArrayLike,
                     category_logits: ArrayLike | None = None,
                     num_values: ArrayLike | None = None,
                     num_samples: int | None = 2_000) -> dict[str, float]:
    """The three terms from posteriors `[sample, latent]` and a draw of each, `[sample, code]`.

    `codes` and `factors` are not used. All rows are parts of the mixture, the draws of the first
    `num_samples` rows (None: of all) are where it is looked at. `mi` is at most log N. The means
    of `tc` and `dimension` are of divergences, but over few draws they may be a little below 0.

    Two posteriors N(5, 1) and N(-5, 1) do not overlap: a code tells its image, which is log 2.

    >>> made = kl_decomposition(sampled=[[5.0], [-5.0]], mu=[[5.0], [-5.0]], logvar=[[0.0], [0.0]])
    >>> [round(value, 4) for value in made.values()]
    [0.6931, 0.0, 11.8069]
    """
    found = log_densities(sampled, mu, logvar, category_logits, num_values, num_samples)
    return {key: float(values.mean()) for key, values in found.terms().items()}


def kl_terms(codes: ArrayLike | None = None, factors: ArrayLike | None = None, *,
             sampled: ArrayLike, mu: ArrayLike, logvar: ArrayLike,
             category_logits: ArrayLike | None = None, num_values: ArrayLike | None = None,
             num_samples: int | None = 2_000) -> dict[str, np.ndarray]:
    """The three terms at every drawn code, by key; see `kl_decomposition`."""
    return log_densities(sampled, mu, logvar, category_logits, num_values, num_samples).terms()


def log_densities(sampled: ArrayLike, mu: ArrayLike, logvar: ArrayLike,
                  category_logits: ArrayLike | None, num_values: ArrayLike | None,
                  num_samples: int | None) -> LogDensities:
    """The four log-densities of the draws of the first rows."""
    mu, logvar = as_moments(mu, logvar)
    log_p = log_probabilities(category_logits, num_values)
    if num_samples is not None and (not isinstance(num_samples, int | np.integer)
                                    or num_samples < 1):
        raise UserError(f"num_samples must be a whole number, at least 1, got {num_samples!r}")
    drawn = as_finite("sampled", sampled, 2)[:num_samples]
    num_latents = mu.shape[1]
    if drawn.shape[1] != num_latents + len(log_p):
        raise UserError(f"sampled needs a column for each of the {num_latents + len(log_p)} "
                        f"latents, got {drawn.shape[1]}")
    z, classes = drawn[:, :num_latents], drawn[:, num_latents:].astype(np.int64)
    own = np.arange(len(drawn))
    given = _normal(z, mu[own], logvar[own]).sum(axis=1)
    prior = _normal(z, 0.0, 0.0).sum(axis=1)
    # The grid widens what is narrower than it can show; the density of all latents need not.
    marginals = sum(side_by_side(
        lambda j: Grid(mu[:, j], np.exp(0.5 * logvar[:, j])).log_density(z[:, j]),
        range(num_latents)), start=np.zeros(len(z)))
    for c, part in enumerate(log_p):
        given += part[own, classes[:, c]]
        prior -= math.log(part.shape[1])
        marginals += np.log(np.exp(part).mean(axis=0))[classes[:, c]]
    aggregate = _aggregate(z, classes, mu, logvar, log_p, given)
    return LogDensities(given, aggregate, marginals, prior)


def _normal(z: np.ndarray, mu: np.ndarray | float, logvar: np.ndarray | float) -> np.ndarray:
    return -0.5 * ((z - mu) ** 2 * np.exp(-logvar) + logvar + math.log(2.0 * math.pi))


def _aggregate(z: np.ndarray, classes: np.ndarray, mu: np.ndarray, logvar: np.ndarray,
               log_p: list[np.ndarray], given: np.ndarray) -> np.ndarray:
    """Log q(z) of the whole mixture; `given` is log q(z|x) of each code's own image.

    Most parts are too far from a code to matter. A k-d tree lays neighbours side by side, in units
    of their deviations, and a block of them is left where its bounding box already is too far.
    """
    from scipy.spatial import cKDTree

    order = cKDTree(mu * np.exp(-0.5 * logvar.mean(axis=0)), leafsize=BLOCK).indices
    logvar = logvar[order].T.copy()
    weights, constant = 0.5 * np.exp(-logvar), -0.5 * (logvar + math.log(2.0 * math.pi)).sum(axis=0)
    mu = mu[order].T.copy()
    starts = np.arange(0, len(order), BLOCK)
    low, high = np.minimum.reduceat(mu, starts, axis=1), np.maximum.reduceat(mu, starts, axis=1)
    least = np.minimum.reduceat(weights, starts, axis=1)
    most = np.maximum.reduceat(constant, starts)
    columns = classes + np.cumsum([0, *(part.shape[1] for part in log_p)])[:len(log_p)]
    log_p = np.concatenate([*log_p, np.zeros((len(order), 0))], axis=1)[order].T.copy()
    total = np.zeros(len(z))

    def work(rows: slice) -> None:
        compiled(_add_parts)(z[rows], columns[rows], given[rows], mu, weights, constant, log_p,
                              low, high, least, most, total[rows])

    width = -(-len(z) // available_threads())
    side_by_side(work, [slice(i, i + width) for i in range(0, len(z), width)])
    if not np.isfinite(total).all():
        raise UserError("sampled are no draws of these posteriors: give a draw of each row's own")
    return given + np.log(total) - math.log(len(order))


def _add_parts(z, columns, given, mu, weights, constant, log_p, low, high, least, most, total):
    """Add q(z|x_n) / q(z|x) of all parts n to the total of every code, block by block."""
    num_codes, num_latents = z.shape
    num_parts = mu.shape[1]
    nats = np.empty(BLOCK)
    for b in range(len(most)):
        start = b * BLOCK
        size = min(BLOCK, num_parts - start)
        for i in range(num_codes):
            bound = most[b] - given[i]
            for j in range(num_latents):
                away = max(low[j, b] - z[i, j], z[i, j] - high[j, b], 0.0)
                bound -= away * away * least[j, b]
            if bound < NEGLIGIBLE:
                continue
            for n in range(size):
                nats[n] = constant[start + n] - given[i]
            for j in range(num_latents):
                place = z[i, j]
                for n in range(size):
                    away = place - mu[j, start + n]
                    nats[n] -= away * away * weights[j, start + n]
            for c in range(columns.shape[1]):
                for n in range(size):
                    nats[n] += log_p[columns[i, c], start + n]
            for n in range(size):
                if nats[n] > NEGLIGIBLE:
                    total[i] += math.exp(nats[n])


METRIC = Metric(
    name="kl_decomposition",
    function=kl_decomposition,
    draw=draw_mixture,
    keys={"kl_decomposition.mi": Key(Range(), higher_is_better=None),
          "kl_decomposition.tc": Key(Range(), higher_is_better=False),
          "kl_decomposition.dimension": Key(Range(), higher_is_better=None)},
    paper="Chen et al. 2018; Kaddah et al. 2020, eq. 7",
    version="1",
    summary="what the KL is made of: information about images, total correlation, the rest",
    conventions={"paper": {"num_points": None, "num_samples": 2_000},
                 "study2019": {"num_points": None, "num_samples": 2_000}},
    partial=True,
    terms=kl_terms,
    default=False,
)
