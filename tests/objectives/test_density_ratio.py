"""Critics: permutations, draws, losses, and divergences of Gaussians with known answers."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from passes import forward, tensors
from scipy import stats

from unweave.objectives import METHODS, complete, frozen, pick
from unweave.objectives.density_ratio import (
    PERMUTATION_CRITIC,
    PRIOR_CRITIC,
    aae,
    critic_loss,
    density_ratio,
    factor_vae,
    factor_vae_prior,
    permute_latents,
    prior_draws,
)
from unweave.objectives.elbo import elbo_terms, vae


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_losses_by_hand():
    given = tensors()
    out, logits = forward(given), given["critic_logits"]
    gap = sum(a - b for a, b in logits.tolist()) / 5
    recon, kl = elbo_terms(out)["recon"].item(), elbo_terms(out)["kl"].item()
    for loss, term, base in ((factor_vae, "tc", recon + kl),
                             (factor_vae_prior, "kl_qz", recon + kl), (aae, "kl_qz", recon)):
        terms = loss(out, gamma=7.0, critic_logits=logits)
        assert terms[term].item() == pytest.approx(gap, rel=1e-12)
        assert terms["loss"].item() == pytest.approx(base + 7.0 * gap, rel=1e-12)
        nothing = loss(out, gamma=0.0, critic_logits=logits)["loss"]
        assert nothing.item() == pytest.approx(base, rel=1e-12)
    assert torch.equal(factor_vae(out, gamma=0.0, critic_logits=logits)["loss"],
                       vae(out)["loss"])


def test_the_ratio_is_the_log_odds():
    logits = tensors()["critic_logits"]
    d = torch.softmax(logits, -1)[..., 0]
    torch.testing.assert_close(density_ratio(logits), torch.log(d / (1 - d)).mean())


def test_the_critics_loss_is_the_cross_entropy():
    q, other = tensors(seed=1)["critic_logits"], tensors(seed=2)["critic_logits"]
    zero, one = torch.zeros(5, dtype=torch.int64), torch.ones(5, dtype=torch.int64)
    terms = critic_loss(q, other)
    wanted = 0.5 * (F.cross_entropy(q, zero) + F.cross_entropy(other, one))
    torch.testing.assert_close(terms["critic_loss"], wanted)
    right = (q.argmax(-1) == 0).sum() + (other.argmax(-1) == 1).sum()
    assert terms["critic_accuracy"].item() == pytest.approx(right.item() / 10)
    untrained = critic_loss(torch.zeros(5, 2), torch.zeros(5, 2))
    assert untrained["critic_accuracy"].item() == 0.5
    assert untrained["critic_loss"].item() == pytest.approx(math.log(2))


def test_each_latent_is_permuted_on_its_own_in_each_run():
    # A code that says where it stood: run, latent, image.
    run, image, latent = torch.meshgrid(torch.arange(4), torch.arange(32), torch.arange(5),
                                        indexing="ij")
    z = (10_000 * run + 100 * latent + image).double()
    moved = permute_latents(z, torch.rand(z.shape, generator=generator()))
    assert torch.equal(moved.sort(-2).values, z)
    orders = {tuple((moved[m, :, d] % 100).int().tolist()) for m in range(4) for d in range(5)}
    assert len(orders) == 20
    uniform = torch.rand(z.shape, generator=generator(1))
    for m in range(4):  # a run's permutation does not know its neighbours
        assert torch.equal(permute_latents(z, uniform)[m], permute_latents(z[m], uniform[m]))


def test_all_permutations_are_as_likely():
    z = torch.arange(3.0).reshape(3, 1).expand(12_000, 3, 1)
    moved = permute_latents(z, torch.rand(z.shape, generator=generator()))[..., 0]
    counts = [int((moved == torch.tensor(p)).all(-1).sum())
              for p in itertools.permutations((0.0, 1.0, 2.0))]
    assert sum(counts) == 12_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_equal_uniforms_still_give_a_permutation():
    z = torch.arange(8.0).reshape(4, 2)
    assert torch.equal(permute_latents(z, torch.zeros(4, 2)), z)


def test_draws_from_the_prior_are_normal_and_finite():
    uniform = torch.rand(20_000, 1, generator=generator())
    draws = prior_draws(torch.zeros(20_000, 1), uniform)
    assert stats.kstest(draws.flatten().numpy(), "norm").pvalue > 1e-3
    edge = torch.tensor([[0.0, 1.0 - 2.0**-24, 0.5]])
    ends = prior_draws(edge, edge)
    assert torch.isfinite(ends).all()
    assert ends[0].tolist() == pytest.approx([-5.42, 5.29, 0.0], abs=0.02)


def mlp(params, z):
    hidden = F.leaky_relu(z @ params["w1"] + params["b1"])
    hidden = F.leaky_relu(hidden @ params["w2"] + params["b2"])
    return hidden @ params["w3"] + params["b3"]


def small_critic(latents, width=64):
    g = generator(3)
    shapes = {"w1": (latents, width), "w2": (width, width), "w3": (width, 2)}
    params = {k: torch.randn(*s, generator=g) / math.sqrt(s[0]) for k, s in shapes.items()}
    params |= {"b1": torch.zeros(width), "b2": torch.zeros(width), "b3": torch.zeros(2)}
    return {k: v.requires_grad_() for k, v in params.items()}


def trained_estimate(critic, mean, cov, steps=700, batch=512):
    """The divergence of N(mean, cov) from the critic's other distribution, by training it."""
    g, factor = generator(4), torch.linalg.cholesky(cov)

    def draw(num):
        return mean + torch.randn(num, len(mean), generator=g) @ factor.T

    params = small_critic(len(mean))
    optimiser = torch.optim.Adam(params.values(), 3e-3, betas=(0.5, 0.9))
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        q, other = critic.samples(draw(batch), draw(batch),
                                  torch.rand(batch, len(mean), generator=g))
        optimiser.zero_grad()
        critic.loss(mlp(params, q), mlp(params, other))["critic_loss"].backward()
        optimiser.step()
        rate.step()
    with torch.no_grad():
        return density_ratio(mlp(params, draw(50_000))).item()


COV = torch.tensor([[1.0, 0.7, 0.0], [0.7, 1.0, 0.3], [0.0, 0.3, 0.8]])
MEAN = torch.tensor([0.3, 0.0, -0.4])


def test_total_correlation_of_a_gaussian_by_a_critic():
    exact = 0.5 * (torch.diagonal(COV).log().sum() - torch.logdet(COV)).item()
    assert exact == pytest.approx(-0.5 * math.log(1 - 0.7**2 - 0.3**2 / 0.8), rel=1e-5)
    assert trained_estimate(PERMUTATION_CRITIC, MEAN, COV) == pytest.approx(exact, rel=0.15)


def test_divergence_of_a_gaussian_from_the_prior_by_a_critic():
    exact = 0.5 * (torch.trace(COV) + MEAN @ MEAN - 3 - torch.logdet(COV)).item()
    assert trained_estimate(PRIOR_CRITIC, MEAN, COV) == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize("critic", [PERMUTATION_CRITIC, PRIOR_CRITIC])
def test_the_two_networks_do_not_move_each_other(critic):
    encoder = torch.randn(4, 3, generator=generator()).requires_grad_()
    x = torch.randn(2, 6, 4, generator=generator(1))  # two batches
    params = small_critic(3)
    z, z_other = x @ encoder
    q, other = critic.samples(z, z_other, torch.rand(6, 3, generator=generator(2)))
    critic.loss(mlp(params, q), mlp(params, other))["critic_loss"].backward()
    assert encoder.grad is None
    assert all(p.grad.abs().sum() > 0 for k, p in params.items() if k != "b1")
    for p in params.values():
        p.grad = None
    density_ratio(mlp(frozen(params), z)).backward()
    assert encoder.grad.abs().sum() > 0
    assert all(p.grad is None for p in params.values())


def test_plans_say_what_the_trainer_needs():
    hyper = dict(complete("factor_vae", {"critic_rate": 1e-5, "critic_width": 50}))
    method = METHODS["factor_vae"]
    plan = method.critic.plan(**pick(method.critic.plan, hyper))
    assert plan == (1e-5, 0.5, 0.9, 50, 6, True, False)
    hyper["convention"] = "printed"
    assert method.critic.plan(**pick(method.critic.plan, hyper)) == plan._replace(after_step=True)
    hyper["convention"] = "study2019"
    assert not method.critic.plan(**pick(method.critic.plan, hyper)).second_batch
    for name in ("aae", "factor_vae_prior"):
        critic = METHODS[name].critic
        assert not critic.plan(**pick(critic.plan, dict(complete(name, {})))).second_batch


def test_the_study_made_half_the_updates():
    updates = METHODS["factor_vae"].num_updates
    assert updates(300_000, {"convention": "study2019"}) == 150_000
    assert updates(1, {"convention": "study2019"}) == 1
    assert updates(300_000, {"convention": "paper"}) == 300_000
    assert METHODS["vae"].num_updates(7, {}) == 7
