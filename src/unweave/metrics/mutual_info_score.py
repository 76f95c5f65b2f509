"""The mutual-information score: what latents know about each other.

Computed for the runs of Locatello et al. 2019. For J latents, binned,

    score = 1 / (J^2 - J) sum_{i != j} I(z_i; z_j),

in nats. It looks at codes alone, and other than total correlation it sees dependence that is not
linear. Plug-in information is above zero for independent latents too: about (B - 1)^2 / 2n.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import xlogy

from unweave.metrics.arrays import ArrayLike, as_codes
from unweave.metrics.compiled import compiled
from unweave.metrics.information import (
    Bins,
    discretise,
    entropy,
    information_of_counts,
    joint_counts,
)
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Range

MANY_LATENTS = 100
"""Beyond this, tables of counts are larger than what is counted: pairs are counted one by one."""

MOST_PAIRS = 250_000
"""Of more pairs than this (707 latents) as many are drawn. The error of their mean is a
five-hundredth of what pairs differ by."""


def mutual_info_score(codes: ArrayLike, factors: ArrayLike | None = None, *, num_bins: int = 20,
                      num_values: ArrayLike | None = None) -> dict[str, float]:
    """Mean information between two latents, 0 or more, in nats; `factors` are not used.

    Constant latents know nothing and count in the mean. A single latent has a score of 0.
    `num_values` tells categorical latents, whose bins are their classes. Of more than 707 latents
    that vary 250,000 pairs are drawn, always the same ones, and a warning says so.

    A copy of a latent with two equally frequent values knows log 2 of it:

    >>> mutual_info_score([[0, 0], [1, 1]])["mutual_info_score"].__round__(4)
    0.6931
    """
    codes = as_codes(codes)
    bins = discretise(codes, num_bins, num_values)
    num_latents = bins.shape[1]
    varied = bins[:, (bins != bins[:1]).any(axis=0)]
    total = 0.0
    if varied.shape[1] > MANY_LATENTS:
        total = 2.0 * _sum_over_pairs(varied)
    else:
        for j in range(1, varied.shape[1]):
            total += 2.0 * information_of_counts(joint_counts(varied[:, :j], varied[:, j])).sum()
    return {"mutual_info_score": float(total / max(num_latents ** 2 - num_latents, 1))}


def _sum_over_pairs(bins: Bins) -> float:
    """The sum of I over pairs of columns, from all of them or from a draw."""
    num_rows, num_latents = bins.shape
    num_pairs = num_latents * (num_latents - 1) // 2
    if num_pairs > MOST_PAIRS:
        warnings.warn(f"{num_latents} latents make {num_pairs} pairs: the mutual-information score "
                      f"is the mean of {MOST_PAIRS} of them", stacklevel=3)
        rng = np.random.default_rng(num_latents)
        first = rng.integers(num_latents, size=MOST_PAIRS)
        second = (first + rng.integers(1, num_latents, size=MOST_PAIRS)) % num_latents
    else:
        first, second = np.triu_indices(num_latents, 1)
    counts = np.arange(num_rows + 1)
    # What the n-th row of a cell adds to sum n log n.
    gains = np.diff(xlogy(counts, counts))
    joint = np.empty(len(first))
    compiled(_count_pairs)(np.ascontiguousarray(bins.T.astype(np.int32)), first, second,
                            int(bins.max()) + 1, gains, joint)
    single = entropy(bins)
    information = single[first] + single[second] - np.log(num_rows) + joint / num_rows
    return float(np.maximum(information, 0.0).mean() * num_pairs)


def _count_pairs(bins, first, second, num_bins, gains, joint):
    """Sum n log n over the cells of the table of each pair of rows of `bins`."""
    cells = np.zeros(num_bins * num_bins, np.int64)
    num_rows = bins.shape[1]
    for p in range(len(first)):
        left, right = bins[first[p]], bins[second[p]]
        total = 0.0
        for i in range(num_rows):
            cell = left[i] * num_bins + right[i]
            total += gains[cells[cell]]
            cells[cell] += 1
        for i in range(num_rows):
            cells[left[i] * num_bins + right[i]] = 0
        joint[p] = total


METRIC = Metric(
    name="mutual_info_score",
    function=mutual_info_score,
    draw=draw_points,
    keys={"mutual_info_score": Key(Range(0.0), higher_is_better=False)},
    paper="computed for the runs of Locatello et al. 2019",
    version="2",
    summary="how much latents know about each other",
    conventions={"paper": {"num_points": 10_000, "num_bins": 20},
                 "study2019": {"num_points": 10_000, "num_bins": 20}},
    partial=True,
    bootstrap=bootstrap_of(mutual_info_score),
)
