"""VaDE's bound and its mixture against integrals, scikit-learn and limits."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

from unweave.objectives.elbo import vae
from unweave.objectives.mixture import (
    assign,
    expected_kl,
    fit,
    log_density,
    mixture_init,
)
from unweave.objectives.vade import vade, vade_schedule
from unweave.types import Forward

PRIOR = {"logits": torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64),
         "mean": torch.tensor([[0.0, 1.0], [2.0, -1.0], [-1.5, 0.5]], dtype=torch.float64),
         "logvar": torch.tensor([[0.0, -1.0], [0.5, 0.2], [-0.7, 1.1]], dtype=torch.float64)}
MU, LOGVAR, Z = [0.4, -0.6], [-0.5, 0.3], [0.9, -1.1]


def one_image():
    x = torch.full((1, 1, 2, 1), 0.25, dtype=torch.float64)
    logits = torch.tensor([0.5, -1.5], dtype=torch.float64).reshape(1, 1, 2, 1)
    row = [torch.tensor([v], dtype=torch.float64) for v in (Z, MU, LOGVAR)]
    return Forward(x, logits, *row)


def test_the_bound_is_that_of_integrals():
    """By quadrature of q(z|x) log q(z|x) / p(z|c), scipy's normals and Bayes' rule."""
    weight = np.exp(PRIOR["logits"].numpy())
    weight /= weight.sum()
    mean, deviation = PRIOR["mean"].numpy(), np.exp(0.5 * PRIOR["logvar"].numpy())
    joint = weight * norm.pdf(Z, mean, deviation).prod(1)
    q_c = joint / joint.sum()
    kl = np.zeros(2)
    for c in range(3):
        for j in range(2):
            q, p = norm(MU[j], math.exp(0.5 * LOGVAR[j])), norm(mean[c, j], deviation[c, j])
            kl[j] += q_c[c] * quad(lambda z, q=q, p=p: q.pdf(z) * (q.logpdf(z) - p.logpdf(z)),
                                   -12, 12, epsabs=1e-12)[0]
    recon = sum(-0.25 * math.log(p) - 0.75 * math.log(1 - p)
                for p in (1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(1.5))))
    kl_category = (q_c * np.log(q_c / weight)).sum()
    terms = vade(one_image(), prior=PRIOR)
    assert terms["kl_latent"].numpy() == pytest.approx(kl, abs=1e-9)
    assert terms["kl_category"].item() == pytest.approx(kl_category, abs=1e-12)
    assert terms["loss"].item() == pytest.approx(recon + kl.sum() + kl_category, abs=1e-9)
    assert terms["loss"].item() == pytest.approx(4.12239712140, abs=1e-9)
    assert terms["elbo"].item() == -terms["loss"].item()


def test_one_standard_component_is_the_vae():
    prior = {k: v.double() for k, v in mixture_init(2, clusters=1).items()}
    ours, plain = vade(one_image(), prior=prior), vae(one_image())
    for name in ("loss", "kl", "recon", "kl_latent", "elbo"):
        torch.testing.assert_close(ours[name], plain[name], rtol=1e-14, atol=1e-14)


def test_densities_and_assignments_are_scipys():
    z = torch.tensor([[0.3, 0.2], [3.0, -2.0]], dtype=torch.float64)
    weight = torch.softmax(PRIOR["logits"], -1).numpy()
    joint = weight * norm.pdf(z.numpy()[:, None], PRIOR["mean"].numpy(),
                              np.exp(0.5 * PRIOR["logvar"].numpy())).prod(-1)
    assert log_density(PRIOR, z).numpy() == pytest.approx(np.log(joint.sum(1)), abs=1e-12)
    assert assign(PRIOR, z).exp().numpy() == pytest.approx(
        joint / joint.sum(1, keepdims=True), abs=1e-12)
    assert (expected_kl(PRIOR, z, torch.zeros_like(z)) > 0.0).all()


@pytest.mark.parametrize("extreme", ["far", "narrow", "wide", "certain"])
def test_extremes_make_no_nan(extreme):
    prior = {k: v.float().clone() for k, v in PRIOR.items()}
    out = Forward(*(v.float() if torch.is_tensor(v) else v for v in one_image()[:5]))
    if extreme == "far":
        out = out._replace(z=torch.full((1, 2), 1e4), mu=torch.full((1, 2), 1e4))
    elif extreme == "narrow":
        prior["logvar"] -= 200.0
    elif extreme == "wide":
        prior["logvar"] += 200.0
    else:
        prior["logits"] = torch.tensor([1e4, 0.0, -1e4])
    leaves = {k: v.requires_grad_() for k, v in prior.items()}
    out = out._replace(z=out.z.requires_grad_())
    loss = vade(out, prior=leaves)["loss"]
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(v.grad).all() for v in (*leaves.values(), out.z))


def three_groups():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 14.0]])
    rows = [c + rng.normal(size=(n, 2)) * s
            for c, n, s in zip(centres, (300, 200, 100), ([1, 2], [0.5, 0.5], [1, 1]))]
    return torch.from_numpy(np.concatenate(rows)), np.repeat(np.arange(3), (300, 200, 100))


def test_the_fit_is_as_good_as_scikit_learns():
    data, truth = three_groups()
    uniform = torch.rand(5, 3, generator=torch.Generator().manual_seed(1))
    found = {k: v.double() for k, v in fit(data, uniform, 3).items()}
    theirs = GaussianMixture(3, covariance_type="full", random_state=0).fit(data.numpy())
    order = np.argsort(found["mean"].numpy().sum(1))
    other = np.argsort(theirs.means_.sum(1))
    assert found["mean"].numpy()[order] == pytest.approx(theirs.means_[other], abs=0.1)
    spread = theirs.covariances_[other].diagonal(axis1=1, axis2=2)
    assert found["logvar"].exp().numpy()[order] == pytest.approx(spread, rel=0.1)
    assert (found["logits"] == 0.0).all()
    clusters = assign(found, data).argmax(-1).numpy()
    table = np.zeros((3, 3))
    np.add.at(table, (clusters, truth), 1)
    assert table.max(axis=1).sum() / 600 > 0.96


@pytest.mark.parametrize("odd", ["equal", "few", "nan"])
def test_the_fit_takes_odd_codes(odd):
    data = torch.zeros(20, 3) if odd == "equal" else torch.randn(
        2 if odd == "few" else 20, 3, generator=torch.Generator().manual_seed(0))
    if odd == "nan":
        data[3] = float("nan")
    found = fit(data, torch.rand(2, 4, generator=torch.Generator().manual_seed(0)), 4)
    assert found["mean"].shape == found["logvar"].shape == (4, 3)
    assert torch.isfinite(found["mean"]).all() == (odd != "nan")
    assert torch.isfinite(found["logvar"]).all() == (odd != "nan")


def test_the_rate_falls_every_ten_epochs_to_a_tenth():
    rates = [float(vade_schedule(s)) for s in (0, 6999, 7000, 14_000, 10**6)]
    assert rates == pytest.approx([1.0, 1.0, 0.9, 0.81, 0.1])
    several = vade_schedule(torch.tensor(20), decay=torch.tensor([0.5, 1.0]),
                            decay_steps=torch.tensor([10.0, 10.0]), least_rate=0.0)
    assert several.tolist() == [0.25, 1.0]


def test_groups_of_one_size_get_a_component_each():
    """Two groups side by side and one with two bumps: free weights would split the latter."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 400)
    rows = rng.normal(size=(1200, 2)) + np.array([[0, 0], [2.6, 0], [0, 30]])[truth]
    rows[800:1000, 0] -= 2.2
    rows[1000:, 0] += 2.2
    uniform = torch.rand(30, 3, generator=torch.Generator().manual_seed(0))
    found = {k: v.double() for k, v in fit(torch.from_numpy(rows), uniform, 3).items()}
    clusters = assign(found, torch.from_numpy(rows)).argmax(-1).numpy()
    free = GaussianMixture(3, covariance_type="full", n_init=10, random_state=0).fit_predict(rows)
    assert len(set(clusters[800:])) == 1
    assert len(set(free[800:])) == 2


def test_rounding_does_not_choose_among_the_orders_of_clusters():
    """Starts find the same clusters in another order: rounding may not say which one is taken."""
    rng, group = np.random.default_rng(0), np.arange(256) % 6
    rows = rng.normal(size=(256, 2)) + 12.0 * np.stack([group, group**2], 1)
    uniform = torch.rand(30, 6, generator=torch.Generator().manual_seed(0))
    first = fit(torch.from_numpy(rows), uniform, 6)["mean"]
    for _ in range(8):
        near = rows * (1.0 + 1e-13 * rng.normal(size=rows.shape))
        torch.testing.assert_close(fit(torch.from_numpy(near), uniform, 6)["mean"], first)


def test_clusters_that_lie_askew_are_found():
    """Two clusters side by side across the diagonal; with many latents diagonals must do."""
    rng = np.random.default_rng(0)
    long, thin = rng.normal(size=(600, 1)), rng.normal(size=(600, 1)) * 0.3
    truth = np.repeat([0, 1], 300)
    rows = np.concatenate([long + thin, long - thin], axis=1) + truth[:, None] * [2.5, -2.5]
    uniform = torch.rand(10, 2, generator=torch.Generator().manual_seed(0))
    found = fit(torch.from_numpy(rows), uniform, 2)
    apart = (found["mean"][0] - found["mean"][1]).abs().numpy()
    assert apart == pytest.approx([2.5, 2.5], abs=0.3)
    wide = torch.from_numpy(np.concatenate([rows, rng.normal(size=(600, 40))], axis=1))
    assert torch.isfinite(fit(wide, uniform, 2)["logvar"]).all()
