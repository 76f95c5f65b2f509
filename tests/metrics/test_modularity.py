"""Modularity: worked numbers, and what it says of constants, one factor and classes."""

import doctest
import sys

import numpy as np
import pytest

from unweave.metrics import METRICS
from unweave.metrics.modularity import modularity
from unweave.types import UserError

FACTORS = np.array([[a, b] for a in range(2) for b in range(2)] * 3)
BOTH = 2 * FACTORS[:, 0] + FACTORS[:, 1]


def test_the_worked_number_of_the_docstring():
    assert doctest.testmod(sys.modules["unweave.metrics.modularity"]).failed == 0


def test_a_latent_that_knows_two_factors_alike_scores_nothing():
    assert modularity(BOTH, FACTORS)["modularity"] == pytest.approx(0.0, abs=1e-12)
    # With a third factor that it does not know, half of the stray information is missing.
    more = np.column_stack([FACTORS, np.repeat([0, 1, 2], 4)])
    assert modularity(BOTH, more)["modularity"] == pytest.approx(0.5)


def test_constant_latents_and_factors_are_left_out():
    codes = np.column_stack([FACTORS[:, 0], np.full(12, 0.1), BOTH])
    assert modularity(codes, FACTORS)["modularity"] == pytest.approx(0.5)
    more = np.column_stack([np.zeros(12, dtype=int), FACTORS])
    assert modularity(codes, more) == modularity(codes, FACTORS)
    assert modularity(np.ones((12, 2)), FACTORS) == {"modularity": 0.0}


def test_one_factor_is_all_there_is_to_know():
    assert modularity(np.column_stack([BOTH, -BOTH]), BOTH) == {"modularity": 1.0}


def test_a_threshold_drops_dead_latents_but_no_classes():
    codes = np.column_stack([FACTORS[:, 0], 0.01 * BOTH])
    assert modularity(codes, FACTORS)["modularity"] == pytest.approx(0.5)
    assert modularity(codes, FACTORS, std_threshold=0.05)["modularity"] == pytest.approx(1.0)
    classes = modularity(BOTH, FACTORS, std_threshold=99.0, num_values=[4])["modularity"]
    assert classes == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(UserError, match="std_threshold"):
        modularity(codes, FACTORS, std_threshold=-1.0)


def test_the_bootstrap_has_the_metric_s_parameters():
    rng = np.random.default_rng(0)
    codes = FACTORS + 0.5 * rng.normal(size=(12, 2))
    made = METRICS["modularity"].bootstrap(rng, 30, codes, FACTORS, num_bins=4)["modularity"]
    assert made.shape == (30,)
    assert made.std() > 0
    assert made.min() >= 0
    assert made.max() <= 1
