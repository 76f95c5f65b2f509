"""Methods in a user's own loop: the same loss as training's, any network, any data."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import unweave.torch
from small import small_letters, small_plan, train_small
from unweave.nn import ARCHITECTURES, decode, encode_head, init_buffers, init_params
from unweave.nn.plain import from_plain, plain_networks, to_plain
from unweave.objectives import METHODS
from unweave.random import Streams
from unweave.torch import VAE, Game, Objective, module, networks, players
from unweave.types import Forward, UserError

EVERY_METHOD = pytest.mark.parametrize("method", [m for m in METHODS if not METHODS[m].game])
EVERY_GAME = pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].game])
SMALL_CRITIC = {"critic_width": 16, "critic_depth": 2}


def letters_of(method, **more):
    return more | (SMALL_CRITIC if METHODS[method].critic else {})


def dense(method, size=6, num_latents=3, **options):
    shape = Objective(method, num_latents=num_latents, **letters_of(method))
    return VAE(method, nn.Sequential(nn.Linear(size, 16), nn.ReLU(), nn.Linear(16,
               shape.head_size)), nn.Sequential(nn.Linear(shape.code_size, 16), nn.ReLU(),
               nn.Linear(16, size)), num_latents=num_latents, **letters_of(method, **options))


@EVERY_METHOD
def test_five_lines_train_vectors_with_every_method(method):
    torch.manual_seed(0)
    model = dense(method, dataset_size=64, likelihood="gaussian", link="identity")
    data = torch.randn(64, 6) @ torch.randn(6, 6)
    optimisers, losses = model.optimisers(3e-3), []
    for _ in range(60):
        loss, terms = model.loss(data)
        optimisers[0].zero_grad()
        loss.backward()
        optimisers[0].step()
        losses.append(terms["recon"].item())
        if model.has_critic:
            before = copy.deepcopy(model.encoder.state_dict())
            critic_loss, critic_terms = model.critic_loss(data)
            optimisers[1].zero_grad()
            critic_loss.backward()
            optimisers[1].step()
            assert 0.0 <= critic_terms["critic_accuracy"] <= 1.0
            assert all(torch.equal(before[k], v) for k, v in model.encoder.state_dict().items())
    assert losses[-1] < losses[0]
    assert int(model.objective.step) == 60
    codes = model.encode(data)
    assert codes.shape == (64, len(model.objective.num_values))
    assert model(data).shape == data.shape


def game(method, made=6, judged=1, **letters):
    """Two players of vectors whose critic and encoder share a layer."""
    first = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU())
    letters = {"num_noise": 2, "categories": "3", "critic_rate": 1e-2} | letters
    return Game(method, nn.Sequential(first, nn.Linear(16, 7)),
                nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, made)),
                nn.Sequential(first, nn.Linear(16, judged)), num_latents=2, **letters)


@EVERY_GAME
def test_a_few_lines_play_a_game(method):
    torch.manual_seed(0)
    model, data = game(method, critic_steps=2), torch.sigmoid(torch.randn(64, 6))
    generator, critic = model.optimisers(1e-2)
    known = []
    for _ in range(60):
        for _ in range(model.critic_steps):
            loss, terms = model.critic_loss(data)
            critic.zero_grad()
            loss.backward()
            critic.step()
            assert 0.0 <= terms["critic_accuracy"] <= 1.0
        loss, terms = model.generator_loss()
        generator.zero_grad()
        loss.backward()
        generator.step()
        known.append(terms["mi"].item())
    assert known[-1] > known[0] + 0.5  # images say more and more about their codes
    codes = model.encode(data)
    assert codes.shape == (64, 3) == (64, len(model.num_values))
    assert torch.equal(model.decode(codes), model.decode(codes))
    assert not torch.equal(model.decode(codes), model.decode(codes, torch.randn(64, 2)))
    assert isinstance(pickle.loads(pickle.dumps(model)), Game)


@EVERY_GAME
def test_each_player_is_moved_by_its_own_loss_alone(method):
    model = game(method)
    own, other = list(model.generator_parameters()), list(model.critic_parameters())
    assert len(other) == 6  # the shared layer once
    model.critic_loss(torch.rand(16, 6))[0].backward()
    assert all(p.grad is None for p in own)
    assert all(p.grad is not None for p in other)
    model.zero_grad()
    model.generator_loss()[0].backward()
    assert all(p.grad is not None for p in own)
    assert all(p.grad is None for p in other)


def test_players_of_ours_share_layers_and_keep_the_statistics_of_real_images():
    torch.manual_seed(0)
    encoder, generator, critic = players("infogan-mnist", (28, 28, 1), num_latents=2,
                                         method="infogan")
    model = Game("infogan", encoder, generator, critic, num_latents=2)
    assert critic.conv1 is encoder.conv1
    assert not hasattr(critic, "dense2")
    model.critic_loss(torch.rand(4, 1, 28, 28))
    model.generator_loss()
    counts = {k: int(v) for k, v in model.state_dict().items() if k.endswith("batches_tracked")}
    assert len(counts) > 5
    assert set(counts.values()) == {1}


def test_clusters_come_from_an_autoencoder_and_a_fit():
    torch.manual_seed(0)
    centres = 3.0 * torch.eye(3, 6)
    truth = torch.arange(90) % 3
    data = centres[truth] + 0.1 * torch.randn(90, 6)
    model = VAE("vade", nn.Linear(6, 4), nn.Linear(2, 6), num_latents=2, clusters=3,
                likelihood="gaussian", link="identity")
    (optimiser,) = model.optimisers(3e-2)
    for step in range(150):
        if step == 100:
            model.fit_prior(data)
            assert model.training
        loss, terms = model.autoencoder_loss(data) if step < 100 else model.loss(data)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert {"kl_category", "certainty"} <= set(terms)
    found = model.objective.clusters(model.encoder(data))
    pairs = set(zip(truth.tolist(), found.tolist()))
    assert len(pairs) == 3, "each group is a cluster of its own"
    assert "objective.prior.mean" in model.state_dict()
    assert model.objective.rate(0) == 1.0 > model.objective.rate(7000)


@EVERY_METHOD
def test_the_loss_is_the_one_of_training(method):
    """The objective as the trainer calls it, on the same codes and logits."""
    torch.manual_seed(0)
    objective = Objective(method, num_latents=4, dataset_size=100, **letters_of(method))
    x, logits = torch.rand(8, 2, 4, 4), torch.randn(8, 2, 4, 4)
    draw = objective.draw(torch.randn(8, objective.head_size))
    facts = {"dataset_size": 100, "step": 0, "state": None, "prior": dict(objective.prior or {})}
    if objective.critic is not None:
        facts["critic_logits"] = objective.critic(draw.z)
    asked = {k: facts[k] for k in unweave.objectives.context(method)}
    loss = METHODS[method].loss
    out = Forward(x, logits, draw.z, draw.mu, draw.logvar, "bernoulli", draw.category_logits,
                  draw.categories)
    expected = loss(out, **unweave.objectives.pick(loss, objective.letters), **asked)
    found = objective(x, logits, draw)
    assert set(found) == {k for k in expected if not k.startswith("state.")}
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name])


def test_the_critic_is_moved_by_its_own_loss_alone():
    model = dense("factor_vae", gamma=10.0)
    loss, _ = model.loss(torch.rand(16, 6))
    loss.backward()
    assert all(p.grad is None for p in model.critic_parameters())
    assert all(p.grad is not None for p in model.model_parameters())
    model.zero_grad()
    model.critic_loss()[0].backward()
    assert all(p.grad is not None for p in model.critic_parameters())
    assert all(p.grad is None for p in model.model_parameters())


def test_running_quantities_are_part_of_the_state():
    model = dense("dip_vae_i", estimate="running")
    model.loss(torch.rand(16, 6))[0].backward()
    saved = model.state_dict()
    assert saved["objective.running_cov"].abs().sum() > 0
    other = dense("dip_vae_i", estimate="running")
    other.load_state_dict(saved)
    assert int(other.objective.step) == 1
    model.eval()
    model.loss(torch.rand(16, 6))
    assert int(model.objective.step) == 1  # evaluation moves nothing
    assert isinstance(pickle.loads(pickle.dumps(model)), VAE)


def test_sequences_colour_images_and_likelihoods_of_your_own():
    sequence = torch.randn(5, 7, 2)
    model = VAE("beta_vae", nn.Sequential(nn.Flatten(), nn.Linear(14, 4)),
                nn.Sequential(nn.Linear(2, 14), nn.Unflatten(1, (7, 2))), num_latents=2,
                likelihood=lambda x, output: (x - output).pow(2).flatten(1).sum(1))
    loss, terms = model.loss(sequence)
    assert loss.isfinite()
    assert terms["recon"] >= 0
    encoder, decoder = networks("conv64-small", (32, 48, 3), num_latents=5)
    model = VAE("beta_vae", encoder, decoder, num_latents=5)
    assert model(torch.rand(2, 3, 32, 48)).shape == (2, 3, 32, 48)


def test_an_encoder_may_give_means_and_variances_apart():
    class Two(nn.Module):
        def forward(self, x):
            return x[:, :2], x[:, 2:4]

    model = VAE("vae", Two(), nn.Linear(2, 4), num_latents=2)
    assert torch.equal(model.encode(torch.ones(3, 4)), torch.ones(3, 2))
    model.loss(torch.rand(3, 4))[0].backward()


@pytest.mark.parametrize(("make", "said"), [
    (lambda: Objective("beta_va", num_latents=2), "did you mean 'beta_vae'"),
    (lambda: Objective("beta_vae", num_latents=2, gamma=1), "unknown letter"),
    (lambda: Objective("beta_vae", num_latents=0), "at least 1"),
    (lambda: Objective("beta_vae", num_latents=2, link="identity"), "likelihood='gaussian'"),
    (lambda: Objective("beta_vae", num_latents=2, likelihood="poisson"), "known are bernoulli"),
    (lambda: dense("beta_tcvae").loss(torch.rand(4, 6)), "give dataset_size"),
    (lambda: dense("beta_vae").critic_loss(), "has no critic"),
    (lambda: dense("aae").critic_loss(), "call loss first"),
    (lambda: Objective("vae", num_latents=2).draw(torch.zeros(3, 5)), r"\[batch, 4\]"),
    (lambda: Objective("infogan", num_latents=2), "use unweave.torch.Game"),
    (lambda: Objective("vae", num_latents=2).fit_prior(torch.zeros(3, 4)), "no prior with"),
    (lambda: Objective("vade", num_latents=2).fit_prior(torch.zeros(3, 4)), "10 clusters cannot"),
    (lambda: Objective("vae", num_latents=2).clusters(torch.zeros(3, 4)), "has no clusters"),
    (lambda: game("vae"), "one of infogan, infowgan_gp"),
    (lambda: game("infogan").generator_loss(), "critic plays first"),
    (lambda: game("infogan", made=5).critic_loss(torch.rand(3, 6)), "must be equal"),
    (lambda: game("infogan", judged=2).critic_loss(torch.rand(3, 6)), "number for each sample"),
    (lambda: Game("infowgan_gp", *players("infogan-mnist", (28, 28, 1), num_latents=2),
                  num_latents=2), "gradient penalty is not defined"),
    (lambda: VAE("vae", nn.Linear(6, 4), nn.Linear(2, 5), num_latents=2).loss(torch.rand(3, 6)),
     "must be equal"),
])
def test_bad_input_is_one_sentence(make, said):
    with pytest.raises(UserError, match=said):
        make()


@pytest.mark.parametrize("method", ["beta_vae", "joint_vae", "vade", "infowgan_gp"])
def test_a_run_as_a_module_gives_the_runs_numbers(sprites, method):
    run = train_small(small_plan(method, **small_letters(method)), sprites)[0]
    made, images = module(run), sprites.images(np.arange(20))
    x = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        codes = made.encode(x)
        np.testing.assert_allclose(codes.numpy(), run.encode(images), atol=1e-6)
        np.testing.assert_allclose(made.posterior(x)[1].numpy(), run.posterior(images)[1],
                                   rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(made(x).permute(0, 2, 3, 1).numpy(), run.reconstruct(images),
                                   atol=1e-6)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("shape", [(32, 32, 1), (16, 48, 3)])
def test_plain_networks_compute_what_stacks_do(name, shape):
    architecture, sizes = ARCHITECTURES[name], (8, 4)
    params = init_params(architecture, shape, *sizes, Streams([1]), "pytorch")
    buffers = init_buffers(architecture, shape, *sizes, 1)
    for k, buffer in buffers.items():
        buffer += torch.rand(buffer.shape, generator=torch.Generator().manual_seed(len(k)))
    weights = {k: t[0] for k, t in (params | buffers).items()}
    state = to_plain(architecture, shape, *sizes, weights)
    both = nn.ModuleDict(dict(zip(("encoder", "decoder"), plain_networks(architecture, shape,
                                                                         *sizes)))).eval()
    both.load_state_dict(state)
    back = from_plain(architecture, shape, *sizes, state)
    assert set(back) == set(weights)
    assert all(torch.equal(back[k], weights[k]) for k in weights)
    x, z = torch.rand(3, *shape), torch.randn(3, 4)
    with torch.no_grad():
        head = encode_head(architecture, params, x[None], buffers=buffers)[0]
        logits = decode(architecture, params, z[None], image_shape=shape, buffers=buffers)[0]
        torch.testing.assert_close(both["encoder"](x.permute(0, 3, 1, 2)), head, atol=1e-5, rtol=0)
        torch.testing.assert_close(both["decoder"](z).permute(0, 2, 3, 1), logits, atol=1e-5,
                                   rtol=0)


def test_foreign_weights_are_refused_by_name_and_shape():
    architecture = ARCHITECTURES["burgess2018"]
    with pytest.raises(UserError, match=r"no weight 'encoder.conv1.weight'"):
        from_plain(architecture, (64, 64, 1), 8, 4, {})
    state = {f"{side}.{k}": v for side, network in zip(("encoder", "decoder"), plain_networks(
        architecture, (64, 64, 3), 8, 4)) for k, v in network.state_dict().items()}
    with pytest.raises(UserError, match=r"'encoder.conv1.weight' has the shape \[32, 3, 4, 4\]"):
        from_plain(architecture, (64, 64, 1), 8, 4, state)
