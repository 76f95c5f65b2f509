"""DIP-VAE against numpy's covariance, and its running estimate against a loop."""

import numpy as np
import pytest
import torch
from passes import forward, tensors

from unweave.objectives.dip import covariance, dip_state, dip_vae_i, dip_vae_ii
from unweave.objectives.elbo import vae

BOTH = pytest.mark.parametrize("loss", [dip_vae_i, dip_vae_ii])


def cov_by_numpy(out, loss):
    """The covariance that a loss penalises, of one batch."""
    cov = np.cov(out.mu.detach().numpy(), rowvar=False, bias=True)
    if loss is dip_vae_ii:
        for i, variance in enumerate(out.logvar.exp().mean(0).tolist()):
            cov[i, i] += variance
    return cov


def penalties(cov):
    size = len(cov)
    od = sum(cov[i, j] ** 2 for i in range(size) for j in range(size) if i != j)
    return od, sum((cov[i, i] - 1.0) ** 2 for i in range(size))


@BOTH
def test_the_loss_by_numpy_and_a_loop(loss):
    out = forward(tensors(batch=7))
    od, d = penalties(cov_by_numpy(out, loss))
    terms = loss(out, lambda_od=3.0, lambda_d=20.0)
    assert (terms["dip_od"].item(), terms["dip_d"].item()) == pytest.approx((od, d), rel=1e-12)
    wanted = vae(out)["loss"].item() + 3.0 * od + 20.0 * d
    assert terms["loss"].item() == pytest.approx(wanted, rel=1e-12)


def test_the_two_differ_by_the_mean_variance_on_the_diagonal_alone():
    out = forward(tensors(batch=7))
    first, second = dip_vae_i(out), dip_vae_ii(out)
    assert first["dip_od"].item() == pytest.approx(second["dip_od"].item(), rel=1e-12)
    assert first["dip_d"].item() != pytest.approx(second["dip_d"].item(), rel=1e-3)


def test_the_published_estimate_is_the_same_covariance():
    mu = tensors(batch=9)["mu"] + 3.0
    theirs = (mu[:, :, None] * mu[:, None, :]).mean(0) - mu.mean(0)[:, None] * mu.mean(0)[None]
    torch.testing.assert_close(covariance(mu), theirs, rtol=1e-10, atol=1e-12)


@BOTH
def test_without_weights_it_is_the_vae_and_at_the_identity_nothing_is_added(loss):
    out = forward(tensors((3,)))
    assert torch.equal(loss(out, lambda_od=0.0, lambda_d=0.0)["loss"], vae(out)["loss"])
    given = tensors(batch=4, latent=2)
    share = 1.0 if loss is dip_vae_i else 0.5  # of the variance that the means have
    signs = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    given["mu"] = signs * share**0.5
    given["logvar"] = torch.full_like(signs, 0.5).log()
    terms = loss(forward(given))
    assert terms["dip_od"].item() == pytest.approx(0.0, abs=1e-24)
    assert terms["dip_d"].item() == pytest.approx(0.0, abs=1e-24)


@BOTH
def test_the_running_estimate_by_a_loop(loss):
    momentum, state = 0.8, {k: v.double() for k, v in dip_state(3).items()}
    total, weight = np.zeros((3, 3)), 0.0
    for seed in range(4):
        out = forward(tensors(batch=6, seed=seed))
        terms = loss(out, estimate="running", momentum=momentum, state=state)
        total = momentum * total + (1 - momentum) * cov_by_numpy(out, loss)
        weight = momentum * weight + 1 - momentum
        od, d = penalties(total / weight)
        assert (terms["dip_od"].item(), terms["dip_d"].item()) == pytest.approx((od, d), rel=1e-9)
        state = {k: terms[f"state.{k}"] for k in state}
    assert weight == pytest.approx(1 - momentum**4)


@BOTH
def test_the_first_running_estimate_and_one_without_memory_are_the_batch(loss):
    out = forward(tensors((2,)))
    batch = loss(out)["loss"]
    first = loss(out, estimate="running")
    torch.testing.assert_close(first["loss"], batch)
    assert first["state.cov"].shape == (2, 3, 3)
    assert first["state.weight"].shape == (2,)
    old = {"cov": torch.randn(2, 3, 3, dtype=torch.float64), "weight": torch.rand(2).double()}
    torch.testing.assert_close(
        loss(out, estimate="running", momentum=0.0, state=old)["loss"], batch)


@BOTH
def test_the_previous_estimate_is_a_constant(loss):
    given = tensors()
    given["mu"].requires_grad_()
    cov = torch.eye(3, dtype=torch.float64, requires_grad=True)
    state = {"cov": cov, "weight": torch.ones((), dtype=torch.float64)}
    terms = loss(forward(given), estimate="running", momentum=0.75, state=state)
    terms["loss"].backward()
    assert cov.grad is None
    assert given["mu"].grad.abs().sum() > 0
    assert not terms["state.cov"].requires_grad
