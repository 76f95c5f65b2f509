"""Generator and critic: neither moves the other, the penalty is the gradient's, noise is fixed."""

import numpy as np
import pytest
import torch

from small import small_letters, small_plan, train_small
from unweave import nn
from unweave.objectives import METHODS
from unweave.studies.scoring import score_run
from unweave.training import load
from unweave.training.stack import Stack
from unweave.types import UserError

CPU = torch.device("cpu")
GAMES = [name for name, method in METHODS.items() if method.game]


def small(method, **changes):
    return small_plan(method, **(small_letters(method) | changes))


def after_one_step(sprites, method, **changes):
    stack = Stack(small(method, **changes), sprites, CPU)
    before = {k: p.detach().clone() for k, p in (stack.params | stack.critic_params).items()}
    stack.train_step()
    return before, stack.run_state(0)


@pytest.fixture(scope="module")
def run(sprites, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    (made,) = train_small(small("infogan", categories="3"), sprites, out=out)
    return made


@pytest.mark.parametrize("method", GAMES)
def test_the_generators_rate_does_not_move_the_critic(method, sprites):
    before, quick = after_one_step(sprites, method, learning_rate=0.5)
    _, slow = after_one_step(sprites, method, learning_rate=1e-6)
    for name in before:
        same = torch.equal(quick[f"weight.{name}"], slow[f"weight.{name}"])
        assert same == (not name.startswith("decoder.")), name


@pytest.mark.parametrize("method", GAMES)
def test_the_critics_turns_do_not_move_the_generator(method, sprites):
    """Its gradients change with the critic, but a generator at rest stays where it was."""
    before, state = after_one_step(sprites, method, learning_rate=1e-12, critic_rate=0.01)
    for name, value in before.items():
        if name == "critic.out.bias":  # a Wasserstein critic has no zero, nor a use for it
            continue
        still = torch.allclose(value[0], state[f"weight.{name}"], rtol=0.0, atol=1e-9)
        assert still == name.startswith("decoder."), name


def test_more_turns_are_more_updates_of_the_critic(sprites):
    stack = Stack(small("infogan", critic_steps=3), sprites, CPU)
    stack.train_step()
    stack.train_step()
    assert {o.num_steps for o in stack.optimisers} == {2, 6}


def test_the_slope_is_the_gradient_of_the_critic(sprites):
    stack = Stack(small("infowgan_gp", architecture="infowgan-shapes2d"), sprites, CPU)
    players = stack._players
    weights = {k: p.detach().double() for k, p in players._critic_weights().items()}
    g = torch.Generator().manual_seed(0)
    real, made = (torch.rand(1, 2, 64, 64, 1, generator=g, dtype=torch.float64) for _ in range(2))
    between = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    slope = players._slope(weights, real, made, between)
    share = between[..., None, None, None]
    x, step = share * real + (1 - share) * made, 1e-6
    direction = torch.randn(x.shape, generator=g, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    with nn.path("general"):
        (gradient,) = torch.autograd.grad(players._judge(weights, leaf)[0].sum(), leaf)
        up, down = (players._judge(weights, x + s * step * direction)[0] for s in (1, -1))
    along = ((up - down) / (2 * step))[0]
    assert (gradient * direction).sum((0, 2, 3, 4)).tolist() == pytest.approx(along.tolist(), 1e-4)
    assert slope[0].tolist() == pytest.approx(gradient[0].flatten(1).norm(dim=1).tolist())


def test_the_penalty_is_differentiated_twice(sprites):
    """Its gradient by the weights agrees with differences, in float64."""
    stack = Stack(small("infowgan_gp"), sprites, CPU)
    players = stack._players
    weights = {k: p.detach().double() for k, p in players._critic_weights().items()}
    g = torch.Generator().manual_seed(0)
    real, made = (torch.rand(1, 2, 64, 64, 1, generator=g, dtype=torch.float64) for _ in range(2))
    between = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
    leaf = weights["encoder.conv2.weight"].requires_grad_()
    ((players._slope(weights, real, made, between) - 1.0) ** 2).mean().backward()
    direction = torch.randn(leaf.shape, generator=g, dtype=torch.float64)

    def at(step):
        moved = weights | {"encoder.conv2.weight": leaf.detach() + step * direction}
        return ((players._slope(moved, real, made, between) - 1.0) ** 2).mean().item()

    assert (at(1e-6) - at(-1e-6)) / 2e-6 == pytest.approx(
        (leaf.grad * direction).sum().item(), rel=1e-4)


def test_a_penalty_under_batch_normalisation_is_refused(sprites):
    with pytest.raises(UserError, match=r"gradient penalty is not defined: .*infowgan-shapes2d"):
        Stack(small("infowgan_gp", architecture="kaddah2020"), sprites, CPU)


def test_codes_decode_with_one_noise_unless_it_is_given(run):
    codes = run.prior_codes(6)
    assert codes.shape == (6, 5)
    assert np.abs(codes[:, :4]).max() <= 1.0
    assert set(codes[:, 4]) <= {0.0, 1.0, 2.0}
    fixed = run.decode(codes)
    assert np.array_equal(fixed, run.decode(codes))
    assert fixed[2:3] == pytest.approx(run.decode(codes[2:3]), abs=1e-6), "whoever is beside it"
    varied = run.decode(codes, noise=run.generator_noise(6, seed=1))
    assert not np.array_equal(fixed, varied)
    one = run.decode(np.repeat(codes[:1], 3, axis=0), noise=run.generator_noise(3))
    assert not np.array_equal(one[0], one[1]), "the code fixed, the noise varied"
    with pytest.raises(UserError, match=r"expected noise of shape \[6, 5\]"):
        run.decode(codes, noise=np.zeros((2, 5)))


def test_a_stored_run_comes_back(run, sprites):
    again = load(run.folder, device="cpu", data=sprites)
    images = sprites.images([0, 9, 200])
    assert np.array_equal(run.encode(images), again.encode(images))
    assert np.array_equal(run.sample(2), again.sample(2))
    assert run.traverse(num=3).shape == (5, 3, 64, 64, 1)
    assert np.array_equal(run.clusters(images), run.encode(images)[:, 4].astype(int))
    assert run.sample_cluster(2, 3).shape == (3, 64, 64, 1)


def test_scores_of_codes_and_classes_but_no_bound(run):
    made = {s.key: s for s in score_run(run, metrics=["mig", "tc", "clusters"])}
    assert {"mig", "tc.mean", "clusters.accuracy", "clusters.nmi", "clusters.ari"} <= set(made)
    assert made["mig"].settings["num_values"] == [0, 0, 0, 0, 3]
    with pytest.raises(UserError, match="elbo looks at a model"):
        score_run(run, metrics=["elbo"])


def test_curves_of_both_players(run):
    assert {"loss", "generator_loss", "critic_loss", "critic_accuracy", "critic_fake_right", "mi",
            "mi.0", "mi_category"} <= set(run.curves)


def test_a_game_does_not_start_from_another_run(sprites):
    with pytest.raises(UserError, match="infogan cannot start from another run"):
        small("infogan", init_from="beta_vae-0")
