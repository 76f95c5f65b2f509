"""Small stacks for the tests of this folder: weights, images, and the Gaussian pass of a VAE."""

import math
from dataclasses import replace

import torch

from unweave import nn


def narrowed(architecture, by):
    """The same layers with 1 / `by` of their channels and units: the structure, for less time."""
    def thin(layer):
        if isinstance(layer, nn.Dense) and layer.features:
            return replace(layer, features=layer.features // by)
        if isinstance(layer, nn.Conv) and layer.channels:
            return replace(layer, channels=layer.channels // by)
        return layer

    return replace(architecture, encoder=tuple(map(thin, architecture.encoder)),
                   decoder=tuple(map(thin, architecture.decoder)))


def weights(specs, runs, dtype=torch.float32):
    """Uniform within 1 / sqrt(fan_in), from torch's generator: faster than the runs' streams."""
    draw = torch.Generator().manual_seed(0)
    found = {}
    for name, spec in specs.items():
        bound = 0.5 if spec.fill is not None else 1.0 / math.sqrt(spec.fan_in)
        value = (2 * torch.rand(runs, *spec.shape, generator=draw) - 1) * bound
        found[name] = (value + (spec.fill or 0.0)).to(dtype).requires_grad_()
    return found


def setup(architecture, runs=2, image=(64, 64, 1), latents=10, batch=4, dtype=torch.float32):
    """Weights, buffers, images and noise of a stack with a Gaussian posterior."""
    params = weights(architecture.parameters(image, 2 * latents, latents), runs, dtype)
    buffers = nn.init_buffers(architecture, image, 2 * latents, latents, runs)
    draw = torch.Generator().manual_seed(1)
    x = (torch.rand(runs, batch, *image, generator=draw) > 0.9).to(dtype)
    noise = torch.randn(runs, batch, latents, generator=draw).to(dtype)
    return params, buffers, x, noise


def forward(architecture, params, buffers, x, noise, *, precision="float32", train=True):
    """Logits, means, log-variances."""
    rest = {"precision": precision, "buffers": buffers, "train": train}
    mu, logvar = nn.encode_head(architecture, params, x, **rest).chunk(2, -1)
    z = mu + torch.exp(0.5 * logvar) * noise
    logits = nn.decode(architecture, params, z, image_shape=tuple(x.shape[2:]), **rest)
    return logits, mu, logvar


def outputs_and_gradients(architecture, params, buffers, x, noise, precision="float32"):
    """Outputs and gradients by name of a training pass, and the buffers after it."""
    buffers = {k: v.clone() for k, v in buffers.items()}
    logits, mu, logvar = forward(architecture, params, buffers, x, noise, precision=precision)
    loss = torch.nn.functional.softplus(logits).flatten(1).sum(-1)
    loss = loss + (mu**2 + logvar.exp() - logvar).flatten(1).sum(-1)
    grads = torch.autograd.grad(loss.sum(), list(params.values()))
    return {"logits": logits, "mu": mu, "logvar": logvar, **dict(zip(params, grads)), **buffers}


def one_run(tensors, run):
    """That run of every tensor, as a stack of one with memory of its own."""
    return {k: v.detach()[run : run + 1].clone().requires_grad_(v.requires_grad)
            for k, v in tensors.items()}
