"""The importance-weighted bound: worked numbers, and a model whose likelihood is known."""

import doctest
import sys

import numpy as np
import pytest
from linear_model import LOG_EVIDENCE, VARIANCE, X, encoding

from unweave.metrics import iwae, score
from unweave.types import UserError

ROWS = np.arange(len(X))


def bound(model, num_particles):
    return iwae(log_weights=model.log_weights(ROWS, num_particles))["iwae"]


def test_the_worked_number_of_the_docstring():
    assert doctest.testmod(sys.modules[iwae.__module__]).failed == 0


def test_with_the_exact_posterior_every_weight_is_the_evidence():
    made = iwae(log_weights=encoding().log_weights(ROWS, 4))
    assert made["iwae"] == pytest.approx(LOG_EVIDENCE.mean(), abs=1e-9)
    assert made["iwae.particles"] == pytest.approx(4.0)


def test_it_rises_to_the_evidence():
    """The first is the lower bound, which lacks KL(q || p(z|x)); with many the gap closes."""
    model = encoding(widen=1.3, shift=0.3)
    made = [bound(model, num) for num in (1, 5, 50, 1000)]
    gap = 0.5 * (1.3**2 + 0.09 / VARIANCE - 1 - 2 * np.log(1.3)).sum()
    first = model.log_weights(ROWS, 50).mean()
    assert first == pytest.approx(LOG_EVIDENCE.mean() - gap, abs=0.05)
    assert made == sorted(made)
    assert made[-1] == pytest.approx(LOG_EVIDENCE.mean(), abs=0.01)


def test_one_particle_is_the_bound_of_elbo_up_to_the_sampled_kl():
    both = score(encoding(widen=1.3), ROWS % 2, metrics=["elbo", "iwae"], num_particles=1)
    assert both["iwae"] == pytest.approx(both["elbo"], abs=0.15)
    assert both["iwae.particles"] == pytest.approx(1.0)


def test_small_likelihoods_do_not_underflow():
    weights = np.array([[-5000.0, -5000.0 + np.log(3)], [-9000.0, -9000.0]])
    assert iwae(log_weights=weights)["iwae"] == pytest.approx((np.log(2) - 14_000) / 2)
    with pytest.raises(UserError, match="log_weights must have 2 axes"):
        iwae(log_weights=[1.0, 2.0])
