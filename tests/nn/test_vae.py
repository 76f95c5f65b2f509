"""Architectures, initialisation, and one pass of a stack."""

import functools
import math

import pytest
import torch

from unweave import nn
from unweave.nn.init import crc32
from unweave.random import Purpose, Streams
from unweave.types import UserError

SEEDS = [3, 1, 4, 15, 9]


@functools.cache
def initial(name, seeds, image, latents):
    return nn.init_params(nn.ARCHITECTURES[name], image, latents, Streams(seeds), "pytorch")


def setup(name="conv64", seeds=SEEDS, image=(64, 64, 1), latents=10, batch=4, dtype=torch.float32):
    architecture = nn.ARCHITECTURES[name]
    streams = Streams(seeds)
    params = initial(name, tuple(seeds), image, latents)
    params = {k: v.to(dtype, copy=True).requires_grad_() for k, v in params.items()}
    x = (streams.uniform(Purpose.BATCH, 0, batch, *image) > 0.9).to(dtype)
    noise = streams.normal(Purpose.NOISE, 0, batch, latents).to(dtype)
    return architecture, params, x, noise


def outputs_and_gradients(architecture, params, x, noise, precision="float32"):
    out = nn.forward(architecture, params, x, noise, precision=precision)
    runs = out.logits.shape[0]
    loss = torch.nn.functional.softplus(out.logits).reshape(runs, -1).sum(-1)
    loss = loss + (out.mu**2 + out.logvar.exp() - out.logvar).reshape(runs, -1).sum(-1)
    grads = torch.autograd.grad(loss.sum(), list(params.values()))
    return {"logits": out.logits, "z": out.z, "mu": out.mu, "logvar": out.logvar,
            **dict(zip(params, grads))}


# Counted by hand from table 2: convolutions 16 * in * out + out, dense in * out + out.
@pytest.mark.parametrize(("name", "image", "count"), [
    ("conv64", (64, 64, 1), 382_932 + 381_313),
    ("conv64", (64, 64, 3), 382_932 + 381_313 + 2 * 16 * 32 * 2 + 2),
    ("conv64-study2019", (64, 64, 1), 382_932 + 381_313 - 12 * 32 * 64 - 12 * 64 * 64),
])
def test_parameter_counts(name, image, count):
    specs = nn.ARCHITECTURES[name].parameters(image, 10)
    assert sum(math.prod(spec.shape) for spec in specs.values()) == count
    assert len(specs) == 24
    assert specs["encoder.conv1.weight"].shape == (4, 4, image[-1], 32)
    assert specs["decoder.deconv4.weight"].shape == (4, 4, image[-1], 32)
    assert len({crc32(k.encode()) for k in specs}) == len(specs)


@pytest.mark.parametrize("name", nn.ARCHITECTURES)
@pytest.mark.parametrize("image", [(64, 64, 3), (32, 48, 1)])
@pytest.mark.parametrize("precision", nn.PRECISIONS)
def test_shapes_and_types(name, image, precision):
    architecture, params, x, noise = setup(name, [0, 1], image, latents=6, batch=3)
    out = nn.forward(architecture, params, x, noise, precision=precision)
    assert out.logits.shape == (2, 3, *image)
    assert out.mu.shape == out.logvar.shape == out.z.shape == (2, 3, 6)
    assert {t.dtype for t in out[1:5]} == {torch.float32}
    mu, logvar = nn.encode(architecture, params, x, precision=precision)
    assert torch.equal(mu, out.mu)
    assert torch.equal(logvar, out.logvar)
    logits = nn.decode(architecture, params, out.z, image_shape=image, precision=precision)
    assert torch.equal(logits, out.logits)
    assert not logits.requires_grad


def test_image_sizes_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="multiples of 16"):
        nn.ARCHITECTURES["conv64"].parameters((60, 64, 1), 10)


def test_glorot_statistics():
    specs = nn.ARCHITECTURES["conv64"].parameters((64, 64, 1), 10)
    params = nn.init_params(nn.ARCHITECTURES["conv64"], (64, 64, 1), 10, Streams([0, 1]))
    for name, spec in specs.items():
        value = params[name]
        if spec.is_bias:
            assert not value.any()
            continue
        bound = math.sqrt(6 / (spec.fan_in + spec.fan_out))
        assert value.abs().max() <= bound
        assert abs(value.mean()) < 5 * bound / math.sqrt(3 * value.numel())
        assert value.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    spec = specs["encoder.conv2.weight"]
    assert (spec.fan_in, spec.fan_out) == (16 * 32, 16 * 32)


def test_pytorch_scheme_has_the_bounds_of_torch_modules():
    params = nn.init_params(nn.ARCHITECTURES["conv64"], (64, 64, 1), 10, Streams([0]), "pytorch")
    modules = {"encoder.conv3": torch.nn.Conv2d(32, 64, 4),
               "encoder.dense1": torch.nn.Linear(1024, 256),
               "decoder.deconv2": torch.nn.ConvTranspose2d(64, 32, 4)}
    for name, module in modules.items():
        for kind in ("weight", "bias"):
            found, wanted = params[f"{name}.{kind}"], getattr(module, kind)
            assert found.numel() == wanted.numel()
            assert found.abs().max().item() == pytest.approx(wanted.abs().max().item(), rel=0.15)
    with pytest.raises(UserError, match="glorot"):
        nn.init_params(nn.ARCHITECTURES["conv64"], (64, 64, 1), 10, Streams([0]), "gloro")


def test_init_does_not_depend_on_neighbours():
    stack = setup()[1]
    alone = setup(seeds=SEEDS[3:4])[1]
    assert all(torch.equal(stack[k][3], alone[k][0]) for k in stack)
    assert not torch.equal(stack["encoder.conv2.weight"][0], stack["encoder.conv2.weight"][1])


@pytest.mark.parametrize("precision", nn.PRECISIONS)
@pytest.mark.parametrize(("name", "latents", "batch"), [
    ("conv64", 10, 16), ("conv64-study2019", 7, 5),
])
def test_a_run_alone_and_in_a_stack_is_the_same_to_the_bit(name, latents, batch, precision):
    architecture, params, x, noise = setup(name, latents=latents, batch=batch)
    broken = {k: v.detach().clone() for k, v in params.items()}
    broken["encoder.conv1.weight"][1] = float("nan")
    broken["decoder.dense2.weight"][4] = float("nan")
    broken = {k: v.requires_grad_() for k, v in broken.items()}
    stack = outputs_and_gradients(architecture, params, x, noise, precision)
    beside_nan = outputs_and_gradients(architecture, broken, x, noise, precision)
    assert beside_nan["logits"][1].isnan().all()
    for m in (0, 2, 3):
        own = {k: v.detach()[m : m + 1].clone().requires_grad_() for k, v in params.items()}
        alone = outputs_and_gradients(
            architecture, own, x[m : m + 1].clone(), noise[m : m + 1].clone(), precision)
        for key, value in alone.items():
            assert torch.equal(value[0], stack[key][m]), key
            assert torch.equal(value[0], beside_nan[key][m]), key


@pytest.mark.parametrize("name", nn.ARCHITECTURES)
def test_precisions_agree_within_rounding(name):
    architecture, params, x, noise = setup(name, [0, 1])
    exact = {k: v.detach().double().requires_grad_() for k, v in params.items()}
    wanted = outputs_and_gradients(architecture, exact, x.double(), noise.double())
    # Masks of ReLUs flip where rounding crosses zero: gradients of a few images feel each.
    limits = {"float32": (1e-5, 1e-2), "bfloat16": (2e-2, 0.3)}
    for precision, (limit, gradient_limit) in limits.items():
        found = outputs_and_gradients(architecture, params, x, noise, precision)
        for key, value in found.items():
            assert value.dtype == torch.float32
            error = (value.double() - wanted[key]).norm() / wanted[key].norm()
            assert error < (gradient_limit if key in params else limit), (precision, key, error)


def test_vmap_over_runs_is_the_stack():
    architecture, params, x, noise = setup(seeds=[0, 1])
    params = {k: v.detach() for k, v in params.items()}

    def logits(p, v, e):
        one = {k: w[None] for k, w in p.items()}
        return nn.forward(architecture, one, v[None], e[None]).logits[0]

    mapped = torch.func.vmap(logits)(params, x, noise)
    assert torch.allclose(mapped, nn.forward(architecture, params, x, noise).logits, atol=1e-5)
