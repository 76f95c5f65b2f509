"""Correlations of latents with latents and with factors. Kumar et al. 2018, tables 3, 4, figure 2.

The tables show Pearson's correlations, which `correlations` gives as matrices. Figure 2 takes an
attribute, the latent that is correlated with it most, and what else that latent is correlated with:
`followers` gives these. Three numbers sum them up, with c_jk the absolute correlation of latent j
and factor k, and j_k the latent with the largest c_jk:

    correlation.factors = 1/K sum_k c_{j_k k}                  is every factor in some latent,
    correlation.others  = 1/K sum_k max_{l != k} c_{j_k l}     what else is in that latent,
    correlation.latents = mean_{i != j} |corr(z_i, z_j)|       do latents repeat each other.

The numbers are ours; the paper shows pictures. Quantities count as they are, and classes by their
number in order. A row in which a factor is unknown is left out for that factor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_labels, varying
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Codes, Float, Int, Range

LATENTS_AT_ONCE = 1024


class Correlations(NamedTuple):
    """Pearson's correlations; 0 for what never varies."""

    latents: Float[np.ndarray, "latent latent"]
    factors: Float[np.ndarray, "latent factor"]


class Followers(NamedTuple):
    """For each factor the latent that follows it best, and its correlation with every factor."""

    latent: Int[np.ndarray, " factor"]
    correlation: Float[np.ndarray, "factor factor"]
    """Row k: the correlations of the latent of factor k."""


def correlations(codes: ArrayLike, factors: ArrayLike, *,
                 factor_types: Any = None) -> Correlations:
    """The matrices of tables 3 and 4, for codes `[sample, latent]` and factors `[sample, factor]`.

    Quantities count as they are; classes are numbered in the order of their values, and the numbers
    count. `factor_types` tells which is which: see `labels`. Rows in which a factor is unknown are
    left out for it.

    >>> correlations([[0, 1], [1, 0], [2, 1]], [[0], [1], [2]]).factors.round(6).tolist()
    [[1.0], [0.0]]
    """
    codes = as_codes(codes).astype(np.float64)
    return _of_values(codes, as_labels(factors, len(codes), factor_types).values)


def _of_values(codes: Codes, values: Float[np.ndarray, "sample factor"]) -> Correlations:
    left = _unit(codes)
    return Correlations(np.clip(left.T @ left, -1.0, 1.0), _with_factors(codes, values))


def _with_factors(codes: Codes, values: Float[np.ndarray, "sample factor"],
                  ) -> Float[np.ndarray, "latent factor"]:
    known = ~np.isnan(values)
    if known.all():
        across = _unit(codes).T @ _unit(values)
    else:
        across = np.stack([_unit(codes[rows]).T @ _unit(column[rows, None])[:, 0]
                           for column, rows in zip(values.T, known.T)], axis=1)
    return np.clip(across, -1.0, 1.0)


def _between(codes: Codes) -> float:
    """The mean absolute correlation of two latents, in strips: the matrix may be too large."""
    unit = _unit(codes)
    num = unit.shape[1]
    total = 0.0
    for start in range(0, num, LATENTS_AT_ONCE):
        strip = np.abs(np.clip(unit[:, start:start + LATENTS_AT_ONCE].T @ unit, -1.0, 1.0))
        strip[np.arange(len(strip)), start + np.arange(len(strip))] = 0.0
        total += float(strip.sum())
    return total / max(num * (num - 1), 1)


def followers(table: Correlations) -> Followers:
    """What figure 2 shows: the latent of each factor and how it goes with all the factors."""
    latent = np.abs(table.factors).argmax(axis=0)
    return Followers(latent, table.factors[latent])


def correlation(codes: ArrayLike, factors: ArrayLike, *,
                factor_types: Any = None) -> dict[str, float]:
    """Three means of absolute correlations, 0 to 1 each; see `correlations`.

    Factors with one known value are left out. Constant latents follow nothing and are left out of
    `correlation.latents`; a single latent, or a single factor, has no other to go with: 0.

    >>> correlation([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    {'correlation.factors': 1.0, 'correlation.others': 0.0, 'correlation.latents': 0.0}
    """
    codes = as_codes(codes).astype(np.float64)
    values = as_labels(factors, len(codes), factor_types).values
    ranks = [np.where(np.isnan(c), -1, np.unique(c, return_inverse=True)[1]) for c in values.T]
    across = _with_factors(codes, values[:, varying(np.stack(ranks, axis=1).astype(np.int64))])
    own = np.abs(across[np.abs(across).argmax(axis=0)])
    others = np.where(np.eye(len(own), dtype=bool), 0.0, own)
    apart = _between(codes[:, (codes != codes[:1]).any(axis=0)])
    # Rounding of sums of squares: 1 is 1.
    return {"correlation.factors": float(np.diag(own).mean().round(12)),
            "correlation.others": float(others.max(axis=1).mean().round(12)),
            "correlation.latents": round(apart, 12)}


def _unit(columns: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and length 1; constant ones are 0."""
    constant = (columns == columns[:1]).all(axis=0)
    scale = np.abs(columns).max(axis=0, initial=0.0)
    scaled = columns / np.where(scale > 0, scale, 1.0)  # means and squares are then in range
    centred = np.where(constant, 0.0, scaled - scaled.mean(axis=0))
    centred /= np.maximum(np.abs(centred).max(axis=0, initial=0.0), np.finfo(float).tiny)
    length = np.sqrt((centred ** 2).sum(axis=0))
    return centred / np.where(length > 0, length, 1.0)


METRIC = Metric(
    name="correlation",
    function=correlation,
    draw=draw_points,
    keys={"correlation.factors": Key(Range(0.0, 1.0)),
          "correlation.others": Key(Range(0.0, 1.0), higher_is_better=False),
          "correlation.latents": Key(Range(0.0, 1.0), higher_is_better=False)},
    paper="Kumar et al. 2018, section 3, tables 3 and 4, figure 2",
    version="1",
    summary="how far each factor goes in a straight line with a latent of its own",
    # The study did not have it; the paper takes the whole data set.
    conventions={"paper": {"num_points": None}, "study2019": {"num_points": 10_000}},
    partial=True,
    bootstrap=bootstrap_of(correlation),
)
