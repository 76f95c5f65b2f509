"""Our logistic regressions against scikit-learn's, run to convergence, and their edges."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from unweave.metrics.irls import Design, Problems, minimise
from unweave.metrics.logistic import (
    cross_validated_one_vs_rest,
    decisions,
    fit_one_vs_rest,
    fit_one_vs_rest_tasks,
    fold_edges,
    one_vs_rest_probabilities,
)
from unweave.metrics.softmax import fit_multinomial
from unweave.types import UserError


def rows(num=600, columns=4, num_classes=5, seed=0):
    """Some columns know the class, one of them almost exactly; scales differ."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(num_classes, size=num)
    features = rng.normal(size=(num, columns))
    features[:, 0] += 3 * classes
    features[:, 1] = 20 * features[:, 1] + 30 * (classes % 2)
    return features, classes


def reference_one_vs_rest(features, classes, strength=1.0):
    model = LogisticRegression(solver="liblinear", C=strength, tol=1e-10, max_iter=10_000)
    model = OneVsRestClassifier(model).fit(features, classes)
    return model, np.array([np.append(m.coef_, m.intercept_) for m in model.estimators_])


SHAPES = [{}, {"num_classes": 3, "columns": 2}, {"num_classes": 20, "num": 900},
          {"columns": 60}, {"columns": 200, "num": 100}]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_one_vs_rest_agrees_with_liblinear(shape, strength):
    features, classes = rows(**shape)
    num_classes = int(classes.max()) + 1
    made = fit_one_vs_rest(features, classes, num_classes, strength=strength)
    model, expected = reference_one_vs_rest(features, classes, strength)
    np.testing.assert_allclose(made, expected, atol=1e-4)
    values = decisions(made, features)
    assert (values.argmax(axis=1) == model.predict(features)).all()
    np.testing.assert_allclose(one_vs_rest_probabilities(values), model.predict_proba(features),
                               atol=1e-4)


@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_the_gradient_vanishes(strength):
    features, classes = rows()
    made = fit_one_vs_rest(features, classes, 5, strength=strength)
    chance = 1 / (1 + np.exp(-decisions(made, features)))
    off = (chance - (classes[:, None] == np.arange(5))).T
    gradient = made + strength * np.column_stack([off @ features, off.sum(axis=1)])
    assert np.abs(gradient).max() < 1e-6


@pytest.mark.parametrize("shape", [*SHAPES, {"num_classes": 2}])
@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_multinomial_agrees_with_scikit_learn(shape, strength):
    features, classes = rows(**shape)
    num_classes = int(classes.max()) + 1
    made = fit_multinomial(features, classes, num_classes, strength=strength)
    model = LogisticRegression(solver="newton-cholesky", C=strength, tol=1e-9, max_iter=500)
    model.fit(features, classes)
    expected = np.column_stack([model.coef_, model.intercept_])
    if num_classes == 2:
        made = made[1:] - made[:1]
    else:
        expected[:, -1] -= expected[:, -1].mean()
    np.testing.assert_allclose(made, expected, atol=1e-4, rtol=1e-6)


def test_two_classes_mirror_each_other():
    features, classes = rows(num_classes=2)
    made = fit_one_vs_rest(features, classes, 2)
    np.testing.assert_allclose(made[0], -made[1], atol=1e-9)
    binary = LogisticRegression(solver="liblinear", tol=1e-10).fit(features, classes)
    np.testing.assert_allclose(made[1], np.append(binary.coef_, binary.intercept_), atol=1e-4)
    probabilities = one_vs_rest_probabilities(decisions(made, features))
    np.testing.assert_allclose(probabilities, binary.predict_proba(features), atol=1e-4)


@pytest.mark.parametrize(("home", "columns"), [("irls", 4), ("logistic", 40)])
def test_pieces_change_nothing(monkeypatch, home, columns):
    features, classes = rows(columns=columns)
    expected = fit_one_vs_rest(features, classes, 5)
    monkeypatch.setattr(sys.modules[f"unweave.metrics.{home}"], "VALUES_AT_ONCE", 1300)
    np.testing.assert_allclose(fit_one_vs_rest(features, classes, 5), expected, atol=1e-8)


@pytest.mark.parametrize("columns", [4, 40])
def test_tasks_on_the_same_rows_do_not_see_each_other(columns):
    features, classes = rows(columns=columns)
    made = fit_one_vs_rest_tasks(features, [(classes, 5), (classes % 2, 2)], strength=0.1)
    for weights, labels, num in zip(made, (classes, classes % 2), (5, 2)):
        alone = fit_one_vs_rest(features, labels, num, strength=0.1)
        np.testing.assert_allclose(weights, alone, atol=1e-7)


@pytest.mark.parametrize("few", [0, 1000])
def test_cross_validation_agrees_with_plain_fits(monkeypatch, few):
    monkeypatch.setattr(sys.modules["unweave.metrics.irls"], "FEW_ROWS", few)
    features, classes = rows(num=203, num_classes=3)
    strengths, edges = np.array([1e-3, 0.1, 10.0]), fold_edges(203, 5)
    assert edges == [0, 41, 82, 123, 163, 203]
    (made,) = cross_validated_one_vs_rest(features.astype(np.float32), [(classes, 3)], strengths, 5)
    for c in range(3):
        right = []
        for strength in strengths:
            model = LogisticRegression(solver="newton-cholesky", C=strength, tol=1e-10)
            parts = []
            for low, high in pairwise(edges):
                rest = np.r_[0:low, high:203]
                model.fit(features[rest], classes[rest] == c)
                parts.append(model.score(features[low:high], classes[low:high] == c))
            right.append(round(np.mean(parts), 9))
        model.set_params(C=strengths[np.argmax(right)]).fit(features, classes == c)
        expected = np.append(model.coef_, model.intercept_)
        np.testing.assert_allclose(made[c], expected, atol=1e-4, rtol=1e-4)


def test_a_problem_without_a_part_is_that_of_the_other_rows():
    features, classes = rows(num=300)
    design = Design(features, 5, [0, 100, 220, 300])
    own = design.own_sums([(classes, 5)])
    rest = np.r_[0:100, 220:300]
    problems = Problems(own.sum(axis=0) - own[1], np.ones((5, 1)), np.ones(5), np.ones(5, int))
    made = minimise(design, problems, np.zeros((5, 5)), 1e-6)
    np.testing.assert_allclose(made, fit_one_vs_rest(features[rest], classes[rest], 5), atol=1e-7)


def test_classes_that_can_be_told_apart_end_at_the_solution():
    # Eight rows and a weak penalty: gradients are small long before the weights are right.
    features, classes = rows(num=8, num_classes=2)
    made = fit_one_vs_rest(features, classes, 2, strength=1e4)
    model = LogisticRegression(solver="liblinear", C=1e4, tol=1e-14, max_iter=100_000)
    model.fit(features, classes)
    np.testing.assert_allclose(made[1], np.append(model.coef_, model.intercept_), rtol=1e-3)


@pytest.mark.parametrize("fit", [fit_one_vs_rest, fit_multinomial])
def test_edges(fit):
    features, classes = rows()
    with_constant = np.column_stack([features, np.zeros(len(features))])
    made = fit(with_constant, classes, 5)
    np.testing.assert_allclose(made[:, -2], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.delete(made, -2, axis=1), fit(features, classes, 5), atol=1e-6)
    # A class without rows is never the answer.
    values = decisions(fit(features, classes, 6), features)
    assert np.isfinite(values).all()
    assert (values.argmax(axis=1) < 5).all()
    # One class only, and columns that know nothing at all.
    assert (decisions(fit(features, 0 * classes, 1), features).argmax(axis=1) == 0).all()
    blank = decisions(fit(np.zeros((600, 2)), classes, 5), np.zeros((3, 2)))
    assert (blank.argmax(axis=1) == np.bincount(classes).argmax()).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("fit", [fit_one_vs_rest, fit_multinomial])
def test_other_scales_end_well(fit, scale):
    features, classes = rows(num_classes=3)
    values = decisions(fit(features * scale, classes, 3), features * scale)
    assert np.isfinite(values).all()
    accuracy = (values.argmax(axis=1) == classes).mean()
    assert accuracy > (0.3 if scale < 1 else 0.75)


def test_probabilities_where_every_classifier_says_no():
    np.testing.assert_allclose(one_vs_rest_probabilities(np.full((1, 4), -1e4)), 0.25)


def test_bad_input_is_told():
    features, classes = rows()
    for fit in (fit_one_vs_rest, fit_multinomial):
        with pytest.raises(UserError, match="strength"):
            fit(features, classes, 5, strength=0.0)
        with pytest.raises(UserError, match="rescale"):
            fit(features * 1e200, classes, 5)
