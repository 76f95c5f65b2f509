"""Codes and factors as users have them, turned into arrays, or refused in one sentence.

Codes are numbers: `[sample, latent]`, or `[sample]` for one latent. Factors are classes:
`[sample, factor]`, or `[sample]` for one factor; whatever stands in a column (integers, floats,
booleans, strings) is taken as the name of a class, and classes are numbered in sorted order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.types import Codes, Factors, UserError

ArrayLike = Any
"""Anything `numpy.asarray` takes: nested lists, arrays, data frames, tensors."""

MANY_CLASSES = 100
"""A column of fractions with more distinct values than this, most of them unique, is continuous."""


def as_array(values: ArrayLike) -> np.ndarray:
    """`numpy.asarray`, also for tensors that live on a device or carry a gradient."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise UserError(f"expected a table of rows of equal length ({error})") from None


def as_codes(values: ArrayLike) -> Codes:
    """Finite floats `[sample, latent]`, two rows at least; float32 stays, all else is float64."""
    codes = as_array(values)
    if codes.ndim == 1:
        codes = codes[:, None]
    if codes.ndim != 2:
        raise UserError(f"codes must be [sample, latent], got the shape {codes.shape}")
    if codes.shape[1] == 0:
        raise UserError("codes have no columns: at least one latent is needed")
    if len(codes) < 2:
        raise UserError(f"scores need at least 2 rows of codes, got {len(codes)}")
    if codes.dtype != np.float32:
        try:
            if codes.dtype.kind not in "biufO":
                raise TypeError
            codes = codes.astype(np.float64)
        except (TypeError, ValueError):
            raise UserError(f"codes must be real numbers, got {codes.dtype} such as "
                            f"{codes.flat[0]!r}") from None
    finite = np.isfinite(codes)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise UserError(f"codes must be finite: row {row}, latent {column} is {codes[row, column]}"
                        f" ({int((~finite).sum())} such values)")
    return codes


def as_factors(values: ArrayLike, num_rows: int | None = None) -> Factors:
    """Classes `[sample, factor]`, those of each column numbered from 0 without gaps."""
    factors = as_array(values)
    if factors.ndim == 1:
        factors = factors[:, None]
    if factors.ndim != 2:
        raise UserError(f"factors must be [sample, factor], got the shape {factors.shape}")
    if factors.shape[1] == 0:
        raise UserError("factors have no columns: at least one factor is needed")
    if num_rows is not None and len(factors) != num_rows:
        raise UserError(f"codes and factors need the same number of rows, got {num_rows} and "
                        f"{len(factors)}")
    columns = [_classes(factors[:, k], k) for k in range(factors.shape[1])]
    return np.stack(columns, axis=1)


def varying(factors: Factors) -> np.ndarray:
    """The columns that take more than one value; at least one must."""
    columns = np.flatnonzero((factors != factors[:1]).any(axis=0))
    if len(columns) == 0:
        raise UserError("every factor is constant in these rows: nothing can be scored against it")
    return columns


def _classes(column: np.ndarray, number: int) -> np.ndarray:
    if column.dtype.kind == "O":
        column = _of_one_kind(column, number)
    if column.dtype.kind in "fc" and not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        raise UserError(f"factors must be known: row {row} of factor {number} is {column[row]}")
    if column.dtype.kind in "iu" and len(column):
        low, high = int(column.min()), int(column.max())
        if low >= 0 and high <= 4 * len(column) + 1000:
            # Counting is much faster than sorting, and small integers are the usual case.
            seen = np.bincount(column, minlength=high + 1) > 0
            return (np.cumsum(seen) - 1)[column]
    names, classes = np.unique(column, return_inverse=True)
    if (column.dtype.kind == "f" and len(names) > max(MANY_CLASSES, len(column) // 2)
            and (names != np.round(names)).any()):
        raise UserError(f"factor {number} has {len(names)} distinct values in {len(column)} rows "
                        "and looks continuous: put it into classes first")
    return classes.reshape(-1).astype(np.int64)


def _of_one_kind(column: np.ndarray, number: int) -> np.ndarray:
    """An object column (a data frame of mixed types) as numbers if it can be, else as text."""
    if any(value is None or value != value for value in column):
        raise UserError(f"factors must be known: factor {number} has missing values")
    if any(isinstance(value, str) for value in column):
        return column.astype(str)
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        raise UserError(f"factor {number} holds {type(column[0]).__name__} values: give numbers "
                        "or strings") from None
