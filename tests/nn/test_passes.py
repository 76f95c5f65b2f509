"""A pass of a stack: alone against among others, general against CPU, precisions, gradients."""

import pytest
import torch
from stacks import forward, narrowed, one_run, outputs_and_gradients, setup

from unweave import nn
from unweave.nn import layers
from unweave.types import UserError


def sized(name):
    """As published but for the dense network, whose 14 million weights would take most time."""
    architecture = nn.ARCHITECTURES[name]
    return narrowed(architecture, 4) if name == "higgins2017-dense" else architecture


def test_precision_names():
    architecture = narrowed(nn.ARCHITECTURES["conv64-small"], 4)
    params, _, x, _ = setup(architecture, 1, (16, 16, 1))
    with pytest.raises(UserError, match="did you mean 'float32'"):
        nn.encode_head(architecture, params, x, precision="float23")


@pytest.mark.parametrize("precision", nn.PRECISIONS)
@pytest.mark.parametrize(("name", "latents", "batch"), [
    ("conv64", 10, 16), ("conv64-study2019", 7, 5), ("kaddah2020", 10, 5),
    ("kim2018-shapes2d", 10, 5), ("burgess2018", 10, 5), ("higgins2017-dense", 10, 6),
])
def test_a_run_alone_and_in_a_stack_is_the_same_to_the_bit(name, latents, batch, precision):
    architecture, runs = sized(name), 5
    params, buffers, x, noise = setup(architecture, runs, latents=latents, batch=batch)
    stack = outputs_and_gradients(architecture, params, buffers, x, noise, precision)
    assert all(torch.isfinite(v).all() for v in stack.values())
    broken = {k: v.detach().clone() for k, v in params.items()}
    broken[next(k for k in params if k.startswith("encoder"))][1] = float("nan")
    broken["decoder.dense2.weight"][4] = float("nan")
    broken = {k: v.requires_grad_() for k, v in broken.items()}
    beside_nan = outputs_and_gradients(architecture, broken, buffers, x, noise, precision)
    assert beside_nan["logits"][1].isnan().all()
    for m in (0, 2, 3):
        alone = outputs_and_gradients(
            architecture, one_run(params, m), one_run(buffers, m),
            x[m : m + 1].clone(), noise[m : m + 1].clone(), precision)
        for key, value in alone.items():
            assert torch.equal(value[0], stack[key][m]), key
            assert torch.equal(value[0], beside_nan[key][m]), key


@pytest.mark.parametrize("name", nn.ARCHITECTURES)
def test_gradients_reach_every_weight_of_every_run(name):
    architecture = narrowed(nn.ARCHITECTURES[name], 4)
    params, buffers, x, noise = setup(architecture, 3, (32, 32, 3), batch=8)
    found = outputs_and_gradients(architecture, params, buffers, x, noise)
    for key in params:
        assert found[key].dtype == torch.float32
        assert found[key].flatten(1).abs().amax(1).gt(0).all(), key


@pytest.mark.parametrize(("name", "slack"), [
    ("conv64", 1), ("burgess2018", 1), ("higgins2017-dense", 1),
    # PyTorch sums the mean of a channel over thousands of pixels one by one.
    ("kaddah2020", 5),
])
def test_precisions_agree_within_rounding(name, slack):
    architecture = sized(name)
    params, buffers, x, noise = setup(architecture, batch=8)
    exact = {k: v.detach().double().requires_grad_() for k, v in params.items()}
    wanted = outputs_and_gradients(architecture, exact, buffers, x.double(), noise.double())
    # Masks of ReLUs flip where rounding crosses zero: gradients of a few images feel each.
    limits = {"float32": (1e-5 * slack, 1e-2 * slack), "bfloat16": (3e-2, 0.3)}
    for precision, (limit, gradient_limit) in limits.items():
        found = outputs_and_gradients(architecture, params, buffers, x, noise, precision)
        for key, value in found.items():
            assert value.dtype == torch.float32
            error = (value.double() - wanted[key]).norm() / wanted[key].norm()
            assert error < (gradient_limit if key in params else limit), (precision, key, error)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", nn.ARCHITECTURES)
def test_stack_is_loop_is_vmap_is_cpu_path(name, train):
    architecture = narrowed(nn.ARCHITECTURES[name], 8)
    params, buffers, x, noise = setup(architecture, 3, (32, 32, 1))
    params = {k: v.detach() for k, v in params.items()}

    def copies():
        return {k: v.clone() for k, v in buffers.items()}

    def logits(p, b, v, e):
        one = [{k: w[None] for k, w in tensors.items()} for tensors in (p, b)]
        return forward(architecture, *one, v[None], e[None], train=train)[0][0]

    on_cpu, by_loop, by_vmap, general = copies(), copies(), copies(), copies()
    wanted = forward(architecture, params, on_cpu, x, noise, train=train)[0]
    with layers.path("general"):
        stack = forward(architecture, params, general, x, noise, train=train)[0]
        loop = torch.stack([
            logits(*({k: v[m] for k, v in t.items()} for t in (params, by_loop)), x[m], noise[m])
            for m in range(3)])
        mapped = torch.func.vmap(logits)(params, by_vmap, x, noise)
    # Six layers of the bigger players divide by deviations over a few pixels.
    limit = 5e-5 if name.endswith("-big") else 2e-5
    for found, after in ((stack, general), (loop, by_loop), (mapped, by_vmap)):
        torch.testing.assert_close(found, wanted, atol=limit, rtol=1e-4)
        for key, value in after.items():
            torch.testing.assert_close(value, on_cpu[key], atol=1e-6, rtol=1e-5)
            assert train != torch.equal(value, buffers[key]), key
