"""FactorSpace: the factors behind a data set, as names, sizes and a numbering.

An index is the position of a combination in the order in which the last factor varies fastest,
counting only the combinations that exist. Draws are uniform over those combinations.

A data set without factors has a space too, in which an index is just the number of an image. What
else is known of its images is a `LabelTable`: rows that may repeat and cannot be fixed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unweave.types import Factors, IndexArray, UserError, unknown_name

FACTOR_TYPES = ("categorical", "ordinal", "continuous", "circular")


@dataclass(frozen=True)
class FactorType:
    """What the values of a factor are: names, ranks, quantities, or places on a circle.

    `categorical` classes have no order, `ordinal` ones do, and `circular` ones have one in which
    the first follows the last: their period is the number of classes. A `continuous` factor is a
    quantity, and so is a circular one with a `period` of its own: `circular:360` in words.
    """

    name: str
    period: float | None = None

    @property
    def is_quantity(self) -> bool:
        """Whether values are quantities; else they are classes."""
        return self.name == "continuous" or self.period is not None

    def __str__(self) -> str:
        return self.name if self.period is None else f"{self.name}:{self.period:.17g}"

    @classmethod
    def parse(cls, said: object) -> FactorType:
        """From one of the four names, or `circular:PERIOD`."""
        if isinstance(said, FactorType):
            return said
        name, colon, period = str(said).strip().partition(":")
        if name not in FACTOR_TYPES:
            raise unknown_name("factor type", name, (*FACTOR_TYPES, "circular:PERIOD"))
        if not colon:
            return cls(name)
        try:
            number = float(period)
        except ValueError:
            number = 0.0
        if name != "circular" or not 0 < number < float("inf"):
            raise UserError(f"factor type {str(said)!r} is not understood: only a circular factor "
                            "has a period, which is a number above 0, as in circular:360")
        return cls(name, number)


def _integers(kind: str, values: object) -> np.ndarray:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise UserError(f"{kind} must be a whole number, got values of type {array.dtype}")
    return array.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class FactorSpace:
    """Names, sizes and values of factors; which combinations exist; index to factors and back."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    values: tuple[np.ndarray, ...] = ()
    """For each factor what its classes mean (radians, names, ...); the class numbers if empty."""
    cells: np.ndarray | None = None
    """Sorted positions in the full grid of the combinations that exist; None means all of them."""
    types: tuple[FactorType | str, ...] = ()
    """A type for each factor, `FactorType` once made; if empty, those with names for values are
    categorical and the others ordinal."""
    num_images: int = 0
    """How many images a data set without factors has; 0 where there are factors."""
    _by_value: dict[tuple[int, int], np.ndarray] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes):
            raise UserError(f"{len(self.names)} factor names for {len(self.sizes)} factor sizes")
        if bool(self.names) == bool(self.num_images) or self.num_images < 0:
            raise UserError("a data set has factors, or a number of images that is at least 1")
        if any(s < 1 for s in self.sizes):
            raise UserError(f"factor sizes must be at least 1, got {self.sizes}")
        if not self.values:
            object.__setattr__(self, "values", tuple(np.arange(s) for s in self.sizes))
        if [len(v) for v in self.values] != list(self.sizes):
            raise UserError("each factor needs one value for each of its classes")
        types = self.types or ["categorical" if np.asarray(v).dtype.kind in "USOb" else "ordinal"
                               for v in self.values]
        if len(types) != len(self.names):
            raise UserError(f"{len(types)} factor types for {len(self.names)} factors")
        object.__setattr__(self, "types", tuple(FactorType.parse(said) for said in types))
        for name, kind in zip(self.names, self.types):
            if kind.is_quantity:
                raise UserError(f"{name} has classes and cannot be {kind}: a factor of a data set "
                                "is categorical, ordinal or circular")
        if self.cells is not None:
            cells = np.unique(np.asarray(self.cells, dtype=np.int64))
            if len(cells) == 0 or cells[0] < 0 or cells[-1] >= self.grid_size:
                raise UserError("the combinations of a data set must lie in its factor grid")
            object.__setattr__(self, "cells", None if len(cells) == self.grid_size else cells)

    @classmethod
    def from_rows(cls, names: Sequence[str], rows: Factors,
                  sizes: Sequence[int] | None = None,
                  types: Sequence[FactorType | str] = ()) -> FactorSpace:
        """The space of those combinations that occur in `rows`."""
        rows = _integers("a factor class", rows)
        if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] != len(names):
            raise UserError(f"factors must be [sample, {len(names)}] with at least one row for the "
                            f"names {', '.join(names)}, got the shape {list(rows.shape)}")
        sizes = tuple(int(s) for s in (rows.max(axis=0) + 1 if sizes is None else sizes))
        if (rows < 0).any() or (rows >= np.array(sizes)).any():
            raise UserError(f"factor classes must lie in 0..size - 1 for the sizes {sizes}")
        return cls(tuple(names), sizes, types=tuple(types),
                   cells=np.ravel_multi_index(tuple(rows.T), sizes))

    @classmethod
    def without_factors(cls, num_images: int) -> FactorSpace:
        """The space of images of which no factors are known."""
        return cls((), (), num_images=num_images)

    @property
    def has_factors(self) -> bool:
        """Whether images have factors; if not, an index is no more than a number."""
        return bool(self.names)

    @property
    def grid_size(self) -> int:
        """Number of combinations in the full grid, or of images without factors."""
        if not self.names:
            return self.num_images
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def is_complete(self) -> bool:
        """Whether every combination exists."""
        return self.cells is None

    def __len__(self) -> int:
        return self.grid_size if self.cells is None else len(self.cells)

    def checked(self, index: IndexArray | Sequence[int] | int) -> IndexArray:
        """`index` as an int64 array, if all of it lies in this space."""
        index = np.atleast_1d(_integers("an index", index))
        if index.ndim != 1:
            raise UserError(f"an index is one row of numbers, got the shape {list(index.shape)}")
        if len(index) and (index.min() < 0 or index.max() >= len(self)):
            raise UserError(f"index {index.min()}..{index.max()} is outside 0..{len(self) - 1}")
        return index

    def factors(self, index: IndexArray | Sequence[int] | int) -> Factors:
        """Factor classes `[sample, factor]` of the combinations at `index`."""
        index = self.checked(index)
        if not self.names:
            return np.empty((len(index), 0), dtype=np.int64)
        cells = index if self.cells is None else self.cells[index]
        return np.stack(np.unravel_index(cells, self.sizes), axis=-1).astype(np.int64)

    def index(self, factors: Factors | Sequence[Sequence[int]]) -> IndexArray:
        """The index of each row of factor classes; rows that do not exist are refused."""
        self._needs_factors()
        factors = np.atleast_2d(_integers("a factor class", factors))
        if factors.shape[-1] != len(self.sizes):
            raise UserError(f"expected {len(self.sizes)} factors a row ({', '.join(self.names)}), "
                            f"got {factors.shape[-1]}")
        if ((factors < 0) | (factors >= np.array(self.sizes))).any():
            raise UserError(f"factor classes must lie below the sizes {self.sizes}")
        cells = np.ravel_multi_index(tuple(factors.T), self.sizes).astype(np.int64)
        if self.cells is None:
            return cells
        index = np.minimum(np.searchsorted(self.cells, cells), len(self.cells) - 1)
        if (self.cells[index] != cells).any():
            row = factors[np.flatnonzero(self.cells[index] != cells)[0]]
            raise UserError(f"no image has the factors {tuple(int(v) for v in row)}")
        return index

    def has(self, row: Sequence[int] | np.ndarray) -> bool:
        """Whether the combination of factor classes `row` exists."""
        self._needs_factors()
        row = _integers("a factor class", row)
        if row.shape != (len(self.sizes),):
            raise UserError(f"expected one row of {len(self.sizes)} factors, got {list(row.shape)}")
        if (row < 0).any() or (row >= np.array(self.sizes)).any():
            return False
        if self.cells is None:
            return True
        cell = np.ravel_multi_index(tuple(row), self.sizes)
        at = np.searchsorted(self.cells, cell)
        return bool(at < len(self.cells) and self.cells[at] == cell)

    def draw(self, num: int, rng: np.random.Generator) -> IndexArray:
        """`num` uniform draws of an index."""
        return rng.integers(len(self), size=num)

    def draw_fixed(self, num: int, fixed: Mapping[str | int, int],
                   rng: np.random.Generator) -> IndexArray:
        """`num` uniform draws among the combinations in which some factors have given classes."""
        positions = {self.position(k): int(v) for k, v in fixed.items()}
        for k, v in positions.items():
            if not 0 <= v < self.sizes[k]:
                raise UserError(f"{self.names[k]} has classes 0..{self.sizes[k] - 1}, got {v}")
        if self.cells is None:
            rows = np.empty((num, len(self.sizes)), dtype=np.int64)
            for k, size in enumerate(self.sizes):
                rows[:, k] = positions[k] if k in positions else rng.integers(size, size=num)
            return self.index(rows)
        found: np.ndarray | None = None
        for k, v in positions.items():
            rows = self._rows_with(k, v)
            found = rows if found is None else np.intersect1d(found, rows, assume_unique=True)
        if found is None:
            return self.draw(num, rng)
        if len(found) == 0:
            said = ", ".join(f"{self.names[k]}={v}" for k, v in positions.items())
            raise UserError(f"no image has {said}")
        return found[rng.integers(len(found), size=num)]

    def position(self, factor: str | int) -> int:
        """The column of a factor, by name or number."""
        self._needs_factors()
        if isinstance(factor, str):
            if factor not in self.names:
                raise unknown_name("factor", factor, self.names)
            return self.names.index(factor)
        if not 0 <= factor < len(self.names):
            raise UserError(f"factor {factor} is outside 0..{len(self.names) - 1}")
        return int(factor)

    def _needs_factors(self) -> None:
        if not self.names:
            raise UserError("this data set has no factors: its images are known by number alone")

    def _rows_with(self, factor: int, value: int) -> np.ndarray:
        if (factor, value) not in self._by_value:
            column = np.unravel_index(self.cells, self.sizes)[factor]
            self._by_value[factor, value] = np.flatnonzero(column == value)
        return self._by_value[factor, value]


@dataclass(frozen=True, eq=False)
class LabelTable:
    """What is said of the images of a data set without factors: a row each, a column each label.

    Several images may have the same row, and a label may be unknown (NaN, None, an empty string).
    """

    names: tuple[str, ...]
    values: np.ndarray
    """Numbers or names `[image, label]`, in the order of the images."""
    types: tuple[FactorType | str | None, ...] = ()
    """A type for each label, None where it is to be inferred; if empty, all are."""

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names) or not self.names:
            raise UserError(f"labels must be [image, {len(self.names)}] for the names "
                            f"{', '.join(self.names)}, got the shape {list(self.values.shape)}")
        if self.types and len(self.types) != len(self.names):
            raise UserError(f"{len(self.types)} types for {len(self.names)} labels")
        said = tuple(None if kind is None else FactorType.parse(kind) for kind in self.types)
        object.__setattr__(self, "types", said)

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> np.ndarray:
        """One label of every image."""
        if name not in self.names:
            raise unknown_name("label", name, self.names)
        return self.values[:, self.names.index(name)]
