"""A beta-VAE on the CPU: the loop of a textbook and ours, side by side in one run.

    python bench/cpu.py

Both train the papers' network (`conv64`) on dSprites, batch 64, 10 latents, Adam at 1e-4. The
textbook is eager, in float32, with `torch.nn` modules; ours is the trainer itself. Every loop lives
in a process of its own, as ours tells the C library to keep freed memory, which would speed up the
textbook too: the second row shows by how much. Rounds of all alternate, so that other work on the
machine falls on all; the ratio is that of the medians, `fastest` that of the least disturbed
rounds. All start from the same weights, so that the losses at the end can be compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave import nn
from unweave.data import load_data
from unweave.random import Purpose, Streams, numpy_generator
from unweave.training import plan
from unweave.training.stack import Stack

BATCH, LATENTS, BETA, RATE = 64, 10, 4.0, 1e-4
IMAGE = (64, 64, 1)


def images(count: int) -> Tensor:
    """Random sprites, uint8 0/1 `[sample, height, width, channel]`: what a textbook keeps."""
    dataset = load_data("dsprites")
    index = dataset.space.draw(count, numpy_generator(0, Purpose.BATCH))
    return torch.from_numpy(dataset.images(index) // 255)


class Textbook(torch.nn.Module):
    """What a reader of the paper writes in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        m = torch.nn
        self.encoder = m.Sequential(
            m.Conv2d(1, 32, 4, 2, 1), m.ReLU(), m.Conv2d(32, 32, 4, 2, 1), m.ReLU(),
            m.Conv2d(32, 64, 4, 2, 1), m.ReLU(), m.Conv2d(64, 64, 4, 2, 1), m.ReLU(),
            m.Flatten(), m.Linear(1024, 256), m.ReLU(), m.Linear(256, 2 * LATENTS),
        )
        self.decoder = m.Sequential(
            m.Linear(LATENTS, 256), m.ReLU(), m.Linear(256, 1024), m.ReLU(),
            m.Unflatten(1, (64, 4, 4)),
            m.ConvTranspose2d(64, 64, 4, 2, 1), m.ReLU(),
            m.ConvTranspose2d(64, 32, 4, 2, 1), m.ReLU(),
            m.ConvTranspose2d(32, 32, 4, 2, 1), m.ReLU(), m.ConvTranspose2d(32, 1, 4, 2, 1),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, means, log-variances."""
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.decoder(z), mu, logvar


def same_weights(model: Textbook) -> None:
    """Give the textbook's modules, channels first, the weights that ours starts from."""
    params = nn.init_params(nn.ARCHITECTURES["conv64"], IMAGE, 2 * LATENTS, LATENTS, Streams([0]),
                            "pytorch")
    params = {name: value[0] for name, value in params.items()}
    after, before = "encoder.dense1.weight", "decoder.dense2"
    params[after] = params[after].view(4, 4, 64, -1).permute(2, 0, 1, 3).reshape(1024, -1)
    for kind in ("weight", "bias"):
        grid = params[f"{before}.{kind}"].unflatten(-1, (4, 4, 64))
        params[f"{before}.{kind}"] = grid.movedim(-1, -3).flatten(-3)
    for target, value in zip(model.parameters(), params.values()):
        if value.ndim > 1:
            value = value.permute(3, 2, 0, 1) if value.ndim == 4 else value.t()
        target.detach().copy_(value)


def textbook(data: Tensor) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    model = Textbook()
    same_weights(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

    def step() -> Tensor:
        index = torch.randint(0, len(data), (BATCH,))
        x = data[index].permute(0, 3, 1, 2).float()
        logits, mu, logvar = model(x)
        recon = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / BATCH
        kl = 0.5 * (mu**2 + logvar.exp() - 1.0 - logvar).sum(1).mean()
        loss = recon + BETA * kl
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def ours(runs: int, precision: str, lanes: bool) -> Callable[[], Tensor]:
    """The trainer. `lanes`: run after run, as it does on a CPU; else layer by layer."""
    configs = plan("beta_vae", "dsprites", seeds=range(runs), beta=BETA, learning_rate=RATE,
                   batch_size=BATCH, num_latents=LATENTS, architecture="conv64", init="pytorch",
                   precision=precision, device="cpu")
    groups = [[c] for c in configs] if lanes else [configs]
    stacks = [Stack(group, load_data("dsprites"), torch.device("cpu")) for group in groups]

    def step() -> Tensor:
        return torch.cat([stack.train_step()["loss"] for stack in stacks]).mean()

    return step


def serve(pipe: Connection, kind: str, runs: int, precision: str, keep: bool) -> None:
    """A process with one loop: takes a number of steps, gives seconds and the mean loss."""
    if keep:
        nn.keep_freed_memory()
    makers = {"textbook": lambda: textbook(images(20_000)),
              "ours": lambda: ours(runs, precision, lanes=True),
              "layer-wise": lambda: ours(runs, precision, lanes=False)}
    step = makers[kind]()
    while steps := pipe.recv():
        start = time.perf_counter()
        losses = [step() for _ in range(steps)]
        took = time.perf_counter() - start
        pipe.send((took / steps / runs, torch.stack(losses).mean().item()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=12, help="rounds of each loop")
    parser.add_argument("--steps", type=int, default=12, help="model-steps a round")
    parser.add_argument("--stack", type=int, default=4, help="runs of the stack")
    parser.add_argument("--train", type=int, default=400, help="steps for the losses, 0 to skip")
    args = parser.parse_args()
    stack = f"stack of {args.stack}"
    loops = {
        "textbook, float32": ("textbook", 1, "float32", False),
        "textbook, memory kept": ("textbook", 1, "float32", True),
        "ours, float32": ("ours", 1, "float32", True),
        "ours, bfloat16": ("ours", 1, "bfloat16", True),
        f"ours, float32, {stack}": ("ours", args.stack, "float32", True),
        f"ours, bfloat16, {stack}": ("ours", args.stack, "bfloat16", True),
        f"layer-wise, bfloat16, {stack}": ("layer-wise", args.stack, "bfloat16", True),
    }
    context = torch.multiprocessing.get_context("spawn")
    pipes, workers = {}, []
    for name, loop in loops.items():
        pipes[name], theirs = context.Pipe()
        workers.append(context.Process(target=serve, args=(theirs, *loop), daemon=True))
        workers[-1].start()
    times: dict[str, list[float]] = {name: [] for name in loops}
    for round_number in range(-1, args.rounds):
        for name, (_, runs, _, _) in loops.items():
            pipes[name].send(max(1, args.steps // runs))
            took, _ = pipes[name].recv()
            if round_number >= 0:
                times[name].append(took * 1e3)
    print(f"{torch.get_num_threads()} threads, bfloat16 units: {nn.has_bfloat16_units()}")
    print(f"{'loop':32} {'ms a model-step':>16} {'ratio':>6} {'fastest':>9} {'ratio':>6}")
    first = times["textbook, float32"]
    for name, took in times.items():
        middle, least = statistics.median(took), min(took)
        ratio, best = statistics.median(first) / middle, min(first) / least
        print(f"{name:32} {middle:16.2f} {ratio:6.2f} {least:9.2f} {best:6.2f}")
    done = args.steps * (args.rounds + 1)
    for name in ("textbook, float32", "ours, float32", "ours, bfloat16"):
        if args.train > done + 50:
            pipes[name].send(args.train - done - 50)
            pipes[name].recv()
            pipes[name].send(50)
            loss = pipes[name].recv()[1]
            print(f"{name:32} loss, mean of the last 50 of {args.train} steps: {loss:8.2f}")
    for pipe in pipes.values():
        pipe.send(0)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
