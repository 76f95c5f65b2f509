"""Batch normalisation against torch.nn.BatchNorm2d and BatchNorm1d, run by run."""

import pytest
import torch

from unweave import nn
from unweave.nn import layers
from unweave.types import UserError

RUNS, CHANNELS = 3, 5
WAYS = [("general", torch.float64, 1e-12), ("general", torch.float32, 1e-5),
        ("cpu", torch.float32, 1e-5)]


def case(shape, dtype):
    draw = torch.Generator().manual_seed(0)

    def normal(*size):
        return torch.randn(RUNS, *size, CHANNELS, generator=draw, dtype=torch.float64).to(dtype)

    x = normal(*shape) * torch.arange(1, RUNS + 1).to(dtype).view(-1, *[1] * (len(shape) + 1)) + 2
    tensors = [x, normal() + 1, normal()]
    return [t.requires_grad_() for t in tensors], [normal(), normal().abs() + 0.5]


def modules(weight, bias, mean, var, dims):
    kind = torch.nn.BatchNorm2d if dims == 2 else torch.nn.BatchNorm1d
    for m in range(RUNS):
        module = kind(CHANNELS, dtype=weight.dtype)
        values = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": var}
        module.load_state_dict({k: v.detach()[m] for k, v in values.items()}, strict=False)
        yield module


@pytest.mark.parametrize(("path", "dtype", "limit"), WAYS)
@pytest.mark.parametrize("shape", [(4, 3, 6), (7,)], ids=["images", "codes"])
def test_against_torch_modules(shape, path, dtype, limit):
    (x, weight, bias), (mean, var) = case(shape, dtype)
    references = list(modules(weight, bias, mean, var, len(shape) - 1))
    for train in (True, True, False):
        with layers.path(path):
            y = nn.norm(x, weight, bias, mean, var, train=train)
        grad = torch.sin(torch.arange(y.numel()).to(dtype)).view(y.shape)
        found = [y, *torch.autograd.grad(y, (x, weight, bias), grad)]
        for m, module in enumerate(references):
            module.train(train)
            v = x.detach()[m].clone().requires_grad_()
            wanted = module(v.movedim(-1, 1)).movedim(1, -1)
            leaves = (v, module.weight, module.bias)
            both = [wanted, *torch.autograd.grad(wanted, leaves, grad[m])]
            for a, b in zip(found, both):
                torch.testing.assert_close(a[m], b, rtol=limit, atol=10 * limit)
            torch.testing.assert_close(mean[m], module.running_mean, rtol=limit, atol=limit)
            torch.testing.assert_close(var[m], module.running_var, rtol=limit, atol=limit)


@pytest.mark.parametrize("path", ["general", "cpu"])
def test_statistics_stay_in_float32_under_bfloat16(path):
    (x, weight, bias), (mean, var) = case((64, 4, 4), torch.float32)
    low, exact = (x.detach() + 300).bfloat16(), [mean.clone(), var.clone()]
    with layers.path(path):
        y = nn.norm(low, weight, bias, mean, var, train=True)
    wanted = nn.norm(low.float(), weight, bias, *exact, train=True)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(mean, exact[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(var, exact[1], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(y.float(), wanted, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize(("path", "dtype", "limit"), WAYS)
def test_nan_stays_in_its_run(path, dtype, limit):
    (x, weight, bias), (mean, var) = case((4, 2, 2), dtype)
    clean = [mean.clone(), var.clone()]
    broken = x.detach().clone()
    broken[1, 0, 0, 0, 0] = float("nan")
    with layers.path(path):
        wanted = nn.norm(x, weight, bias, *clean, train=True, activation="relu")
        y = nn.norm(broken, weight, bias, mean, var, train=True, activation="relu")
    assert y[1, ..., 0].isnan().all()
    assert mean[1, 0].isnan()
    assert var[1, 0].isnan()
    for m in (0, 2):
        assert torch.equal(y[m], wanted[m])
        assert torch.equal(mean[m], clean[0][m])
        assert torch.equal(var[m], clean[1][m])


def test_training_without_buffers_moves_nothing_and_evaluation_needs_them():
    (x, weight, bias), (mean, var) = case((4, 2, 2), torch.float32)
    y = nn.norm(x, weight, bias, train=True)
    assert torch.equal(y, nn.norm(x, weight, bias, mean, var, train=True))
    with pytest.raises(UserError, match="pass the buffers"):
        nn.norm(x, weight, bias)
    with pytest.raises(UserError, match="batch size of 2"):
        nn.norm(x[:, :1, 0, 0], weight, bias, train=True)
