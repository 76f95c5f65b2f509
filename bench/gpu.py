"""What a stack on a GPU is worth: our step beside the textbook loop, all in one run.

    python bench/gpu.py [--runs 128] [--seconds 4] [--json gpu.json] [--profile]

beta-VAE on dSprites, batch 64, 10 latents, the papers' network. The textbook loop is what most
people write: eager, float32 (TF32 allowed), `nn.Conv2d`, fused Adam, images already on the GPU. The
graphed one is the same loop with its step in a CUDA graph. Model-steps a second count updates of
single models: 128 models that each make 100 updates in a second are 12,800.

`start` is the time of a fresh process from its first line to its first finished step, the data
included; the second time on a machine Triton's cache is warm.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from cpu import BATCH, BETA, Textbook

DEVICE = torch.device("cuda")


def textbook(images: torch.Tensor, *, graphed: bool) -> Callable[[], Any]:
    """A function that makes one step of one model; `images` are bytes 0 or 1 on the GPU."""
    net = Textbook().to(DEVICE)
    optimiser = torch.optim.Adam(net.parameters(), 1e-4, fused=True, capturable=graphed)

    def step() -> None:
        index = torch.randint(0, len(images), (BATCH,), device=DEVICE)
        x = images[index][:, None].float()
        optimiser.zero_grad(set_to_none=True)
        logits, mu, logvar = net(x)
        recon = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / BATCH
        kl = 0.5 * (mu**2 + logvar.exp() - 1.0 - logvar).sum(1).mean()
        (recon + BETA * kl).backward()
        optimiser.step()

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    if not graphed:
        return step
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def rate(step: Callable[[], Any], seconds: float) -> float:
    """Calls a second, counted in pieces so that the host is never far ahead."""
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    began, calls = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(20):
            step()
        torch.cuda.synchronize()
        calls += 20
    return calls / (time.perf_counter() - began)


def stack_rate(dataset: Any, method: str, runs: int, seconds: float, **given: Any) -> dict:
    """Model-steps a second of a stack, and the memory that it takes beside the data."""
    from unweave.training import plan
    from unweave.training.stack import Stack

    torch.cuda.empty_cache()
    images = dataset.on(DEVICE)  # are there before memory is counted
    configs = plan(method, "dsprites", seeds=range(runs), device="cuda", **given)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    stack = Stack(configs, dataset, DEVICE)
    stack._run(5)
    found = runs * rate(partial(stack._run, 1), seconds)
    held = torch.cuda.max_memory_allocated() - before
    del images
    return {"rate": found, "gigabytes": held / 1e9}


def encoding_seconds(dataset: Any, runs: int) -> float:
    """Seconds to encode the whole data set with all models of a stack."""
    from unweave.training import plan
    from unweave.training.encoding import encode_runs
    from unweave.training.run import Run
    from unweave.training.stack import Stack

    configs = plan("beta_vae", "dsprites", seeds=range(runs), device="cuda")
    stack = Stack(configs, dataset, DEVICE)
    made = [Run(c, {k: t.clone()[None] for k, t in stack.weights(m).items()}, {},
                {"status": "done"}, dataset, None, DEVICE) for m, c in enumerate(configs)]
    del stack
    encode_runs(made, np.arange(4096))  # compiles
    began = time.perf_counter()
    encode_runs(made, np.arange(len(dataset)))
    return time.perf_counter() - began


START = """
import time; began = time.perf_counter()
import torch
from unweave.data import load_data
from unweave.training import plan
from unweave.training.stack import Stack
stack = Stack(plan("beta_vae", "dsprites", seeds=range(128), device="cuda"),
              load_data("dsprites"), torch.device("cuda"))
stack._run(5)
torch.cuda.synchronize()
print(time.perf_counter() - began)
"""


def start_seconds() -> float:
    """Of a fresh process, with what earlier ones left in the caches."""
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true", help="kernels by time, of one step")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("bench/gpu.py needs a GPU that torch can see")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    from unweave.data import load_data

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    dsprites, runs, seconds = load_data("dsprites"), options.runs, options.seconds
    if options.profile:
        profile(dsprites, runs)
        return
    sample = torch.from_numpy(dsprites.images(np.arange(0, 737280, 7))[..., 0] // 255).to(DEVICE)
    eager = rate(textbook(sample, graphed=False), seconds)
    rows: list[tuple[str, float, str, str]] = [
        ("textbook eager loop, 1 model", eager, "model-steps/s", ""),
        ("the same in a CUDA graph", rate(textbook(sample, graphed=True), seconds),
         "model-steps/s", "")]
    del sample

    def add(what: str, value: float, unit: str, least: float, *, most: bool = False) -> None:
        good = value <= least if most else value >= least
        sign = "at most" if most else "at least"
        rows.append((what, value, unit, f"{sign} {least:,.0f}: {'yes' if good else 'NO'}"))
        print("  ".join(map(str, rows[-1])), flush=True)

    main_rate = stack_rate(dsprites, "beta_vae", runs, seconds)
    add(f"beta_vae, {runs} models", main_rate["rate"], "model-steps/s", max(15_000, 50 * eager))
    add(f"memory of {runs} models", main_rate["gigabytes"], "GB", 12, most=True)
    add("beta_vae, 36 models", stack_rate(dsprites, "beta_vae", 36, seconds)["rate"],
        "model-steps/s", 12_000)
    add("beta_vae, 1 model", stack_rate(dsprites, "beta_vae", 1, seconds)["rate"],
        "model-steps/s", 2 * eager)
    for method in ("beta_tcvae", "dip_vae_i", "dip_vae_ii", "annealed_vae"):
        add(f"{method}, {runs} models", stack_rate(dsprites, method, runs, seconds)["rate"],
            "model-steps/s", 0.85 * main_rate["rate"])
    add("factor_vae (study2019), 64 models", stack_rate(
        dsprites, "factor_vae", 64, seconds, convention="study2019")["rate"],
        "model-steps/s", 4_000)
    add(f"colour dSprites, {runs} models",
        stack_rate(load_data("color_dsprites"), "beta_vae", runs, seconds)["rate"],
        "model-steps/s", 0.7 * main_rate["rate"])
    add(f"conv64-study2019, {runs} models", stack_rate(
        dsprites, "beta_vae", runs, seconds, architecture="conv64-study2019")["rate"],
        "model-steps/s", main_rate["rate"])
    add("float32, 36 models",
        stack_rate(dsprites, "beta_vae", 36, seconds, precision="float32")["rate"],
        "model-steps/s", 0)
    add("encoding 737,280 images with 36 models", encoding_seconds(dsprites, 36), "s", 20,
        most=True)
    start_seconds()
    add("start to the first steps, second time", start_seconds(), "s", 20, most=True)
    print("\n| what | measured | unit | asked for |\n|---|---|---|---|")
    for what, value, unit, wanted in rows:
        shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        print(f"| {what} | {shown} | {unit} | {wanted} |")
    if options.json:
        options.json.write_text(json.dumps([dict(zip(("what", "value", "unit", "asked"), row))
                                            for row in rows], indent=1))


def profile(dataset: Any, runs: int) -> None:
    """Kernels of a step by their share of its time."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    from unweave.training import plan
    from unweave.training.stack import Stack

    stack = Stack(plan("beta_vae", "dsprites", seeds=range(runs), device="cuda"), dataset, DEVICE)
    stack._run(10)
    torch.cuda.synchronize()
    with record(activities=[ProfilerActivity.CUDA]) as seen:
        stack._run(3)
        torch.cuda.synchronize()
    for event in sorted(seen.key_averages(), key=lambda e: -e.device_time_total)[:20]:
        print(f"{event.device_time_total / 3000:8.3f} ms  {event.count // 3:4d}x  {event.key[:90]}")


if __name__ == "__main__":
    main()
