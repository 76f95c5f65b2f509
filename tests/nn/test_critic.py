"""Critics against torch.nn.Sequential, alone against among others, and their weights."""

import math

import pytest
import torch
from stacks import one_run, weights

from unweave import nn
from unweave.random import Purpose, Streams

RUNS, LATENTS, WIDTH = 4, 6, 40


def case(depth=3, dtype=torch.float32, width=WIDTH, batch=9):
    params = weights(nn.critic_parameters(LATENTS, width, depth), RUNS, dtype)
    draw = torch.Generator().manual_seed(1)
    z = torch.randn(RUNS, batch, LATENTS, generator=draw).to(dtype).requires_grad_()
    return params, z


def logits_and_gradients(params, z, precision="float32"):
    logits = nn.critic_logits(params, z, precision=precision)
    grad = torch.sin(torch.arange(logits[0].numel())).to(logits.dtype).view(logits[0].shape)
    grads = torch.autograd.grad(logits, (z, *params.values()), grad.expand_as(logits))
    return dict(zip(("logits", "z", *params), (logits, *grads)))


def sequential(params, run, depth):
    parts = []
    for number in range(1, depth + 2):
        weight = params[f"critic.dense{number}.weight"].detach()[run]
        layer = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        bias = params[f"critic.dense{number}.bias"].detach()[run]
        layer.load_state_dict({"weight": weight.t().double(), "bias": bias.double()})
        parts += [layer, torch.nn.LeakyReLU(0.2)]
    return torch.nn.Sequential(*parts[:-1])


@pytest.mark.parametrize("depth", [1, 3, 6])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_against_torch_modules(depth, dtype, limit):
    params, z = case(depth, dtype)
    found = logits_and_gradients(params, z)
    assert found["logits"].shape == (RUNS, 9, 2)
    assert all(value.dtype == dtype for value in found.values())
    for m in range(RUNS):
        module = sequential(params, m, depth)
        v = z.detach()[m].double().requires_grad_()
        logits = module(v)
        torch.testing.assert_close(found["logits"][m].double(), logits, rtol=limit, atol=limit)
        grad = torch.sin(torch.arange(logits.numel())).to(dtype).double().view(logits.shape)
        leaves = (v, module[0].weight, module[-1].weight, module[-1].bias)
        wanted = torch.autograd.grad(logits, leaves, grad)
        last = f"critic.dense{depth + 1}"
        ours = (found["z"], found["critic.dense1.weight"].mT, found[f"{last}.weight"].mT,
                found[f"{last}.bias"])
        for a, b in zip(ours, wanted):
            torch.testing.assert_close(a[m].double(), b, rtol=10 * limit, atol=10 * limit)


@pytest.mark.parametrize("precision", nn.PRECISIONS)
def test_a_run_alone_and_in_a_stack_is_the_same_to_the_bit(precision):
    params, z = case(depth=2, width=333, batch=64)
    stack = logits_and_gradients(params, z, precision)
    broken = {k: v.detach().clone() for k, v in params.items()}
    broken["critic.dense1.weight"][1] = float("nan")
    broken = {k: v.requires_grad_() for k, v in broken.items()}
    beside_nan = logits_and_gradients(broken, z, precision)
    assert beside_nan["logits"][1].isnan().all()
    for m in (0, 2, 3):
        own = z.detach()[m : m + 1].clone().requires_grad_()
        for key, value in logits_and_gradients(one_run(params, m), own, precision).items():
            assert value.dtype == torch.float32
            assert torch.equal(value[0], stack[key][m]), key
            assert torch.equal(value[0], beside_nan[key][m]), key


def test_stack_is_vmap_and_bfloat16_is_close():
    params, z = case()
    params = {k: v.detach() for k, v in params.items()}
    wanted = nn.critic_logits(params, z.detach())

    def one(p, v):
        return nn.critic_logits({k: w[None] for k, w in p.items()}, v[None])[0]

    torch.testing.assert_close(torch.func.vmap(one)(params, z.detach()), wanted)
    low = nn.critic_logits(params, z.detach(), precision="bfloat16")
    assert (low - wanted).norm() < 2e-2 * wanted.norm()


def test_frozen_weights_pass_the_gradient_on():
    params, z = case()
    wanted = logits_and_gradients(params, z)["z"]
    frozen = {k: v.detach() for k, v in params.items()}
    logits = nn.critic_logits(frozen, z)
    grad = torch.sin(torch.arange(logits[0].numel())).float().view(logits[0].shape)
    logits.backward(grad.expand_as(logits))
    assert torch.equal(z.grad, wanted)
    assert all(v.grad is None for v in (*params.values(), *frozen.values()))


def test_initial_weights():
    # Kim & Mnih's critic of 10 codes: 11 * 1000 + 5 * 1001 * 1000 + 1001 * 2.
    specs = nn.critic_parameters(10, 1000, 6)
    assert sum(math.prod(s.shape) for s in specs.values()) == 11_000 + 5_005_000 + 2_002
    assert list(specs)[:2] == ["critic.dense1.weight", "critic.dense1.bias"]
    params = nn.init_critic(10, 50, 2, Streams([5, 6]))
    alone = nn.init_critic(10, 50, 2, Streams([6]))
    bound = math.sqrt(6 / 100)
    assert 0.98 * bound < params["critic.dense2.weight"].abs().max() <= bound
    assert not any(v.any() for k, v in params.items() if k.endswith("bias"))
    assert all(torch.equal(params[k][1], alone[k][0]) for k in params)
    other = nn.init_critic(10, 50, 2, Streams([6]), purpose=Purpose.INIT)
    assert not torch.equal(other["critic.dense1.weight"], alone["critic.dense1.weight"])
    default = nn.init_critic(10, 50, 2, Streams([5]), "pytorch")
    assert 0.5 / math.sqrt(50) < default["critic.dense3.bias"].abs().max() <= 1 / math.sqrt(50)
