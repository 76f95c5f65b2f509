"""Explicitness against scikit-learn, and its rules for rows and columns that are not there."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.multiclass import OneVsRestClassifier

from unweave.factors import FactorSpace
from unweave.metrics import plan_scores, score
from unweave.metrics.explicitness import area, explicitness, explicitness_bootstrap
from unweave.types import UserError

SPACE = FactorSpace(("a", "b", "c"), (4, 6, 2))
RNG = np.random.default_rng(0)
FACTORS = SPACE.factors(SPACE.draw(600, RNG))
CODES = FACTORS @ RNG.normal(size=(3, 4)) + 0.5 * RNG.normal(size=(600, 4))
TRAIN = 400


def slow_explicitness(codes, factors, num_train, normalised=True):
    codes = (codes - codes[:num_train].mean(axis=0)) / codes[:num_train].std(axis=0)
    parts = {"train": slice(None, num_train), "test": slice(num_train, None)}
    areas = {part: [] for part in parts}
    for v in factors.T:
        one = LogisticRegression(solver="liblinear", tol=1e-8)
        model = OneVsRestClassifier(one).fit(codes[:num_train], v[:num_train])
        for part, rows in parts.items():
            values = model.predict_proba(codes[rows])
            if not normalised and v.max() > 1:
                values = model.decision_function(codes[rows])
            areas[part].append(np.mean([roc_auc_score(v[rows] == c, values[:, c])
                                        for c in range(int(v.max()) + 1)]))
    return {f"explicitness.{part}": np.mean(areas[part]) for part in areas}


@pytest.mark.parametrize("normalised", [True, False])
def test_agrees_with_scikit_learn(normalised):
    expected = slow_explicitness(CODES, FACTORS, TRAIN, normalised)
    made = explicitness(CODES, FACTORS, num_train=TRAIN, normalised=normalised)
    assert made == pytest.approx(expected, abs=1e-4)
    assert 0.6 < made["explicitness.test"] < 0.98


def test_areas_with_ties_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    for _ in range(5):
        own, scores = rng.random(80) < 0.3, rng.integers(6, size=80).astype(float)
        assert area(scores, own) == pytest.approx(roc_auc_score(own, scores), abs=1e-12)


def test_a_worked_number():
    # Of the pairs of a row of the class (2, 1) and one of the others (0, 1, 2): 2 beats 0 and 1 and
    # ties with 2, 1 beats 0 and ties with 1: 4 of 6.
    made = area(np.array([2.0, 1.0, 0.0, 1.0, 2.0]), np.array([True, True, False, False, False]))
    assert made == pytest.approx(4 / 6)


def test_a_middle_value_needs_its_neighbours():
    factors = np.tile(np.arange(5), 100)
    alone = explicitness(factors, factors, normalised=False)["explicitness.test"]
    together = explicitness(factors, factors)["explicitness.test"]
    # The ends are told apart; the values next to them beat three of four, the middle one half.
    assert alone == pytest.approx((1 + 0.75 + 0.5 + 0.75 + 1) / 5, abs=0.06)
    assert together > 0.99


def test_constant_latents_are_left_out_and_no_latent_is_chance():
    expected = explicitness(CODES, FACTORS, num_train=TRAIN)
    more = np.column_stack([np.full(600, 0.1), CODES, np.zeros(600)])
    more[TRAIN:, 0] = 3.0  # what varies in the test rows alone was never learnt
    assert explicitness(more, FACTORS, num_train=TRAIN) == pytest.approx(expected, abs=1e-9)
    blank = explicitness(np.ones((600, 2)), FACTORS, num_train=TRAIN)
    assert blank == {"explicitness.test": 0.5, "explicitness.train": 0.5}


def test_classes_that_test_rows_lack_have_no_area():
    rows = np.r_[np.arange(TRAIN), TRAIN + np.flatnonzero(FACTORS[TRAIN:, 1] != 3)]
    made = explicitness(CODES[rows], FACTORS[rows][:, [1]], num_train=TRAIN)
    weighed = [explicitness(CODES[rows], FACTORS[rows][:, [1]] == c, num_train=TRAIN,
                            normalised=False)["explicitness.test"] for c in (0, 1, 2, 4, 5)]
    plain = explicitness(CODES[rows], FACTORS[rows][:, [1]], num_train=TRAIN, normalised=False)
    assert plain["explicitness.test"] == pytest.approx(np.mean(weighed), abs=1e-9)
    assert made["explicitness.train"] == pytest.approx(
        explicitness(CODES, FACTORS[:, [1]], num_train=TRAIN)["explicitness.train"], abs=1e-9)


def test_classes_that_train_rows_lack_are_others_to_all():
    rows = np.r_[np.flatnonzero(FACTORS[:TRAIN, 1] != 3), np.arange(TRAIN, 600)]
    num_train = int((FACTORS[:TRAIN, 1] != 3).sum())
    made = explicitness(CODES[rows], FACTORS[rows][:, [1]], num_train=num_train, normalised=False)
    weighed = [explicitness(CODES[rows], FACTORS[rows][:, [1]] == c, num_train=num_train,
                            normalised=False)["explicitness.test"] for c in (0, 1, 2, 4, 5)]
    assert made["explicitness.test"] == pytest.approx(np.mean(weighed), abs=1e-9)


def test_factors_constant_in_a_part():
    factors = FACTORS.copy()
    factors[TRAIN:, 2] = 0
    made = explicitness(CODES, factors, num_train=TRAIN)
    assert made["explicitness.test"] == pytest.approx(
        explicitness(CODES, factors[:, :2], num_train=TRAIN)["explicitness.test"], abs=1e-9)
    with pytest.raises(UserError, match="no factor has two values among the rows that test"):
        explicitness(CODES, factors[:, 2:], num_train=TRAIN)
    with pytest.raises(UserError, match="constant"):
        explicitness(CODES, np.r_[np.zeros(TRAIN), np.arange(200)].astype(int), num_train=TRAIN)


def test_classes_of_a_latent_take_a_column_each():
    factors = np.tile(np.arange(6), 50)
    names = np.random.default_rng(0).permutation(6)[factors].astype(float)
    plain = explicitness(names, factors, normalised=False)["explicitness.test"]
    told = explicitness(names, factors, normalised=False, num_values=[6])["explicitness.test"]
    assert plain < 0.9 < told == 1.0


def test_bootstrap_is_about_that_of_resampled_test_rows():
    rng = np.random.default_rng(0)
    made = explicitness_bootstrap(rng, 400, CODES, FACTORS, num_train=TRAIN)["explicitness.test"]
    value = explicitness(CODES, FACTORS, num_train=TRAIN)["explicitness.test"]
    slow = []
    for _ in range(60):
        rows = np.r_[np.arange(TRAIN), TRAIN + rng.integers(200, size=200)]
        slow.append(explicitness(CODES[rows], FACTORS[rows], num_train=TRAIN)["explicitness.test"])
    assert made.mean() == pytest.approx(value, abs=0.002)
    assert made.std() == pytest.approx(np.std(slow), rel=0.35)


def test_conventions():
    plan = plan_scores(SPACE, metrics="explicitness", convention="paper")
    assert (len(plan.draws[0].points), plan.draws[0].num_train) == (15_000, 10_000)
    split = score(CODES, FACTORS, metrics="explicitness", num_train=TRAIN)
    assert split == explicitness(CODES, FACTORS, num_train=TRAIN)


def test_bad_input_is_told():
    with pytest.raises(UserError, match="num_train"):
        explicitness(CODES, FACTORS, num_train=600)
    with pytest.raises(UserError, match="strength"):
        explicitness(CODES, FACTORS, strength=-1.0)
    with pytest.raises(UserError, match="rescale"):
        explicitness(CODES * 1e300, FACTORS)
