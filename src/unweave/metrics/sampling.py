"""Which rows a metric looks at: points, and groups of points that share the value of one factor.

A metric says what it needs as a `Draw` of row numbers and never sees an image, so the rows that
several metrics need are encoded once. Rows are drawn from a `SpaceSource` (a data set: a row is an
index of its `FactorSpace`) or a `RowSource` (codes and factors that a user brings: the rows are
all there is). All metrics share the stream of points and those of groups: draws of equal size are
equal, and so are the beginnings of draws that differ in length alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.factors import FactorSpace
from unweave.metrics.arrays import varying
from unweave.random import Purpose, numpy_generator
from unweave.types import Factors, IndexArray, Int, UserError

Groups = Int[np.ndarray, "group member *pair"]
Fixed = Int[np.ndarray, " group"]

FEW_ROWS = 10
"""Groups made from fewer rows than this are worth a warning."""

# Steps of the evaluation stream. The numbers are part of every result: never reuse or reorder them.
POINTS, TRAIN_GROUPS, TEST_GROUPS, BOOTSTRAP, SHUFFLE = 0, 1, 2, 3, 4
TRAIN_PAIRS, TEST_PAIRS = 5, 6
SPLIT = 7
MIXTURE = 8


@dataclass(frozen=True)
class Draw:
    """Rows for one metric. Of the groups, or else of the points, the first `num_train` train."""

    points: IndexArray
    groups: Groups | None = None
    """Members of a group have the same value of one factor and are otherwise drawn freely. In a
    group of pairs, `[group, pair, 2]`, that is so of the two of a pair; pairs differ in value."""
    fixed: Fixed | None = None
    """The factor whose value a group, or each of its pairs, shares."""
    num_train: int | None = None

    def rows(self) -> IndexArray:
        """All rows, repetitions included."""
        if self.groups is None:
            return self.points
        return np.concatenate([self.points, self.groups.ravel()])

    def renumbered(self, number: Callable[[np.ndarray], np.ndarray]) -> Draw:
        """The same draw with other row numbers."""
        groups = None if self.groups is None else number(self.groups)
        return Draw(number(self.points), groups, self.fixed, self.num_train)

    def shuffled(self, rng: np.random.Generator) -> Draw:
        """The same rows in places where they do not belong."""
        return self.renumbered(lambda rows: rng.permuted(rows.ravel()).reshape(rows.shape))


class SpaceSource:
    """Draws from a data set: uniform over the combinations of factors that exist."""

    def __init__(self, space: FactorSpace, seed: int) -> None:
        self.space, self.seed, self.num_train = space, seed, None

    def points(self, num: int | None) -> IndexArray:
        """`num` uniform draws with replacement; None for the whole data set."""
        if num is None:
            return np.arange(len(self.space))
        _at_least(num, 2, "num_points")
        return self.space.draw(num, numpy_generator(self.seed, Purpose.EVALUATION, POINTS))

    def groups(self, num: int, size: int, step: int) -> tuple[Groups, Fixed]:
        """Groups with a uniformly drawn factor fixed to the value of a uniformly drawn row."""
        rng = numpy_generator(self.seed, Purpose.EVALUATION, step)
        _at_least(size, 2, "group_size")
        if not self.space.is_complete:
            factors = self.space.factors(np.arange(len(self.space)))
            return groups_of_rows(factors, num, size, rng)
        sizes, strides, free = self._digits()
        fixed = free[rng.integers(len(free), size=num)]
        value = rng.integers(sizes[fixed])[:, None]
        rows = rng.integers(len(self.space), size=(num, size))
        stride = strides[fixed][:, None]
        # In a full grid the row number has the factors as digits: replace one digit.
        rows += (value - rows // stride % sizes[fixed][:, None]) * stride
        return rows, fixed

    def pairs(self, num: int, size: int, step: int) -> tuple[Groups, Fixed]:
        """Groups of pairs of uniform rows, the second with one factor's value from the first."""
        rng = numpy_generator(self.seed, Purpose.EVALUATION, step)
        _at_least(size, 1, "group_size")
        if not self.space.is_complete:
            factors = self.space.factors(np.arange(len(self.space)))
            return pairs_of_rows(factors, num, size, rng)
        sizes, strides, free = self._digits()
        fixed = free[rng.integers(len(free), size=num)]
        rows = rng.integers(len(self.space), size=(num, size, 2))
        stride, values = strides[fixed][:, None], sizes[fixed][:, None]
        first, second = rows[:, :, 0] // stride % values, rows[:, :, 1] // stride % values
        rows[:, :, 1] += (first - second) * stride
        return rows, fixed

    def _digits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of a full grid: sizes of factors, what a step of each adds, those that vary."""
        sizes = np.array(self.space.sizes)
        strides = np.append(np.cumprod(sizes[:0:-1])[::-1], 1)
        free = np.flatnonzero(sizes > 1)
        if len(free) == 0:
            raise UserError("every factor of this data set is constant: nothing can be fixed")
        return sizes, strides, free


class RowSource:
    """Draws from given rows, which play the part of the data set.

    Points are all rows, as they stand. With `num_train`, groups that train are made of the first
    rows and groups that test of the rest.
    """

    def __init__(self, factors: Factors, seed: int, num_train: int | None = None) -> None:
        if num_train is not None and not 2 <= num_train <= len(factors) - 2:
            raise UserError(f"num_train must leave at least 2 rows on either side, got {num_train} "
                            f"of {len(factors)}")
        self.table, self.seed, self.num_train = factors, seed, num_train

    def points(self, num: int | None) -> IndexArray:
        """Every row in order, whatever the number a convention draws from a data set."""
        return np.arange(len(self.table))

    def groups(self, num: int, size: int, step: int) -> tuple[Groups, Fixed]:
        """Groups of rows, drawn with replacement among those with the same value of a factor."""
        rng = numpy_generator(self.seed, Purpose.EVALUATION, step)
        _at_least(size, 2, "group_size")
        if self.num_train is None:
            return groups_of_rows(self.table, num, size, rng)
        if step == TRAIN_GROUPS:
            return groups_of_rows(self.table[:self.num_train], num, size, rng)
        groups, fixed = groups_of_rows(self.table[self.num_train:], num, size, rng)
        return groups + self.num_train, fixed

    def pairs(self, num: int, size: int, step: int) -> tuple[Groups, Fixed]:
        """Groups of pairs of rows that share the value of a factor."""
        rng = numpy_generator(self.seed, Purpose.EVALUATION, step)
        _at_least(size, 1, "group_size")
        if self.num_train is None:
            return pairs_of_rows(self.table, num, size, rng)
        if step == TRAIN_PAIRS:
            return pairs_of_rows(self.table[:self.num_train], num, size, rng)
        pairs, fixed = pairs_of_rows(self.table[self.num_train:], num, size, rng)
        return pairs + self.num_train, fixed


Source = SpaceSource | RowSource


def groups_of_rows(factors: Factors, num: int, size: int,
                   rng: np.random.Generator) -> tuple[Groups, Fixed]:
    """Groups among the rows that exist. A factor is fixed to the value of a random row.

    Constant factors are never fixed. Values that a single row has are passed over where the
    factor has others: a group of one row repeated varies in nothing. Rows in which the factor is
    unknown (-1) are in no group that fixes it.
    """
    free = varying(factors)
    fixed = free[rng.integers(len(free), size=num)]
    groups = np.empty((num, size), dtype=np.int64)
    for k in free:
        knowing = np.flatnonzero(factors[:, k] >= 0)
        column = factors[knowing, k]
        count = np.bincount(column)
        first = np.cumsum(count) - count
        by_value = np.argsort(column, kind="stable")
        chosen = np.flatnonzero(fixed == k)
        shared = np.flatnonzero(count[column] > 1)
        anchors = shared if len(shared) else np.arange(len(column))
        value = column[anchors[rng.integers(len(anchors), size=len(chosen))]][:, None]
        offset = rng.integers(count[value], size=(len(chosen), size))
        groups[chosen] = knowing[by_value[first[value] + offset]]
        _warn_of_few(count, int(k))
    return groups, fixed


def pairs_of_rows(factors: Factors, num: int, size: int,
                  rng: np.random.Generator) -> tuple[Groups, Fixed]:
    """Groups of pairs among the rows that exist: a random row, and another row with its value.

    Constant factors are never fixed, and values that a single row has are passed over where the
    factor has others: a row differs in nothing from itself. Both of a pair may be the same row,
    as two free draws may be.
    """
    free = varying(factors)
    fixed = free[rng.integers(len(free), size=num)]
    pairs = np.empty((num, size, 2), dtype=np.int64)
    for k in free:
        knowing = np.flatnonzero(factors[:, k] >= 0)
        column = factors[knowing, k]
        count = np.bincount(column)
        start = np.cumsum(count) - count
        by_value = np.argsort(column, kind="stable")
        chosen = np.flatnonzero(fixed == k)
        shared = np.flatnonzero(count[column] > 1)
        anchors = shared if len(shared) else np.arange(len(column))
        first = anchors[rng.integers(len(anchors), size=(len(chosen), size))]
        value = column[first]
        pairs[chosen, :, 0] = knowing[first]
        pairs[chosen, :, 1] = knowing[by_value[start[value] + rng.integers(count[value])]]
        _warn_of_few(count, int(k))
    return pairs, fixed


def _warn_of_few(count: np.ndarray, factor: int) -> None:
    few = int(((count > 0) & (count < FEW_ROWS)).sum())
    if few:
        warnings.warn(f"factor {factor} has {few} values with fewer than {FEW_ROWS} rows each: "
                      "groups with them fixed repeat rows, and the score leans on few of them",
                      stacklevel=3)


def draw_points(source: Source, *, num_points: int | None) -> Draw:
    """The draw of a metric that looks at codes and factors of points."""
    return Draw(source.points(num_points), num_train=source.num_train)


def draw_mixture(source: Source, *, num_points: int | None) -> Draw:
    """All points in an order that the seed makes: the first of them are a sample of all."""
    rng = numpy_generator(source.seed, Purpose.EVALUATION, MIXTURE)
    return Draw(rng.permutation(source.points(num_points)))


def draw_nothing(source: Source) -> Draw:
    """The draw of a metric that asks a model and looks at no row."""
    return Draw(np.empty(0, dtype=np.int64))


def draw_split(source: Source, *, num_train_points: int, num_test_points: int) -> Draw:
    """The draw of a metric that learns from some points and is judged on others.

    Given rows stand as they are, the first `num_train` train. If no such number was given, two
    thirds of them do, in an order that the seed makes. Of images without factors none is drawn
    twice: what trained must not test. If there are too few, they are shared out in proportion.
    """
    _at_least(num_train_points, 2, "num_train_points")
    _at_least(num_test_points, 1, "num_test_points")
    if isinstance(source, SpaceSource) and not source.space.has_factors:
        rng = numpy_generator(source.seed, Purpose.EVALUATION, SPLIT)
        wanted, held = num_train_points + num_test_points, len(source.space)
        if held < 3:
            raise UserError(f"{held} images cannot be split into some that train and others that "
                            "test: at least 3 are needed")
        num_train = min(num_train_points, max(2, held * num_train_points // wanted))
        return Draw(rng.permutation(held)[:wanted], num_train=min(num_train, held - 1))
    if isinstance(source, SpaceSource):
        return Draw(source.points(num_train_points + num_test_points), num_train=num_train_points)
    points = source.points(None)
    if source.num_train is not None:
        return Draw(points, num_train=source.num_train)
    rng = numpy_generator(source.seed, Purpose.EVALUATION, SPLIT)
    return Draw(rng.permutation(points), num_train=max(1, 2 * len(points) // 3))


def draw_votes(source: Source, *, num_points: int | None, group_size: int, num_train_votes: int,
               num_test_votes: int) -> Draw:
    """The draw of a metric that fixes factors: free points, groups that train, groups that test."""
    _at_least(num_train_votes, 1, "num_train_votes")
    _at_least(num_test_votes, 1, "num_test_votes")
    train, train_fixed = source.groups(num_train_votes, group_size, TRAIN_GROUPS)
    test, test_fixed = source.groups(num_test_votes, group_size, TEST_GROUPS)
    return Draw(source.points(num_points), np.concatenate([train, test]),
                np.concatenate([train_fixed, test_fixed]), num_train=num_train_votes)


def draw_pairs(source: Source, *, group_size: int, num_train_votes: int,
               num_test_votes: int) -> Draw:
    """The draw of a metric that compares pairs: groups of pairs that train, and that test."""
    _at_least(num_train_votes, 1, "num_train_votes")
    _at_least(num_test_votes, 1, "num_test_votes")
    train, train_fixed = source.pairs(num_train_votes, group_size, TRAIN_PAIRS)
    test, test_fixed = source.pairs(num_test_votes, group_size, TEST_PAIRS)
    return Draw(np.empty(0, dtype=np.int64), np.concatenate([train, test]),
                np.concatenate([train_fixed, test_fixed]), num_train=num_train_votes)


def _at_least(value: int, least: int, name: str) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name} must be a whole number, at least {least}, got {value!r}")
