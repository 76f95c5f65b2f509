"""Decompositions of the KL: by loops, by integrals, and on Gaussians with known answers."""

import itertools
import math

import pytest
import torch
from passes import DATASET_SIZE, forward, tensors
from scipy import integrate, stats

from unweave.objectives.aggregate import log_densities, log_weights
from unweave.objectives.elbo import beta_vae, elbo_terms, reconstruction, vae
from unweave.objectives.information_dropout import information_dropout
from unweave.objectives.tcvae import beta_tcvae, decomposition
from unweave.types import Forward, UserError

BOTH = pytest.mark.parametrize("sampling", ["weighted", "stratified"])


def parts_by_hand(out, sampling, n):
    """mi, tc and dwkl of one batch by loops over numbers."""
    mu, z = out.mu.tolist(), out.z.tolist()
    sd = torch.exp(0.5 * out.logvar).tolist()
    batch, latents = len(z), len(z[0])

    def density(i, j, d):
        return stats.norm.pdf(z[i][d], mu[j][d], sd[j][d])

    def weight(i, j):
        if sampling == "weighted":
            return 1.0 / (n * batch)
        if i == j:
            return 1.0 / n
        m = batch - 1
        return (n - m) / (n * m) if j == (i + 1) % batch else 1.0 / m

    mi = tc = dwkl = 0.0
    for i in range(batch):
        own = sum(math.log(density(i, i, d)) for d in range(latents))
        joint = math.log(sum(weight(i, j) * math.prod(density(i, j, d) for d in range(latents))
                             for j in range(batch)))
        single = sum(math.log(sum(weight(i, j) * density(i, j, d) for j in range(batch)))
                     for d in range(latents))
        prior = sum(stats.norm.logpdf(v) for v in z[i])
        mi, tc, dwkl = mi + own - joint, tc + joint - single, dwkl + single - prior
    return mi / batch, tc / batch, dwkl / batch


@BOTH
def test_the_three_parts_and_the_losses_by_loops(sampling):
    out = forward(tensors())
    mi, tc, dwkl = parts_by_hand(out, sampling, DATASET_SIZE)
    how = {"dataset_size": DATASET_SIZE, "sampling": sampling}
    terms = beta_tcvae(out, alpha=0.5, beta=6.0, gamma=2.0, **how)
    assert [terms[k].item() for k in ("mi", "tc", "dwkl")] == pytest.approx([mi, tc, dwkl])
    elbo = terms["recon"].item() + terms["kl"].item()
    assert terms["loss"].item() == pytest.approx(elbo - 0.5 * mi + 5.0 * tc + dwkl, rel=1e-12)
    terms = information_dropout(out, beta=3.0, **how)
    assert terms["loss"].item() == pytest.approx(reconstruction(out).item() + 3.0 * mi, rel=1e-12)


@BOTH
def test_with_unit_weights_it_is_exactly_the_vae(sampling):
    out = forward(tensors((4,)))
    one = torch.ones(4, dtype=torch.float64)
    terms = beta_tcvae(out, alpha=one, beta=one, gamma=one, sampling=sampling,
                       dataset_size=DATASET_SIZE)
    assert torch.equal(terms["loss"], vae(out)["loss"])


@BOTH
def test_with_equal_weights_it_is_the_beta_vae_in_expectation(sampling):
    given = tensors()
    g = torch.Generator().manual_seed(1)
    noise = torch.randn(4000, 5, 3, generator=g, dtype=torch.float64)
    z = given["mu"] + torch.exp(0.5 * given["logvar"]) * noise
    many = {k: v.expand(4000, *v.shape) for k, v in given.items()} | {"z": z}
    out = forward(many)
    loss = beta_tcvae(out, alpha=4.0, beta=4.0, gamma=4.0, sampling=sampling,
                      dataset_size=DATASET_SIZE)["loss"]
    wanted = beta_vae(forward(given), beta=4.0)["loss"]
    error = loss.std() / math.sqrt(len(loss))
    assert error < 0.2
    assert abs(loss.mean() - wanted) < 4.0 * error
    # The reason, which holds for every draw: the parts add up to the sampled KL.
    parts = decomposition(out, dataset_size=DATASET_SIZE, sampling=sampling)
    sampled = (0.5 * (z**2 - noise**2 - given["logvar"])).sum(-1).mean(-1)
    torch.testing.assert_close(parts["mi"] + parts["tc"] + parts["dwkl"], sampled)


def test_zero_weights_leave_the_reconstruction():
    out = forward(tensors())
    loss = information_dropout(out, beta=0.0, dataset_size=DATASET_SIZE)["loss"]
    assert torch.equal(loss, elbo_terms(out)["recon"])


def test_stratified_weights_are_where_they_belong():
    like = torch.zeros((), dtype=torch.float64)
    n, b = 1000, 6
    w = log_weights("stratified", b, n, like).exp()
    m = b - 1
    assert torch.diagonal(w).tolist() == pytest.approx([1 / n] * b)
    for i, j in itertools.product(range(b), range(b)):
        if j == (i + 1) % b:
            assert w[i, j].item() == pytest.approx((n - m) / (n * m))
        elif i != j:
            assert w[i, j].item() == pytest.approx(1 / m)
    assert w.sum(-1).tolist() == pytest.approx([1.0] * b)


def test_the_stratified_density_is_unbiased():
    # Four images; every way to draw the two that accompany image 0 in a batch of three.
    given = tensors(batch=4)
    z = given["z"][0]
    total = []
    for pair in itertools.permutations((1, 2, 3), 2):
        rows = [0, *pair]
        log = log_densities(z.expand(3, 3), given["mu"][rows], given["logvar"][rows],
                            dataset_size=4, sampling="stratified")
        total.append(log.aggregate[0].exp().item())
    sd = torch.exp(0.5 * given["logvar"])
    exact = stats.norm.pdf(z.numpy(), given["mu"].numpy(), sd.numpy()).prod(-1).mean()
    assert sum(total) / len(total) == pytest.approx(exact, rel=1e-12)


def test_mutual_information_by_a_numerical_integral():
    # Three images are all the data, so the batch holds q(z) but for the known constant log N.
    mu, sd = (-1.0, 0.2, 1.5), (0.5, 0.8, 0.3)

    def aggregate(v):
        return sum(stats.norm.pdf(v, m, s) for m, s in zip(mu, sd)) / 3

    exact = sum(integrate.quad(
        lambda v, m=m, s=s: stats.norm.pdf(v, m, s) * math.log(
            stats.norm.pdf(v, m, s) / aggregate(v)), m - 9 * s, m + 9 * s)[0]
        for m, s in zip(mu, sd)) / 3
    g = torch.Generator().manual_seed(2)
    means = torch.tensor(mu, dtype=torch.float64)[:, None].expand(20_000, 3, 1)
    scale = torch.tensor(sd, dtype=torch.float64)[:, None].expand(20_000, 3, 1)
    z = means + scale * torch.randn(20_000, 3, 1, generator=g, dtype=torch.float64)
    image = torch.zeros(20_000, 3, 1, 1, 1, dtype=torch.float64)
    out = Forward(image, image, z, means, 2.0 * scale.log())
    mi = information_dropout(out, dataset_size=3, sampling="weighted")["mi"]
    error = mi.std().item() / math.sqrt(len(mi))
    assert mi.mean().item() - math.log(3) == pytest.approx(exact, abs=4 * error)


def test_the_stratified_information_never_exceeds_that_of_the_index():
    given = tensors((50,), batch=8, latent=4)
    given["logvar"] = given["logvar"] - 12.0  # posteriors that do not overlap
    given["z"] = given["mu"]
    parts = decomposition(forward(given), dataset_size=1000, sampling="stratified")
    torch.testing.assert_close(parts["mi"], torch.full_like(parts["mi"], math.log(1000)))
    parts = decomposition(forward(given), dataset_size=1000, sampling="weighted")
    torch.testing.assert_close(parts["mi"], torch.full_like(parts["mi"], math.log(8000)))


@pytest.fixture(scope="module")
def known():
    """250 batches of 64 of 20,000 images: 10 latents in 5 correlated pairs, TC 1.51 nats.

    Posteriors of standard deviation 0.355; q(z) is N(0, C) with unit variances.
    """
    g = torch.Generator().manual_seed(0)
    n, sd = 20_000, 0.355
    r = math.sqrt(1.0 - math.exp(-2.0 * 1.51 / 5))  # TC = -5/2 log(1 - r^2)
    cov = torch.eye(10, dtype=torch.float64)
    for k in range(0, 10, 2):
        cov[k, k + 1] = cov[k + 1, k] = r
    exact = -0.5 * torch.logdet(cov).item()
    factor = torch.linalg.cholesky(cov - sd**2 * torch.eye(10, dtype=torch.float64))
    means = torch.randn(n, 10, generator=g, dtype=torch.float64) @ factor.T
    rows = torch.stack([torch.randperm(n, generator=g)[:64] for _ in range(250)])
    mu = means[rows].float()
    z = mu + sd * torch.randn(mu.shape, generator=g)
    return exact, z, mu, torch.full_like(mu, 2.0 * math.log(sd)), n


def test_total_correlation_of_a_gaussian_by_both_samplings(known):
    exact, z, mu, logvar, n = known
    assert exact == pytest.approx(1.51, abs=1e-9)
    image = torch.zeros(*z.shape[:2], 1, 1, 1)
    out = Forward(image, image, z, mu, logvar)
    stratified = decomposition(out, dataset_size=n, sampling="stratified")["tc"].mean().item()
    weighted = decomposition(out, dataset_size=n, sampling="weighted")["tc"].mean().item()
    assert stratified == pytest.approx(1.51, rel=0.2)
    assert weighted == pytest.approx(95.0, abs=1.5)


def test_the_known_mistakes_would_be_seen(known):
    # A "diagonal" written through a flattened view, and its log added once per latent.
    _, z, mu, logvar, n = known
    batch, m = 64, 63
    wrong = torch.full((batch, batch), 1 / m)
    wrong.view(-1)[:: m + 1] = 1 / n
    wrong.view(-1)[1 :: m + 1] = (n - m) / (n * m)
    pairs = torch.distributions.Normal(mu[:, None], torch.exp(0.5 * logvar)[:, None]).log_prob(
        z[:, :, None])
    marginals = torch.logsumexp(pairs + wrong.log()[..., None], -2).sum(-1)
    column = torch.logsumexp(pairs.sum(-1) + wrong.log(), -1) - marginals
    per_latent = torch.logsumexp((pairs + wrong.log()[..., None]).sum(-1), -1) - marginals
    assert column.mean().item() == pytest.approx(6.1, abs=0.8)
    assert per_latent.mean().item() == pytest.approx(-31.0, abs=1.5)


def test_what_stratified_sampling_cannot_do_is_said():
    out = forward(tensors())
    for size in (1, 4):
        with pytest.raises(UserError, match="stratified sampling needs"):
            beta_tcvae(out, sampling="stratified", dataset_size=size)
    with pytest.raises(UserError, match="stratified sampling needs"):
        information_dropout(forward(tensors(batch=1)), dataset_size=9)
    assert torch.isfinite(beta_tcvae(forward(tensors(batch=1)), dataset_size=9)["loss"])
