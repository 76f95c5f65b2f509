"""Categorical latents: their KL, their capacity, their draws, and what metrics see of them."""

import math

import pytest
import torch
from passes import forward, tensors
from scipy import stats

from unweave.objectives import METHODS, complete
from unweave.objectives.elbo import elbo_terms
from unweave.objectives.joint import category_kl, joint_vae
from unweave.objectives.posterior import GAUSSIAN, JOINT, gumbel, joint_posterior

LETTERS = dict(complete("joint_vae", {"categories": "4,2"}))


def kl_by_hand(logits):
    """Mean over a batch of sum_k p_k log(p_k K), by a loop."""
    total = 0.0
    for row in logits.tolist():
        weights = [math.exp(v) for v in row]
        p = [w / sum(weights) for w in weights]
        total += sum(v * math.log(v * len(p)) for v in p)
    return total / len(logits)


@pytest.mark.parametrize("step", [0, 40, 100, 900])
def test_the_loss_by_a_loop(step):
    out = forward(tensors())
    each = [kl_by_hand(logits) for logits in out.category_logits]
    share = min(step / 100, 1.0)
    c_z, c_c = 6.0 * share, min(5.0 * share, math.log(4) + math.log(2))
    terms = joint_vae(out, gamma_z=3.0, c_max_z=6.0, gamma_c=11.0, c_max_c=5.0,
                      anneal_steps=100.0, step=step)
    kl = elbo_terms(out)["kl"].item()
    wanted = terms["recon"].item() + 3.0 * abs(kl - c_z) + 11.0 * abs(sum(each) - c_c)
    assert terms["loss"].item() == pytest.approx(wanted, rel=1e-12)
    assert terms["kl_category_latent"].tolist() == pytest.approx(each, rel=1e-12)
    assert terms["kl_category"].item() == pytest.approx(sum(each), rel=1e-12)
    assert (terms["capacity_z"].item(), terms["capacity_c"].item()) == pytest.approx((c_z, c_c))
    assert terms["elbo"].item() == pytest.approx(-terms["recon"].item() - kl - sum(each))


def test_the_kl_of_categories_at_its_ends():
    assert category_kl(torch.zeros(1, 10)).item() == pytest.approx(0.0, abs=1e-6)
    certain = torch.tensor([[200.0, 0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert category_kl(certain).item() == pytest.approx(math.log(4), rel=1e-12)
    (slope,) = torch.autograd.grad(category_kl(certain).sum(), certain)
    assert torch.isfinite(slope).all()
    far = torch.tensor([[2000.0, 0.0]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(category_kl(far).sum(), far)
    assert category_kl(far).item() == pytest.approx(math.log(2))
    assert torch.isfinite(slope).all()


def test_one_category_says_nothing_and_costs_nothing():
    out = forward(tensors(sizes=(1,)))
    terms = joint_vae(out, gamma_z=0.0, step=10**9)
    assert terms["kl_category"].item() == 0.0
    assert terms["capacity_c"].item() == 0.0
    assert torch.equal(terms["loss"], terms["recon"])
    hyper = dict(complete("joint_vae", {"categories": "1"}))
    draw = JOINT.draw(torch.randn(5, 7), torch.randn(5, 3), torch.rand(5, 1), hyper)
    assert torch.equal(draw.categories[0], torch.ones(5, 1))


def test_without_weights_the_reconstruction_is_left():
    out = forward(tensors((2,)))
    assert torch.equal(joint_vae(out, gamma_z=0.0, gamma_c=0.0, step=5)["loss"],
                       elbo_terms(out)["recon"])


def test_gumbel_draws_by_scipy_and_at_the_ends():
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert stats.kstest(gumbel(uniform).numpy(), "gumbel_r").pvalue > 1e-3
    ends = gumbel(torch.tensor([0.0, 1.0 - 2.0**-24, 1.0]))
    assert torch.isfinite(ends).all()


def test_the_most_probable_class_of_a_draw_follows_the_posterior():
    # The Gumbel-max property: argmax of a relaxed sample is a draw of the categorical itself.
    p = torch.tensor([0.1, 0.2, 0.3, 0.4])
    head = torch.cat([torch.zeros(2), p.log()]).expand(20_000, 6)
    uniform = torch.rand(20_000, 4, generator=torch.Generator().manual_seed(1))
    draw = joint_posterior(head, torch.zeros(20_000, 1), uniform, categories="4")
    counts = torch.bincount(draw.categories[0].argmax(-1), minlength=4)
    assert stats.chisquare(counts.numpy(), 20_000 * p.double().numpy() / p.double().sum().item()
                           ).pvalue > 1e-3


def test_a_draw_by_hand():
    g = torch.Generator().manual_seed(0)
    head = torch.randn(5, 12, generator=g, dtype=torch.float64)
    noise, uniform = torch.randn(5, 3, generator=g).double(), torch.rand(5, 6, generator=g).double()
    draw = JOINT.draw(head, noise, uniform, LETTERS)
    for i in range(5):
        row = head[i].tolist()
        for j in range(3):
            z = row[j] + math.exp(0.5 * row[3 + j]) * noise[i, j].item()
            assert draw.z[i, j].item() == pytest.approx(z, rel=1e-12)
        start = 6
        for c, size in enumerate((4, 2)):
            u = uniform[i, start - 6 : start - 6 + size].tolist()
            y = [math.exp((v - math.log(-math.log(w))) / 0.67)
                 for v, w in zip(row[start : start + size], u)]
            wanted = [v / sum(y) for v in y]
            assert draw.categories[c][i].tolist() == pytest.approx(wanted, rel=1e-9)
            start += size
    torch.testing.assert_close(draw.decoder_input(), torch.cat([draw.z, *draw.categories], -1))
    assert [tuple(c.shape) for c in draw.category_logits] == [(5, 4), (5, 2)]


def test_a_low_temperature_makes_one_hot_samples_run_by_run():
    g = torch.Generator().manual_seed(2)
    head, uniform = torch.randn(2, 64, 12, generator=g), torch.rand(2, 64, 6, generator=g)
    hyper = LETTERS | {"temperature": torch.tensor([0.67, 1e-3])}
    soft, hard = JOINT.draw(head, torch.zeros(2, 64, 3), uniform, hyper).categories[0]
    assert hard.max(-1).values.mean() > 0.99
    assert soft.max(-1).values.mean() < 0.95


def test_draws_of_a_stack_are_those_of_its_runs_and_of_vmap():
    g = torch.Generator().manual_seed(3)
    head = torch.randn(3, 5, 12, generator=g, dtype=torch.float64, requires_grad=True)
    noise, uniform = torch.randn(3, 5, 3, generator=g).double(), torch.rand(3, 5, 6).double()
    temperature = torch.tensor([0.2, 0.67, 3.0], dtype=torch.float64)

    def one(head, noise, uniform, temperature):
        return JOINT.draw(head, noise, uniform, LETTERS | {"temperature": temperature})

    together = one(head, noise, uniform, temperature).decoder_input()
    mapped = torch.func.vmap(lambda *a: one(*a).decoder_input())(head, noise, uniform, temperature)
    torch.testing.assert_close(together, mapped)
    for m in range(3):
        alone = one(head[m], noise[m], uniform[m], temperature[m]).decoder_input()
        torch.testing.assert_close(together[m], alone)
    assert torch.autograd.gradcheck(
        lambda h: one(h, noise, uniform, temperature).decoder_input(), head, fast_mode=True)


def test_sizes_follow_from_the_letters():
    assert JOINT.head_size(10, LETTERS) == 26
    assert JOINT.code_size(10, LETTERS) == 16
    assert JOINT.num_uniform(LETTERS) == 6
    assert JOINT.num_values(3, LETTERS) == (0, 0, 0, 4, 2)
    for name, method in METHODS.items():
        if name != "joint_vae" and method.game is None:
            assert method.posterior is GAUSSIAN
    assert (GAUSSIAN.head_size(10, {}), GAUSSIAN.code_size(10, {})) == (20, 10)
    assert GAUSSIAN.num_uniform({}) == 0
    assert GAUSSIAN.num_values(2, {}) == (0, 0)


def test_metrics_see_means_and_classes_and_the_decoder_one_hot_vectors():
    head = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(4))
    codes = JOINT.codes(head, LETTERS)
    assert codes.shape == (2, 5, 5)
    assert torch.equal(codes[..., :3], head[..., :3])
    assert torch.equal(codes[..., 3], head[..., 6:10].argmax(-1).float())
    assert torch.equal(codes[..., 4], head[..., 10:].argmax(-1).float())
    seen = JOINT.embed(codes, LETTERS)
    assert seen.shape == (2, 5, JOINT.code_size(3, LETTERS))
    assert torch.equal(seen[..., 3:7].argmax(-1).float(), codes[..., 3])
    assert torch.equal(seen[..., 3:].sum(-1), torch.full((2, 5), 2.0))


def test_the_gaussian_posterior_is_the_plain_one():
    g = torch.Generator().manual_seed(5)
    head, noise = torch.randn(2, 5, 6, generator=g), torch.randn(2, 5, 3, generator=g)
    draw = GAUSSIAN.draw(head, noise, torch.zeros(2, 5, 0), {})
    mu, logvar = head[..., :3], head[..., 3:]
    assert torch.equal(draw.z, mu + torch.exp(0.5 * logvar) * noise)
    assert draw.decoder_input() is draw.z
    assert torch.equal(GAUSSIAN.codes(head, {}), mu)
    assert GAUSSIAN.embed(mu, {}) is mu
    with_none = (draw.category_logits, draw.categories)
    assert with_none == ((), ())
