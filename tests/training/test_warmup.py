"""VaDE's two phases: an autoencoder, the fit, the mixture; or the fit alone, from another run."""

import numpy as np
import pytest
import torch

from small import same, small_letters, small_plan, train_small
from unweave.data import table_dataset
from unweave.data.cells import training_cells
from unweave.objectives.mixture import of_weights
from unweave.objectives.posterior import split_head
from unweave.studies.scoring import score_run
from unweave.training import Encoded, load, train
from unweave.training.packing import pack
from unweave.training.stack import Stack, num_updates
from unweave.training.warmup import heads_of_stack, warmup_of
from unweave.types import UserError

CPU = torch.device("cpu")
SMALL = small_letters("vade")
OPTIONS = {"steps": 4, "batch_size": 8, "num_latents": 4, "precision": "float32", "device": "cpu",
           "architecture": "conv64-small"}


def small(**changes):
    return small_plan("vade", **(SMALL | {"architecture": "conv64-small"} | changes))


@pytest.fixture(scope="module")
def runs(sprites, tmp_path_factory):
    """A beta-VAE, and a VaDE that starts from it."""
    out = tmp_path_factory.mktemp("runs")
    (donor,) = train("beta_vae", sprites, out=out, **OPTIONS)
    (made,) = train("vade", sprites, out=out, init_from=donor.folder, clusters=3,
                    learning_rate=1e-12, **OPTIONS)
    return donor, made


def test_the_warmup_is_an_autoencoder_of_means(sprites):
    stack = Stack(small(pretrain_loss="likelihood"), sprites, CPU)
    first = stack.train_step()
    assert torch.equal(first["loss"], first["recon"])
    squares = Stack(small(pretrain_loss="squares"), sprites, CPU).train_step()
    # Every pixel is off by a half at first.
    assert squares["loss"].item() == pytest.approx(64 * 64 / 4, rel=0.01)
    assert stack.num_steps == 9
    assert all((p == 0.0).all() for p in stack.prior_params.values()), "not fitted yet"
    head_before = stack.params["encoder.dense2.weight"].detach().clone()
    stack.train_step()
    moved = (stack.params["encoder.dense2.weight"] != head_before)[0]
    assert moved[:, :4].any()
    assert not moved[:, 4:].any(), "variances have no part in it"
    stack.train_step()
    fourth = stack.train_step()
    assert stack.prior_params["prior.mean"].abs().max() > 0.0
    assert torch.equal(fourth["loss"], -fourth["elbo"])
    assert all(o.num_steps == 1 for o in stack.optimisers), "moments were forgotten"


@pytest.mark.parametrize(("ink", "loss"), [(4, "likelihood"), (8, "squares")])
def test_dark_images_are_learnt_by_their_likelihood(ink, loss):
    """Squares of images that are nearly black are small for black ones: 16 of 256 pixels, or 32."""
    images = np.zeros((40, 16, 16, 1), np.uint8)
    images[:, :ink, :4] = 255
    data = table_dataset(images, np.arange(40)[:, None], ("which",), name="sprites")
    first = Stack(small(), data, CPU).train_step()
    named = Stack(small(pretrain_loss=loss), data, CPU).train_step()
    assert torch.equal(first["loss"], named["loss"])


def test_noise_that_an_autoencoder_left_too_loud_is_lowered(sprites):
    """Where it is not, nothing changes; an infinite variance reaches no decoder before."""
    configs = small(seeds=[0, 1])
    stack, as_it_was = (Stack(configs, sprites, CPU) for _ in range(2))
    for one in (stack, as_it_was):
        one.run_until(3)
        with torch.no_grad():  # means vary by about 1, noise by about e^-6
            for name, mean, logvar in (("weight", 300.0, 0.0), ("bias", 1.0, -6.0)):
                head = one.params[f"encoder.dense2.{name}"]
                head[..., :4] *= mean
                head[..., 4:] = logvar
    with torch.no_grad():
        stack.params["encoder.dense2.bias"][1, 5] = 1e4
    heads, _ = heads_of_stack(stack)
    spread = split_head(heads, ())[0].var(1)
    assert (spread > np.exp(-6.0)).all()
    stack.begin()
    as_it_was.begin()
    for name, value in as_it_was.params.items():
        assert torch.equal(stack.params[name][0], value[0]), name
    bias = stack.params["encoder.dense2.bias"].detach()
    assert torch.equal(bias[0, 4:], torch.full((4,), -6.0))
    assert bias[1, 5].item() == pytest.approx(np.log(0.01 * spread[1, 1].item()), rel=1e-5)
    assert (bias[1, [4, 6, 7]] == -6.0).all()


def test_an_autoencoder_does_not_see_infinite_variances(sprites):
    stack = Stack(small(), sprites, CPU)
    with torch.no_grad():
        stack.params["encoder.dense2.bias"][..., 4:] = 1e4
    first, second = stack.train_step(), stack.train_step()
    assert torch.isfinite(first["loss"]).all()
    assert torch.isfinite(second["loss"]).all()
    stack.run_until(stack.num_steps)
    assert all(torch.isfinite(p).all() for p in stack.params.values())


def test_stopped_before_at_and_after_the_fit_it_ends_the_same(sprites):
    (config,) = small(steps=3)
    whole = Stack([config], sprites, CPU)
    states = {}
    while whole.step < whole.num_steps:
        states[whole.step] = {k: v.clone() for k, v in whole.run_state(0).items()}
        whole.train_step()
    for step in (2, 3, 4):
        stack = Stack([config], sprites, CPU)
        stack.restore(0, states[step], step)
        while stack.step < stack.num_steps:
            stack.train_step()
        for name, value in whole.run_state(0).items():
            assert torch.equal(stack.run_state(0)[name], value), (step, name)


def test_a_run_starts_from_another(runs, sprites):
    donor, made = runs
    assert made.config.init_from == donor.run_id
    assert num_updates(made.config) == 4
    assert warmup_of(made.config).steps == 0
    for name, value in donor.params.items():
        assert torch.allclose(made.params[name], value, atol=1e-6), name
    again = load(made.folder, device="cpu", data=sprites)
    assert same(again, made)
    assert again.config == made.config
    assert of_weights(made.params)["mean"].shape == (1, 3, 4)


def test_where_a_run_starts_is_part_of_its_name(runs):
    made = runs[1]
    plain = made.config.replace(init_from="")
    assert plain.run_id != made.config.run_id
    assert "init_from" not in plain.to_json()
    other = made.config.replace(init_from="another-run", seed=1)
    assert pack([made.config, other, plain], [0, 0, 0]) == [[0, 1], [2]]


@pytest.mark.parametrize(("change", "words"), [
    ({"num_latents": 5}, "has the num_latents 4, the new run 5"),
    ({"architecture": "conv64"}, "has the architecture 'conv64-small', the new run 'conv64'"),
    ({"method": "joint_vae"}, "has other codes or images than joint_vae"),
])
def test_other_networks_are_refused(runs, sprites, change, words):
    given = {"method": "vade"} | OPTIONS | change
    with pytest.raises(UserError, match=words):
        train(given.pop("method"), sprites, out=None, init_from=runs[0], **given)


def test_a_donor_of_other_images_is_refused_from_its_folder_too(runs):
    """A folder is read with the data in memory of the new run: its weights tell."""
    donor, _ = runs
    small_images = np.zeros((16, 16, 16, 1), np.uint8)
    data = table_dataset(small_images, np.arange(16)[:, None], ("which",), name="other")
    for given in (donor, donor.folder):
        with pytest.raises(UserError, match="images"):
            train("vade", data, out=None, init_from=given, clusters=3, **OPTIONS)
    with pytest.raises(UserError, match="4 latents for images of 16x16x1, those of other"):
        load(donor.folder, data=data, device="cpu")


def test_a_missing_donor_is_told(sprites, tmp_path):
    with pytest.raises(UserError, match="beta_vae-0 to start from is not here"):
        train_small(small(init_from="beta_vae-0"), sprites, out=tmp_path)


def test_clusters_samples_and_scores(runs, sprites):
    run = runs[1]
    images = sprites.images(np.arange(40))
    clusters = run.clusters(images)
    assert clusters.shape == (40,)
    assert set(clusters) <= {0, 1, 2}
    assert run.num_clusters == 3
    assert run.sample_cluster(1, 5).shape == (5, 64, 64, 1)
    assert not np.array_equal(run.sample_cluster(0, 2), run.sample_cluster(1, 2))
    assert run.sample(4).shape == (4, 64, 64, 1)
    with pytest.raises(UserError, match=r"clusters of vade-\w+ are 0..2, got 3"):
        run.sample_cluster(3)
    with pytest.raises(UserError, match="has no clusters"):
        runs[0].clusters(images)
    made = {s.key: s for s in score_run(run, metrics=["clusters", "mig", "iwae"], num_points=32,
                                        num_particles=4)}
    assert made["clusters.accuracy"].settings["factor"] in sprites.space.names
    assert made["clusters.accuracy"].low <= made["clusters.accuracy"].value
    assert made["clusters.nmi"].chance < 0.1
    assert np.isfinite(made["iwae"].value)


def test_importance_weights_know_the_prior(runs):
    """One particle is log p(x|z) + log p(z) - log q(z|x), with scipy's mixture."""
    from scipy.special import logsumexp
    from scipy.stats import norm

    run, rows = runs[1], np.array([3, 77])
    encoded = Encoded(run, np.arange(256))
    z, mu = encoded.sampled(rows).astype(float), encoded.mu[rows].astype(float)
    deviation = np.exp(0.5 * encoded.logvar[rows].astype(float))
    prior = {k: v.double().numpy() for k, v in run.prior_params.items()}
    weight = prior["logits"] - logsumexp(prior["logits"])
    logvar = prior["logvar"].clip(-10.0, 20.0)
    each = norm.logpdf(z[:, None], prior["mean"], np.exp(0.5 * logvar)).sum(-1) + weight
    expected = (logsumexp(each, axis=1) - norm.logpdf(z, mu, deviation).sum(1)
                - encoded.reconstruction(rows))
    assert encoded.log_weights(rows, 1)[:, 0] == pytest.approx(expected, rel=1e-6)
    assert run.kl_at(rows).shape == (4,)
    assert "reconstruction" in encoded.withheld


def test_more_clusters_than_images_are_refused(sprites, tmp_path):
    for data, most in ((sprites, 256), (sprites.trained_on(training_cells(
            sprites.space, {"leave_out": "shape:1"})), 128)):
        with pytest.raises(UserError, match=f"cannot be fitted to the codes of {most} images"):
            train("vade", data, out=tmp_path, clusters=most + 1, progress=False, **OPTIONS)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="70001 clusters cannot be fitted to the codes of 70000"):
        train("vade", "dsprites", out=tmp_path, clusters=70_001, progress=False, **OPTIONS)
