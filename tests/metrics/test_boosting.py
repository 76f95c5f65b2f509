"""Boosting against scikit-learn's, ties, threads; DCI against worked numbers."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from unweave.metrics.boosting import available_threads, boost, boost_quantity, sort_features
from unweave.metrics.dci import dci, weighted_purity
from unweave.types import UserError

RNG = np.random.default_rng(0)
CODES = RNG.normal(size=(400, 5))
CLASSES = np.digitize(CODES[:, 0] + 0.5 * CODES[:, 1] * CODES[:, 2] + 0.3 * RNG.normal(size=400),
                      [-0.8, 0.1, 0.9])
TRAIN, TEST = slice(0, 300), slice(300, 400)


def fit(codes=CODES, classes=CLASSES, **options):
    options = {"num_stages": 20} | options
    return boost(sort_features(codes[TRAIN]), classes[TRAIN], codes[TEST], **options)


def centred(raw):
    return raw if len(raw) == 1 else raw - raw.mean(axis=0)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_is_scikit_learns_model_where_nothing_ties(num_classes):
    rng = np.random.default_rng(1)
    codes = rng.normal(size=(2600, 4))
    signal = codes[:, 0] + 0.5 * codes[:, 1] * codes[:, 2] + 1.5 * rng.normal(size=2600)
    classes = np.minimum(np.digitize(signal, [-0.8, 0.1, 0.9]), num_classes - 1)
    ours = boost(sort_features(codes[:2500]), classes[:2500], codes[2500:], num_stages=5)
    theirs = GradientBoostingClassifier(n_estimators=5, random_state=0)
    theirs.fit(codes[:2500], classes[:2500])
    for rows, raw in ((codes[:2500], ours.train), (codes[2500:], ours.test)):
        said = np.atleast_2d(theirs.decision_function(rows).T)
        np.testing.assert_allclose(centred(raw), centred(said), atol=1e-9)
        np.testing.assert_array_equal(ours.predicted(raw), theirs.predict(rows))
    # A split may tie even so, where it parts the same rows by another feature.
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=2e-3)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_a_quantity_is_scikit_learns_regression(scale):
    rng = np.random.default_rng(1)
    codes = rng.normal(size=(2600, 4))
    values = scale * (codes[:, 0] + 0.5 * codes[:, 1] * codes[:, 2] + rng.normal(size=2600) + 7.0)
    ours = boost_quantity(sort_features(codes[:2500]), values[:2500], codes[2500:], num_stages=20)
    theirs = GradientBoostingRegressor(n_estimators=20, random_state=0)
    theirs.fit(codes[:2500], values[:2500] / scale)
    for rows, made in ((codes[:2500], ours.train), (codes[2500:], ours.test)):
        np.testing.assert_allclose(made[0] / scale, theirs.predict(rows), atol=1e-6)
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=2e-3)
    still = boost_quantity(sort_features(codes[:9]), np.full(9, 3.0), codes[9:12], num_stages=3)
    assert still.test.tolist() == [[3.0] * 3]
    assert still.importances.tolist() == [0.0] * 4


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("kind", ["continuous", "few values", "offset"])
def test_agrees_with_scikit_learn_where_features_tie(num_classes, kind):
    codes = {"continuous": CODES, "few values": np.round(CODES * 2), "offset": CODES * 7 - 40}[kind]
    classes = np.minimum(CLASSES, num_classes - 1)
    theirs = GradientBoostingClassifier(n_estimators=20, random_state=0)
    theirs.fit(codes[TRAIN], classes[TRAIN])
    ours = fit(codes, classes)
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=0.02)
    for rows, raw in ((TRAIN, ours.train), (TEST, ours.test)):
        assert (ours.predicted(raw) == theirs.predict(codes[rows])).mean() > 0.95


def test_one_stump_by_hand():
    # Split between 1 and 4. Residuals are -1/2 and 1/2, p (1 - p) = 1/4: leaves are -2 and 2.
    codes = np.array([[0.0], [1.0], [4.0], [5.0]])
    made = boost(sort_features(codes), np.array([0, 0, 1, 1]), np.array([[2.5], [2.6]]),
                 num_stages=1)
    np.testing.assert_allclose(made.train, [[-0.2, -0.2, 0.2, 0.2]])
    np.testing.assert_allclose(made.test, [[-0.2, 0.2]])
    assert made.importances == pytest.approx([1.0])


def test_copies_share_their_importance_and_constants_have_none():
    alone = fit()
    more = np.column_stack([np.full(400, 3.0), CODES, -2 * CODES[:, 0], np.zeros(400)])
    made = fit(more)
    assert made.importances[[0, -1]].tolist() == [0.0, 0.0]
    assert made.importances[1] + made.importances[6] == pytest.approx(alone.importances[0],
                                                                      abs=0.01)
    assert min(made.importances[1], made.importances[6]) > 0.2 * alone.importances[0]


def test_codes_that_never_vary_give_the_most_frequent_class():
    made = fit(np.ones((400, 3)))
    assert (made.predicted(made.test) == np.bincount(CLASSES[TRAIN]).argmax()).all()
    assert made.importances.tolist() == [0.0] * 3


def test_threads_and_repetition_change_nothing(monkeypatch):
    factors = np.stack([CLASSES, CLASSES % 2, np.minimum(CLASSES, 2)], axis=1)
    first, again, threads = (dci(CODES, factors, num_stages=10, num_threads=n) for n in (1, 1, 3))
    assert first == again == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_threads() == 1


def test_in_turn_is_another_model():
    assert np.abs(fit(updates="in_turn").train - fit().train).max() > 0.01
    both = [fit(classes=CLASSES % 2, updates=u).train for u in ("in_turn", "together")]
    np.testing.assert_array_equal(*both, err_msg="two classes have one tree a stage")


def test_worked_importances():
    importances = np.array([[0.6, 0.0], [0.2, 0.2], [0.0, 0.0]])
    assert weighted_purity(importances) == pytest.approx(0.6)
    # Factor 0: shares 3/4 and 1/4 of three latents; factor 1 has one latent.
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) / np.log(3)
    assert weighted_purity(importances.T) == pytest.approx(0.8 * (1 - entropy) + 0.2)
    assert weighted_purity(np.zeros((2, 3))) == 0.0
    assert weighted_purity(np.ones((4, 1))) == 1.0
    assert weighted_purity(np.ones((1, 4))) == pytest.approx(0.0)


def test_classes_missing_on_either_side_and_constant_factors():
    factors = np.stack([CLASSES, np.zeros(400, int)], axis=1)
    expected = dci(CODES, factors[:, :1], num_train=300, num_stages=5)
    assert dci(CODES, factors, num_train=300, num_stages=5) == expected
    late = CLASSES.copy()
    late[300:310] = 9
    made = dci(CODES, late, num_train=300, num_stages=5)
    assert made["dci.informativeness_test"] <= 0.9
    assert made["dci.disentanglement"] == 1.0


def test_bad_input_is_told_in_a_sentence():
    with pytest.raises(UserError, match="at least 2 rows that train"):
        dci(CODES, CLASSES, num_train=400)
    with pytest.raises(UserError, match="too large for single precision"):
        dci(CODES * 1e39, CLASSES)
    with pytest.raises(UserError, match="num_stages"):
        dci(CODES, CLASSES, num_stages=0)
    with pytest.raises(ValueError, match="boosting"):
        dci(CODES, CLASSES, estimator="bosting")
    with pytest.raises(UserError, match="every factor is constant"):
        dci(CODES, np.zeros(400, int))
