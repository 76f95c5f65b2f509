"""Downstream accuracy against scikit-learn's parts, and its rules for rows that are not there."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from unweave.metrics import METRICS, score
from unweave.metrics.downstream import STRENGTHS, downstream
from unweave.metrics.logistic import cross_validated_one_vs_rest
from unweave.metrics.softmax import cross_validated_multinomial
from unweave.types import UserError

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 5], size=(400, 2))
CODES = FACTORS @ RNG.normal(size=(2, 3)) + 0.3 * RNG.normal(size=(400, 3))
TRAIN = 200


def slow_weights(features, classes):
    """Class by class: the C whose yes or no is right most often, then all rows with it."""
    weights = []
    for c in range(int(classes.max()) + 1):
        right = np.zeros(len(STRENGTHS))
        for i, strength in enumerate(STRENGTHS):
            for train, test in KFold(5).split(features):
                model = LogisticRegression(C=strength, tol=1e-7, max_iter=2000)
                model.fit(features[train], classes[train] == c)
                right[i] += model.score(features[test], classes[test] == c)
        model = LogisticRegression(C=STRENGTHS[np.round(right, 9).argmax()], tol=1e-7,
                                   max_iter=2000).fit(features, classes == c)
        weights.append(np.append(model.coef_, model.intercept_))
    return np.array(weights)


def test_one_vs_rest_agrees_with_scikit_learn():
    features, classes = CODES[:80], FACTORS[:80, 0]
    (made,) = cross_validated_one_vs_rest(features, [(classes, 3)], STRENGTHS, 5)
    np.testing.assert_allclose(made, slow_weights(features, classes), rtol=0.01, atol=0.01)


def test_multinomial_takes_one_strength_for_all_classes():
    (made,) = cross_validated_multinomial(CODES[:100], [(FACTORS[:100, 0], 3)], STRENGTHS, 5)
    near = [np.abs(made[:, :-1] - LogisticRegression(C=c, tol=1e-8, max_iter=5000)
                   .fit(CODES[:100], FACTORS[:100, 0]).coef_).max() for c in STRENGTHS[:8]]
    assert min(near) < 1e-2


def test_more_labels_help_and_sizes_that_cannot_be_had_are_left_out():
    made = downstream(CODES, FACTORS, num_train=TRAIN)
    assert list(made) == [f"downstream.{model}.{size}" for model in ("logistic", "boosting")
                          for size in (10, 100)]
    assert made["downstream.logistic.10"] < made["downstream.logistic.100"]
    assert made["downstream.boosting.10"] < made["downstream.boosting.100"]
    with pytest.raises(UserError, match="no size"):
        downstream(CODES, FACTORS, num_train=TRAIN, sizes=(1000,))


def test_boosting_agrees_with_scikit_learn():
    made = downstream(CODES, FACTORS, num_train=TRAIN, sizes=(100,), models="boosting")
    right = [GradientBoostingClassifier().fit(CODES[:100], v[:100]).score(CODES[TRAIN:], v[TRAIN:])
             for v in FACTORS.T]
    assert list(made) == ["downstream.boosting.100"]
    assert made["downstream.boosting.100"] == pytest.approx(np.mean(right), abs=0.02)


def test_efficiency_is_a_share_of_the_accuracy_with_ten_thousand_labels():
    rng = np.random.default_rng(1)
    factors = rng.integers([3, 5], size=(10_500, 2))
    codes = factors @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(10_500, 3))
    made = downstream(codes, factors, num_train=10_000, sizes=(100, 10_000), models="logistic")
    assert made["downstream.logistic.efficiency_100"] == pytest.approx(
        made["downstream.logistic.100"] / made["downstream.logistic.10000"])
    assert "downstream.logistic.efficiency_1000" not in made
    assert 0.5 < made["downstream.logistic.efficiency_100"] < 1.0


def test_middle_values_are_lost_one_vs_rest_and_found_by_the_softmax():
    factors = np.tile(np.arange(6), 60)
    made = [downstream(factors, factors, num_train=300, sizes=(100,), classifier=name,
                       models="logistic")
            ["downstream.logistic.100"] for name in ("one_vs_rest", "multinomial")]
    assert made[0] < 0.7
    assert made[1] == 1.0


def test_classes_that_do_not_train():
    factors = np.tile(np.arange(4), 100)
    factors[:50] = 2
    made = downstream(factors, factors, num_train=50, sizes=(10,))
    for model in ("logistic", "boosting"):
        assert made[f"downstream.{model}.10"] == pytest.approx(0.25, abs=0.01), "all it saw"


def test_it_is_scored_when_named():
    assert not METRICS["downstream"].default
    assert "downstream.logistic.100" not in score(CODES, FACTORS, num_train_votes=50,
                                                  num_test_votes=20)
    named = score(CODES, FACTORS, metrics="downstream", num_train=TRAIN, convention="paper")
    assert named == downstream(CODES, FACTORS, num_train=TRAIN, classifier="multinomial")


def test_bad_input_is_told():
    with pytest.raises(UserError, match="did you mean 'multinomial'"):
        downstream(CODES, FACTORS, num_train=TRAIN, classifier="multinominal")
    with pytest.raises(UserError, match="num_train"):
        downstream(CODES, FACTORS, num_train=400)
    for change, word in (({"models": "boostin"}, "did you mean 'boosting'"),
                         ({"models": ()}, "one of logistic, boosting"),
                         ({"updates": "in turn"}, "did you mean 'in_turn'"),
                         ({"num_stages": 0}, "num_stages")):
        with pytest.raises(UserError, match=word):
            downstream(CODES, FACTORS, num_train=TRAIN, **change)
    with pytest.raises(UserError, match="rescale"):
        downstream(CODES * 1e60, FACTORS, num_train=TRAIN)
