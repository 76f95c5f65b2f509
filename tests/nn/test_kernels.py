"""The Triton path: kernels against float64, and a run's independence of its neighbours.

With a GPU the kernels run there; without, Triton's interpreter runs them, in float32.
"""

from importlib.util import find_spec

import pytest
import torch

from unweave import nn
from unweave.nn import autograd, gpu, layers
from unweave.nn.gpu import Link

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TYPES = ["float32", "bfloat16"] if DEVICE == "cuda" else ["float32"]
TOLERANCE = {"float32": 2e-6, "bfloat16": 2e-2}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def error(found, exact):
    return float((found.detach().cpu().double() - exact.detach()).norm() / exact.detach().norm())


def in_float64(links, x, weights):
    """The same layers on the general path."""
    h = x
    with layers.path("general"):
        for i, link in enumerate(links):
            w, b = weights[2 * i], weights[2 * i + 1]
            if link.kind == "linear":
                h = layers.linear(h.flatten(2), w, b, activation=link.activation)
                h = h.unflatten(-1, link.grid) if link.grid else h
            elif link.kind == "conv":
                h = layers.conv(h, w, b, activation=link.activation)
            else:
                h = layers.conv_transpose(h, w, b, activation=link.activation)
    return h


def assert_right(links, shape, weights, dtype):
    """Output and all gradients, against float64 on the same rounded numbers.

    Every layer rounds its output and the gradient that it hands on: errors add up along a chain.
    """
    tolerance = TOLERANCE[dtype] * max(1.0, (len(links) - 1) ** 0.5)
    kind = getattr(torch, dtype)
    numbers = [draw(*shape)]
    for i, (w, b) in enumerate(weights):
        fan = w[1] if len(w) == 3 else w[1] * w[2] * w[-2]
        numbers += [draw(*w, seed=2 * i + 1) / fan**0.5,
                    None if b is None else draw(*b, seed=2 * i + 2)]
    ours = [None if n is None else n.to(kind).to(DEVICE).requires_grad_() for n in numbers]
    exact = [None if n is None else n.detach().cpu().double().requires_grad_() for n in ours]
    found, wanted = autograd.chain(ours[0], links, ours[1:]), in_float64(links, exact[0], exact[1:])
    weight = draw(*wanted.shape, seed=99).to(kind)
    assert error(found, wanted) < tolerance
    grads = torch.autograd.grad(found, [t for t in ours if t is not None],
                                weight.to(DEVICE).to(found.dtype))
    right = torch.autograd.grad(wanted, [t for t in exact if t is not None], weight.double())
    for a, b in zip(grads, right):
        assert a.dtype == kind
        assert error(a, b) < tolerance


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["conv", "conv_transpose"])
@pytest.mark.parametrize(("size", "big", "small"),
                         [(4, 1, 32), (4, 3, 16), (4, 16, 32), (4, 32, 16), (2, 4, 16),
                          (2, 32, 16), (2, 16, 32)])
def test_convolutions(kind, size, big, small, dtype):
    shape = (2, 3, 8, 12, big) if kind == "conv" else (2, 3, 4, 6, small)
    assert_right([Link(kind, "relu")], shape,
                 [((2, size, size, big, small), (2, small if kind == "conv" else big))], dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_few_channels_of_square_images(channels, dtype):
    """Even small images take the kernel that makes blocks of four by four pixels."""
    for height, width in ((8, 8), (2, 6), (3, 5)):
        assert_right([Link("conv_transpose")], (2, 3, height, width, 16),
                     [((2, 4, 4, channels, 16), (2, channels))], dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", ["none", "relu", "leaky_relu", "tanh"])
def test_dense_layers(activation, dtype):
    assert_right([Link("linear", activation), Link("linear", "none", None, (2, 3, 4))], (2, 5, 20),
                 [((2, 20, 33), (2, 33)), ((2, 33, 24), None)], dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_an_encoder_and_a_decoder(dtype):
    assert_right([Link("conv", "relu"), Link("conv", "leaky_relu"), Link("linear", "tanh"),
                  Link("linear")], (2, 3, 16, 16, 3),
                 [((2, 4, 4, 3, 16), (2, 16)), ((2, 2, 2, 16, 32), (2, 32)),
                  ((2, 512, 20), (2, 20)), ((2, 20, 6), (2, 6))], dtype)
    assert_right([Link("linear", "relu"), Link("linear", "relu", None, (2, 2, 16)),
                  Link("conv_transpose", "relu"), Link("conv_transpose")], (2, 3, 5),
                 [((2, 5, 20), (2, 20)), ((2, 20, 64), (2, 64)), ((2, 4, 4, 16, 16), (2, 16)),
                  ((2, 4, 4, 1, 16), (2, 1))], dtype)


def test_splits_of_the_pixels_add_up(monkeypatch):
    """Large images are cut into pieces whose gradients are added in order."""
    monkeypatch.setattr(gpu, "_PIXELS_A_SPLIT", 16)
    for big in (1, 16):
        assert_right([Link("conv", "relu")], (2, 3, 8, 8, big), [((2, 4, 4, big, 16), (2, 16))],
                     "float32")
        assert_right([Link("conv_transpose", "relu")], (2, 3, 4, 4, 16),
                     [((2, 4, 4, big, 16), (2, big))], "float32")


@pytest.mark.parametrize("shape", [(2, 3, 8, 8, 1), (1, 2, 20, 20, 3)])
def test_bernoulli_nats(shape):
    logits = (10 * draw(*shape)).to(DEVICE).requires_grad_()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    nats = autograd.bernoulli_nats(logits, x)
    exact = logits.detach().cpu().double().requires_grad_()
    each = torch.nn.functional.binary_cross_entropy_with_logits(
        exact, x.cpu().double(), reduction="none").flatten(2).sum(-1)
    assert error(nats, each) < 1e-6
    weight = draw(*shape[:2], seed=2)
    found, = torch.autograd.grad(nats, logits, weight.to(DEVICE))
    right, = torch.autograd.grad(each, exact, weight.double())
    assert error(found, right) < 1e-6


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("size", "channels"), [((14, 14), 1), ((8, 12), 3)])
def test_gradients_of_a_gradient(size, channels, dtype):
    """A gradient penalty through two convolutions, one back, and two dense layers."""
    kind, (height, width) = getattr(torch, dtype), size
    # Where the small image can be halved again: down and up once more.
    again = [] if height % 4 else [(2, 4, 4, 16, 32), (2, 32), (2, 4, 4, 16, 32), (2, 16)]
    shapes = [(2, 4, 4, channels, 16), (2, 16), *again,
              (2, 4 * height * width, 9), (2, 9), (2, 9, 1)]
    numbers = [draw(2, 3, height, width, channels)]
    for i, shape in enumerate(shapes):
        fan = 1.0 if len(shape) == 2 else float(torch.tensor(shape[1:-1]).prod())
        numbers.append(draw(*shape, seed=i + 1) / fan**0.5)
    ours = [n.to(kind).to(DEVICE).requires_grad_() for n in numbers]
    exact = [n.detach().cpu().double().requires_grad_() for n in ours]

    def penalty(x, weights, path):
        *most, a, b, last = weights
        with layers.path(path):
            h = layers.conv(x, *most[:2], activation="leaky_relu")
            if len(most) > 2:
                h = layers.conv(h, *most[2:4], activation="tanh")
                h = layers.conv_transpose(h, *most[4:], activation="leaky_relu")
            out = layers.linear(layers.linear(h.flatten(2), a, b, activation="tanh"), last)
            slope, = torch.autograd.grad(out.sum(), x, create_graph=True)
        norm = torch.sqrt(slope.float().flatten(2).square().sum(-1) + 1e-12)
        return ((norm.to(slope.dtype) - 1.0) ** 2).sum() + out.sum()

    found = torch.autograd.grad(penalty(ours[0], ours[1:], "twice"), ours)
    wanted = torch.autograd.grad(penalty(exact[0], exact[1:], "general"), exact)
    assert wanted[1].norm() > 0.01
    for a, b in zip(found, wanted):
        assert error(a, b) < 3 * TOLERANCE[dtype]


def test_nan_stays_in_its_run_and_is_not_hidden_by_an_activation():
    x = draw(2, 3, 4, 4, 16).to(DEVICE)
    x[1, 0, 0, 0, 0] = torch.nan
    weight = draw(2, 4, 4, 16, 16).to(DEVICE)
    y = autograd.chain(x, [Link("conv", "relu"), Link("linear", "relu")],
                  [weight, None, draw(2, 64, 8).to(DEVICE), None])
    assert torch.isfinite(y[0]).all()
    assert torch.isnan(y[1, 0]).all()


def test_a_run_does_not_depend_on_its_neighbours_to_the_last_bit():
    x = draw(5, 3, 8, 8, 16).to(DEVICE)
    weights = [draw(5, 4, 4, 16, 32, seed=1).to(DEVICE), draw(5, 32, seed=2).to(DEVICE),
               draw(5, 512, 7, seed=3).to(DEVICE), draw(5, 7, seed=4).to(DEVICE)]
    links = [Link("conv", "relu"), Link("linear")]

    def results(runs):
        inputs = [t[runs].clone().requires_grad_() for t in (x, *weights)]
        y = autograd.chain(inputs[0], links, inputs[1:])
        return [y, *torch.autograd.grad(y.sum(), inputs)]

    together = results(slice(None))
    for alone, many in zip(results(slice(3, 4)), together):
        assert torch.equal(alone[0], many[3])


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("side", ["big", "small", None])
@pytest.mark.parametrize(("height", "big", "small", "size"), [
    (32, 1, 32, 4), (32, 3, 32, 4), (16, 32, 32, 4), (8, 32, 64, 4), (4, 64, 64, 4),
    (8, 32, 64, 2), (4, 64, 64, 2)])
def test_gradients_have_the_same_bits_beside_other_work(height, big, small, size, side):
    """Loads that arrive while a product still reads would show when the memory is busy."""
    def numbers(*shape, seed):
        return draw(*shape, seed=seed).to(torch.bfloat16).to(DEVICE)

    batch, runs = 64, 12
    images = (numbers(runs, batch, 2 * height, 2 * height, big, seed=0),
              numbers(runs, batch, height, height, small, seed=1))
    weight = numbers(runs, size, size, big, small, seed=2)
    first = gpu.kernel_gradient(*images, weight, side)
    other, traffic = torch.cuda.Stream(), torch.randn(2**26, device=DEVICE)
    torch.cuda.synchronize()
    for _ in range(40):
        with torch.cuda.stream(other):
            for _ in range(4):
                traffic.mul_(1.0)
        for made in [gpu.kernel_gradient(*images, weight, side) for _ in range(20)]:
            for a, b in zip(made, first):
                assert a is b is None or torch.equal(a, b)


def test_a_layer_without_a_kernel_takes_the_general_path():
    x, weight = draw(1, 2, 8, 8, 12).to(DEVICE), draw(1, 4, 4, 12, 24).to(DEVICE)
    assert not gpu.fits(Link("conv"), weight.shape)
    with nn.path("triton"):
        found = nn.conv(x, weight, None, activation="relu")
    with nn.path("general"):
        assert torch.equal(found, nn.conv(x, weight, None, activation="relu"))


@pytest.mark.skipif(DEVICE == "cuda", reason="the CPU's path is the reference")
def test_adam_as_on_the_cpu():
    from unweave.training.adam import Adam

    ours = {"w": draw(2, 30, 3)}
    copy = ours["w"].to(torch.bfloat16)
    theirs = {"w": draw(2, 30, 3).requires_grad_()}
    adam = Adam(theirs, [1e-2, 1e-3])
    first, second = torch.zeros(2, 30, 3), torch.zeros(2, 30, 3)
    for t in range(1, 5):
        grad = draw(2, 30, 3, seed=t)
        theirs["w"].grad = grad.clone()
        adam.step()
        gpu.adam_step([ours["w"]], [grad], [first], [second], [copy],
                      torch.tensor([1e-2, 1e-3]) / (1 - 0.9**t),
                      torch.tensor((1 - 0.999**t) ** 0.5), beta1=0.9, beta2=0.999, eps=1e-8)
    torch.testing.assert_close(ours["w"], theirs["w"].detach(), rtol=0, atol=1e-7)
    torch.testing.assert_close(copy.float(), ours["w"], rtol=8e-3, atol=0)


def test_streams_and_gathers_of_the_kernels():
    import numpy as np

    from unweave.data.gather import gather
    from unweave.philox import bits
    from unweave.random import Purpose, Streams

    seeds = [3, 12345678901234]
    plain, whole = Streams(seeds), Streams(seeds)._whole.to(DEVICE)
    for step in (torch.tensor([5]), torch.tensor([2**33 + 1, 7])):
        found = bits(whole, int(Purpose.NOISE), step.to(DEVICE), 103)
        assert torch.equal(found.cpu(), plain.bits(Purpose.NOISE, step, 103))
    rows = np.random.default_rng(0).integers(0, 256, (10, 64), dtype=np.uint8)
    stored, index = torch.from_numpy(rows), torch.tensor([[1, 9], [3, 3]])
    pixels = gather(stored.to(DEVICE), index.to(DEVICE), (16, 32, 1), packed=True,
                    dtype=torch.bfloat16 if DEVICE == "cuda" else torch.float32)
    whole_rows = torch.from_numpy(np.unpackbits(rows, axis=1))[index]
    assert torch.equal(pixels.float().cpu(), whole_rows.reshape(2, 2, 16, 32, 1).float())
    scaled = gather(stored.to(DEVICE), index.to(DEVICE), (8, 8, 1), packed=False,
                    dtype=torch.float32)
    assert torch.equal(scaled.cpu(), (stored[index].float() / 255.0).reshape(2, 2, 8, 8, 1))


@pytest.mark.skipif(DEVICE == "cuda", reason="in test_gpu_training")
def test_a_step_of_training_as_on_the_general_path():
    from unweave.data import table_dataset
    from unweave.training import plan
    from unweave.training.stack import Stack

    images = (torch.rand(64, 16, 16, 1, generator=torch.Generator().manual_seed(0)) > 0.8).byte()
    factors = torch.arange(64)[:, None].numpy()
    data = table_dataset(images.numpy() * 255, factors, ("which",), name="tiny")
    configs = plan("beta_vae", "tiny", seeds=[0, 1], steps=10, batch_size=2, device="cpu",
                   precision="float32", architecture="conv64-small", beta=[2.0])
    losses = {}
    for path in ("general", "triton"):
        with nn.path(path):
            stack = Stack(configs, data, torch.device("cpu"))
            losses[path] = torch.stack([stack.train_step()["loss"] for _ in range(2)])
    torch.testing.assert_close(losses["triton"], losses["general"], rtol=1e-6, atol=0)
