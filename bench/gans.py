"""InfoGAN and InfoWGAN-GP: our stacks beside the loop that most people write, in one run.

    python bench/gans.py [--runs 64] [--seconds 4] [--data dsprites mnist:FOLDER,size=28]
    python bench/gans.py --big [--runs 8] [--seconds 10]

Networks are Kim & Mnih's tables 4 and 5 (with --big 6), batch 64. The textbook is eager PyTorch in
float32 (TF32 allowed on a GPU), `torch.nn` modules, images already on the device, the same turns:
on a GPU a step of 64 models of ours is one CUDA graph. Model-steps a second count updates of single
generators, each with its critic's turns. Asked for: 15 times the textbook at 64 models.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch import nn as m

from unweave.data import load_data
from unweave.training import plan
from unweave.training.run import choose_device
from unweave.training.stack import Stack

BATCH = 64
CODES = {"mnist": (2, 10, 62), "dsprites": (4, 3, 5), "big": (4, 3, 128)}
"""Continuous codes, classes and numbers of noise."""
WIDTHS = {"mnist": (64, 128), "dsprites": (32, 32, 64, 64), "big": (64, 128, 256)}
BACK = {"mnist": (64,), "dsprites": (64, 32, 32), "big": (128, 64)}
DENSE = {"mnist": (1024, 7), "dsprites": (128, 4), "big": (1024, 8)}
"""Width of the dense layers, and the side of the smallest image."""
TABLES = {"mnist": "mnist", "dsprites": "shapes2d", "big": "shapes2d-big"}


class Textbook:
    """The players as a reader of the paper writes them."""

    def __init__(self, kind: str, wasserstein: bool, device: torch.device) -> None:
        self.codes, self.classes, self.noise = CODES[kind]
        self.wasserstein, self.device = wasserstein, device
        widths, back, (hidden, grid) = WIDTHS[kind], BACK[kind], DENSE[kind]
        # Stride 1 keeps the size: a row and column of zeros before, two after.
        kept = [m.ZeroPad2d((1, 2, 1, 2)), m.Conv2d(widths[-1], widths[-1], 4)]
        num_kept = 2 if kind == "big" else 0
        trunk: list[m.Module] = [m.Conv2d(1, widths[0], 4, 2, 1), m.LeakyReLU(0.2)]
        for a, b in pairwise(widths):
            trunk += [m.Conv2d(a, b, 4, 2, 1), *([] if wasserstein else [m.BatchNorm2d(b)]),
                      m.LeakyReLU(0.2)]
        for _ in range(num_kept):
            trunk += [*copy.deepcopy(kept), *([] if wasserstein else [m.BatchNorm2d(widths[-1])]),
                      m.LeakyReLU(0.2)]
        self.trunk = m.Sequential(
            *trunk, m.Flatten(), m.Linear(widths[-1] * grid**2, hidden),
            m.LayerNorm(hidden) if wasserstein else m.BatchNorm1d(hidden), m.LeakyReLU(0.2))
        self.out = m.Linear(hidden, 1)
        self.reader = m.Sequential(m.Linear(hidden, 128), m.BatchNorm1d(128), m.LeakyReLU(0.2),
                                   m.Linear(128, 2 * self.codes + self.classes))
        given = self.codes + self.classes + self.noise
        made: list[m.Module] = [
            m.Linear(given, hidden), m.BatchNorm1d(hidden), m.ReLU(),
            m.Linear(hidden, widths[-1] * grid**2), m.Unflatten(1, (widths[-1], grid, grid)),
            m.BatchNorm2d(widths[-1]), m.ReLU()]
        for _ in range(num_kept):
            made += [*copy.deepcopy(kept), m.BatchNorm2d(widths[-1]), m.LeakyReLU(0.2)]
        for a, b in pairwise((widths[-1], *back)):
            made += [m.ConvTranspose2d(a, b, 4, 2, 1), m.BatchNorm2d(b), m.LeakyReLU(0.2)]
        self.generator = m.Sequential(*made, m.ConvTranspose2d(back[-1], 1, 4, 2, 1), m.Sigmoid())
        for part in (self.trunk, self.out, self.reader, self.generator):
            part.to(device)
        fused = {"fused": True} if device.type == "cuda" else {}
        seen = [p for part in (self.trunk, self.out, self.reader) for p in part.parameters()]
        self.critic_adam = torch.optim.Adam(seen, 1e-4, (0.5, 0.999), **fused)
        self.adam = torch.optim.Adam(self.generator.parameters(), 1e-3, (0.5, 0.999), **fused)

    def make(self) -> tuple[Tensor, Tensor, Tensor]:
        """Images, and the codes and classes that they were made from."""
        codes = 2.0 * torch.rand(BATCH, self.codes, device=self.device) - 1.0
        classes = torch.randint(0, self.classes, (BATCH,), device=self.device)
        noise = torch.randn(BATCH, self.noise, device=self.device)
        given = torch.cat([codes, F.one_hot(classes, self.classes).float(), noise], 1)
        return self.generator(given), codes, classes

    def information(self, features: Tensor, codes: Tensor, classes: Tensor) -> Tensor:
        """E[log Q(c|x)], up to a constant."""
        mu, logvar, logits = self.reader(features).split(
            [self.codes, self.codes, self.classes], 1)
        gauss = 0.5 * ((codes - mu) ** 2 * torch.exp(-logvar) + logvar).sum(1).mean()
        return -gauss - F.cross_entropy(logits, classes)

    def step(self, images: Tensor, turns: int) -> None:
        """The critic's turns and the generator's one."""
        for _ in range(turns):
            real = images[torch.randint(0, len(images), (BATCH,), device=self.device)].float()
            with torch.no_grad():
                made, codes, classes = self.make()
            features = self.trunk(made)
            out_real, out_fake = self.out(self.trunk(real)), self.out(features)
            if self.wasserstein:
                share = torch.rand(BATCH, 1, 1, 1, device=self.device)
                x = (share * real + (1 - share) * made).requires_grad_()
                (slope,) = torch.autograd.grad(self.out(self.trunk(x)).sum(), x, create_graph=True)
                penalty = ((slope.flatten(1).norm(dim=1) - 1.0) ** 2).mean()
                loss = out_fake.mean() - out_real.mean() + 10.0 * penalty
            else:
                loss = F.softplus(-out_real).mean() + F.softplus(out_fake).mean()
            self.critic_adam.zero_grad(set_to_none=True)
            (loss - self.information(features, codes, classes)).backward()
            self.critic_adam.step()
        made, codes, classes = self.make()
        features = self.trunk(made)
        out = self.out(features)
        loss = -out.mean() if self.wasserstein else F.softplus(-out).mean()
        self.adam.zero_grad(set_to_none=True)
        (loss - self.information(features, codes, classes)).backward()
        self.adam.step()


def rate(step: Callable[[], object], seconds: float, device: torch.device) -> float:
    """Calls a second."""
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    step()
    wait()
    began, calls = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(20 if device.type == "cuda" else 1):
            step()
            calls += 1
        wait()
    return calls / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--data", nargs="+", default=["dsprites"])
    parser.add_argument("--big", action="store_true", help="table 6 on 2D Shapes")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = choose_device(options.device)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}\n")
    print("| data | method | textbook, model-steps/s | ours, 1 model | ours, "
          f"{options.runs} models | times the textbook |\n|---|---|---|---|---|---|")
    for spec in options.data:
        kind = "mnist" if spec.startswith("mnist") else "big" if options.big else "dsprites"
        dataset = load_data(spec)
        if kind == "mnist" and dataset.image_shape != (28, 28, 1):
            sys.exit("the network of table 4 is for 28x28: give mnist:FOLDER,size=28")
        rows = np.linspace(0, len(dataset) - 1, 50_000).astype(int)
        sample = torch.from_numpy(dataset.images(rows)).permute(0, 3, 1, 2).to(device) / 255.0
        for method, network, turns in (("infogan", "infogan", 1), ("infowgan_gp", "infowgan", 5)):
            textbook = Textbook(kind, method == "infowgan_gp", device)
            found = [rate(partial(textbook.step, sample, turns), options.seconds, device)]
            codes, classes, noise = CODES[kind]
            for runs in (1, options.runs):
                configs = plan(
                    method, spec, seeds=range(runs), device=str(device), num_latents=codes,
                    categories=str(classes), num_noise=noise, learning_rate=1e-3,
                    architecture=f"{network}-{TABLES[kind]}")
                stack = Stack(configs, dataset, device)
                stack.run_until(5 if device.type == "cuda" else 1)
                found.append(runs * rate(lambda s=stack: s.run_until(s.step + 1),
                                         options.seconds, device))
                del stack
            print(f"| {kind} | {method} | " + " | ".join(f"{value:,.1f}" for value in found)
                  + f" | {found[-1] / found[0]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
