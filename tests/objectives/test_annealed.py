"""Capacities: worked numbers, the schedule, and the pressure towards equal KL."""

import math

import pytest
import torch
from passes import forward, tensors

from unweave.objectives.annealed import activity, annealed_vae, capacity, kl_variance
from unweave.objectives.elbo import beta_vae, elbo_terms
from unweave.types import Forward


def kl_by_hand(out):
    """KL of every image, by a loop over numbers."""
    rows = []
    for mus, logvars in zip(out.mu.tolist(), out.logvar.tolist()):
        rows.append(sum(0.5 * (m * m + math.exp(v) - 1.0 - v) for m, v in zip(mus, logvars)))
    return rows


def with_kl(*nats):
    """A pass of two images whose latents have these KLs: unit variance, mu^2 / 2 nats."""
    mu = torch.tensor([[math.sqrt(2.0 * n) for n in nats]] * 2, dtype=torch.float64)
    image = torch.zeros(2, 1, 1, 1, dtype=torch.float64)
    return Forward(image, image, mu, mu.requires_grad_(), torch.zeros_like(mu))


@pytest.mark.parametrize(("step", "c"), [(0, 0.0), (300, 3.0), (1000, 10.0), (5000, 10.0)])
def test_the_loss_by_a_loop(step, c):
    out = forward(tensors())
    kl = kl_by_hand(out)
    terms = annealed_vae(out, gamma=7.0, c_max=10.0, anneal_steps=1000.0, step=step)
    expected = terms["recon"].item() + 7.0 * abs(sum(kl) / len(kl) - c)
    assert terms["loss"].item() == pytest.approx(expected, rel=1e-12)
    assert terms["capacity"].item() == pytest.approx(c, rel=1e-12)


def test_the_absolute_value_is_of_the_batch_mean():
    out = forward(tensors())
    kl = kl_by_hand(out)
    c = sorted(kl)[2]  # between the images' KLs, where the two readings differ
    terms = annealed_vae(out, gamma=1.0, c_max=c, anneal_steps=1.0, step=1)
    wrong = sum(abs(k - c) for k in kl) / len(kl)
    assert (terms["loss"] - terms["recon"]).item() == pytest.approx(abs(sum(kl) / 5 - c), rel=1e-9)
    assert abs((terms["loss"] - terms["recon"]).item() - wrong) > 0.1


def test_no_capacity_is_the_beta_vae_and_no_gamma_the_autoencoder():
    out = forward(tensors())
    beta = beta_vae(out, beta=30.0)["loss"]
    none = annealed_vae(out, gamma=30.0, c_max=0.0, step=99)["loss"]
    start = annealed_vae(out, gamma=30.0, c_max=50.0, step=0)["loss"]
    assert torch.equal(none, beta)
    assert torch.equal(start, beta)
    assert torch.equal(annealed_vae(out, gamma=0.0, step=5)["loss"], elbo_terms(out)["recon"])


def test_the_schedule_is_exact_for_each_run_whatever_the_step_is():
    like = torch.zeros(2, dtype=torch.float64)
    c_max = torch.tensor([5.0, 100.0], dtype=torch.float64)
    steps = torch.tensor([10.0, 30.0], dtype=torch.float64)
    for step in (7, 7.0, torch.tensor(7), torch.tensor(7.0)):
        assert capacity(step, c_max, steps, like).tolist() == pytest.approx([3.5, 700 / 30])
    assert capacity(torch.tensor(300_000), 25.0, 100_000.0, like).tolist() == [25.0, 25.0]


def test_equal_kl_is_the_variance_among_active_units():
    terms = elbo_terms(with_kl(2.0, 4.0, 0.0))
    # Weights 1, 1 and 0.018 for the dead one: near the 1.0 of the two active ones, far from the
    # 2.67 of all three.
    w = 1.0 / (1.0 + math.exp(4.0))
    mean = 6.0 / (2.0 + w)
    expected = ((2 - mean) ** 2 + (4 - mean) ** 2 + w * mean**2) / (2.0 + w)
    value = kl_variance(terms["kl_latent"]).item()
    assert value == pytest.approx(expected, rel=1e-12)
    assert value == pytest.approx(1.0, abs=0.1)
    assert kl_variance(elbo_terms(with_kl(3.0, 3.0, 3.0))["kl_latent"]).item() < 1e-24


def test_activity_is_a_soft_step_without_gradient():
    kl = torch.tensor([0.0, 0.01, 0.02, 5.0], dtype=torch.float64, requires_grad=True)
    weight = activity(kl)
    assert weight.tolist() == pytest.approx([0.018, 0.5, 0.982, 1.0], abs=1e-3)
    assert not weight.requires_grad


def test_equal_kl_is_added_and_pulls_towards_the_mean():
    out = with_kl(2.0, 4.0, 0.0)
    plain = annealed_vae(out, step=0)["loss"]
    terms = annealed_vae(out, equal_kl=3.0, step=0)
    added = terms["loss"] - plain
    assert added.item() == pytest.approx(3.0 * terms["kl_variance"].item(), rel=1e-9)
    (slope,) = torch.autograd.grad(added, out.mu)
    # d variance / d KL_j = 2 w_j (KL_j - mean) / sum w, and d KL_j / d mu = mu / B.
    w = torch.tensor([1.0, 1.0, 1.0 / (1.0 + math.exp(4.0))], dtype=torch.float64)
    kl = torch.tensor([2.0, 4.0, 0.0], dtype=torch.float64)
    wanted = 3.0 * 2.0 * w * (kl - (w * kl).sum() / w.sum()) / w.sum() * torch.sqrt(2 * kl) / 2
    torch.testing.assert_close(slope[0], wanted, rtol=1e-9, atol=1e-12)
