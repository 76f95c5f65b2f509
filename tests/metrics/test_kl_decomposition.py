"""The KL taken apart: Gaussians whose terms are known, the identity, plain sums, classes."""

import doctest
import sys
from math import log

import numpy as np
import pytest
from linear_model import W, X, encoding
from scipy.special import logsumexp
from scipy.stats import norm

from unweave.metrics import kl_decomposition
from unweave.metrics.kl_decomposition import log_densities
from unweave.metrics.mixture import Grid
from unweave.types import UserError

RNG = np.random.default_rng(0)


def posteriors(num=300, size=4):
    mu = RNG.normal(size=(num, size)) @ RNG.normal(size=(size, size)) * 0.6
    logvar = 2 * np.log(np.exp(RNG.normal(-1.0, 0.7, size=(num, size))))
    return mu + np.exp(0.5 * logvar) * RNG.normal(size=(num, size)), mu, logvar


def test_the_worked_number_of_the_docstring():
    assert doctest.testmod(sys.modules[kl_decomposition.__module__]).failed == 0


def test_against_plain_sums():
    z, mu, logvar = posteriors()
    pairs = norm.logpdf(z[:, None], mu, np.exp(0.5 * logvar))
    joint = logsumexp(pairs.sum(axis=2), axis=1) - log(300)
    marginals = (logsumexp(pairs, axis=1) - log(300)).sum(axis=1)
    own = np.diagonal(pairs.sum(axis=2))
    made = log_densities(z, mu, logvar, None, None, None)
    assert made.aggregate == pytest.approx(joint, abs=1e-9)
    assert made.marginals == pytest.approx(marginals, abs=1e-4)
    assert made.given_image == pytest.approx(own)
    assert made.prior == pytest.approx(norm.logpdf(z).sum(axis=1))


def test_the_terms_add_up_to_the_kl():
    z, mu, logvar = posteriors(4000)
    made = kl_decomposition(sampled=z, mu=mu, logvar=logvar, num_samples=None)
    sampled = (norm.logpdf(z, mu, np.exp(0.5 * logvar)) - norm.logpdf(z)).sum(axis=1).mean()
    assert sum(made.values()) == pytest.approx(sampled, abs=1e-9)
    exact = 0.5 * (mu**2 + np.exp(logvar) - 1 - logvar).sum(axis=1).mean()
    assert sum(made.values()) == pytest.approx(exact, abs=0.15)


def test_gaussians_with_known_answers():
    """Means of covariance C and posteriors of variance s^2 make q(z) normal with C + s^2 I."""
    num, variance = 20_000, 0.25
    covariance = np.array([[0.75, 0.45], [0.45, 0.75]])
    mu = RNG.multivariate_normal(np.zeros(2), covariance, size=num)
    z = mu + np.sqrt(variance) * RNG.normal(size=mu.shape)
    made = kl_decomposition(sampled=z, mu=mu, logvar=np.full((num, 2), log(variance)),
                            num_samples=3000)
    whole = covariance + variance * np.eye(2)
    information = 0.5 * (np.linalg.slogdet(whole)[1] - 2 * log(variance))
    correlation = -0.5 * log(1 - 0.45**2)
    assert made["kl_decomposition.mi"] == pytest.approx(information, abs=0.06)
    assert made["kl_decomposition.tc"] == pytest.approx(correlation, abs=0.03)
    assert made["kl_decomposition.dimension"] == pytest.approx(0.0, abs=0.03)


def test_the_exact_model_has_the_prior_as_its_aggregate():
    """With x drawn from the model, q(z) is N(0, I): there is information and nothing else."""
    x = RNG.normal(size=(5000, 3)) @ W.T + RNG.normal(size=(5000, 6))
    model, rows = encoding(x), np.arange(5000)
    made = kl_decomposition(sampled=model.sampled(rows), mu=model.mu, logvar=model.logvar,
                            num_samples=2000)
    assert made["kl_decomposition.mi"] == pytest.approx(0.5 * log(10) + 0.5 * log(2), abs=0.1)
    assert made["kl_decomposition.tc"] == pytest.approx(0.0, abs=0.03)
    assert made["kl_decomposition.dimension"] == pytest.approx(0.0, abs=0.03)


def test_narrow_posteriors_tell_every_image_and_no_more():
    mu = RNG.normal(size=(500, 3))
    made = kl_decomposition(sampled=mu, mu=mu, logvar=np.full((500, 3), -18.0))
    assert made["kl_decomposition.mi"] == pytest.approx(log(500))
    wide = kl_decomposition(sampled=mu, mu=np.zeros((500, 3)), logvar=np.zeros((500, 3)))
    assert wide == pytest.approx(dict.fromkeys(wide, 0.0), abs=1e-5)


def test_classes_are_latents_too():
    """Two categorical latents that say the same, one bit: mi log 2, tc log 2, no dimension."""
    which = np.arange(400) % 2
    logits = np.where(which[:, None] == [0, 1, 0, 1], 0.0, -60.0)
    z = RNG.normal(size=(400, 1))
    made = kl_decomposition(sampled=np.column_stack([z, which, which]), mu=np.zeros((400, 1)),
                            logvar=np.zeros((400, 1)), category_logits=logits,
                            num_values=[0, 2, 2])
    assert made["kl_decomposition.mi"] == pytest.approx(log(2))
    assert made["kl_decomposition.tc"] == pytest.approx(log(2))
    assert made["kl_decomposition.dimension"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_grids_hold_what_was_put_on_them(spread):
    mu, sigma = RNG.normal(size=2000), np.exp(spread * RNG.normal(size=2000) - 2)
    grid = Grid(mu, sigma)
    assert grid.size <= (1 << 14) + 2
    (density,) = grid.densities(np.arange(2000)[None] % 3)
    share = density.sum(axis=1) * grid.step
    assert share == pytest.approx(np.bincount(np.arange(2000) % 3) / 2000, rel=1e-8)
    exact = logsumexp(norm.logpdf(mu[:50, None], mu, grid.sigma), axis=1) - log(2000)
    assert grid.log_density(mu[:50]) == pytest.approx(exact, abs=1e-4)


def test_bad_input_is_told():
    with pytest.raises(UserError, match="column for each of the 3 latents"):
        kl_decomposition(sampled=X[:, :2], mu=X[:, :3], logvar=X[:, :3])
    with pytest.raises(UserError, match="num_samples"):
        kl_decomposition(sampled=X, mu=X, logvar=X, num_samples=0)
