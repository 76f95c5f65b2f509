"""The bound from arrays: worked numbers, the exact model, categorical latents, active units."""

import doctest
import sys
from math import log

import numpy as np
import pytest
import torch
from linear_model import LOG_EVIDENCE, SCALES, VARIANCE, X, encoding
from torch.distributions import Categorical, Normal, kl_divergence

from unweave.metrics import elbo, score
from unweave.types import UserError

ROWS = np.arange(len(X))


def test_the_worked_number_of_the_docstring():
    assert doctest.testmod(sys.modules[elbo.__module__]).failed == 0


def test_with_the_exact_posterior_the_bound_is_the_evidence():
    """E_q log p(x|z) - KL = log p(x); one draw for each of 400 images leaves a little noise."""
    made = score(encoding(), ROWS % 2, metrics="elbo")
    assert made["elbo"] == pytest.approx(LOG_EVIDENCE.mean(), abs=0.15)
    assert made["elbo"] == -made["elbo.reconstruction"] - made["elbo.kl"]
    beside = score(encoding(shift=0.5), ROWS % 2, metrics="elbo")
    gap = 0.5 * (0.25 / VARIANCE).sum()
    assert made["elbo"] - beside["elbo"] == pytest.approx(gap, abs=0.3)


def test_kl_is_that_of_torch():
    rng = np.random.default_rng(0)
    mu, logvar, logits = np.split(rng.normal(size=(50, 15)), [3, 6], axis=1)
    made = elbo(mu=mu, logvar=logvar, reconstruction=np.zeros(50), category_logits=logits,
                num_values=[0, 0, 0, 5, 4])["elbo.kl"]
    normal = Normal(torch.tensor(mu), torch.tensor(logvar).mul(0.5).exp())
    expected = kl_divergence(normal, Normal(0.0, 1.0)).sum(-1)
    for part in (logits[:, :5], logits[:, 5:]):
        uniform = Categorical(logits=torch.zeros(part.shape[1], dtype=torch.float64))
        expected = expected + kl_divergence(Categorical(logits=torch.tensor(part)), uniform)
    assert made == pytest.approx(expected.mean().item())


def test_active_units_are_a_count():
    """The variance of the means is |w|^2 / (1 + |w|^2), for the third latent 0."""
    made = score(encoding(), ROWS % 2, metrics="elbo")
    assert made["elbo.active_units"] == made["elbo.active_units_kl"] == np.count_nonzero(SCALES)
    half = score(encoding(), ROWS % 2, metrics="elbo", active_variance=0.7)
    assert half["elbo.active_units"] == 1.0, "0.9 and 0.5 nearly"
    # A latent may differ from the prior and not follow the image: a KL, but no activity.
    idle = elbo(mu=np.full((9, 2), 3.0), logvar=np.zeros((9, 2)), reconstruction=np.zeros(9))
    assert (idle["elbo.active_units"], idle["elbo.active_units_kl"]) == (0.0, 2.0)


def test_classes_that_follow_the_image_are_active():
    logits = np.where(np.arange(8)[:, None] % 2 == np.arange(2), 0.0, -40.0)
    made = elbo(mu=np.zeros((8, 1)), logvar=np.zeros((8, 1)), reconstruction=np.zeros(8),
                category_logits=logits, num_values=[0, 2])
    assert made["elbo.kl"] == pytest.approx(log(2))
    assert made["elbo.active_units"] == made["elbo.active_units_kl"] == 1.0


def test_shapes_are_told():
    with pytest.raises(UserError, match="same shape"):
        elbo(mu=np.zeros((4, 2)), logvar=np.zeros((4, 3)), reconstruction=np.zeros(4))
    with pytest.raises(UserError, match="2 axes"):
        elbo(mu=np.zeros(4), logvar=np.zeros(4), reconstruction=np.zeros(4))
    with pytest.raises(UserError, match="num_values have 3 classes"):
        elbo(mu=np.zeros((4, 1)), logvar=np.zeros((4, 1)), reconstruction=np.zeros(4),
             category_logits=np.zeros((4, 2)), num_values=[0, 3])
