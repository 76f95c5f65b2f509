"""Layers against torch.nn.functional in float64, stacks against loops, bfloat16 against both."""

import pytest
import torch
import torch.nn.functional as F

from unweave import nn
from unweave.nn import layers
from unweave.types import UserError

RUNS, BATCH = 3, 2
# kernel, height, width, big channels, small channels; small grids in bfloat16 go by patches.
SHAPES = [(4, 8, 8, 1, 5), (4, 8, 12, 3, 4), (4, 8, 8, 32, 16), (2, 8, 4, 16, 8), (2, 4, 4, 3, 5),
          (4, 32, 32, 16, 8), (4, 2, 2, 16, 8)]
KINDS = ["conv", "conv_transpose"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tiny tensors: threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def case(kind, shape, dtype=torch.float64, seed=0):
    kernel, height, width, big, small = shape
    draw = torch.Generator().manual_seed(seed)
    if kind == "conv":
        x = torch.randn(RUNS, BATCH, height, width, big, generator=draw, dtype=torch.float64)
    else:
        x = torch.randn(RUNS, BATCH, height // 2, width // 2, small, generator=draw,
                        dtype=torch.float64)
    weight = torch.randn(RUNS, kernel, kernel, big, small, generator=draw, dtype=torch.float64)
    bias = torch.randn(RUNS, small if kind == "conv" else big, generator=draw, dtype=torch.float64)
    return [t.to(dtype).requires_grad_() for t in (x, weight / kernel, bias)]


def activated(y, activation):
    functions = {"relu": F.relu, "tanh": torch.tanh, "leaky_relu": lambda v: F.leaky_relu(v, 0.2)}
    return functions.get(activation, lambda v: v)(y)


def reference(kind, x, weight, bias, activation="none"):
    pad = 1 if weight.shape[1] == 4 else 0
    function = F.conv2d if kind == "conv" else F.conv_transpose2d
    runs = [function(v.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), b, stride=2, padding=pad)
            for v, w, b in zip(x, weight, bias)]
    y = torch.stack(runs).permute(0, 1, 3, 4, 2)
    return activated(y, activation)


def value_and_gradients(function, tensors):
    y = function(*tensors)
    draw = torch.Generator().manual_seed(1)
    grad = torch.randn(y.shape, generator=draw, dtype=torch.float64).bfloat16().to(y.dtype)
    return [y, *torch.autograd.grad(y, tensors, grad)]


def error(found, wanted):
    return ((found.double() - wanted.double()).norm() / wanted.double().norm()).item()


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("path", "dtype", "limit"), [
    ("general", torch.float64, 1e-13), ("cpu", torch.float32, 2e-6), ("cpu", torch.bfloat16, 2e-2),
    ("general", torch.bfloat16, 2e-2),
])
def test_convolutions_agree_with_torch(kind, shape, activation, path, dtype, limit):
    tensors = case(kind, shape, dtype)
    layer = getattr(nn, kind)
    with layers.path(path):
        found = value_and_gradients(lambda *t: layer(*t, activation=activation), tensors)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    wanted = value_and_gradients(lambda *t: reference(kind, *t, activation), exact)
    # A ReLU's mask may flip where rounding crosses zero, which weighs on the gradients.
    limit *= 3 if activation == "relu" and dtype != torch.float64 else 1
    for name, a, b in zip(("y", "dx", "dw", "db"), found, wanted):
        assert a.dtype == dtype
        assert error(a, b) < limit, name


@pytest.mark.parametrize("activation", layers.ACTIVATIONS)
@pytest.mark.parametrize(("path", "dtype", "limit"), [
    ("general", torch.float64, 1e-14), ("cpu", torch.float32, 1e-6), ("cpu", torch.bfloat16, 2e-2),
])
def test_linear_agrees_with_torch(activation, path, dtype, limit):
    draw = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=draw).to(dtype).requires_grad_()
               for shape in ((RUNS, 6, 40), (RUNS, 40, 24), (RUNS, 24))]
    with layers.path(path):
        found = value_and_gradients(lambda *t: nn.linear(*t, activation=activation), tensors)
    exact = [t.detach().double().requires_grad_() for t in tensors]

    def loop(x, weight, bias):
        y = torch.stack([F.linear(v, w.t(), b) for v, w, b in zip(x, weight, bias)])
        return activated(y, activation)

    for a, b in zip(found, value_and_gradients(loop, exact)):
        assert error(a, b) < limit * (1 if activation == "none" else 3)


@pytest.mark.parametrize("kind", KINDS)
def test_general_path_is_twice_differentiable(kind):
    tensors = case(kind, (4, 4, 4, 1, 2))
    assert torch.autograd.gradcheck(lambda *t: getattr(nn, kind)(*t), tensors)
    assert torch.autograd.gradgradcheck(lambda *t: getattr(nn, kind)(*t), tensors)


def test_stride_1_is_twice_differentiable_and_mapped():
    draw = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True)
                       for shape in ((RUNS, 2, 3, 4, 2), (RUNS, 4, 4, 2, 3), (RUNS, 3)))
    assert torch.autograd.gradcheck(nn.conv_same, (x, weight, bias))
    assert torch.autograd.gradgradcheck(nn.conv_same, (x, weight, bias))
    mapped = torch.func.vmap(lambda *t: nn.conv_same(*(v[None] for v in t))[0])(x, weight, bias)
    torch.testing.assert_close(mapped, nn.conv_same(x, weight, bias))


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_function_transforms_see_the_same_derivatives(transform):
    """They take the plain operations, autograd the gradients by hand."""
    x, weight, bias = (t.detach() for t in case("conv", (4, 4, 4, 1, 2)))
    again = torch.ones(RUNS, 4, 4, 2, 1, dtype=torch.float64)

    def total(v):
        h = nn.conv(v, weight, bias, activation="tanh")
        return nn.conv_transpose(nn.conv_same(h, again), weight[..., :1]).square().sum()

    with layers.path("general"):
        wanted, = torch.autograd.grad(total(x.requires_grad_()), x)
        torch.testing.assert_close(transform(total)(x.detach()), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_stack_is_loop_is_vmap(kind, dtype):
    tensors = [t.detach() for t in case(kind, (4, 8, 8, 3, 4), dtype)]
    layer = getattr(nn, kind)
    stack = layer(*tensors)
    loop = torch.cat([layer(*(t[m : m + 1] for t in tensors)) for m in range(RUNS)])
    mapped = torch.func.vmap(lambda *t: layer(*(v[None] for v in t))[0])(*tensors)
    limit = 1e-6 if dtype == torch.float32 else 1e-14
    assert error(stack, loop) < limit
    assert error(mapped, stack) < limit


def test_float32_weights_serve_bfloat16_activations():
    x, weight, bias = case("conv_transpose", (4, 8, 8, 1, 32), torch.float32)
    low = x.detach().bfloat16().requires_grad_()
    y = nn.conv_transpose(low, weight, bias, out_dtype=torch.float32)
    grads = torch.autograd.grad(y.sum(), (low, weight, bias))
    assert y.dtype == torch.float32
    assert [g.dtype for g in grads] == [torch.bfloat16, torch.float32, torch.float32]
    assert error(y, reference("conv_transpose", x, weight, bias)) < 1e-2


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh"])
@pytest.mark.parametrize("path", ["general", "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_activations_of_convolutions_and_layers_without_bias(kind, path, activation):
    x, weight, bias = (t.detach() for t in case(kind, (4, 8, 8, 3, 4), torch.float32))
    zero = torch.zeros_like(bias)
    layer = getattr(nn, kind)
    with layers.path(path):
        found = layer(x, weight, activation=activation)
        assert torch.equal(found, layer(x, weight, zero, activation=activation))
    assert error(found, reference(kind, x, weight, zero, activation)) < 1e-6


def test_a_dense_layer_without_bias():
    x, weight = torch.ones(RUNS, BATCH, 4), torch.arange(RUNS * 8.0).view(RUNS, 4, 2)
    assert torch.equal(nn.linear(x, weight), x @ weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_relu_lets_nan_through(dtype, sign):
    nan = torch.tensor(sign).mul(float("nan")).to(dtype)
    x = torch.ones(1, 2, 8, 8, 16, dtype=dtype)
    weight = torch.full((1, 4, 4, 16, 8), float(nan), dtype=dtype)
    assert nn.conv(x, weight, torch.zeros(1, 8), activation="relu").isnan().all()
    dense = torch.full((1, 16, 8), float(nan), dtype=dtype)
    assert nn.linear(x[:, :, 0, 0], dense, torch.zeros(1, 8), activation="relu").isnan().all()
    back = torch.full((1, 4, 4, 8, 16), float(nan), dtype=dtype)
    assert nn.conv_transpose(x, back, torch.zeros(1, 8), activation="relu").isnan().all()


def test_refusals():
    x, weight, bias = case("conv", (4, 8, 8, 1, 5))
    with pytest.raises(UserError, match="must be even"):
        nn.conv(x[:, :, :7], weight, bias)
    with pytest.raises(UserError, match="3x3"):
        nn.conv(x, weight[:, :3, :3], bias)
    with pytest.raises(UserError, match="did you mean 'relu'"):
        nn.conv(x, weight, bias, activation="rely")
    with pytest.raises(UserError, match="did you mean 'general'"), layers.path("generl"):
        pass


def test_kept_memory_changes_no_numbers():
    tensors = case("conv", (4, 8, 8, 3, 4), torch.float32)
    before = nn.conv(*tensors)
    assert nn.keep_freed_memory() in (True, False)
    assert torch.equal(nn.conv(*tensors), before)
