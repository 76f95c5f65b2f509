"""Codes and factors as users have them, turned into arrays, or refused in one sentence.

Codes are numbers: `[sample, latent]`, or `[sample]` for one latent. Factors are classes or
quantities: `[sample, factor]`, or `[sample]` for one factor. Whatever stands in a column (integers,
floats, booleans, strings) is taken as the name of a class, classes are numbered in sorted order,
and quantities are put into bins: see `labels`, also for labels that are unknown.

A latent may be categorical: its column then holds class numbers. `num_values` has an entry for each
latent, 0 if it is continuous and K if its codes are classes 0 to K - 1; None says that all are
continuous. To metrics with a parameter of this name, order and distance of classes mean nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unweave.metrics.labels import NUM_FACTOR_BINS, Labels, distinct, numbered, read_labels
from unweave.types import Codes, Factors, Int, UserError

ArrayLike = Any
"""Anything `numpy.asarray` takes: nested lists, arrays, data frames, tensors."""


def as_array(values: ArrayLike) -> np.ndarray:
    """`numpy.asarray`, also for tensors that live on a device or carry a gradient.

    Arrays of other frameworks come through `__array__` (jax, tensorflow, pandas) or, where they
    have or allow no such thing (a GPU array of cupy), through DLPack.
    """
    try:
        if hasattr(values, "__dlpack__") and not hasattr(values, "detach") and not isinstance(
                values, np.ndarray):
            values = _from_dlpack(values)
        if hasattr(values, "detach"):
            values = values.detach().cpu()
            values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise UserError(f"expected a table of rows of equal length ({error})") from None


def _from_dlpack(values: Any) -> Any:
    """An array of another framework, without a copy where both can do so."""
    if hasattr(values, "__array__"):
        try:
            array = np.asarray(values)
            # bfloat16 of jax, which numpy knows as bytes with a name
            return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
        except (TypeError, ValueError, RuntimeError):
            pass  # it lives on a device and says so: torch fetches it
    return torch.from_dlpack(values)


def as_codes(values: ArrayLike) -> Codes:
    """Finite floats `[sample, latent]`, two rows at least; float32 stays, all else is float64."""
    codes = as_array(values)
    if np.ma.is_masked(values):
        raise UserError(f"codes must be known: {int(np.ma.getmaskarray(values).sum())} of them are "
                        "masked")
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
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"codes must be real numbers, got {codes.dtype} such as "
                            f"{codes.flat[0]!r}") from None
    finite = np.isfinite(codes)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise UserError(f"codes must be finite: row {row}, latent {column} is {codes[row, column]}"
                        f" ({int((~finite).sum())} such values)")
    return codes


def as_labels(values: ArrayLike, num_rows: int | None = None, factor_types: Any = None,
              num_factor_bins: int = NUM_FACTOR_BINS) -> Labels:
    """Factors with their types: declared, or inferred where `factor_types` has None."""
    factors = _table(values, num_rows)
    unknown = np.ma.getmaskarray(values) if np.ma.is_masked(values) else None
    if unknown is not None:
        unknown = unknown.reshape(factors.shape)
    return read_labels(factors, unknown, factor_types, num_factor_bins)


def as_factors(values: ArrayLike, num_rows: int | None = None, *,
               unknown: bool = False) -> Factors:
    """Classes `[sample, factor]`, those of each column numbered from 0 without gaps.

    Quantities are put into bins. Rows without a label have the class -1 with `unknown`, and are
    refused without it.
    """
    table = _table(values, num_rows)
    if table.dtype.kind in "iu" and not np.ma.is_masked(values):
        return np.stack([distinct(column)[1] for column in table.T], axis=1)
    classes = as_labels(values, num_rows).classes
    if not unknown and classes.size and classes.min() < 0:
        row, column = np.argwhere(classes < 0)[0]
        raise UserError(f"factors must be known: row {row} of factor {column} is missing "
                        f"({int((classes < 0).sum())} such labels)")
    return classes


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


def continuous_only(values: ArrayLike, num_values: Int[np.ndarray, " kinds"]) -> np.ndarray:
    """Codes without their categorical latents; one constant latent if there are no others."""
    codes, left = as_codes(values), num_values == 0
    if left.all():
        return codes
    return codes[:, left] if left.any() else np.zeros((len(codes), 1))


def class_numbers(column: np.ndarray) -> np.ndarray:
    """A categorical latent's classes, those that occur numbered from 0 without gaps."""
    return numbered(column.astype(np.int64))


def varying(factors: Factors) -> np.ndarray:
    """The columns that take more than one value, as far as known; at least one must."""
    known = factors >= 0
    if known.all():
        columns = np.flatnonzero((factors != factors[:1]).any(axis=0))
    else:
        high = factors.max(axis=0)
        columns = np.flatnonzero(np.where(known, factors, high).min(axis=0) < high)
    if len(columns) == 0:
        raise UserError("every factor is constant in these rows: nothing can be scored against it")
    return columns


def _table(values: ArrayLike, num_rows: int | None) -> np.ndarray:
    """Factors `[sample, factor]` of whatever kind."""
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
    return factors
