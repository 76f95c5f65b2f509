"""The two networks of an adversarial method do not move each other."""

import pytest
import torch

from small import small_plan
from unweave.objectives import METHODS
from unweave.training.stack import Stack, num_updates

CPU = torch.device("cpu")
ADVERSARIAL = [name for name, method in METHODS.items() if method.critic]
SMALL = {"critic_width": 16, "critic_depth": 2}


def after_one_step(sprites, method, **changes):
    stack = Stack(small_plan(method, **(SMALL | changes)), sprites, CPU)
    before = {k: p.detach().clone() for k, p in (stack.params | stack.critic_params).items()}
    terms = stack.train_step()
    return before, stack.run_state(0), terms


def moved(before, state, part):
    return {k for k, v in before.items()
            if k.startswith("critic.") == (part == "critic")
            and not torch.equal(v[0], state[f"weight.{k}"])}


@pytest.mark.parametrize("method", ADVERSARIAL)
def test_the_critics_step_does_not_move_the_vae(method, sprites):
    before, quick, _ = after_one_step(sprites, method, critic_rate=1.0)
    _, slow, _ = after_one_step(sprites, method, critic_rate=1e-6)
    assert moved(before, quick, "critic")
    for name in quick:
        if "critic." not in name:
            assert torch.equal(quick[name], slow[name]), name


@pytest.mark.parametrize(("method", "letters"), [
    *[(name, {}) for name in ADVERSARIAL], ("factor_vae", {"convention": "study2019"})])
def test_the_vaes_step_does_not_move_the_critic(method, letters, sprites):
    # Both classes of codes, of two batches in factor_vae, are from before the step of the VAE:
    # else the critic would learn to tell its old weights from its new ones.
    before, strong, _ = after_one_step(sprites, method, gamma=1000.0, learning_rate=0.5, **letters)
    _, weak, _ = after_one_step(sprites, method, gamma=0.0, learning_rate=1e-6, **letters)
    assert moved(before, strong, "vae")
    for name in strong:
        if "critic." in name:
            assert torch.equal(strong[name], weak[name]), name


def test_as_printed_the_second_batch_is_encoded_after_the_vaes_step(sprites):
    given = {"convention": "printed", "gamma": 0.0}
    _, far, _ = after_one_step(sprites, "factor_vae", learning_rate=0.5, **given)
    _, near, _ = after_one_step(sprites, "factor_vae", learning_rate=1e-12, **given)
    _, paper, _ = after_one_step(sprites, "factor_vae", learning_rate=1e-12, gamma=0.0)
    critic = [name for name in paper if "critic." in name]
    assert any(not torch.equal(far[name], near[name]) for name in critic)
    # Where the step is none, after it is before it.
    assert all(torch.allclose(near[name], paper[name], atol=1e-7) for name in critic)


def test_the_paper_takes_a_second_batch(sprites):
    _, paper, _ = after_one_step(sprites, "factor_vae", convention="paper")
    _, study, _ = after_one_step(sprites, "factor_vae", convention="study2019")
    assert all(torch.equal(paper[k], study[k]) for k in paper if "critic." not in k)
    assert any(not torch.equal(paper[k], study[k]) for k in paper if "critic." in k)


def test_the_study_makes_half_the_updates():
    (paper,), (study,) = (small_plan("factor_vae", steps=10, convention=c)
                          for c in ("paper", "study2019"))
    assert (num_updates(paper), num_updates(study)) == (10, 5)


def test_accuracy_and_estimate_are_curves(sprites):
    _, _, terms = after_one_step(sprites, "factor_vae")
    assert {"tc", "critic_loss", "critic_accuracy"} <= set(terms)
    assert 0.0 <= float(terms["critic_accuracy"][0]) <= 1.0
