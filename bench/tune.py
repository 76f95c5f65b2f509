"""Which tiles make the GPU kernels fast: prints the table `TILES` of `src/unweave/nn/gpu.py`.

    python bench/tune.py [--runs 128] [--batch 64] [--workers 14]

Every kernel is compiled for every candidate in parallel first, which fills Triton's cache, then
timed in this process alone on random data. Needs a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
from typing import Any

import torch

from unweave.nn import gpu
from unweave.nn.gpu import Tile

# kernel, height of the small image, channels of the big and the small image, kernel size
SHAPES = [(kernel, *shape) for kernel in (
    "kernel_gradient", "kernel_gradient_big", "double", "halve") for shape in (
    (32, 1, 32, 4), (32, 3, 32, 4), (16, 32, 32, 4), (8, 32, 64, 4), (4, 64, 64, 4),
    (8, 32, 64, 2), (4, 64, 64, 2))]


def candidates(kernel: str, height: int, big: int, small: int, size: int) -> list[Tile]:
    """Tiles worth a try; those that do not fit the chip fail and are passed over."""
    narrow = big < 16
    runs = [c for c in (64, 128, 256) if c <= size * big]
    if kernel == "halve":
        grid = itertools.product((32, 64, 128, 256), (2, 4, 8), (1,), [0] if narrow else runs)
    elif kernel == "double" and narrow:
        grid = itertools.product((32, 64, 128, 256), (2, 4, 8), (1,), (0,))
    elif kernel == "double":
        grid = itertools.product((32, 64, 128, 256), (2, 4, 8), (1,), (1, 2, 4))
    elif narrow or size == 2:
        grid = itertools.product((32, 64, 128), (2, 4, 8), (2, 3), [0] if narrow else runs)
    else:
        grid = itertools.product((32, 64, 128), (4, 8), (1, 2), runs[:2])
    return [Tile(*one) for one in grid if 4 <= one[0] // one[1] <= 64]


def prepare(shape: tuple, runs: int, batch: int, device: str = "cuda") -> dict[str, Any]:
    kernel, height, big, small, size = shape
    random = {"device": device, "dtype": torch.bfloat16}
    wide = torch.randn(runs, batch, 2 * height, 2 * height, big, **random)
    thin = torch.randn(runs, batch, height, height, small, **random)
    weight = torch.randn(runs, size, size, big, small, **random) * 0.05
    return {"kernel": kernel, "big": wide, "small": thin, "weight": weight}


def launch(data: dict[str, Any], tile: Tile | None) -> Any:
    """As in training: gradients with the activation before them, bias sums with the kernel's."""
    if data["kernel"] == "halve":
        return gpu.halve(data["big"], data["weight"], None, seen=data["small"], before="relu",
                         tile=tile)
    if data["kernel"] == "double":
        narrow = data["big"].shape[-1] < 16  # logits have no activation
        seen = None if narrow else data["big"]
        return gpu.double(data["small"], data["weight"], None, seen=seen,
                          before="none" if narrow else "relu", tile=tile)
    side = "big" if data["kernel"] == "kernel_gradient_big" else "small"
    return gpu.kernel_gradient(data["big"], data["small"], data["weight"], side, tile=tile)


def compile_some(jobs: list[tuple[tuple, Tile]], batch: int) -> None:
    os.environ["TRITON_PRINT_AUTOTUNING"] = "0"
    for shape, tile in jobs:
        try:
            launch(prepare(shape, 1, batch), tile)
            torch.cuda.synchronize()
        except Exception as error:  # too large for the chip: not a candidate
            if "CUDA error" in str(error):
                print(f"{shape} {tile}: {error}", file=sys.stderr)
                return


def milliseconds(data: dict[str, Any], tile: Tile | None, rounds: int = 6) -> float:
    for _ in range(2):
        launch(data, tile)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
    for mark in marks[:-1]:
        mark.record()
        launch(data, tile)
    marks[-1].record()
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in itertools.pairwise(marks))[rounds // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=128)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--only", nargs="*", help="kernel:height:big:small:size, not all")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    options = parser.parse_args()
    wanted = [shape for shape in SHAPES
              if not options.only or ":".join(map(str, shape)) in options.only]
    for kernel in dict.fromkeys(shape[0] for shape in wanted):
        shapes = [shape for shape in wanted if shape[0] == kernel]
        compile_all(shapes, options.batch, options.workers)
        for shape in shapes:
            report(shape, options.runs, options.batch)


def compile_all(shapes: list[tuple], batch: int, num_workers: int) -> None:
    jobs = [(shape, tile) for shape in shapes for tile in candidates(*shape)]
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=compile_some, args=(jobs[i::num_workers], batch))
               for i in range(num_workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def report(shape: tuple, runs: int, batch: int) -> None:
    """Time the candidates and print the line of the table, with the runners-up."""
    data = prepare(shape, runs, batch)
    timed = []
    for tile in candidates(*shape):
        try:
            timed.append((milliseconds(data, tile), tile))
        except Exception as error:
            if "CUDA error" in str(error):
                raise
    timed.sort(key=lambda pair: pair[0])
    moved = sum(data[k].numel() for k in ("big", "small")) * 2
    if not shape[0].startswith("kernel_gradient"):  # the activation's output is read, too
        moved += data["big" if shape[0] == "double" else "small"].numel() * 2
    best, tile = timed[0]
    rest = "  ".join(f"{ms:.3f} {tuple(t)}" for ms, t in timed[1:4])
    print(f"    {shape!r}: Tile{tuple(tile)},  # {best:.3f} ms, "
          f"{moved / best / 1e9:.2f} TB/s; then {rest}", flush=True)
    gpu.TILES[shape] = tile
    del data


if __name__ == "__main__":
    main()
