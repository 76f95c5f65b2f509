"""Bootstrap of answers: runs are drawn again within their setting, the question is asked again.

A run is what a study repeats, so seeds are what is resampled; data sets, methods and strengths are
the ones there are. Means and rank correlations are computed from how often each run was drawn,
without sorting anything twice: the cost of a replicate is a few passes over the runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

NUM_REPLICATES = 200

Statistic = Callable[[np.ndarray], np.ndarray]

_BLOCK = 4_000_000
"""About how many numbers are held at once."""


def interval(replicates: np.ndarray, axis: int = 0) -> tuple[Any, Any]:
    """The 2.5 % and 97.5 % points of replicates."""
    low, high = np.quantile(replicates, (0.025, 0.975), axis=axis)
    return low, high


def draw_counts(groups: np.ndarray, rng: np.random.Generator,
                num: int = NUM_REPLICATES) -> np.ndarray:
    """How often each row is drawn, `[replicate, row]`: with replacement, within its group."""
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    num_rows = len(groups)
    drawn = start + (rng.random((num, num_rows)) * size).astype(np.int64)
    drawn = order[drawn] + np.arange(num)[:, None] * num_rows
    counted = np.bincount(drawn.ravel(), minlength=num * num_rows)
    return counted.astype(np.int32).reshape(num, num_rows)


def rank_correlations(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Spearman correlations of the columns of `values` `[row, column]`, for each row of counts.

    `[replicate, column, column]`; ties get the mean of their ranks, as if each row stood there as
    often as it was drawn. A column without spread has correlation NaN.
    """
    block = max(1, _BLOCK // values.size)  # so that a large study does not fill the memory
    return np.concatenate([_rank_correlations(values, counts[start:start + block])
                           for start in range(0, len(counts), block)])


def _rank_correlations(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    num = counts.sum(-1, keepdims=True)
    ranks = np.stack([_ranks(column, counts) for column in values.T], axis=1)  # [B, column, row]
    ranks -= (num[..., None] + 1) / 2  # the mean of the ranks
    covariance = (ranks * counts[:, None, :]) @ ranks.swapaxes(-1, -2)
    scale = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return covariance / (scale[:, :, None] * scale[:, None, :])


def _ranks(column: np.ndarray, counts: np.ndarray) -> np.ndarray:
    _, level = np.unique(column, return_inverse=True)
    order = np.argsort(level, kind="stable")
    of_level = counts[:, order]
    if level[order[-1]] + 1 < len(level):  # ties
        first = np.flatnonzero(np.diff(level[order], prepend=-1))
        of_level = np.add.reduceat(of_level, first, axis=1)  # [B, level]
    return (of_level.cumsum(1, dtype=np.int32) - (of_level - 1) * 0.5)[:, level]


def medians(values: np.ndarray, rng: np.random.Generator,
            num: int = NUM_REPLICATES) -> tuple[np.ndarray, np.ndarray]:
    """Medians over the last axis (seeds), and replicates `[replicate, ...]`; NaN is left out."""
    return _middle(values), _redrawn(values, rng, num, _middle)


def means(values: np.ndarray, rng: np.random.Generator,
          num: int = NUM_REPLICATES) -> tuple[np.ndarray, np.ndarray]:
    """Means over the last axis (seeds), and replicates `[replicate, ...]`; NaN is left out."""
    return _mean(values), _redrawn(values, rng, num, _mean)


def _redrawn(values: np.ndarray, rng: np.random.Generator, num: int,
             statistic: Statistic) -> np.ndarray:
    ordered = np.sort(values, axis=-1)  # NaN last
    count = (~np.isnan(ordered)).sum(-1)[..., None]
    beyond = np.arange(values.shape[-1]) >= count
    found = np.empty((num, *values.shape[:-1]))
    block = max(1, _BLOCK // (8 * max(1, values.size)))
    for start in range(0, num, block):
        size = min(block, num - start)
        drawn = (rng.random((size, *values.shape)) * count).astype(np.int64)
        again = np.take_along_axis(ordered[None], drawn, axis=-1)
        again[:, beyond] = np.nan
        found[start:start + size] = statistic(again)
    return found


def _middle(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values, axis=-1)
    count = (~np.isnan(ordered)).sum(-1)[..., None]
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[-1] - 1), axis=-1)
    return ((low + high) / 2)[..., 0]


def pooled(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and medians `[replicate]` of all values together, each counted so often."""
    order = np.argsort(values, kind="stable")
    total = counts.sum(-1)
    mean = counts @ values / total
    running = counts[:, order].cumsum(-1)
    ordered = values[order]
    # The middle one, or the two: the first places whose running count passes half.
    low = ordered[(running >= ((total + 1) // 2)[:, None]).argmax(-1)]
    high = ordered[(running >= (total // 2 + 1)[:, None]).argmax(-1)]
    return mean, (low + high) / 2


def _mean(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    count = known.sum(-1)
    total = np.where(known, values, 0.0).sum(-1)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
