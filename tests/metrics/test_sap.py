"""SAP and its machines: against scikit-learn, and what is said of constants and missing classes."""

import doctest
import sys

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from unweave.metrics import METRICS, score_records
from unweave.metrics.sap import sap, sap_bootstrap
from unweave.metrics.svm import fit_latent, predict_latent
from unweave.types import UserError

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 4], size=(300, 2))
CODES = FACTORS + 0.3 * RNG.normal(size=(300, 2))


def test_the_worked_number_of_the_docstring():
    # Either code tells its factor; the other is right on half of the rows.
    assert doctest.testmod(sys.modules["unweave.metrics.sap"]).failed == 0


@pytest.mark.parametrize(("num_classes", "num_rows", "scale", "cost"),
                         [(2, 300, 1.0, 0.01), (2, 300, 5.0, 1.0), (3, 400, 1.0, 0.01),
                          (6, 1000, 30.0, 0.01), (20, 2000, 0.1, 0.5)])
def test_machines_are_liblinear_s(num_classes, num_rows, scale, cost):
    rng = np.random.default_rng(num_classes)
    labels = rng.integers(num_classes, size=num_rows)
    labels[:num_rows // 3] = 0
    labels[:num_classes] = np.arange(num_classes)
    x = scale * (labels + rng.normal(size=num_rows)) - 1.0
    made = fit_latent(x, labels, num_classes, cost)
    theirs = LinearSVC(C=cost, class_weight="balanced", dual=False, tol=1e-9, max_iter=10_000)
    theirs.fit(x[:, None], labels)
    said = np.column_stack([theirs.coef_[:, 0], theirs.intercept_])
    np.testing.assert_allclose(made, said, atol=2e-5)
    assert (predict_latent(x, made) == theirs.predict(x[:, None])).mean() > 0.998


def test_a_class_that_training_lacks_counts_as_wrong():
    x = np.array([0.0, 0.0, 9.0, 9.0, 0.0, 9.0, 5.0, 5.0])
    labels = np.array([0, 0, 1, 1, 0, 1, 2, 2])
    assert sap(x, labels, num_train=4, cost=10.0) == {"sap": 0.5}


def test_a_circle_is_closed_by_classes_that_only_rows_that_test_have():
    """Cosine and sine of sixths of a turn are explained in full, whichever sixths train."""
    sixths = np.r_[np.tile(np.arange(5), 8), np.arange(6)]
    turn = 2 * np.pi * sixths / 6
    codes = np.column_stack([np.cos(turn), np.random.default_rng(0).normal(size=46)])
    made = sap(codes, sixths, num_train=40, regression=True, factor_types="circular")["sap"]
    round_trip = np.column_stack([np.ones(40), np.cos(turn[:40]), np.sin(turn[:40])])
    noise = codes[:40, 1]
    left = noise - round_trip @ np.linalg.lstsq(round_trip, noise)[0]
    assert made == pytest.approx(left.var() / noise.var(), abs=1e-9)


def test_constant_latents_and_factors():
    assert sap(np.ones((300, 2)), FACTORS, num_train=200) == {"sap": 0.0}
    more = np.column_stack([FACTORS, np.zeros(300, dtype=int)])
    assert sap(CODES, more, num_train=200) == sap(CODES, FACTORS, num_train=200)
    late = np.column_stack([FACTORS, np.arange(300) >= 200])
    assert sap(CODES, late, num_train=200) == sap(CODES, FACTORS, num_train=200)
    one = sap(np.column_stack([CODES, np.full(300, 3.3)]), FACTORS[:, 1], regression=True)
    assert one == sap(CODES, FACTORS[:, 1], regression=True)


def test_standardised_codes_have_no_scale():
    moved = CODES * [100.0, 0.01] - 7.0
    first, second = (sap(c, FACTORS, num_train=200, standardise=True) for c in (CODES, moved))
    assert first == pytest.approx(second)
    assert sap(moved, FACTORS, num_train=200) != sap(CODES, FACTORS, num_train=200)


def test_correlation():
    made = sap(CODES, FACTORS, num_train=200, regression=True)["sap"]
    square = np.corrcoef(CODES[:200].T, FACTORS[:200].T)[:2, 2:] ** 2
    assert made == pytest.approx(np.mean(square.max(axis=0) - square.min(axis=0)))
    assert sap_bootstrap(RNG, 9, CODES, FACTORS, regression=True) == {}


def test_rows_in_order_are_mixed_before_they_are_split():
    order = np.argsort(FACTORS[:, 0], kind="stable")
    record = score_records(CODES[order], FACTORS[order], metrics="sap")[0]
    assert record.settings["num_train_points"] == 200
    assert record.settings["num_test_points"] == 100
    assert record.low < record.value < record.high
    whole = sap(CODES, FACTORS)["sap"]
    assert record.value == pytest.approx(whole, abs=0.15)
    assert METRICS["sap"].conventions["paper"]["standardise"]


@pytest.mark.parametrize(("options", "said"), [
    ({"num_train": 300}, "num_train"), ({"num_train": 1}, "num_train"), ({"cost": 0.0}, "cost")])
def test_bad_settings(options, said):
    with pytest.raises(UserError, match=said):
        sap(CODES, FACTORS, **options)


def test_codes_beyond_squares():
    with pytest.raises(UserError, match="rescale"):
        sap(CODES * 1e200, FACTORS)
