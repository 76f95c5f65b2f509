"""DCI-ES: curves by hand, the path of boosting, sizes and intervals."""

import doctest
import sys

import numpy as np
import pytest

from unweave.metrics import dci, dci_es, score_records
from unweave.metrics.boosting import boost, boost_path, sort_features
from unweave.metrics.dci_es import dci_es_bootstrap
from unweave.types import UserError

MODULE = sys.modules["unweave.metrics.dci_es"]
RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 4, 5], size=(900, 3))
PERFECT = FACTORS + 0.1 * RNG.random(FACTORS.shape)
MIXED = PERFECT @ RNG.normal(size=(3, 4)) + 0.3 * RNG.normal(size=(900, 4))
QUICK = {"num_train": 600, "num_stages": 8}


@pytest.mark.parametrize(("loss", "expected"), [
    ([0.8, 0.2, 0.2, 0.2], 1.0),  # the weakest probe is as good as any
    ([0.8, 0.8, 0.8, 0.0], 1 - 2 * 0.75),  # all at the end: three quarters of the whole
    ([0.8, 0.9, 0.9, 0.9], 1.0),  # nothing is learned, and worse than nothing does not count
    ([0.5, 0.2, 0.3, 0.1], 1 - 2 * (0.1 + 0.05) / (2 * 0.5)),  # 0.3 counts as the 0.2 before
    ([0.0, 0.0, 0.0, 0.0], 1.0),  # nothing to learn
])
def test_curves_by_hand(loss, expected):
    made = MODULE._explicitness(np.array(loss)[:, None], [1, 2, 4])
    assert made == pytest.approx(expected)


def test_worked_number():
    assert doctest.testmod(MODULE).failed == 0


@pytest.mark.parametrize("num_classes", [2, 5])
@pytest.mark.parametrize("updates", ["together", "in_turn"])
def test_the_path_is_that_of_separate_fits(num_classes, updates):
    classes = np.minimum(FACTORS[:, 2], num_classes - 1)
    features = sort_features(MIXED[:600])
    path = boost_path(features, classes[:600], MIXED[600:], (1, 2, 6), updates=updates)
    for num_stages, made in zip((1, 2, 6), path):
        alone = boost(features, classes[:600], MIXED[600:], num_stages=num_stages, updates=updates)
        # Features that tie may be taken in another order after the first stop.
        assert (made.predicted(made.test) == alone.predicted(alone.test)).mean() > 0.97
        np.testing.assert_allclose(made.importances, alone.importances, atol=0.02)
    np.testing.assert_array_equal(path[0].train, boost(
        features, classes[:600], MIXED[600:], num_stages=1, updates=updates).train)


def test_codes_that_are_easy_and_hard_to_read():
    easy = dci_es(PERFECT, FACTORS, **QUICK)
    assert easy == {"dci_es.explicitness": 1.0, "dci_es.informativeness": 1.0, "dci_es.size": 1.0}
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turned = dci_es(PERFECT @ turn, FACTORS, **QUICK)
    assert turned["dci_es.explicitness"] < 0.9
    assert turned["dci_es.informativeness"] > 0.7
    nothing = dci_es(np.ones((900, 6)), FACTORS, **QUICK)
    assert nothing == {"dci_es.explicitness": 1.0, "dci_es.informativeness": 0.0,
                       "dci_es.size": 0.5}


def test_informativeness_is_the_end_of_the_curve():
    # With the same trees, DCI's accuracy a says 1 - (1 - a) / (1 - most frequent).
    made = dci_es(MIXED, FACTORS[:, 0], **QUICK)["dci_es.informativeness"]
    right = max(dci(MIXED, FACTORS[:, 0], num_train=600, num_stages=s)["dci.informativeness_test"]
                for s in (1, 2, 4, 8))
    most = np.mean(FACTORS[600:, 0] == np.bincount(FACTORS[:600, 0]).argmax())
    assert made == pytest.approx(1 - (1 - right) / (1 - most), abs=0.03)


def test_classes_of_a_latent_are_columns_of_one():
    names = np.random.default_rng(1).permutation(20)
    digits = names[FACTORS[:, 1] * 5 + FACTORS[:, 2]]
    codes = np.column_stack([FACTORS[:, 0], digits])
    told, untold = (dci_es(codes, FACTORS, num_values=v, **QUICK) for v in ([3, 20], None))
    assert told["dci_es.size"] == untold["dci_es.size"] == 1.5
    assert told["dci_es.informativeness"] > 0.9
    other = np.column_stack([2 - FACTORS[:, 0], 19 - digits])
    assert dci_es(other, FACTORS, num_values=[3, 20], **QUICK) == told


def test_threads_and_stages():
    first, second = (dci_es(MIXED, FACTORS, num_threads=n, **QUICK) for n in (1, 3))
    assert first == second
    assert MODULE._wrong(MIXED, FACTORS, 600, 20)[1] == [1, 2, 4, 8, 16, 20]


def test_the_interval_covers_rows_that_test_and_rows_that_train():
    explicit, informed, size = score_records(MIXED, FACTORS, metrics="dci_es", **QUICK)
    assert explicit.low < explicit.value < explicit.high
    assert size.low is None, "nothing about a number of latents is uncertain"
    made = dci_es_bootstrap(np.random.default_rng(3), 200, MIXED, FACTORS, **QUICK)
    both = np.std(made["dci_es.informativeness"])
    assert informed.high - informed.low == pytest.approx(4 * both, rel=0.3)
    wrong = MODULE._wrong(MIXED, FACTORS, 600, 8)[0]
    picks = np.random.default_rng(3).integers(300, size=(200, 300))
    test = np.std([MODULE._informativeness(wrong[:, r].mean(axis=1)) for r in picks])
    assert test < both < 3 * test
    few = dci_es_bootstrap(np.random.default_rng(3), 4, MIXED, FACTORS, num_train=99, num_stages=2)
    assert few == {}


def test_bad_input_is_told_in_a_sentence():
    with pytest.raises(UserError, match="at least 2 rows that train"):
        dci_es(MIXED, FACTORS, num_train=900)
    with pytest.raises(UserError, match="num_stages must be at least 2"):
        dci_es(MIXED, FACTORS, num_stages=1)
    with pytest.raises(UserError, match="too large for single precision"):
        dci_es(MIXED * 1e39, FACTORS)
