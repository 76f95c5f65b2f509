"""What a run says about its images: draws, likelihoods and weights, against training's own."""

import numpy as np
import pytest
import torch

from small import small_plan, train_small
from unweave import nn
from unweave.objectives.elbo import reconstruction
from unweave.studies.scoring import score_run
from unweave.training import Encoded
from unweave.types import Forward, UserError

ROWS = np.array([5, 0, 200, 5])
KINDS = {"bernoulli": ("beta_vae", {}), "gaussian": ("vae", {"likelihood": "gaussian"}),
         "laplace": ("vae", {"likelihood": "laplace"}),
         "joint": ("joint_vae", {"categories": "4,3"})}


@pytest.fixture(scope="module", params=KINDS)
def encoded(request, sprites):
    method, options = KINDS[request.param]
    (run,) = train_small(small_plan(method, steps=2, architecture="conv64-small", **options),
                         sprites)
    return Encoded(run, np.arange(256), seed=3)


def test_parts_are_those_of_the_run(encoded):
    run = encoded.run
    assert np.array_equal(encoded.codes, run.encode_at(np.arange(256), seed=3))
    mu, logvar = run.posterior_at(np.arange(256), seed=3)
    assert np.array_equal(encoded.mu, mu)
    assert np.array_equal(encoded.logvar, logvar)
    width = sum(run.num_values)
    assert (encoded.category_logits is None) == (width == 0)
    if width:
        assert encoded.category_logits.shape == (256, width)


def test_draws_do_not_depend_on_company_or_order(encoded):
    some, all_of_them = encoded.sampled(ROWS), encoded.sampled(np.arange(256))
    assert np.array_equal(some, all_of_them[ROWS])
    nats = encoded.reconstruction(np.arange(64))
    assert encoded.reconstruction([5, 0, 5]) == pytest.approx(nats[[5, 0, 5]], rel=1e-5)
    other = Encoded(encoded.run, [7, 200, 9], seed=3)
    assert other.sampled([1]) == pytest.approx(some[2:3], abs=1e-6)


def test_draws_are_those_of_the_posterior(encoded):
    size = encoded.run.config.num_latents
    z, mu, logvar = encoded.sampled(np.arange(256)), encoded.mu, encoded.logvar
    unit = (z[:, :size] - mu) / np.exp(0.5 * logvar)
    assert unit.mean() == pytest.approx(0.0, abs=0.1)
    assert unit.std() == pytest.approx(1.0, abs=0.1)
    for j, values in enumerate(v for v in encoded.run.num_values if v):
        assert set(z[:, size + j]) == set(range(values)), "an untrained run draws every class"


def test_reconstruction_is_the_objectives(encoded):
    """One image at a time, decoded and judged as a training step would."""
    run = encoded.run
    drawn = encoded._draw(np.array([5]), 0)
    x = torch.from_numpy(run.dataset.images([5])).float()[None] / 255.0
    with torch.inference_mode():
        logits = nn.decode(nn.ARCHITECTURES["conv64-small"], run.params,
                           drawn.decoder_input()[None], buffers=run.params)
        out = Forward(x, logits, drawn.z[None], drawn.mu[None], drawn.logvar[None],
                      run.config.likelihood)
        assert encoded.reconstruction([5])[0] == pytest.approx(reconstruction(out).item())


def test_the_first_weight_is_the_bound_with_a_sampled_kl(encoded):
    if encoded.category_logits is not None:
        pytest.skip("training relaxes classes, importance weights draw them")
    z, mu, logvar = (a.astype(np.float64) for a in (
        encoded.sampled(ROWS), encoded.mu[ROWS], encoded.logvar[ROWS]))
    kl = 0.5 * (z**2 - (z - mu) ** 2 / np.exp(logvar) - logvar).sum(axis=1)
    weights = encoded.log_weights(ROWS, 3)
    assert weights[:, 0] == pytest.approx(-encoded.reconstruction(ROWS) - kl, rel=1e-6)
    assert encoded.log_weights(ROWS[:1], 1)[0, 0] == pytest.approx(weights[0, 0], rel=1e-6)


def test_float64_means_agree_with_the_run(encoded):
    images = encoded.decode(encoded.codes[:3])
    assert images.dtype == np.float64
    assert images == pytest.approx(encoded.run.decode(encoded.codes[:3]), abs=1e-5)
    size = encoded.run.config.num_latents
    features = encoded.features(encoded.run.dataset.images([1, 2]) / 255.0)
    assert features[:, :size] == pytest.approx(encoded.mu[[1, 2]], abs=1e-5)
    assert features.shape == (2, size + sum(encoded.run.num_values))
    assert features[:, size:].sum() == pytest.approx(2.0 * np.count_nonzero(encoded.run.num_values))


def test_score_run_gives_metrics_what_they_need(encoded):
    made = {s.key: s for s in score_run(encoded.run, metrics=["elbo", "tc"], num_points=64)}
    curves = encoded.run.curves
    assert made["elbo.reconstruction"].value == pytest.approx(curves["recon"][-1], rel=0.02)
    kl = encoded.run.kl_at(np.arange(256)).sum()
    assert made["elbo.kl"].value == pytest.approx(kl, rel=0.2)
    assert made["tc.sampled"].value < made["tc.mean"].value + 1.0
    assert made["elbo"].low <= made["elbo"].value <= made["elbo"].high


def test_random_images_are_the_evaluations_own():
    (run,) = train_small(small_plan(steps=2, architecture="conv64-small"), noisy())
    first, again, other = (Encoded(run, [4, 9], seed=s).reconstruction([0, 1]) for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert (first != other).all()


def noisy():
    """Sprites with noise drawn for every sample, under the name of the fixture."""
    from small import make_sprites

    sprites = make_sprites()
    sprites._observe_on = lambda device: lambda images, draw: (
        images * 0.5 + 0.5 * draw(*images.shape[1:]).reshape(images.shape))
    return sprites


def test_a_diverged_run_has_no_scores(encoded):
    from dataclasses import replace

    gone = replace(encoded.run, info=encoded.run.info | {"status": "diverged", "diverged_at": 1})
    with pytest.raises(UserError, match="diverged at step 1"):
        score_run(gone, metrics=["elbo"])


def test_weighing_says_how_far_it_is(sprites):
    (run,) = train_small(small_plan("vae", steps=2, architecture="conv64-small"), sprites)
    heard = []
    Encoded(run, np.arange(4), listener=heard.append).log_weights([0, 2, 3], 2)
    weighed = [(r.step, r.steps) for r in heard if r.label.startswith("weighing particles")]
    assert weighed == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert run.run_id in heard[-1].label
