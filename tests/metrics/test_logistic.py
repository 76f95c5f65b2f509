"""Our logistic regressions against scikit-learn's, run to convergence, and their edges."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from unweave.metrics.logistic import (
    decisions,
    fit_multinomial,
    fit_one_vs_rest,
    one_vs_rest_path,
    one_vs_rest_probabilities,
)
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


def test_blocks_of_classes_change_nothing(monkeypatch):
    features, classes = rows()
    expected = fit_one_vs_rest(features, classes, 5)
    monkeypatch.setattr(sys.modules["unweave.metrics.logistic"], "VALUES_AT_ONCE", 1300)
    np.testing.assert_allclose(fit_one_vs_rest(features, classes, 5), expected, atol=1e-8)


def test_a_path_of_strengths_with_free_intercepts(monkeypatch):
    features, classes = rows(num=200, num_classes=3)
    strengths = np.array([0.01, 1.0, 3.0])
    made = one_vs_rest_path(features, classes, 3, strengths, tolerance=1e-9)
    monkeypatch.setattr(sys.modules["unweave.metrics.logistic"], "VALUES_AT_ONCE", 100)
    again = one_vs_rest_path(features.astype(np.float32), classes, 3, strengths, tolerance=1e-9)
    np.testing.assert_allclose(again, made, atol=1e-4)
    for strength, weights in zip(strengths, made):
        model = LogisticRegression(solver="newton-cholesky", C=strength, tol=1e-10)
        for c in range(3):
            model.fit(features, classes == c)
            expected = np.append(model.coef_, model.intercept_)
            np.testing.assert_allclose(weights[c], expected, atol=1e-4, rtol=1e-5)


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
