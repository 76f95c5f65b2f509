"""Draws: groups share what they should, everything else is uniform, seeds repeat."""

import numpy as np
import pytest

from unweave.factors import FactorSpace
from unweave.metrics import METRICS, plan_scores, score_dataset
from unweave.metrics.sampling import (
    TEST_GROUPS,
    TEST_PAIRS,
    TRAIN_GROUPS,
    TRAIN_PAIRS,
    RowSource,
    SpaceSource,
    draw_pairs,
    draw_points,
    draw_split,
    groups_of_rows,
    pairs_of_rows,
)
from unweave.types import UserError

FULL = FactorSpace(("a", "b", "c", "d"), (3, 1, 7, 8))
ROWS = FULL.factors(np.arange(len(FULL)))
PARTIAL = FactorSpace.from_rows(FULL.names, ROWS[ROWS.sum(axis=1) % 3 != 0], FULL.sizes)


@pytest.mark.parametrize("space", [FULL, PARTIAL], ids=["full", "partial"])
def test_groups_share_one_factor_and_draw_the_rest_uniformly(space):
    groups, fixed = SpaceSource(space, 0).groups(4000, 20, TRAIN_GROUPS)
    factors = space.factors(groups.ravel()).reshape(4000, 20, 4)
    share = (factors == factors[:, :1]).all(axis=1)
    assert share[np.arange(4000), fixed].all()
    assert set(fixed) == {0, 2, 3}, "a constant factor is never fixed"
    np.testing.assert_allclose(np.bincount(fixed, minlength=4) / 4000, [1/3, 0, 1/3, 1/3], atol=.03)
    # Over all groups rows are as frequent as in the data, and within a group the others vary.
    frequency = np.bincount(groups.ravel(), minlength=len(space)) * len(space) / groups.size
    assert abs(frequency - 1).max() < 0.3
    assert share[:, [0, 2, 3]].sum(axis=1).mean() < 1.1


@pytest.mark.parametrize("space", [FULL, PARTIAL], ids=["full", "partial"])
def test_pairs_share_one_factor_and_draw_the_rest_uniformly(space):
    pairs, fixed = SpaceSource(space, 0).pairs(3000, 12, TRAIN_PAIRS)
    assert pairs.shape == (3000, 12, 2)
    factors = space.factors(pairs.ravel()).reshape(3000, 12, 2, 4)
    share = factors[:, :, 0] == factors[:, :, 1]
    assert share[np.arange(3000), :, fixed].all()
    assert set(fixed) == {0, 2, 3}, "a constant factor is never fixed"
    # Either of a pair is a uniform row, and the value differs from pair to pair.
    for side in (0, 1):
        count = np.bincount(pairs[:, :, side].ravel(), minlength=len(space))
        assert abs(count * len(space) / 36_000 - 1).max() < 0.4
    value = np.take_along_axis(factors[:, :, 0], fixed[:, None, None], axis=2)[:, :, 0]
    assert (value == value[:, :1]).all(axis=1).mean() < 0.01
    if space is FULL:
        others = share[fixed == 2].reshape(-1, 4).mean(axis=0)
        np.testing.assert_allclose(others, [1 / 3, 1, 1, 1 / 8], atol=0.02)


def test_pairs_of_given_rows_keep_to_their_side_and_pass_over_single_rows():
    factors = np.repeat(ROWS[:, [0, 2, 3]], 5, axis=0)
    source = RowSource(factors, 0, num_train=300)
    train, test = (source.pairs(200, 8, step)[0] for step in (TRAIN_PAIRS, TEST_PAIRS))
    assert train.max() < 300 <= test.min()
    single = np.array([[0], [0], [0], [1]])
    with pytest.warns(UserWarning, match="fewer than 10 rows"):
        pairs, _ = pairs_of_rows(single, 50, 4, np.random.default_rng(0))
    assert pairs.max() < 3


def test_a_draw_of_pairs_has_no_points():
    draw = draw_pairs(SpaceSource(FULL, 0), group_size=3, num_train_votes=20, num_test_votes=10)
    assert draw.groups.shape == (30, 3, 2)
    assert (len(draw.points), draw.num_train) == (0, 20)
    assert sorted(draw.shuffled(np.random.default_rng(0)).rows()) == sorted(draw.rows())
    with pytest.raises(UserError, match="group_size"):
        draw_pairs(SpaceSource(FULL, 0), group_size=0, num_train_votes=20, num_test_votes=10)


def test_same_seed_same_draw_and_other_seeds_differ():
    first, again, other = (plan_scores(FULL, seed=s, num_train_votes=50, num_test_votes=20)
                           for s in (0, 0, 1))
    for a, b in zip(first.draws, again.draws):
        np.testing.assert_array_equal(a.rows(), b.rows())
    np.testing.assert_array_equal(first.index, again.index)
    assert len(first.draws[1].rows()) == len(other.draws[1].rows())
    assert (first.draws[1].fixed != other.draws[1].fixed).any()


def test_train_and_test_groups_differ():
    source = SpaceSource(FULL, 0)
    train, test = (source.groups(100, 8, step)[0] for step in (TRAIN_GROUPS, TEST_GROUPS))
    assert (train != test).any()


def test_groups_of_given_rows_keep_to_their_side():
    factors = np.repeat(ROWS[:, [0, 2, 3]], 5, axis=0)
    source = RowSource(factors, 0, num_train=300)
    train, fixed = source.groups(500, 8, TRAIN_GROUPS)
    test, _ = source.groups(500, 8, TEST_GROUPS)
    assert train.max() < 300 <= test.min()
    members = factors[train]
    same = (members == members[:, :1]).all(axis=1)
    assert same[np.arange(500), fixed].all()
    for bad in (0, 1, len(factors) - 1, len(factors)):
        with pytest.raises(UserError, match="num_train"):
            RowSource(factors, 0, num_train=bad)


def test_few_rows_are_warned_about_and_single_ones_passed_over():
    factors = np.column_stack([np.repeat([0, 1, 2], [30, 20, 1]), np.arange(51) % 2])
    with pytest.warns(UserWarning, match="factor 0 has 1 values with fewer than 10 rows"):
        groups, fixed = groups_of_rows(factors, 2000, 5, np.random.default_rng(0))
    values = factors[groups[fixed == 0][:, 0], 0]
    assert set(values) == {0, 1}
    assert np.mean(values == 0) == pytest.approx(0.6, abs=0.05), "values as frequent as their rows"


def test_the_encoder_is_called_once_with_sorted_rows():
    calls = []

    def encode(index):
        calls.append(index)
        return FULL.factors(index).astype(np.float32)

    records = score_dataset(encode, FULL, num_points=40, num_train_votes=30, num_test_votes=20)
    assert len(calls) == 1
    assert (np.diff(calls[0]) > 0).all()
    assert {r.metric for r in records} == {m.name for m in METRICS.values()
                                             if m.default and not m.needs}
    assert all(r.num_rows == len(calls[0]) for r in records)
    assert all(r.num_points == 40 for r in records if "num_points" in r.settings)


def test_a_space_too_large_for_a_table_draws_the_same(monkeypatch):
    sizes = {"num_points": 30, "num_train_votes": 10, "num_test_votes": 5}
    table = plan_scores(FULL, **sizes)
    monkeypatch.setattr("unweave.metrics.scoring.LOOKUP_ROWS", 1)
    bisected = plan_scores(FULL, **sizes)
    np.testing.assert_array_equal(table.index, bisected.index)
    for a, b in zip(table.draws, bisected.draws):
        np.testing.assert_array_equal(a.rows(), b.rows())
    huge = FactorSpace(tuple("abcdefgh"), (100,) * 8)
    plan = plan_scores(huge, metrics="factor_vae", num_train_votes=400, num_test_votes=50)
    assert plan.score(huge.factors(plan.index), details=False)[0].value == 1.0


def test_whole_data_set_when_the_convention_says_so():
    plan = plan_scores(FULL, metrics="mig", convention="paper")
    np.testing.assert_array_equal(plan.index, np.arange(len(FULL)))


@pytest.mark.parametrize("setting", ["num_points", "num_train_votes", "num_test_votes",
                                     "group_size"])
def test_bad_sizes_are_told(setting):
    for bad in (0, -3):
        with pytest.raises(UserError, match=setting):
            plan_scores(FULL, **{setting: bad})


def test_a_space_without_variation_is_told():
    with pytest.raises(UserError, match="constant"):
        plan_scores(FactorSpace(("a",), (1,)), metrics="factor_vae")


def test_points_that_train_and_points_that_test():
    made = draw_split(SpaceSource(FULL, 0), num_train_points=30, num_test_points=20)
    assert (len(made.points), made.num_train) == (50, 30)
    alike = draw_points(SpaceSource(FULL, 0), num_points=30)
    np.testing.assert_array_equal(made.points[:30], alike.points)
    table = FULL.factors(np.arange(60))
    given = draw_split(RowSource(table, 0, 45), num_train_points=30, num_test_points=20)
    np.testing.assert_array_equal(given.points, np.arange(60))
    assert given.num_train == 45
    free = draw_split(RowSource(table, 0), num_train_points=30, num_test_points=20)
    assert free.num_train == 40
    np.testing.assert_array_equal(np.sort(free.points), np.arange(60))
    assert (free.points[:40] >= 40).any(), "rows that come in order are mixed first"
    with pytest.raises(UserError, match="num_train_points"):
        draw_split(RowSource(table, 0), num_train_points=1, num_test_points=20)
