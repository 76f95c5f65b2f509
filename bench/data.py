"""Images per second into the training device: ours beside a torch DataLoader with the same files.

    python bench/data.py                  # 4,000 colour images of 64x64 as PNG, this machine
    python bench/data.py --num 20000 --device cuda
    python bench/data.py --whole --device cuda   # all 480,000 rendered images of 3D Shapes

Ours: packed bits and bytes that live on the device, and images that stay on the host and are fed
ahead of time (what a set too large for the device gets). The index of every step comes from the
run's stream, drawn on the device, as in training. Beside it, with two workers each, a DataLoader
that decodes the files, which is what most scripts do, and one that reads the decoded images from
an array in memory, which is the best of its kind. All take turns in one process; each row is the
median of the rounds. The last column is what does not depend on what else the machine does: images
in a second of this process's CPU time, of all its threads; that of a DataLoader is its workers'.
`--whole` renders the set from nothing, scenes included, and compares some images with those that a
CPU makes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from unweave.data import FactorDataset, load_data
from unweave.nn import keep_freed_memory
from unweave.random import Purpose, Streams

BATCH = 64


class Files(Dataset):
    """Pictures, decoded when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, k: int) -> torch.Tensor:
        with Image.open(self.paths[k]) as picture:
            pixels = np.array(picture)
        return torch.from_numpy(pixels.reshape(64, 64, -1)).float() / 255


class Array(Dataset):
    """Pictures that are decoded already."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, k: int) -> torch.Tensor:
        return torch.from_numpy(self.images[k]).float() / 255


def loader_batches(dataset: Dataset, device: torch.device) -> Iterator[torch.Tensor]:
    """Batches without end, on the device; workers stay between epochs."""
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=2, drop_last=True,
                        persistent_workers=True, pin_memory=device.type == "cuda")
    while True:
        for batch in loader:
            yield batch.to(device, non_blocking=True)


def resident_batches(data: FactorDataset, device: torch.device) -> Iterator[torch.Tensor]:
    images, draw = data.on(device, resident=True), data.draw_on(device)
    ahead, block = 32, torch.empty(0, BATCH, dtype=torch.int64)  # as training draws on a CPU
    step = 0
    while True:
        if step % ahead == 0:
            steps = torch.arange(step, step + ahead, device=device)
            block = draw(Streams([0] * ahead, device), Purpose.BATCH, steps, BATCH)
        yield images.batch(block[step % ahead][None])
        step += 1


def streamed_batches(data: FactorDataset, device: torch.device) -> Iterator[torch.Tensor]:
    draw = data.draw_on(torch.device("cpu"))

    def indices(step: int, num: int) -> torch.Tensor:
        return draw(Streams([0] * num), Purpose.BATCH, torch.arange(step, step + num),
                    BATCH)[:, None]

    feed, step = data.on(device, resident=False).feed(indices), 0
    while True:
        feed.fill(step)
        yield feed.batch()
        step += 1


def speed(batches: Iterator[torch.Tensor], device: torch.device,
          seconds: float) -> tuple[float, float]:
    """Images per second, by the clock and of CPU time; a look at every batch keeps all honest."""
    total = torch.zeros((), device=device)
    wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for batch in islice(batches, 20):
        total += batch.flatten()[0]
    wait()
    num, began, busy = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        for batch in islice(batches, 10):
            total += batch.flatten()[0]
            num += BATCH
        wait()
    assert torch.isfinite(total)
    return num / (time.perf_counter() - began), num / (time.process_time() - busy)


def write_files(folder: Path, num: int) -> None:
    """Sprites in colour on a textured ground: files of a usual size."""
    rng = np.random.Generator(np.random.Philox(0))
    sprites = load_data("dsprites")
    shapes = sprites.images(rng.integers(len(sprites), size=num)) // 255
    ground = np.linspace(0, 160, 64)[:, None, None] + rng.integers(40, size=(64, 64, 3))
    for k, (shape, colour) in enumerate(zip(shapes, rng.integers(256, size=(num, 3)))):
        pixels = np.where(shape == 1, colour, ground).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{k:06d}.png")


def render_all(device: torch.device) -> None:
    """Seconds from nothing to the last of 480,000 images on the device; equality with the CPU's."""
    began = time.perf_counter()
    data = load_data("shapes3d-render")
    images = data.on(device, resident=True)
    prepared = time.perf_counter() - began
    total = torch.zeros((), dtype=torch.float64, device=device)
    for index in torch.arange(len(data), device=device).split(4000):
        total += images.batch(index[None]).sum(dtype=torch.float64)
    mean = float(total) / (len(data) * 64 * 64 * 3)
    seconds = time.perf_counter() - began
    some = np.random.Generator(np.random.Philox(1)).integers(len(data), size=4000)
    there = images.batch(torch.from_numpy(some).to(device)[None])[0].cpu().numpy()
    same = np.array_equal(np.rint(255 * there), data.images(some))
    print(f"{len(data)} images of shapes3d-render on {device}: {seconds:.1f} s, scenes "
          f"{prepared:.1f} s of it; mean {mean:.4f}; 4000 of them "
          f"{'the same as' if same else 'NOT the same as'} a CPU's")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1, help="of torch in this process")
    parser.add_argument("--whole", action="store_true", help="render all of 3D Shapes instead")
    given = parser.parse_args()
    device = torch.device(given.device)
    if given.whole:
        return render_all(device)
    torch.set_num_threads(given.threads)
    keep_freed_memory()  # as training does
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["UNWEAVE_DATA"] = str(Path(temporary) / "cache")
        folder = Path(temporary) / "pictures"
        folder.mkdir()
        write_files(folder, given.num)
        began = time.perf_counter()
        data = load_data(f"images:{folder}")
        first = time.perf_counter() - began
        began = time.perf_counter()
        load_data(f"images:{folder}")
        print(f"{given.num} files: {given.num / first:,.0f} files/s at the first start, "
              f"{1000 * (time.perf_counter() - began):.0f} ms in all at the next")
        decoded = data.images(np.arange(len(data)))
        kinds = {
            "DataLoader, files": loader_batches(Files(folder), device),
            "DataLoader, array": loader_batches(Array(decoded), device),
            "resident, packed": resident_batches(load_data("dsprites"), device),
            "resident, bytes": resident_batches(data, device),
            "resident, rendered": resident_batches(load_data("shapes3d-render"), device),
            "streamed": streamed_batches(data, device),
        }
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(given.rounds):
            for kind, batches in kinds.items():
                found[kind].append(speed(batches, device, given.seconds))
        speeds = {kind: median(v[0] for v in values) for kind, values in found.items()}
        files, array = speeds["DataLoader, files"], speeds["DataLoader, array"]
        print(f"into {device}, batches of {BATCH}, {given.threads} of torch's threads")
        print(f"{'kind':20}{'images/s':>14}{'x files':>10}{'x array':>10}{'a CPU second':>16}")
        for kind, value in speeds.items():
            of_cpu = median(v[1] for v in found[kind])
            last = "" if kind.startswith("DataLoader") else f"{of_cpu:16,.0f}"
            print(f"{kind:20}{value:14,.0f}{value / files:10.1f}{value / array:10.1f}{last}")
        del kinds


if __name__ == "__main__":
    main()
