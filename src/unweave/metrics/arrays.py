"""Codes and factors as users have them, turned into arrays, or refused in one sentence.

Codes are numbers: `[sample, latent]`, or `[sample]` for one latent. Factors are classes:
`[sample, factor]`, or `[sample]` for one factor; whatever stands in a column (integers, floats,
booleans, strings) is taken as the name of a class, and classes are numbered in sorted order.

A latent may be categorical: its column then holds class numbers. `num_values` has an entry for each
latent, 0 if it is continuous and K if its codes are classes 0 to K - 1; None says that all are
continuous. To metrics with a parameter of this name, order and distance of classes mean nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.types import Codes, Factors, Int, UserError

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


def as_num_values(values: ArrayLike | None, codes: Codes) -> Int[np.ndarray, " latent"]:
    """The number of values of each latent, 0 for continuous ones, checked against the codes."""
    num_latents = codes.shape[1]
    if values is None:
        return np.zeros(num_latents, dtype=np.int64)
    given = as_array(values)
    if given.shape != (num_latents,):
        held = f"{len(given)} of them" if given.ndim == 1 else f"the shape {given.shape}"
        raise UserError(f"num_values must have one entry for each of the {num_latents} latents, "
                        f"got {held}")
    if given.dtype.kind not in "iu" or given.min() < 0:
        raise UserError("num_values must be whole numbers, 0 for a continuous latent and the "
                        f"number of classes for a categorical one, got {given.tolist()}")
    for j in np.flatnonzero(given):
        column = codes[:, j]
        wrong = np.flatnonzero((column < 0) | (column >= given[j]) | (column != np.floor(column)))
        if len(wrong):
            raise UserError(f"latent {j} is categorical with num_values {given[j]}: its codes must "
                            f"be whole numbers from 0 to {given[j] - 1}, row {wrong[0]} is "
                            f"{column[wrong[0]]}")
    return given.astype(np.int64)


def class_numbers(column: np.ndarray) -> np.ndarray:
    """A categorical latent's classes, those that occur numbered from 0 without gaps."""
    return _classes(column.astype(np.int64), 0)


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
