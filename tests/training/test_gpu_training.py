"""Training on a GPU: graph and plain steps, stacks of any size, resuming. Skipped without one."""

import pytest
import torch

from small import same, small_letters
from unweave import nn
from unweave.objectives import METHODS
from unweave.training import plan, train_runs
from unweave.training.stack import Stack

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

BEYOND = ("vade", "infogan", "infowgan_gp")
VARIANTS = [(name, small_letters(name) if name in BEYOND else {}) for name in METHODS] + [
    ("factor_vae", {"convention": "study2019"}), ("factor_vae", {"convention": "printed"}),
    ("beta_tcvae", {"sampling": "stratified"}),
    ("dip_vae_i", {"estimate": "running"}), ("beta_vae", {"architecture": "kaddah2020"}),
    ("infogan", small_letters("infogan") | {"architecture": "infogan-shapes2d"}),
    ("infowgan_gp", small_letters("infowgan_gp") | {"architecture": "infowgan-shapes2d"})]
NORMED = [v for v in VARIANTS if "architecture" in v[1]]


def configs(method="beta_vae", seeds=range(2), **changes):
    given = {"steps": 12, "batch_size": 16, "num_latents": 6, "precision": "bfloat16"} | changes
    return plan(method, "sprites", seeds=seeds, device="cuda", **given)


def losses(stack, steps):
    return torch.stack([stack.train_step()["loss"] for _ in range(steps)]).cpu()


@pytest.mark.parametrize(("method", "letters"), VARIANTS)
def test_a_graph_makes_the_steps_that_plain_ones_make(sprites, method, letters):
    plain, graphed = (Stack(configs(method, **letters), sprites, torch.device("cuda"))
                      for _ in range(2))
    for _ in range(8):
        plain.train_step()
    graphed._run(8)
    assert graphed._graph is not None
    for k in plain.params:
        assert torch.equal(plain.params[k], graphed.params[k]), k
    assert plain.step == graphed.step == int(graphed._clock)


@pytest.mark.parametrize("method", ["beta_vae", "beta_tcvae", "factor_vae", "dip_vae_ii"])
def test_a_run_is_the_same_in_stacks_of_1_8_and_64(sprites, method):
    """To the last bit for weights that come from our kernels alone: see docs/gpu.md."""
    found = {}
    for size in (1, 8, 64):
        stack = Stack(configs(method, seeds=range(3, 3 + size)), sprites, torch.device("cuda"))
        stack._run(10)
        found[size] = {k: p.detach()[0].clone() for k, p in stack.params.items()}
    for size in (8, 64):
        for k, p in found[1].items():
            if method == "beta_vae":
                assert torch.equal(found[size][k], p), (size, k)
            torch.testing.assert_close(found[size][k], p, rtol=0, atol=2e-4)


@pytest.mark.parametrize(("method", "letters"), NORMED)
def test_a_normalised_run_has_the_same_losses_in_any_stack(sprites, method, letters):
    """To rounding: sums over a batch depend on the shape of the stack, and Adam makes steps of one
    size of gradients that are nothing but rounding.
    """
    found = []
    for size in (1, 8, 64):
        given = letters | {"batch_size": 16, "precision": "float32"}
        stack = Stack(configs(method, seeds=range(3, 3 + size), **given), sprites,
                      torch.device("cuda"))
        found.append(losses(stack, 8)[:, 0])
    for other in found[1:]:
        torch.testing.assert_close(other[:2], found[0][:2], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(other, found[0], rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("precision", nn.PRECISIONS)
def test_the_first_steps_are_those_of_the_cpu(sprites, precision):
    ours = Stack(configs(precision=precision), sprites, torch.device("cuda"))
    theirs = Stack(configs(precision="float32"), sprites, torch.device("cpu"))
    torch.testing.assert_close(losses(ours, 5), losses(theirs, 5), rtol=2e-4, atol=0)


@pytest.mark.parametrize(("method", "letters"), VARIANTS)
def test_every_method_begins_as_on_the_cpu(sprites, method, letters):
    """In float32, term by term.

    Critics and players, the penalty's second derivatives, the fit of a mixture and statistics of
    normalisation are among them. Normalisation by a batch amplifies rounding: on a CPU the players'
    terms leave what is allowed to the others in one step if weights are off by 1e-6 (batches of 4).
    """
    normed = (method, letters) in NORMED
    letters = letters | {"batch_size": 16} if normed else letters
    allowed = 2e-2 if normed else 2e-3
    stacks = [Stack(configs(method, precision="float32", **letters), sprites, torch.device(name))
              for name in ("cuda", "cpu")]
    for step in range(3 if normed else 5):
        ours, theirs = (stack.train_step() for stack in stacks)
        assert set(ours) == set(theirs)
        for name, value in ours.items():
            torch.testing.assert_close(value.cpu(), theirs[name], rtol=allowed, atol=allowed,
                                       msg=lambda text, n=name, s=step: f"{n}, step {s}: {text}")
    for k, value in stacks[0].buffers.items():
        torch.testing.assert_close(value.cpu(), stacks[1].buffers[k], rtol=2e-2, atol=allowed)


@pytest.mark.parametrize("method", ["beta_vae", "factor_vae"])
def test_resuming_on_a_gpu(sprites, method, tmp_path):
    options = {"device": "cuda", "datasets": {"sprites": sprites}}
    whole = train_runs(configs(method, steps=12), out=None, **options)

    class Stop(Exception):
        pass

    def stop(report):
        if report.step == 8:
            raise Stop

    with pytest.raises(Stop):
        train_runs(configs(method, steps=12), out=tmp_path, listener=stop, checkpoint_seconds=0.0,
                   **options)
    again = train_runs(configs(method, steps=12), out=tmp_path, resume=True, **options)
    assert all(same(a, b) for a, b in zip(whole, again))
    assert whole[0].info["path"] == "triton"


def test_a_nan_stays_in_its_run(sprites):
    stack = Stack(configs(seeds=range(3)), sprites, torch.device("cuda"))
    clean = Stack(configs(seeds=range(3)), sprites, torch.device("cuda"))
    with torch.no_grad():
        for group in (stack.params, stack.network):
            group["encoder.conv1.weight"][1] = torch.nan
    stack._run(6)
    clean._run(6)
    for k in clean.params:
        assert torch.equal(stack.params[k][[0, 2]], clean.params[k][[0, 2]]), k
    assert torch.isnan(stack.params["encoder.conv1.weight"][1]).all()
