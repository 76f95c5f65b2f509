"""Worked numbers in float64, each by another route than the objective's."""

import math

import pytest
import torch
from scipy import integrate, stats

from unweave.objectives import METHODS, complete, letters
from unweave.objectives.elbo import beta_vae, elbo_terms, reconstruction, vae
from unweave.types import Forward, UserError


def forward(likelihood="bernoulli", seed=0, stack=()):
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*stack, *shape, generator=g, dtype=torch.float64)

    mu, logvar = draw(5, 3), draw(5, 3)
    return Forward(torch.sigmoid(draw(5, 4, 4, 2)), draw(5, 4, 4, 2), mu + draw(5, 3), mu, logvar,
                   likelihood)


def test_bernoulli_reconstruction_by_a_loop():
    out = forward()
    total = 0.0
    for x, logit in zip(out.x.flatten().tolist(), out.logits.flatten().tolist()):
        p = 1.0 / (1.0 + math.exp(-logit))
        total -= x * math.log(p) + (1.0 - x) * math.log(1.0 - p)
    assert reconstruction(out).item() == pytest.approx(total / 5, rel=1e-12)


def test_bernoulli_stays_finite_and_exact_far_out():
    x = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64).reshape(1, 1, 4, 1)
    logits = torch.tensor([800.0, 800.0, -800.0, 30.0], dtype=torch.float64).reshape(1, 1, 4, 1)
    z = torch.zeros(1, 1, dtype=torch.float64)
    value = reconstruction(Forward(x, logits, z, z, z))
    assert value.item() == pytest.approx(0.0 + 800.0 + 800.0 + 30.0 + math.log1p(math.exp(-30.0)))


@pytest.mark.parametrize(("likelihood", "law"),
                         [("gaussian", stats.norm), ("laplace", stats.laplace)])
def test_other_likelihoods_by_scipy(likelihood, law):
    out = forward(likelihood)
    mean = torch.sigmoid(out.logits).numpy()
    expected = -law.logpdf(out.x.numpy(), loc=mean, scale=1.0).sum() / 5
    assert reconstruction(out).item() == pytest.approx(expected, rel=1e-12)


def test_kl_by_numerical_integration():
    out = forward()
    total = 0.0
    for mu, logvar in zip(out.mu.flatten().tolist(), out.logvar.flatten().tolist()):
        q = stats.norm(mu, math.exp(logvar / 2))

        def ratio(z, q=q):
            return q.pdf(z) * (q.logpdf(z) - stats.norm.logpdf(z))

        total += integrate.quad(ratio, mu - 12 * q.std(), mu + 12 * q.std(), epsabs=1e-12)[0]
    assert elbo_terms(out)["kl"].item() == pytest.approx(total / 5, rel=1e-9)


def test_beta_one_is_the_vae_and_beta_weighs_the_kl_alone():
    out = forward(stack=(3,))
    assert torch.equal(beta_vae(out, beta=1.0)["loss"], vae(out)["loss"])
    beta = torch.tensor([0.0, 2.0, 7.0], dtype=torch.float64)
    terms = beta_vae(out, beta=beta)
    assert torch.allclose(terms["loss"], terms["recon"] + beta * terms["kl"])
    assert torch.allclose(terms["elbo"], -vae(out)["loss"])


def test_letters_are_read_from_the_objective():
    assert list(letters("vae")) == []
    beta = letters("beta_vae")["beta"]
    assert (beta.default, beta.per_run) == (4.0, True)
    assert complete("beta_vae", {}) == (("beta", 4.0),)
    assert complete("beta_vae", {"beta": "16"}) == (("beta", 16.0),)


@pytest.mark.parametrize(("method", "given", "words"), [
    ("beta_vae", {"beta": -1}, "beta=-1 of beta_vae must be at least 0"),
    ("beta_vae", {"beta": "x"}, "must be a finite number"),
    ("beta_vae", {"beta": float("nan")}, "must be a finite number"),
    ("beta_vae", {"beto": 1}, "did you mean 'beta'"),
    ("vae", {"beta": 1}, "vae has no letters"),
    ("beta_vea", {}, "did you mean 'beta_vae'"),
])
def test_bad_letters_are_refused_with_a_sentence(method, given, words):
    with pytest.raises(UserError, match=words):
        complete(method, given)


def test_every_method_says_where_it_comes_from():
    for name, method in METHODS.items():
        assert method.paper, name
        assert method.summary, name
        assert method.loss.__doc__, name
