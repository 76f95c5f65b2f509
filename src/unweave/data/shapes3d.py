"""3D Shapes, rendered: a stand-in for the published images, with exactly their factors.

Burgess & Kim 2018, https://github.com/google-deepmind/3d-shapes. The name is `shapes3d-render`, and
never `shapes3d`, which is the published file: these images look like those (docs/data/shapes3d.md
says how much), but are not those.

Of the six factors only three change what a ray meets: 480 pictures are taken, which needs a few
seconds, and hold for each pixel how much of which material it shows. An image is such a picture
with three colours put in. So 24 MB on a device stand for all 480,000 images, and a batch is one
small matrix product for each image (on a CPU: `colouring.py`). All numbers in it are whole and
small, so that every device gets the same bytes.
"""

from __future__ import annotations

import functools
import threading
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from unweave.data.colouring import painter
from unweave.data.dataset import DatasetEntry, FactorDataset, Gather
from unweave.data.shapes3d_scene import SKY, empty_room, take_pictures
from unweave.factors import FactorSpace
from unweave.types import ImageArray, IndexArray, UserError

SPACE = FactorSpace(
    names=("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
    sizes=(10, 10, 10, 8, 4, 15),
    values=(np.arange(10) / 10, np.arange(10) / 10, np.arange(10) / 10, np.linspace(0.75, 1.25, 8),
            np.array(["cube", "cylinder", "sphere", "capsule"]), np.linspace(-30.0, 30.0, 15)),
    types=("circular", "circular", "circular", "ordinal", "categorical", "ordinal"))

NUM_SCENES = 8 * 4 * 15
_SIDES = (32, 64, 128)
_STEPS = 4  # levels of a table for each level of a byte


def hue(number: int) -> tuple[int, int, int]:
    """Full colour of a hue `number / 10`, in fifths: every channel of all ten is a whole number."""
    sector, within = divmod(3 * number, 5)  # a sixth of the circle is 5/3 of a tenth
    up, down = within, 5 - within
    return ((5, up, 0), (down, 5, 0), (0, 5, up), (0, down, 5), (up, 0, 5), (5, 0, down))[sector]


class RenderedPixels:
    """All images of one size, as a table of scenes and a table of colours."""

    def __init__(self, side: int) -> None:
        self.shape = (side, side, 3)
        self.num_bytes = NUM_SCENES * side * side * 6 * 2
        self._scenes: list[Tensor | None] = [None] * 15
        self._lock = threading.Lock()
        self._tensors: WeakValueDictionary[str, Tensor] = WeakValueDictionary()

    def rows(self, index: IndexArray) -> ImageArray:
        """The images at `index`; pictures are taken of those orientations alone that occur."""
        out = np.empty((len(index), self.shape[0] * self.shape[1], 3), dtype=np.uint8)
        paint, colours = painter(5 * _STEPS), _colours().numpy()
        scene = index % NUM_SCENES
        for turn in np.unique(scene % 15):
            table = self._pictures(int(turn)).numpy()
            which = np.flatnonzero(scene % 15 == turn)
            made = np.empty((len(which), *out.shape[1:]), dtype=np.uint8)
            paint(table, colours, scene[which] // 15, index[which] // NUM_SCENES, 1.0, made)
            out[which] = made
        return out.reshape(-1, *self.shape)

    def gather_on(self, device: torch.device) -> Gather:
        """Put colours into pictures on the device.

        On a GPU these are tensor operations that a CUDA graph can hold.
        """
        table = self._tensors.get(str(device))
        if table is None:
            table = self.table().to(device)
            self._tensors[str(device)] = table
        return partial(_paint_on_cpu if device.type == "cpu" else _gather, table,
                       _colours().to(device), self.shape)

    def table(self) -> Tensor:
        """Whole numbers `[scene, 6, pixel]`: floor, walls, object; red, green, blue of the rest."""
        table = torch.stack([self._pictures(turn) for turn in range(15)], dim=1)
        return table.reshape(NUM_SCENES, *table.shape[2:])

    def _pictures(self, turn: int) -> Tensor:
        """The table of one orientation, `[scale x shape, 6, pixel]`, made when first asked for."""
        with self._lock:
            found = self._scenes[turn]
            if found is None:
                # Always on the host: a device with other roundings would make other images.
                found = self._scenes[turn] = _scenes_of(turn, self.shape[0])
        return found


def _scenes_of(turn: int, side: int) -> Tensor:
    scales = torch.from_numpy(SPACE.values[3])
    empty = empty_room(float(SPACE.values[5][turn]), side)
    shapes = []
    for shape in range(4):
        seen = take_pictures(shape, scales, empty)
        rest = [255.0 * seen.sheen + seen.sky * channel for channel in SKY]
        parts = torch.stack([255.0 * seen.floor, 255.0 * seen.walls, 255.0 * seen.thing, *rest], 1)
        shapes.append((parts * _STEPS).round().to(torch.int16))
    return torch.stack(shapes, dim=1).flatten(0, 1)


@functools.lru_cache(maxsize=1)
def _colours() -> Tensor:
    """For each of the 1000 triples of hues a matrix `[3, 6]` from a table's numbers to channels."""
    hues = torch.tensor([hue(i) for i in range(10)], dtype=torch.float32)
    rest = 5.0 * torch.eye(3).expand(10, 10, 10, 3, 3)
    floor, walls, thing = (hues.reshape(shape).expand(10, 10, 10, 1, 3) for shape in (
        (10, 1, 1, 1, 3), (1, 10, 1, 1, 3), (1, 1, 10, 1, 3)))
    return torch.cat([floor, walls, thing, rest], dim=3).reshape(1000, 6, 3).mT.contiguous()


def _paint_on_cpu(table: Tensor, colours: Tensor, shape: tuple[int, int, int],
                  index: Tensor) -> Tensor:
    images = torch.empty(index.numel(), shape[0] * shape[1], 3)
    flat = index.reshape(-1).numpy()
    painter(5 * _STEPS)(table.numpy(), colours.numpy(), flat % NUM_SCENES, flat // NUM_SCENES,
                        255.0, images.numpy())
    return images.reshape(*index.shape, *shape)


def _gather(table: Tensor, colours: Tensor, shape: tuple[int, int, int], index: Tensor) -> Tensor:
    flat = index.reshape(-1)
    levels = _levels(table.index_select(0, flat % NUM_SCENES), colours.index_select(
        0, torch.div(flat, NUM_SCENES, rounding_mode="floor")))
    # By a tensor, as a GPU multiplies by 1/255 where it is told to divide by a plain number.
    images = levels.new_empty(len(flat), shape[0] * shape[1], 3)
    torch.div(levels.mT, levels.new_full((), 255.0), out=images)
    return images.reshape(*index.shape, *shape)


def _levels(pictures: Tensor, colours: Tensor) -> Tensor:
    """Bytes `[image, 3, pixel]`, as floats.

    Products and sums are whole numbers below 2^24 of factors below 2^11, exact in float32 and TF32
    in any order; the half in 10.5 keeps the quotient away from where it would be cut differently.
    """
    half = pictures.new_full((1, 1, 1), 0.5 * 5 * _STEPS + 0.5, dtype=torch.float32)
    total = torch.baddbmm(half, colours, pictures.to(torch.float32))
    return total.mul_(1.0 / (5 * _STEPS)).floor_().clamp_(max=255.0)


@functools.lru_cache(maxsize=len(_SIDES))
def rendered_pixels(side: int = 64) -> RenderedPixels:
    """The images of one size; made once in a process."""
    return RenderedPixels(side)


def load(name: str, file: Path | None, *, size: str = "64") -> FactorDataset:
    """The rendered set, 64 x 64 or another size."""
    if size not in map(str, _SIDES):
        raise UserError(f"size={size} of shapes3d-render is not rendered: choose "
                        f"{', '.join(map(str, _SIDES[:-1]))} or {_SIDES[-1]}")
    return FactorDataset(name, SPACE, rendered_pixels(int(size)))


SHAPES3D_RENDER = DatasetEntry(
    summary="a stand-in for 3D Shapes with its exact factors, ray cast; not the published images",
    space=SPACE, image_shape=(64, 64, 3), licence="Apache-2.0",
    source="the scene of Burgess & Kim 2018, https://github.com/google-deepmind/3d-shapes",
    size="24 MB for all images", obtained="rendered in a few seconds", load=load,
    options={"size": "height and width in pixels: 64 (the default), 32 or 128"})
