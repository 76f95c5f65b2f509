"""From one latent to ten thousand: every metric ends, and loops for many say what numpy says."""

import sys
import warnings

import numpy as np
import pytest

from unweave.metrics import METRICS, score_records, tc, wasserstein
from unweave.metrics.beta_vae import mean_differences
from unweave.metrics.factor_vae import group_variances
from unweave.metrics.mutual_info_score import mutual_info_score
from unweave.metrics.spectrum import gram_eigenvalues

OF_CODES = sorted(name for name, metric in METRICS.items() if not metric.needs)
"""Metrics that need no model: see test_model_contracts for the others."""

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([2, 3], size=(60, 2))
NOISE = RNG.normal(size=(60, 10_000))
QUICK = {"num_train_votes": 60, "num_test_votes": 30, "group_size": 4, "num_stages": 2,
         "sizes": (10,)}


@pytest.mark.parametrize("num_latents", [1, 2, 1_000, 10_000])
@pytest.mark.parametrize("name", OF_CODES)
def test_every_metric_ends(name, num_latents):
    metric = METRICS[name]
    codes = NOISE[:, :num_latents].copy()
    codes[:, :2] += FACTORS[:, :num_latents]
    options = {k: v for k, v in QUICK.items() if k in metric.conventions["study2019"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = score_records(codes, FACTORS, metrics=name, details=False, **options)
    assert all(record.value in metric.keys[record.key].range for record in records)


def test_loops_for_many_latents_say_what_numpy_says(monkeypatch):
    codes = np.round(NOISE[:, :200], 1)
    groups, pairs = RNG.integers(60, size=(50, 9)), RNG.integers(60, size=(50, 9, 2))
    categorical = np.array([3, 70])
    for table in (codes, codes.astype(np.float32)):
        many = group_variances(table, groups), mean_differences(table, pairs, categorical)
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["unweave.metrics.factor_vae"], "MANY_LATENTS", 1000)
            patch.setattr(sys.modules["unweave.metrics.beta_vae"], "MANY_LATENTS", 1000)
            few = group_variances(table, groups), mean_differences(table, pairs, categorical)
        for one, other in zip(many, few):
            np.testing.assert_array_equal(one, other)


def test_pairs_of_many_latents(monkeypatch):
    module = sys.modules["unweave.metrics.mutual_info_score"]
    many = mutual_info_score(NOISE[:, :150])["mutual_info_score"]
    with monkeypatch.context() as patch:
        patch.setattr(module, "MANY_LATENTS", 1000)
        assert mutual_info_score(NOISE[:, :150])["mutual_info_score"] == pytest.approx(many)
    monkeypatch.setattr(module, "MOST_PAIRS", 5_000)
    with pytest.warns(UserWarning, match="150 latents make 11175 pairs"):
        drawn = mutual_info_score(NOISE[:, :150])["mutual_info_score"]
    assert drawn == pytest.approx(many, rel=0.01)


def test_eigenvalues_are_those_of_either_side():
    table = NOISE[:20, :30]
    both = gram_eigenvalues(table), gram_eigenvalues(table.T)
    np.testing.assert_allclose(both[0], np.linalg.eigvalsh(table.T @ table), atol=1e-9)
    np.testing.assert_allclose(both[1], np.linalg.eigvalsh(table @ table.T), atol=1e-9)


def test_more_latents_than_rows_have_a_bounded_total_correlation():
    with pytest.warns(UserWarning, match="60 rows cannot tell the covariance of 100 latents"):
        wide = tc(NOISE[:, :100])["tc.mean"]
    unit = NOISE[:, :100] - NOISE[:, :100].mean(axis=0)
    unit /= np.sqrt((unit ** 2).sum(axis=0))
    values = np.maximum(np.linalg.eigvalsh(unit.T @ unit), 1e-12)
    assert wide == pytest.approx(-0.5 * np.log(values).sum(), rel=1e-3)
    covariance = np.cov(NOISE[:, :100].T)
    root = np.sqrt(np.diag(covariance))
    inner = np.linalg.eigvalsh(covariance * np.outer(root, root))
    said = 2 * (root @ root) - 2 * np.sqrt(np.maximum(inner, 0)).sum()
    assert wasserstein(NOISE[:, :100])["wasserstein.mean"] == pytest.approx(said, rel=1e-5)
