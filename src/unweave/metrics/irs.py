"""IRS, the interventional robustness score. Suter et al. 2019.

If latent z_j stands for factor v_k, then with v_k held fixed it stays where it is, whatever is done
to the other factors. For the rows with v_k = a, the largest deviation from their mean is averaged
over the values a and compared with the largest deviation of all rows:

    IRS_jk = 1 - mean_a max_{i : v_k = a} |z_ij - E[z_j | v_k = a]|  /  max_i |z_ij - E z_j|.

A latent scores its best factor, and the score is the mean over latents weighted by their largest
deviation: scaling one latent changes its weight. Instead of the maximum within a group a quantile
is taken, against outliers; the paper's is the quantile 1. In small groups extremes are smaller, so
codes that know nothing score well above 0.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import (
    ArrayLike,
    as_codes,
    as_factors,
    as_num_values,
    class_numbers,
    varying,
)
from unweave.metrics.information import discretise
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Codes, Float, Range, UserError


def irs(codes: ArrayLike, factors: ArrayLike, *, diff_quantile: float = 0.99,
        factor_bins: int | None = None,
        num_values: ArrayLike | None = None) -> dict[str, float]:
    """The score of codes `[sample, latent]` and factors `[sample, factor]`, 0 to 1.

    With `factor_bins`, factors are first put into as many bins of equal width: several values of a
    fine factor then count as one. Latents that are constant in these rows are left out; if none is
    left the score is 0. Factors with one value are left out.

    `num_values` tells categorical latents. A class is as far from the mean of some rows as it is
    rare among them, 1 minus its share: for two classes that is the distance of 0 or 1 from a mean.

    >>> irs([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    {'irs': 1.0}
    """
    if not 0 <= diff_quantile <= 1:
        raise UserError(f"diff_quantile must lie between 0 and 1, got {diff_quantile}")
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    classes = factors[:, varying(factors)]
    if factor_bins is not None:
        seen = classes >= 0
        coarse = discretise(np.maximum(classes, 0).astype(np.float64), factor_bins)
        classes = np.where(seen, coarse, -1)
    kinds = as_num_values(num_values, codes)
    moves = (codes != codes[:1]).any(axis=0)
    if not moves.any():
        return {"irs": 0.0}
    kept, categorical = codes[:, moves].astype(np.float64), kinds[moves] > 0
    largest = _distances(kept, categorical).max(axis=0)
    within = np.stack([_deviation(kept, categorical, column, diff_quantile)
                       for column in classes.T], axis=1)
    # Rows may lie further from the mean of their group than any does from that of all: a latent
    # can be a little below 0, the score cannot.
    best = (1.0 - within / largest[:, None]).max(axis=1)
    return {"irs": float(max(np.average(best, weights=largest / largest.max()), 0.0))}


def _deviation(codes: Codes, categorical: np.ndarray, column: np.ndarray,
               quantile: float) -> Float[np.ndarray, " latent"]:
    """The quantile of deviations from the mean of rows with one value, averaged over values."""
    codes, column = codes[column >= 0], column[column >= 0]
    order = np.argsort(column, kind="stable")
    counts = np.bincount(column)
    groups = np.split(codes[order], np.cumsum(counts[counts > 0])[:-1])
    return np.mean([np.quantile(_distances(rows, categorical), quantile, axis=0)
                    for rows in groups], axis=0)


def _distances(rows: Codes, categorical: np.ndarray) -> Float[np.ndarray, "sample latent"]:
    """How far each row is from the mean of all of them."""
    apart = np.abs(rows - rows.mean(axis=0))
    for j in np.flatnonzero(categorical):
        classes = class_numbers(rows[:, j])
        apart[:, j] = 1.0 - np.bincount(classes)[classes] / len(rows)
    return apart


METRIC = Metric(
    name="irs",
    function=irs,
    draw=draw_points,
    keys={"irs": Key(Range(0.0, 1.0))},
    paper="Suter et al. 2019",
    version="1",
    summary="how little a latent moves when other factors than its own are changed",
    conventions={
        "paper": {"num_points": 10_000, "diff_quantile": 1.0, "factor_bins": None},
        # The study's library puts factors, not codes, into 20 bins.
        "study2019": {"num_points": 10_000, "diff_quantile": 0.99, "factor_bins": 20},
    },
    partial=True,
    bootstrap=bootstrap_of(irs),
)
