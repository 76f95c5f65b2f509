"""MIG as Chen et al. have it, from posteriors: integrals against references and closed forms."""

from math import log

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from unweave.metrics import Encoding, mig, score_records
from unweave.metrics.mig import posterior_information
from unweave.metrics.mixture import mixture_information

PROBLEMS = ["identity", "rot45", "noisy010", "noisy050", "mixed"]
GRID = np.stack(np.unravel_index(np.arange(120), (4, 6, 5)), axis=1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_reference(name, golden, load):
    problem, said = load(name), golden[f"pub_{name}"]["mig_posterior"]
    table, logvar = problem["world"].table, 2 * problem["post_logsigma"]
    made = mig(table, GRID, mu=table, logvar=logvar)["mig.posterior"]
    assert made == pytest.approx(said["exact_quadrature/world"]["value"], abs=1e-6)
    sampled = said["btcvae_reference/world"]
    assert made == pytest.approx(sampled["value"], abs=3 * sampled["std"] + 1e-6)


def test_two_normals_by_adaptive_quadrature():
    """One bit through a channel with noise: the density of +-1 and a deviation of 0.8."""
    def nats(z):
        joint = 0.5 * norm.pdf(z, [-1, 1], 0.8)
        return (joint * np.log(2 * joint / joint.sum())).sum()

    expected = quad(nats, -8, 8, epsabs=1e-12)[0]
    which = np.arange(10) % 2
    made = mixture_information(which * 2.0 - 1.0, np.full(10, 0.8), which[None])
    assert made == pytest.approx([expected], abs=1e-8)


def test_deviations_may_differ_by_thousands():
    which = np.arange(12) % 3
    sigma = np.where(which == 0, 2.0, 1e-3)
    made = mixture_information(which * 4.0, sigma, np.stack([which, np.zeros(12, int)]))
    # Values 1 and 2 are certain; a wide posterior of value 0 is near neither for a share of 0.99.
    assert made[0] == pytest.approx(log(3), abs=0.02)
    assert made[1] == pytest.approx(0.0, abs=1e-9)


def test_posteriors_that_are_the_prior_know_nothing():
    made = posterior_information(GRID, np.zeros((120, 2)), np.zeros((120, 2)))
    assert made == pytest.approx(np.zeros((2, 3)), abs=1e-12)


def test_classes_know_by_their_probabilities():
    """A class that is the factor with probability 3/4, else the other of two."""
    which = np.arange(8) % 2
    logits = np.log(np.where(which[:, None] == [0, 1], 0.75, 0.25))
    made = posterior_information(which[:, None], np.zeros((8, 1)), np.zeros((8, 1)), logits, [0, 2])
    expected = log(2) + 0.75 * log(0.75) + 0.25 * log(0.25)
    assert made == pytest.approx(np.array([[0.0], [expected]]))


def test_unknown_labels_leave_out_their_rows():
    mu = np.random.default_rng(0).normal(size=(120, 2)) + GRID[:, :2]
    holes = np.where(np.arange(120)[:, None] % 3 == np.arange(3), -1, GRID)
    made = posterior_information(holes, mu, np.zeros((120, 2)))
    for k in range(3):
        rows = holes[:, k] >= 0
        alone = posterior_information(GRID[rows, k:k + 1], mu[rows], np.zeros((80, 2)))
        assert made[:, k] == pytest.approx(alone[:, 0])


def test_it_comes_with_mig_where_posteriors_are_known():
    codes = GRID - GRID.mean(axis=0)
    narrow = Encoding(codes, mu=codes, logvar=np.full(codes.shape, -6.0))
    first, second = score_records(narrow, GRID, metrics="mig")
    assert [first.key, second.key] == ["mig", "mig.posterior"]
    assert second.value == pytest.approx(1.0, abs=1e-3)
    assert second.chance < 0.3
    assert second.ceiling is None, "factors have no posterior"
    wide = Encoding(codes, mu=codes, logvar=np.zeros(codes.shape))
    assert score_records(wide, GRID, metrics="mig")[1].value < 0.7
