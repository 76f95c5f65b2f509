"""Entropy and mutual information of discrete variables, by counting, in nats.

Every estimate is the plug-in one. With counts n_ab of the pair (a, b) among n rows,

    I(a; b) = log n + (sum n_ab log n_ab - sum n_a log n_a - sum n_b log n_b) / n,

so one table of joint counts per pair is all there is to compute. A class of -1 is an unknown label:
its row is left out of everything about that factor, and of nothing else.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from unweave.metrics.arrays import ArrayLike, as_num_values, class_numbers
from unweave.types import Codes, Factors, Float, Int, UserError

Bins = Int[np.ndarray, "sample latent"]

KEYS_AT_ONCE = 1 << 22
"""Joint counts of many latents are made in pieces of about this many (row, latent) pairs."""


def discretise(codes: Codes, num_bins: int, num_values: ArrayLike | None = None) -> Bins:
    """The equal-width bin, 0 to num_bins - 1, of each code between the column's least and largest.

    The same bins as `numpy.digitize(x, numpy.histogram(x, num_bins)[1][:-1]) - 1` in numpy 1, bit
    for bit: edges are multiples of the width in double precision, rounded to the precision of the
    codes, closed on the left. So were those of the published study; numpy 2 has the multiples of
    single-precision codes in single precision, and an edge may lie a step of it away. A constant
    column falls into one bin. The bins of a categorical latent (`num_values` above 0) are its
    classes, however many: those that occur, in order.
    """
    num_values = as_num_values(num_values, codes)
    if not isinstance(num_bins, int | np.integer) or num_bins < 1:
        raise UserError(f"num_bins must be a whole number, at least 1, got {num_bins!r}")
    low, high = codes.min(axis=0).astype(np.float64), codes.max(axis=0).astype(np.float64)
    constant = low == high
    low, high = np.where(constant, low - 0.5, low), np.where(constant, high + 0.5, high)
    with np.errstate(over="ignore"):
        step = (high - low) / num_bins
    if not np.isfinite(step).all():
        raise UserError(f"codes of latent {int(np.argmin(np.isfinite(step)))} span a range that "
                        f"{codes.dtype} cannot hold: rescale them")
    edges = (np.arange(num_bins)[:, None] * step + low).astype(codes.dtype)
    bins = np.empty(codes.shape, dtype=np.int64)
    for j in range(codes.shape[1]):
        bins[:, j] = np.searchsorted(edges[:, j], codes[:, j], side="right")
    bins = np.clip(bins - 1, 0, num_bins - 1)
    for j in np.flatnonzero(num_values):
        bins[:, j] = class_numbers(codes[:, j])
    return bins


def entropy(labels: Factors) -> Float[np.ndarray, " factor"]:
    """H of each column, in nats, over the rows where it is known."""
    return np.array([_entropy_of_counts(np.bincount(column[column >= 0])) for column in labels.T])


def joint_counts(bins: Bins, column: np.ndarray) -> np.ndarray:
    """Counts `[latent, bin, class]` of each column of `bins` together with one column of classes.

    Bins and classes are numbered from 0. Rows whose class is below 0 are not counted.
    """
    if column.min() < 0:
        bins, column = bins[column >= 0], column[column >= 0]
    num_rows, num_latents = bins.shape
    num_bins, num_classes = int(bins.max()) + 1, int(column.max()) + 1
    counts = np.empty((num_latents, num_bins, num_classes), dtype=np.int64)
    piece = max(1, KEYS_AT_ONCE // num_rows)
    for start in range(0, num_latents, piece):
        part = bins[:, start:start + piece]
        width = part.shape[1]
        keys = (np.arange(width) * num_bins + part) * num_classes + column[:, None]
        flat = np.bincount(keys.ravel(), minlength=width * num_bins * num_classes)
        counts[start:start + width] = flat.reshape(width, num_bins, num_classes)
    return counts


def information_of_counts(counts: np.ndarray) -> np.ndarray:
    """I of tables `[..., a, b]` of joint counts or weights; shape `[...]`, never below zero."""
    num = counts.sum(axis=(-2, -1))
    joint = xlogy(counts, counts).sum(axis=(-2, -1))
    left, right = counts.sum(axis=-1), counts.sum(axis=-2)
    margins = xlogy(left, left).sum(axis=-1) + xlogy(right, right).sum(axis=-1)
    return np.maximum(np.log(num) + (joint - margins) / num, 0.0)


def mutual_information(bins: Bins, classes: Factors) -> Float[np.ndarray, "latent factor"]:
    """I(z_j; v_k) for every latent j and factor k, in nats."""
    columns = [information_of_counts(joint_counts(bins, column)) for column in classes.T]
    return np.stack(columns, axis=1)


def _entropy_of_counts(counts: np.ndarray) -> float:
    num = counts.sum()
    return float(max(np.log(num) - xlogy(counts, counts).sum() / num, 0.0))
