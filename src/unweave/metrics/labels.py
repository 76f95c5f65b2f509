"""Labels: a table of factors as users have it, read column by column.

A column is classes or quantities: see `FactorType`. Who does not say gets this: strings, booleans
and other names are categorical; numbers are ordinal classes, whole or not; fractions with many
distinct values are continuous. Circular is never guessed. A label may be unknown: NaN, None, an
empty string, a masked entry. Metrics see classes numbered from 0 with -1 for the unknown, and
quantities, where they need classes, in bins of equal width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unweave.factors import FactorType
from unweave.types import Factors, Float, Int, UserError

MANY_VALUES = 100
"""Fractions with more distinct values than this are quantities."""

FEW_VALUES = 20
"""So are those with more than this, if no value but few comes twice."""

LARGEST = 1e100
"""Quantities beyond this cannot be squared and added."""

NUM_FACTOR_BINS = 20
"""Bins of a quantity where classes are needed: as many as codes have."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Factors with their types."""

    values: Float[np.ndarray, "sample factor"]
    """Class numbers, or the quantities themselves; NaN where nothing is known."""
    types: tuple[FactorType, ...]
    num_bins: int = NUM_FACTOR_BINS

    @property
    def known(self) -> np.ndarray:
        """Which labels there are, `[sample, factor]`."""
        return ~np.isnan(self.values)

    @property
    def are_classes(self) -> bool:
        """Whether all are known, and none is a quantity."""
        return not any(kind.is_quantity for kind in self.types) and bool(self.known.all())

    def take(self, rows: slice | np.ndarray, columns: Sequence[int] | None = None) -> Labels:
        """The labels of some rows, and of some factors if they are named."""
        if columns is None:
            return Labels(self.values[rows], self.types, self.num_bins)
        return Labels(self.values[rows][:, list(columns)], tuple(self.types[k] for k in columns),
                      self.num_bins)

    def varying(self) -> list[int]:
        """The factors that take more than one value, as far as known."""
        seen = [column[~np.isnan(column)] for column in self.values.T]
        return [k for k, column in enumerate(seen) if len(column) and column.min() < column.max()]

    @property
    def classes(self) -> Factors:
        """Class numbers without gaps, quantities in bins; -1 where nothing is known."""
        columns = [numbered(binned(self.values[:, k], kind, self.num_bins))
                   for k, kind in enumerate(self.types)]
        return np.stack(columns, axis=1)

    def at(self, index: Int[np.ndarray, " row"]) -> Labels:
        """The labels of some rows."""
        return Labels(self.values[index], self.types, self.num_bins)

    def filled(self) -> Float[np.ndarray, "sample factor"]:
        """The values, with the middle one of its column where a label is unknown."""
        table = self.values.copy()
        for column in table.T:
            seen = np.sort(column[~np.isnan(column)])
            column[np.isnan(column)] = seen[len(seen) // 2] if len(seen) else 0.0
        return table


def read_labels(table: np.ndarray, unknown: np.ndarray | None, said: object,
                num_bins: int) -> Labels:
    """A table `[sample, factor]` of anything; `said` are types, a None among them is inferred."""
    if not isinstance(num_bins, int | np.integer) or num_bins < 2:
        raise UserError(f"num_factor_bins must be a whole number, at least 2, got {num_bins!r}")
    declared = declared_types(said, table.shape[1])
    columns = [read_column(table[:, k], k, declared[k], None if unknown is None else unknown[:, k])
               for k in range(table.shape[1])]
    return Labels(np.stack([c for c, _ in columns], axis=1), tuple(t for _, t in columns),
                  int(num_bins))


def declared_types(said: object, num_factors: int) -> list[FactorType | None]:
    """A type for each factor from one for all, a sequence of them, or nothing."""
    if isinstance(said, np.ndarray) and said.ndim == 0:
        said = said.item()
    if said is None or isinstance(said, str | FactorType):
        said = [said] * num_factors
    if not isinstance(said, Sequence | np.ndarray) or np.ndim(said) != 1:
        raise UserError("factor_types must be a list with a type for each factor, got "
                        f"{type(said).__name__}")
    if len(said) != num_factors:
        raise UserError(f"factor_types must have a type for each of the {num_factors} factors, "
                        f"got {len(said)}")
    return [None if one is None or str(one) == "" else FactorType.parse(one) for one in said]


def read_column(column: np.ndarray, number: int, declared: FactorType | None,
                masked: np.ndarray | None = None) -> tuple[np.ndarray, FactorType]:
    """Class numbers or quantities of one column, as floats with NaN for the unknown; its type."""
    values, unknown = _of_one_kind(column, number)
    if masked is not None:
        unknown = unknown | masked
    seen = values[~unknown] if unknown.any() else values
    numeric = values.dtype.kind in "biuf"
    if values.dtype.kind == "f" and not np.isfinite(seen).all():
        row = int(np.flatnonzero(~unknown)[np.argmin(np.isfinite(seen))])
        raise UserError(f"row {row} of factor {number} is {values[row]}: factors must be finite, "
                        "or NaN where they are unknown")
    if declared is not None and declared.is_quantity and not numeric:
        example = f" such as {str(seen[0])[:40]!r}" if len(seen) else ""
        raise UserError(f"factor {number} is declared {declared} and does not hold real numbers"
                        f"{example}: give numbers, or declare it categorical")
    names, found = distinct(seen)
    kind = declared or _inferred(values.dtype.kind, names, len(seen))
    if kind.is_quantity and len(seen) and max(-float(seen.min()), float(seen.max())) > LARGEST:
        raise UserError(f"factor {number} has quantities beyond {LARGEST:.0e}: rescale them, or "
                        "declare it ordinal")
    made = np.full(len(values), np.nan)
    made[~unknown] = seen.astype(np.float64) if kind.is_quantity else found
    return made, kind


def binned(column: Float[np.ndarray, " sample"], kind: FactorType,
           num_bins: int) -> Int[np.ndarray, " sample"]:
    """Classes as they are; quantities in bins of equal width; -1 where nothing is known.

    Bins run from the least to the largest value, as those of codes do. On a circle they divide the
    period, and a value and the same value a turn later are in one bin.
    """
    known = ~np.isnan(column)
    classes = np.full(len(column), -1, dtype=np.int64)
    seen = column[known]
    if not kind.is_quantity or len(seen) == 0:
        classes[known] = seen.astype(np.int64)
        return classes
    if kind.period is not None:
        turned = np.floor(np.mod(seen, kind.period) / kind.period * num_bins).astype(np.int64)
        classes[known] = np.minimum(turned, num_bins - 1)
        return classes
    low, high = seen.min(), seen.max()
    edges = np.arange(num_bins) * ((high - low) / num_bins) + low
    classes[known] = np.maximum(np.searchsorted(edges, seen, side="right") - 1, 0)
    if low == high:
        classes[known] = 0
    return classes


def numbered(classes: Int[np.ndarray, " sample"]) -> Int[np.ndarray, " sample"]:
    """Classes numbered from 0 without gaps; what is below 0 becomes -1."""
    if len(classes) and classes.min() >= 0:
        return distinct(classes)[1]
    made = np.full(len(classes), -1, dtype=np.int64)
    known = classes >= 0
    made[known] = distinct(classes[known])[1]
    return made


def distinct(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values in order, and the number of each row's among them."""
    if column.dtype.kind in "iu" and len(column):
        low, high = int(column.min()), int(column.max())
        if low >= 0 and high <= 4 * len(column) + 1000:
            # Counting is much faster than sorting, and small integers are the usual case.
            seen = np.bincount(column, minlength=high + 1) > 0
            return np.flatnonzero(seen), (np.cumsum(seen) - 1)[column]
    names, classes = np.unique(column, return_inverse=True)
    return names, classes.reshape(-1).astype(np.int64)


def _inferred(kind: str, names: np.ndarray, num_rows: int) -> FactorType:
    if kind not in "iufmM":
        return FactorType("categorical")
    many = len(names) > min(MANY_VALUES, max(FEW_VALUES, num_rows // 2))
    fractions = kind == "f" and (names != np.round(names)).any()
    return FactorType("continuous" if many and fractions else "ordinal")


def _of_one_kind(column: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The column as numbers or names, and which of its rows say nothing."""
    if column.dtype.kind in "biu":
        return column, np.zeros(len(column), dtype=bool)
    if column.dtype.kind in "fc":
        return column.astype(np.float64) if column.dtype.kind == "f" else column, np.isnan(column)
    if column.dtype.kind in "US":
        return column, column == np.zeros((), dtype=column.dtype)
    if column.dtype.kind in "mM":
        return column, np.isnat(column)
    if column.dtype.kind != "O":
        raise UserError(f"factor {number} holds values of type {column.dtype}: give numbers or "
                        "strings")
    unknown = np.array([_says_nothing(value) for value in column], dtype=bool)
    seen = column[~unknown]
    if any(isinstance(value, str) for value in seen):
        values = np.full(len(column), "", dtype=object)
        values[~unknown] = seen
        return values.astype(str), unknown
    values = np.full(len(column), np.nan)
    try:
        values[~unknown] = seen.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"factor {number} holds {type(seen[0]).__name__} values: give numbers "
                        "or strings") from None
    if all(isinstance(value, bool | np.bool_) for value in seen):
        return np.where(values == 1, "yes", "no"), unknown
    return values, unknown


def _says_nothing(value: object) -> bool:
    if value is None or (isinstance(value, str | bytes) and not value):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA, which answers neither yes nor no
        return type(value).__name__ in ("NAType", "NaTType")
