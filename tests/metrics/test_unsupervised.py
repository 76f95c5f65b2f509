"""Total correlation, Wasserstein correlation, mutual-information score: codes alone."""

import doctest
import sys
from math import log, sqrt

import numpy as np
import pytest
import scipy.linalg

from unweave.metrics.mutual_info_score import mutual_info_score
from unweave.metrics.tc import tc
from unweave.metrics.wasserstein import wasserstein
from unweave.types import UserError

RNG = np.random.default_rng(0)
CODES = RNG.normal(size=(400, 4)) @ RNG.normal(size=(4, 4))
PAIR = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
"""Two latents with a correlation of 1/3 and a variance of 6/5."""
ALL = [tc, wasserstein, mutual_info_score]


@pytest.mark.parametrize("metric", ALL)
def test_the_worked_number_of_the_docstring(metric):
    assert doctest.testmod(sys.modules[metric.__module__]).failed == 0


def test_two_correlated_latents_by_hand():
    assert tc(PAIR)["tc.mean"] == pytest.approx(-log(1 - 1 / 9) / 2)
    made = wasserstein(PAIR)
    expected = 2 * 1.2 * (2 - sqrt(1 + 1 / 3) - sqrt(1 - 1 / 3))
    assert made["wasserstein.mean"] == pytest.approx(expected)
    assert made["wasserstein.normalised"] == pytest.approx(expected / 2.4)
    # Joint shares are 1/3 and 1/6, margins one half each.
    expected = 2 / 3 * log(4 / 3) + 1 / 3 * log(2 / 3)
    assert mutual_info_score(PAIR)["mutual_info_score"] == pytest.approx(expected)


def test_against_matrix_functions():
    covariance = np.cov(CODES.T)
    log_det = np.linalg.slogdet(covariance)[1]
    assert tc(CODES)["tc.mean"] == pytest.approx((np.log(np.diag(covariance)).sum() - log_det) / 2)
    root = scipy.linalg.sqrtm(covariance * np.diag(covariance)[:, None])
    expected = 2 * np.trace(covariance) - 2 * np.trace(root).real
    assert wasserstein(CODES)["wasserstein.mean"] == pytest.approx(expected)


@pytest.mark.parametrize("metric", ALL)
def test_one_latent_or_none_that_varies_scores_nothing(metric):
    assert set(metric(CODES[:, :1]).values()) == {0.0}
    assert set(metric(np.full((400, 3), 0.7)).values()) == {0.0}


def test_constants():
    more = np.column_stack([CODES, np.full(400, 0.3)])
    assert tc(more) == pytest.approx(tc(CODES))
    assert wasserstein(more) == pytest.approx(wasserstein(CODES))
    # Five latents make 20 pairs, four make 12.
    made, plain = (mutual_info_score(c)["mutual_info_score"] for c in (more, CODES))
    assert made == pytest.approx(plain * 12 / 20)


def test_copies_are_finite():
    double = np.column_stack([CODES, CODES[:, 0]])
    assert 10 < tc(double)["tc.mean"] < 20
    assert wasserstein(CODES[:, [0, 0]])["wasserstein.normalised"] == pytest.approx(2 - sqrt(2))
    assert tc(CODES * 1e200) == pytest.approx(tc(CODES))
    with pytest.raises(UserError, match="rescale"):
        wasserstein(CODES * 1e200)


def test_classes_have_no_order():
    classes = np.column_stack([np.arange(40) % 8, np.arange(40) % 8])
    classes[:, 1] = np.array([3, 0, 5, 1, 7, 2, 6, 4])[classes[:, 1]]
    made = mutual_info_score(classes, num_bins=2, num_values=[8, 8])["mutual_info_score"]
    assert made == pytest.approx(log(8))
    assert mutual_info_score(classes, num_bins=2)["mutual_info_score"] < 0.7
