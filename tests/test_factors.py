"""FactorSpace: numbering, draws, incomplete grids."""

import itertools

import numpy as np
import pytest

from unweave.factors import FactorSpace, _integers
from unweave.types import UserError

FULL = FactorSpace(("a", "b", "c"), (2, 3, 4))
HOLES = FactorSpace(("a", "b", "c"), (2, 3, 4), cells=np.array([0, 3, 5, 11, 12, 20, 23]))
SPACES = pytest.mark.parametrize("space", [FULL, HOLES], ids=["full", "holes"])


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def is_uniform(counts: np.ndarray) -> bool:
    # Chi-square over its degrees of freedom: 1 on average, here some six deviations off.
    expected = counts.sum() / len(counts)
    excess = ((counts - expected) ** 2 / expected).sum() - (len(counts) - 1)
    return bool(excess < 6 * np.sqrt(2 * (len(counts) - 1)))


def test_the_last_factor_varies_fastest() -> None:
    rows = np.array(list(itertools.product(range(2), range(3), range(4))))
    np.testing.assert_array_equal(FULL.factors(np.arange(24)), rows)
    assert FULL.index([[1, 2, 3]]).tolist() == [23]
    assert FULL.index([[0, 1, 0]]).tolist() == [4]


@SPACES
def test_round_trip(space: FactorSpace) -> None:
    index = np.arange(len(space))
    rows = space.factors(index)
    assert rows.dtype == np.int64
    np.testing.assert_array_equal(space.index(rows), index)
    assert all(space.has(row) for row in rows)


@SPACES
def test_draws_are_uniform(space: FactorSpace) -> None:
    index = space.draw(20000, generator())
    counts = np.bincount(index, minlength=len(space))
    assert len(counts) == len(space)
    assert is_uniform(counts)


@SPACES
def test_conditional_draws_are_uniform_over_what_remains(space: FactorSpace) -> None:
    wanted = {"a": 0, 2: 3}
    allowed = [i for i, row in enumerate(space.factors(np.arange(len(space))))
               if row[0] == 0 and row[2] == 3]
    index = space.draw_fixed(6000, wanted, generator(1))
    counts = np.bincount(index, minlength=len(space))
    assert sorted(np.flatnonzero(counts)) == allowed
    assert is_uniform(counts[allowed])


@SPACES
def test_nothing_fixed_draws_from_all(space: FactorSpace) -> None:
    index = space.draw_fixed(5000, {}, generator())
    assert is_uniform(np.bincount(index, minlength=len(space)))


@SPACES
def test_draws_repeat_with_the_generator(space: FactorSpace) -> None:
    np.testing.assert_array_equal(space.draw(50, generator(3)), space.draw(50, generator(3)))


def test_incomplete_grid() -> None:
    assert not HOLES.is_complete
    assert len(HOLES) == 7
    assert HOLES.grid_size == 24
    assert not HOLES.has([0, 0, 1])
    assert HOLES.has([0, 0, 3])
    with pytest.raises(UserError, match=r"no image has the factors \(0, 0, 1\)"):
        HOLES.index([[0, 0, 0], [0, 0, 1]])
    with pytest.raises(UserError, match="no image has a=0, b=1, c=0"):
        HOLES.draw_fixed(2, {"a": 0, "b": 1, "c": 0}, generator())


def test_all_cells_given_is_a_complete_grid() -> None:
    assert FactorSpace(("a",), (3,), cells=np.array([2, 0, 1])).is_complete


def test_from_rows() -> None:
    rows = np.array([[1, 2], [0, 0], [1, 0]])
    space = FactorSpace.from_rows(("a", "b"), rows)
    assert space.sizes == (2, 3)
    assert space.index(rows).tolist() == [2, 0, 1]
    assert FactorSpace.from_rows(("a", "b"), rows, (4, 5)).sizes == (4, 5)
    assert FactorSpace.from_rows(("a",), np.array([[0], [1], [1]])).is_complete


@pytest.mark.parametrize(("act", "says"), [
    (lambda: FULL.factors([24]), "outside 0..23"),
    (lambda: FULL.factors(-1), "outside 0..23"),
    (lambda: FULL.index([[0, 0]]), r"3 factors a row \(a, b, c\), got 2"),
    (lambda: FULL.index([[0, 3, 0]]), "below the sizes"),
    (lambda: FULL.has([0, 0]), "3 factors"),
    (lambda: FULL.draw_fixed(1, {"b": 3}, generator()), "b has classes 0..2, got 3"),
    (lambda: FULL.draw_fixed(1, {"bb": 0}, generator()), "did you mean 'b'"),
    (lambda: FULL.position(3), "outside 0..2"),
    (lambda: FactorSpace(("a",), (2, 3)), "1 factor names for 2"),
    (lambda: FactorSpace(("a",), (0,)), "at least 1"),
    (lambda: FactorSpace(("a",), (2,), values=(np.arange(3),)), "one value for each"),
    (lambda: FactorSpace(("a",), (2,), cells=np.array([2])), "factor grid"),
    (lambda: FactorSpace.from_rows(("a",), np.array([[-1]])), "factor classes"),
    (lambda: FactorSpace.from_rows(("a", "b"), np.array([[1]])), r"\[sample, 2\]"),
    (lambda: FactorSpace.from_rows(("a",), np.array([[3]]), (2,)), "factor classes"),
])
def test_bad_input_is_told(act: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        act()


def test_an_index_is_whole() -> None:
    # Called below the checks of types, which would see this first under pytest.
    with pytest.raises(UserError, match="an index must be a whole number"):
        _integers("an index", [0.5])
