"""VaDE: our stacks beside the loop that most people write, in one run.

    python bench/vade.py --data mnist:FOLDER,size=28,split=all [--runs 64] [--seconds 4]

The network of Jiang et al. 2017 (784-500-500-2000-10 and back), ten clusters, batch 100; the phase
with the mixture, not that of the autoencoder. The textbook is eager PyTorch in float32 (TF32
allowed on a GPU), `torch.nn` modules, images already on the device; on a GPU a step of ours is one
CUDA graph for all models. Asked for: 15 times the textbook at 64 models.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from gans import rate
from torch import Tensor
from torch import nn as m

from unweave.data import load_data
from unweave.training import plan
from unweave.training.run import choose_device
from unweave.training.stack import Stack

BATCH, LATENTS, CLUSTERS = 100, 10, 10
WIDTHS = (500, 500, 2000)


def dense(*widths: int) -> list[m.Module]:
    return [layer for a, b in pairwise(widths) for layer in (m.Linear(a, b), m.ReLU())]


class Textbook(m.Module):
    """A VAE and a mixture of Gaussians as a reader of the paper writes them."""

    def __init__(self, pixels: int) -> None:
        super().__init__()
        self.encoder = m.Sequential(*dense(pixels, *WIDTHS), m.Linear(WIDTHS[-1], 2 * LATENTS))
        self.decoder = m.Sequential(*dense(LATENTS, *WIDTHS[::-1]), m.Linear(WIDTHS[0], pixels))
        self.weights = m.Parameter(torch.zeros(CLUSTERS))
        self.means = m.Parameter(torch.randn(CLUSTERS, LATENTS))
        self.logvars = m.Parameter(torch.zeros(CLUSTERS, LATENTS))

    def loss(self, x: Tensor) -> Tensor:
        """Jiang et al. 2017, eq. 12, summed over pixels and latents, mean over images."""
        mu, logvar = self.encoder(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        recon = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum") / len(x)
        prior = torch.log_softmax(self.weights, 0)
        near = -0.5 * ((z[:, None] - self.means) ** 2 * torch.exp(-self.logvars)
                       + self.logvars).sum(2)
        log_q = torch.log_softmax(prior + near, 1)
        q = torch.exp(log_q)
        kl = 0.5 * (self.logvars - logvar[:, None] - 1.0 + torch.exp(logvar[:, None] - self.logvars)
                    + (mu[:, None] - self.means) ** 2 * torch.exp(-self.logvars)).sum(2)
        return recon + (q * (kl + log_q - prior)).sum(1).mean()


def textbook_step(net: Textbook, adam: torch.optim.Adam, images: Tensor) -> None:
    x = images[torch.randint(0, len(images), (BATCH,), device=images.device)]
    adam.zero_grad(set_to_none=True)
    net.loss(x).backward()
    adam.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="mnist,size=28,split=all")
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device, dataset = choose_device(options.device), load_data(options.data)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}\n\n| | model-steps/s | times the textbook |\n"
          "|---|---|---|")
    rows = np.linspace(0, len(dataset) - 1, 50_000).astype(int)
    images = torch.from_numpy(dataset.images(rows)).flatten(1).to(device).float() / 255.0
    net = Textbook(images.shape[1]).to(device)
    adam = torch.optim.Adam(net.parameters(), 5e-4, fused=device.type == "cuda")
    base = rate(partial(textbook_step, net, adam, images), options.seconds, device)
    print(f"| textbook, eager | {base:,.1f} | |", flush=True)
    for runs in (1, options.runs):
        stack = Stack(plan("vade", options.data, seeds=range(runs), device=str(device),
                           architecture="jiang2017", batch_size=BATCH, num_latents=LATENTS,
                           clusters=CLUSTERS, learning_rate=5e-4, pretrain_steps=0),
                      dataset, device)
        stack.step = 1  # past the fit of the mixture, which is no part of a step
        stack.run_until(6 if device.type == "cuda" else 2)
        found = runs * rate(lambda s=stack: s.run_until(s.step + 1), options.seconds, device)
        print(f"| ours, {runs} model{'s' * (runs > 1)} | {found:,.1f} | {found / base:.1f} |",
              flush=True)
        del stack


if __name__ == "__main__":
    main()
