"""The BetaVAE score against plain loops and scikit-learn, and its rules."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from unweave.factors import FactorSpace
from unweave.metrics import beta_vae, plan_scores, score
from unweave.metrics.beta_vae import beta_vae_bootstrap, mean_differences
from unweave.types import UserError

SPACE = FactorSpace(("a", "b", "c"), (4, 6, 5))
FACTORS = SPACE.factors(np.arange(len(SPACE)))
QUICK = {"num_train_votes": 600, "num_test_votes": 400, "group_size": 10}


def table(seed=0, latents=4, noise=0.5):
    rng = np.random.default_rng(seed)
    return FACTORS @ rng.normal(size=(3, latents)) + noise * rng.normal(size=(len(SPACE), latents))


def slow_points(codes, groups):
    return np.array([np.mean([abs(codes[a] - codes[b]) for a, b in group], axis=0)
                     for group in groups])


@pytest.mark.parametrize("convention", ["study2019", "paper"])
def test_agrees_with_plain_loops_and_scikit_learn(convention):
    plan = plan_scores(SPACE, metrics="beta_vae", convention=convention, **QUICK)
    codes, draw = table()[plan.index], plan.draws[0]
    points, fixed = slow_points(codes, draw.groups), draw.fixed
    model = LogisticRegression(max_iter=1000)
    if convention == "study2019":
        model = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
    model.fit(points[:600], fixed[:600])
    test, train = (record.value for record in plan.score(codes, details=False))
    assert test == pytest.approx(model.score(points[600:], fixed[600:]), abs=0.003)
    assert train == pytest.approx(model.score(points[:600], fixed[:600]), abs=0.003)
    assert 0.4 < test < 0.99


def test_mean_differences(monkeypatch):
    codes, pairs = table(), np.random.default_rng(1).integers(len(SPACE), size=(50, 7, 2))
    none = np.array([], dtype=int)
    np.testing.assert_allclose(mean_differences(codes, pairs, none), slow_points(codes, pairs))
    monkeypatch.setattr(sys.modules["unweave.metrics.beta_vae"], "VALUES_AT_ONCE", 40)
    np.testing.assert_allclose(mean_differences(codes, pairs, none), slow_points(codes, pairs))
    classes = mean_differences(FACTORS.astype(float), pairs, np.array([1]))
    differ = (FACTORS[pairs[:, :, 0], 1] != FACTORS[pairs[:, :, 1], 1]).mean(axis=1)
    np.testing.assert_allclose(classes[:, 1], differ)


def test_a_worked_number():
    # Pairs of factor 0 agree in latent 0, pairs of factor 1 in latent 1. The third point to test
    # looks like factor 0 and is said to be factor 1.
    codes = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
    groups = np.array([[[0, 1]], [[0, 2]], [[1, 0]], [[2, 0]], [[0, 1]]])
    fixed = np.array([0, 1, 0, 1, 1])
    made = beta_vae(codes, groups, fixed, num_train=2)
    assert made == {"beta_vae": pytest.approx(2 / 3), "beta_vae.train": 1.0}


def test_all_but_one_factor_are_enough():
    # The failure that Kim & Mnih describe: the factor that no latent knows is told by exclusion.
    assert score(FACTORS[:, :2], FACTORS, metrics="beta_vae", group_size=64)["beta_vae"] > 0.99
    assert score(FACTORS[:, :1], FACTORS, metrics="beta_vae", group_size=64)["beta_vae"] < 0.8


def test_names_of_classes_do_not_matter():
    codes, other = FACTORS.astype(float), FACTORS.astype(float)
    other[:, 1] = np.random.default_rng(0).permutation(6)[FACTORS[:, 1]]
    told = [score(c, FACTORS, metrics="beta_vae", num_values=[0, 6, 0], **QUICK)
            for c in (codes, other)]
    assert told[0] == told[1]


def test_bootstrap_is_that_of_right_answers():
    plan = plan_scores(SPACE, metrics="beta_vae", **QUICK)
    draw = plan.draws[0]
    made = beta_vae_bootstrap(np.random.default_rng(0), 2000, table()[plan.index], draw.groups,
                              draw.fixed, num_train=600)["beta_vae"]
    value = plan.score(table()[plan.index], details=False)[0].value
    assert made.mean() == pytest.approx(value, abs=0.002)
    assert made.std() == pytest.approx(np.sqrt(value * (1 - value) / 400), rel=0.1)


def test_records_count_pairs():
    record = plan_scores(SPACE, metrics="beta_vae", **QUICK).score(table())[0]
    assert (record.num_points, record.num_groups, record.group_size) == (0, 1000, 10)


@pytest.mark.parametrize(("change", "word"), [
    ({"groups": np.zeros((6, 2), dtype=int)}, "pair"),
    ({"groups": np.zeros((6, 2, 3), dtype=int)}, "pair"),
    ({"groups": np.full((6, 4, 2), 9)}, "rows"),
    ({"fixed": np.zeros(3, dtype=int)}, "fixed"),
    ({"num_train": 6}, "num_train"),
    ({"classifier": "multinomal"}, "did you mean 'multinomial'"),
    ({"strength": 0.0}, "strength"),
    ({"codes": np.eye(3) * 1e300}, "rescale"),
])
def test_bad_input_is_told(change, word):
    given = {"codes": np.eye(3), "groups": np.zeros((6, 4, 2), dtype=int),
             "fixed": np.zeros(6, dtype=int), "num_train": 3} | change
    with pytest.raises(UserError, match=word):
        beta_vae(**given)
