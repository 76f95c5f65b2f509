"""MIG-sup, JEMMIG and DCIMIG: worked numbers, constants, one factor, classes."""

import doctest
import sys
from math import log

import numpy as np
import pytest

from unweave.metrics.dcimig import dcimig
from unweave.metrics.jemmig import jemmig
from unweave.metrics.mig_sup import mig_sup
from unweave.types import UserError

FACTORS = np.array([[a, b] for a in range(2) for b in range(4)] * 3)
BOTH = 4 * FACTORS[:, 0] + FACTORS[:, 1]
ALL = [mig_sup, jemmig, dcimig]


@pytest.mark.parametrize("metric", ALL)
def test_the_worked_number_of_the_docstring(metric):
    assert doctest.testmod(sys.modules[metric.__module__]).failed == 0


def test_mig_sup_of_a_latent_with_two_factors():
    # It knows both entirely: no gap in shares of the factors; in its own, log 4 - log 2 of log 8.
    assert mig_sup(BOTH, FACTORS)["mig_sup"] == pytest.approx(0.0, abs=1e-12)
    assert mig_sup(BOTH, FACTORS, normalise="code")["mig_sup"] == pytest.approx(1 / 3)
    with pytest.raises(UserError, match="normaliser"):
        mig_sup(BOTH, FACTORS, normalise="latent")


def test_mig_sup_counts_latents_out_of_use():
    codes = np.column_stack([FACTORS[:, 0], np.full(24, 0.3)])
    assert mig_sup(codes, FACTORS) == {"mig_sup": pytest.approx(0.5)}
    assert mig_sup(codes, FACTORS, normalise="code") == {"mig_sup": pytest.approx(0.5)}


def test_jemmig_by_hand():
    # H(z, v) - I(z; v) is log 8 - log 2 for the first factor and log 8 - log 4 for the second.
    made = jemmig(BOTH, FACTORS, num_bins=10)["jemmig"]
    first = 1 - log(4) / (log(2) + log(10))
    second = 1 - log(2) / (log(4) + log(10))
    assert made == pytest.approx((first + second) / 2)
    # As classes there are eight bins; a copy is a rival that knows all of it.
    eight = jemmig(BOTH, FACTORS[:, 0], num_values=[8])["jemmig"]
    assert eight == pytest.approx(1 - log(4) / log(16))
    twice = jemmig(np.column_stack([BOTH, BOTH]), FACTORS[:, 0], num_values=[8, 8])["jemmig"]
    assert twice == pytest.approx(1 - log(8) / log(16))


def test_dcimig_by_hand():
    # Both latents belong to the second factor, with gaps of log 4 - log 2 and log 4.
    assert dcimig(BOTH, FACTORS)["dcimig"] == pytest.approx(log(2) / log(8))
    codes = np.column_stack([BOTH, FACTORS[:, 1]])
    assert dcimig(codes, FACTORS)["dcimig"] == pytest.approx(log(4) / log(8))


@pytest.mark.parametrize("metric", ALL)
def test_constants_and_one_factor(metric):
    name = metric.__name__
    assert metric(np.ones((24, 2)), FACTORS) == {name: 0.0}
    more = np.column_stack([FACTORS, np.zeros(24, dtype=int)])
    assert metric(BOTH, more) == metric(BOTH, FACTORS)
    assert metric(FACTORS[:, 0], FACTORS[:, 0])[name] == pytest.approx(1.0)
    assert metric(FACTORS[:, 0], FACTORS[:, 0], num_values=[2])[name] == pytest.approx(1.0)


@pytest.mark.parametrize("metric", ALL)
def test_classes_have_no_order(metric):
    order = np.random.default_rng(0).permutation(8)[BOTH]
    told = [metric(codes, FACTORS, num_bins=3, num_values=[8]) for codes in (BOTH, order)]
    assert told[0] == pytest.approx(told[1])
    assert metric(order, FACTORS, num_bins=3) != pytest.approx(told[0])
