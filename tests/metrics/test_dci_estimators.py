"""DCI's other estimators, categorical latents and intervals."""

import doctest
import sys

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.svm import LinearSVC

from unweave.metrics import dci, score_records
from unweave.metrics.dci import dci_bootstrap, weighted_purity
from unweave.metrics.importances import ESTIMATORS, fit_importances, latent_columns
from unweave.types import UserError

MODULE = sys.modules["unweave.metrics.dci"]
RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 4, 5], size=(600, 3))
NOISY = FACTORS @ RNG.normal(size=(3, 4)) + 0.5 * RNG.normal(size=(600, 4))
QUICK = {"num_stages": 10}
LASSO = ["identity", "permscaled", "rot45", "collapsed", "duplicate", "noisy010", "noisy050",
         "random", "missing", "categorical", "dsprites_ident", "dsprites_vae", "nonuniform",
         "mixed"]


@pytest.fixture
def small_forests(monkeypatch):
    """Nothing to choose: what a forest would take longest for."""
    for name, value in (("DEPTHS", (8,)), ("SHARES", (1.0,)), ("FOREST_FOLDS", 2)):
        monkeypatch.setattr(sys.modules["unweave.metrics.importances"], name, value)


def of_all_rows(problem, estimator):
    """The reference fits all rows and looks at the same ones."""
    codes, factors = problem["codes"].astype(np.float64), problem["factors"]
    return dci(np.vstack([codes, codes]), np.vstack([factors, factors]), num_train=len(codes),
               estimator=estimator)


def assert_agrees(made, said, prefix):
    for key in ("disentanglement", "completeness", "informativeness"):
        reference = said[f"{prefix}_{key}"]["ubisoft_pinned/arrays"]
        ours = made[f"dci.{key}" + ("_test" if key == "informativeness" else "")]
        assert ours == pytest.approx(reference["value"], abs=reference["tol"]), key


@pytest.mark.parametrize("name", LASSO)
def test_lasso_of_the_stored_rows(golden, load, name):
    made = of_all_rows(load(name), "lasso")
    assert_agrees(made, golden[f"pub_{name}"], "dci_lasso")
    assert made["dci.informativeness_train"] == pytest.approx(made["dci.informativeness_test"])


@pytest.mark.parametrize("name", ["missing"])
def test_forests_of_the_stored_rows(golden, load, name):
    assert_agrees(of_all_rows(load(name), "random_forest"), golden[f"pub_{name}"], "dci_rf")


def test_a_dead_latent_does_not_end_the_loop(golden, load):
    # The reference leaves the loop at latent 2, which is dead, and never looks at latent 3.
    problem = load("categorical")
    codes, factors = problem["codes"].astype(np.float64), problem["factors"]
    twice = np.vstack([codes, codes]), np.vstack([factors, factors])
    importances = fit_importances(*twice, len(codes), estimator="lasso").importances
    assert (importances.sum(axis=1) > 0).tolist() == [True, True, False, True]
    said = golden["pub_categorical"]["dci_lasso_disentanglement"]["ubisoft_pinned/arrays"]["value"]
    assert weighted_purity(importances[:2]) == pytest.approx(said, abs=5e-4)
    assert weighted_purity(importances) < said - 0.003


def test_lasso_takes_the_penalty_that_predicts_best():
    unit = (NOISY - NOISY[:400].min(axis=0)) / np.ptp(NOISY[:400], axis=0)
    made = fit_importances(NOISY, FACTORS, 400, estimator="lasso").importances
    for k in range(3):
        target = FACTORS[:, k] / FACTORS[:400, k].max()
        tried = [np.abs(Lasso(alpha=a).fit(unit[:400], target[:400]).coef_)
                 for a in (1e-4, 1e-3, 1e-2)]
        assert min(np.abs(made[:, k] - one).max() for one in tried) < 1e-3


def test_machines_are_one_against_the_rest_with_an_l1_penalty():
    mean, deviation = NOISY[:400].mean(axis=0), NOISY[:400].std(axis=0)
    codes = (NOISY - mean) / deviation
    made = dci(NOISY, FACTORS, num_train=400, estimator="l1_svm")
    machines = [LinearSVC(penalty="l1", dual=False, C=1.0, tol=1e-6, max_iter=100_000)
                .fit(codes[:400], column) for column in FACTORS[:400].T]
    importances = np.stack([np.abs(m.coef_).mean(axis=0) for m in machines], axis=1)
    assert made["dci.disentanglement"] == pytest.approx(weighted_purity(importances), abs=2e-3)
    right = np.mean([m.score(codes[400:], column) for m, column in zip(machines, FACTORS[400:].T)])
    assert made["dci.informativeness_test"] == pytest.approx(right, abs=5e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_knows_a_perfect_code_and_noise(estimator, small_forests):
    perfect = np.column_stack([-4.0 * FACTORS + 3.0, np.full(600, 2.0)])
    made = dci(perfect, FACTORS, num_train=400, estimator=estimator, **QUICK)
    # A line does not part a middle value from the rest: those machines fit whatever there is.
    least = 0.8 if estimator == "l1_svm" else 0.97
    assert min(made["dci.disentanglement"], made["dci.completeness"]) > least
    noise = dci(RNG.normal(size=(600, 3)), FACTORS, num_train=400, estimator=estimator, **QUICK)
    assert noise["dci.informativeness_test"] < 0.4
    constant = dci(np.ones((600, 3)), FACTORS, num_train=400, estimator=estimator, **QUICK)
    assert constant["dci.disentanglement"] == constant["dci.completeness"] == 0.0
    records = score_records(NOISY, FACTORS, metrics="dci", estimator=estimator, details=False,
                            **QUICK)
    assert records[0].settings["estimator"] == estimator


@pytest.mark.parametrize("estimator", ["lasso", "l1_svm"])
def test_scale_and_place_of_latents_do_not_matter(estimator):
    moved = NOISY * [3.0, -0.01, 20.0, 1.0] + [5.0, 0.0, -100.0, 1.0]
    first, second = (dci(c, FACTORS, num_train=400, estimator=estimator) for c in (NOISY, moved))
    assert second == pytest.approx(first, abs=2e-3)


def test_columns_of_classes_in_order_of_appearance():
    codes = np.array([[0.5, 2.0], [0.1, 0.0], [0.9, 2.0], [0.3, 1.0]])
    table, owner = latent_columns(codes, [0, 4])
    assert owner.tolist() == [0, 1, 1, 1]
    np.testing.assert_array_equal(table[:, 1:], [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    assert latent_columns(codes, None)[0] is codes


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_classes_have_no_order(estimator, small_forests):
    # Of a factor with two values, the classes 0, 2, 4 are one: no line parts them from 1, 3, 5.
    classes = np.random.default_rng(1).integers(6, size=600)
    codes = np.column_stack([classes, FACTORS[:, 0]]).astype(float)
    factors = np.column_stack([classes % 2, FACTORS[:, 0]])
    options = {"num_train": 400, "estimator": estimator, **QUICK}
    told = dci(codes, factors, num_values=[6, 0], **options)
    assert told["dci.informativeness_test"] > 0.97
    # Columns of a latent count as one.
    assert told["dci.completeness"] > (0.75 if estimator == "l1_svm" else 0.95)
    if estimator in ("lasso", "l1_svm"):
        assert dci(codes, factors, **options)["dci.informativeness_test"] < 0.85


def test_the_interval_is_made_of_one_more_fit(monkeypatch):
    rows = []

    def counted(codes, factors, num_train, **settings):
        rows.append(num_train)
        return fit_importances(codes, factors, num_train, **settings)

    monkeypatch.setattr(MODULE, "fit_importances", counted)
    first, *_, test = score_records(NOISY, FACTORS, metrics="dci", num_train=400, **QUICK)
    assert rows == [400] * 3 + [50] * 8
    assert first.low < first.value < first.high
    # The share of right answers over rows, with factors averaged first.
    right = fit_importances(NOISY, FACTORS, 400, estimator="boosting", updates="in_turn",
                            min_impurity=1e-7, **QUICK).test.mean(axis=1)
    spread = 2 * 1.96 * right.std() / np.sqrt(200)
    assert test.high - test.low == pytest.approx(spread, rel=0.2)
    rows.clear()
    dci(NOISY, FACTORS, num_train=400, **QUICK)
    dci(NOISY, FACTORS, num_train=400, **QUICK)
    assert rows == [400, 400], "a score is never one that was kept"


def test_too_few_rows_have_no_interval_of_importances():
    made = dci_bootstrap(np.random.default_rng(0), 20, NOISY[:120], FACTORS[:120], num_train=99,
                         **QUICK)
    assert set(made) == {"dci.informativeness_train", "dci.informativeness_test"}
    rare = np.zeros(600, int)
    rare[0] = 1  # constant in all blocks but one
    made = dci_bootstrap(np.random.default_rng(0), 20, NOISY, rare, num_train=400, **QUICK)
    assert set(made) == {"dci.informativeness_train", "dci.informativeness_test"}


def test_bad_input_and_the_worked_numbers():
    assert doctest.testmod(MODULE).failed == 0
    with pytest.raises(UserError, match="one entry for each of the 4 latents"):
        dci(NOISY, FACTORS, num_values=[3])
    with pytest.raises(ValueError, match="l1_svm"):
        dci(NOISY, FACTORS, estimator="svm")
