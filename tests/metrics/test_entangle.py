"""Theorem 1: the same distribution, another score."""

import numpy as np
import pytest
from scipy import stats

from unweave.metrics import score
from unweave.metrics.entangle import entangle, mixing


@pytest.mark.parametrize("size", [2, 3, 5, 10, 64])
def test_the_mixing_is_orthogonal_and_has_no_zero(size):
    matrix = mixing(size)
    assert np.allclose(matrix @ matrix.T, np.eye(size))
    assert np.abs(matrix).min() > 1e-4


def test_every_marginal_is_kept_exactly_and_latents_stay_independent():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.normal(size=4000), rng.uniform(size=4000), rng.exponential(size=4000)], 1)
    mixed = entangle(codes)
    assert np.array_equal(np.sort(mixed, axis=0), np.sort(codes, axis=0))
    assert np.abs(stats.spearmanr(mixed).statistic - np.eye(3)).max() < 0.06


def test_every_latent_depends_on_every_other():
    rng = np.random.default_rng(1)
    codes = rng.normal(size=(2000, 4))
    related = np.abs(stats.spearmanr(codes, entangle(codes)).statistic[:4, 4:])
    assert related.min() > 0.05
    assert related.max() < 0.95


def test_supervised_scores_tell_the_two_apart():
    rng = np.random.default_rng(2)
    factors = rng.integers(0, 10, size=(6000, 3))
    codes = factors + rng.uniform(-0.4, 0.4, size=factors.shape)
    plain, mixed = (score(c, factors, metrics=["mig", "factor_vae"])
                    for c in (codes, entangle(codes)))
    assert plain["mig"] > 0.9
    assert plain["factor_vae"] > 0.95
    assert mixed["mig"] < 0.3
    assert mixed["factor_vae"] < 0.95


def test_one_latent_comes_back():
    codes = np.arange(5.0)[:, None]
    assert np.array_equal(entangle(codes), codes)
