"""InfoMEC and its nearest neighbours: against scikit-learn, by hand, and what is said of noise."""

import doctest
import math
import sys

import numpy as np
import pytest
from sklearn.feature_selection import mutual_info_classif
from sklearn.feature_selection._mutual_info import _compute_mi_cd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score

from unweave.metrics import infomec, score_records
from unweave.metrics.infomec import infomec_bootstrap
from unweave.metrics.neighbours import information_of_sorted, neighbour_information
from unweave.types import UserError

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 4, 5], size=(900, 3))
CODES = FACTORS @ RNG.normal(size=(3, 4)) + 0.5 * RNG.normal(size=(900, 4))


@pytest.mark.parametrize(("num_rows", "num_classes", "k"),
                         [(400, 4, 3), (2000, 40, 10), (500, 2, 1)])
def test_information_is_scikit_learn_s(num_rows, num_classes, k):
    rng = np.random.default_rng(num_rows)
    values = rng.normal(size=num_rows)
    classes = np.digitize(values + rng.normal(size=num_rows),
                          np.quantile(values, np.linspace(0, 1, num_classes + 1)[1:-1]))
    order = np.argsort(values)
    made = information_of_sorted(values[order], classes[order], k)
    assert made == pytest.approx(_compute_mi_cd(values, classes, k), abs=1e-12)


def test_information_of_a_table_is_that_of_its_columns():
    made = neighbour_information(CODES, FACTORS)
    for k in range(3):
        said = mutual_info_classif(CODES, FACTORS[:, k], n_neighbors=10, random_state=0)
        np.testing.assert_allclose(made[:, k], said, atol=1e-6)
    np.testing.assert_allclose(neighbour_information(CODES * -3 + 7, FACTORS), made, atol=1e-6)


def test_five_rows_by_hand():
    # Class 0 at 0, 1, 5, class 1 at 2, 9; k = 1. Distances 1, 1, 4, 7, 7; nearer, with itself:
    # 1 (0), 1 (1), 4 - nearer than 4 to 5: 2, 5 and not 1 or 9 - so 2, all but 9: 4, 9 5: 2.
    psi = dict(zip(range(1, 6), np.cumsum([-np.euler_gamma, 1, 1 / 2, 1 / 3, 1 / 4])))
    expected = (psi[5] + psi[1] - (3 * psi[3] + 2 * psi[2]) / 5
                - (psi[1] + psi[1] + psi[2] + psi[4] + psi[2]) / 5)
    values, classes = np.array([0.0, 1.0, 2.0, 5.0, 9.0]), np.array([0, 0, 1, 0, 1])
    assert information_of_sorted(values, classes, 1) == pytest.approx(max(expected, 0.0))
    # A class of one row is left out, and numbers that part the classes have their entropy.
    values, classes = np.arange(41.0), np.array([0] * 20 + [2] + [1] * 20)
    made = information_of_sorted(values, classes, 3)
    assert made == information_of_sorted(np.delete(values, 20), np.repeat([0, 1], 20), 3)
    assert made == pytest.approx(math.log(2), abs=0.1)
    assert information_of_sorted(np.arange(3.0), np.arange(3), 3) == 0.0


def test_the_three_are_those_of_the_formulas():
    entropies = [mutual_info_score(v, v) for v in FACTORS.T]
    shares = np.stack([mutual_info_classif(CODES, v, n_neighbors=10, random_state=0)
                       for v in FACTORS.T], axis=1) / entropies
    unit = (CODES - CODES.mean(axis=0)) / CODES.std(axis=0)
    losses = [log_loss(v, LogisticRegression(C=1e4, max_iter=1000).fit(unit, v).predict_proba(unit))
              for v in FACTORS.T]
    made = infomec(CODES, FACTORS)
    rows, columns = (np.mean(s.max(axis=1) / s.sum(axis=1)) for s in (shares, shares.T))
    assert made["infomec.m"] == pytest.approx((rows - 1 / 3) / (2 / 3), abs=1e-5)
    assert made["infomec.c"] == pytest.approx((columns - 1 / 4) / (3 / 4), abs=1e-5)
    assert made["infomec.e"] == pytest.approx(1 - np.mean(np.divide(losses, entropies)), abs=1e-3)


def test_quantised_latents_are_counted():
    # The first latent is the first factor, the second the other two as digits: no neighbours.
    codes = np.column_stack([FACTORS[:, 0], FACTORS[:, 1] * 5 + FACTORS[:, 2]])
    made = infomec(codes, FACTORS, num_values=[3, 20])
    shares = np.array([[mutual_info_score(z, v) / mutual_info_score(v, v) for v in FACTORS.T]
                       for z in codes.T])
    largest = np.mean(shares.max(axis=1) / shares.sum(axis=1))
    assert made["infomec.m"] == pytest.approx((largest - 1 / 3) / (2 / 3))
    assert made["infomec.e"] > 0.99
    assert infomec(codes, FACTORS)["infomec.e"] < 0.9, "a line through the digits is not enough"
    binned = infomec(codes, FACTORS, information="binned", num_bins=40)
    assert binned["infomec.m"] == pytest.approx(made["infomec.m"])


def test_latents_of_little_range_are_out_of_use():
    perfect = FACTORS + 0.1 * RNG.random(FACTORS.shape)
    narrow = np.column_stack([perfect, 0.1 * RNG.normal(size=(900, 2))])
    assert np.ptp(narrow[:, 3:], axis=0).max() > 0.05 * 4
    for least, modular in ((0.3, True), (0.0, False)):
        made = infomec(narrow, FACTORS, information="binned", least_range=least)
        assert (made["infomec.m"] > 0.9) == modular
    assert infomec(narrow, FACTORS, least_range=0.3)["infomec.c"] > 0.9


def test_noise_is_modular_by_neighbours_and_less_so_by_bins():
    noise = np.random.default_rng(2).normal(size=(900, 4))
    by_neighbours, by_bins = (infomec(noise, FACTORS, information=information)
                              for information in ("neighbours", "binned"))
    assert by_neighbours["infomec.m"] > 0.5 > by_bins["infomec.m"]
    assert max(by_neighbours["infomec.e"], by_bins["infomec.e"]) < 0.02


def test_one_factor_one_latent_and_none():
    perfect = FACTORS[:, :1] + 0.1 * RNG.random((900, 1))
    assert infomec(perfect, FACTORS[:, 0])["infomec.m"] == 1.0
    assert infomec(perfect, FACTORS[:, 0])["infomec.c"] == 1.0
    assert set(infomec(np.ones((900, 2)), FACTORS).values()) == {0.0}
    with_constant = np.column_stack([FACTORS, np.ones(900, int)])
    assert infomec(CODES, with_constant) == infomec(CODES, FACTORS)


def test_the_interval_covers_other_samples():
    rng = np.random.default_rng(5)
    mixing, values = rng.normal(size=(3, 4)), []
    for _ in range(8):
        factors = rng.integers([3, 4, 5], size=(600, 3))
        codes = factors @ mixing + 0.5 * rng.normal(size=(600, 4))
        values.append(infomec(codes, factors))
    for record in score_records(codes, factors, metrics="infomec", convention="paper"):
        spread = np.std([v[record.key] for v in values], ddof=1)
        assert 0.3 < (record.high - record.low) / (4 * spread) < 3.0, record.key
    tiny = infomec_bootstrap(rng, 5, CODES[:4], [0, 0, 0, 1])
    assert all(np.isfinite(v).all() for v in tiny.values())


def test_its_settings_have_names_of_their_own():
    records = score_records(CODES, FACTORS, metrics=["dci", "infomec"], details=False,
                            estimator="lasso", information="neighbours")
    said = {record.metric: record.overridden for record in records}
    assert said == {"dci": ("estimator",), "infomec": ("information",)}


def test_bad_input_and_the_worked_number():
    assert doctest.testmod(sys.modules["unweave.metrics.infomec"]).failed == 0
    for options, said in (({"num_neighbours": 0}, "num_neighbours"),
                          ({"least_range": 1.0}, "least_range"), ({"strength": 0.0}, "strength"),
                          ({"num_values": [3]}, "one entry for each of the 4 latents")):
        with pytest.raises(UserError, match=said):
            infomec(CODES, FACTORS, **options)
    with pytest.raises(ValueError, match="neighbours"):
        infomec(CODES, FACTORS, information="neighbors")
    with pytest.raises(UserError, match="too large"):
        infomec(CODES * 1e101, FACTORS)
