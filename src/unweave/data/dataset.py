"""FactorDataset: images, the factors behind them, and how a sample is drawn from an index.

A data set is three parts. `pixels` hold the images, as packed bits or as bytes. `space` numbers
the factors, or just the images where no factors are known. `observe`, in the random variants alone,
turns the stored image into a sample with uniform numbers that the caller supplies, so that a run's
data come from the run's own stream; so does the choice among several stored images of one index.
There is no subclassing: a new data set is a function that fills in the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unweave.data.cells import DrawIndex, TrainingCells, uniform_draw
from unweave.data.pixels import BytePixels, Gather, PackedPixels, Pixels
from unweave.factors import FactorSpace, LabelTable
from unweave.markup import card, strip, table
from unweave.random import Purpose, Streams
from unweave.types import (
    Factors,
    ImageArray,
    ImageBatch,
    IndexArray,
    IndexBatch,
    UserError,
    unknown_name,
)

if TYPE_CHECKING:
    from unweave.data.streaming import StreamedImages

__all__ = ["BytePixels", "DatasetEntry", "Draw", "FactorDataset", "Gather", "Observe",
           "PackedPixels", "Pixels", "ResidentImages", "table_dataset"]

Draw = Callable[..., Tensor]
"""`draw(*shape)` gives uniform numbers in [0, 1), `[*stack, *shape]`, of the runs' own streams."""

Observe = Callable[[Tensor, Draw], Tensor]
"""Stored images `[*stack, batch, height, width, channel]` in [0, 1] to a sample of them."""

PARTS = ("all", "seen", "unseen")

_CHUNK = 256


class ResidentImages:
    """A data set whose images live on one device."""

    is_streamed = False

    def __init__(self, gather: Gather, observe: Observe | None, num_each: int = 1) -> None:
        self._gather, self._observe, self._num_each = gather, observe, num_each

    def batch(self, index: IndexBatch, draw: Draw | None = None) -> ImageBatch:
        """Images `[*stack, batch, height, width, channel]` in [0, 1], on the device of the index.

        `draw` is called at most once, and never by data sets without randomness. Indices are not
        checked, which would stop the device.
        """
        if self._observe is None and self._num_each == 1:
            return self._gather(index)
        if draw is None:
            raise UserError("this data set is random: give batch a draw, its uniform numbers")
        if self._observe is None:
            return self._gather(_one_of_each(index, draw, self._num_each))
        return self._observe(self._gather(index), draw)


def _one_of_each(index: Tensor, draw: Draw, num_each: int) -> Tensor:
    """Rows of stored images: for each index one of the `num_each` that follow each other."""
    chosen = (draw(index.shape[-1]) * num_each).to(index.dtype)
    return index * num_each + chosen.clamp_(max=num_each - 1)


class FactorDataset:
    """Images with known factors, or without. `name` is what a run's configuration stores.

    With `num_each` an index stands for that many images, stored one after the other, and every
    sample is one of them: what they differ in is noise, not a factor. `labels` say what is known
    of images whose `space` has no factors.
    """

    def __init__(self, name: str, space: FactorSpace, pixels: Pixels, *, channels: int = 0,
                 observe_on: Callable[[torch.device], Observe] | None = None, num_each: int = 1,
                 labels: LabelTable | None = None) -> None:
        self.name, self.space, self.labels = name, space, labels
        self.cells: TrainingCells | None = None
        height, width, stored = pixels.shape
        self.image_shape = (height, width, channels or stored)
        if num_each > 1 and observe_on is not None:
            raise ValueError("a sample is chosen or changed by its random numbers, not both")
        if labels is not None and (space.has_factors or len(labels) != len(space)):
            raise ValueError("labels belong to images without factors, one row to each")
        self._pixels, self._observe_on, self._num_each = pixels, observe_on, num_each

    def __len__(self) -> int:
        return len(self.space)

    def __repr__(self) -> str:
        return f"FactorDataset({self.name!r}, {len(self)} images {self.image_shape})"

    def _repr_html_(self) -> str:
        """What a notebook shows: sizes, factors or labels, eight images."""
        facts = {"images": f"{len(self):,}", "shape": list(self.image_shape),
                 "labels": None if self.labels is None else list(self.labels.names),
                 "training sees": None if self.cells is None else f"{self.num_training:,}"}
        parts = []
        if self.space.has_factors:
            parts.append(table([{"factor": name, "classes": size, "type": str(kind)} for
                                name, size, kind in zip(self.space.names, self.space.sizes,
                                                        self.space.types)],
                               ("factor", "classes", "type")))
        index = np.linspace(0, len(self) - 1, 8).astype(np.int64)
        parts.append(strip([self.images(index)], caption="eight of them, evenly spaced"))
        return card(self.name, facts, *parts)

    @property
    def is_random(self) -> bool:
        """Whether two draws of one index may look different."""
        return self._observe_on is not None or self._num_each > 1

    def factors(self, index: IndexArray | Sequence[int] | int) -> Factors:
        """Factor classes `[sample, factor]` of the images at `index`."""
        return self.space.factors(index)

    def index(self, factors: Factors | Sequence[Sequence[int]]) -> IndexArray:
        """The index of each row of factor classes."""
        return self.space.index(factors)

    def images(self, index: IndexArray | Sequence[int] | int, *, seed: int = 0) -> ImageArray:
        """Images at `index` as bytes.

        In the random variants an image is a function of its index and of `seed`, whichever others
        are asked for with it.
        """
        index = self.space.checked(index)
        if not self.is_random:
            return self._pixels.rows(index)
        out = np.empty((len(index), *self.image_shape), dtype=np.uint8)
        for start in range(0, len(index), _CHUNK):
            part = index[start:start + _CHUNK]
            # A stack of one image each, told apart by the step: own numbers for every index.
            streams, steps = Streams([seed] * len(part)), torch.from_numpy(part)
            draw = partial(streams.uniform, Purpose.OBSERVATION, steps)
            if self._observe_on is None:
                rows = _one_of_each(steps[:, None], draw, self._num_each)
                out[start:start + len(part)] = self._pixels.rows(rows[:, 0].numpy())
                continue
            stored = torch.from_numpy(self._pixels.rows(part)).to(torch.float32)[:, None] / 255.0
            sample = self._observe_on(torch.device("cpu"))(stored, draw)[:, 0]
            out[start:start + len(part)] = (sample * 255.0).round().to(torch.uint8).numpy()
        return out

    def on(self, device: torch.device | str, *,
           resident: bool | None = None) -> ResidentImages | StreamedImages:
        """The images on a device, ready for training; streamed if they take too much of its memory.

        `resident` decides it instead, and so does UNWEAVE_RESIDENT=yes or no.
        """
        from unweave.data.streaming import StreamedImages, is_resident

        device = torch.empty(0, device=device).device  # "cuda" becomes "cuda:0"
        observe = None if self._observe_on is None else self._observe_on(device)
        if self._num_each == 1 and not is_resident(self._pixels, len(self), device, resident):
            return StreamedImages(self._pixels, device, observe)
        return ResidentImages(self._pixels.gather_on(device), observe, self._num_each)

    def trained_on(self, cells: TrainingCells | None) -> FactorDataset:
        """The same data set, of which training draws the given cells."""
        same = copy(self)
        same.cells = cells
        return same

    @property
    def num_training(self) -> int:
        """How many of its indices training may see."""
        return len(self) if self.cells is None else len(self.cells)

    def part(self, cells: str) -> tuple[FactorSpace, IndexArray]:
        """The space of `all` indices, of those `seen` in training or of the `unseen`; their index.

        Seen is what training may draw, however rarely.
        """
        if cells not in PARTS:
            raise unknown_name("part of a data set", cells, PARTS)
        index = np.arange(len(self))
        if self.cells is not None and cells != "all":
            index = np.flatnonzero(self.cells.seen == (cells == "seen"))
        elif cells == "unseen":
            index = index[:0]
        if len(index) == 0:
            raise UserError(f"training on {self.name} sees every combination: there are no unseen "
                            "ones; leave some out with leave_out=FACTOR:CLASSES")
        if len(index) == len(self):
            return self.space, index
        grid = index if self.space.cells is None else self.space.cells[index]
        return replace(self.space, cells=grid, _by_value={}), index

    def draw_on(self, device: torch.device) -> DrawIndex:
        """How training draws an index on a device."""
        return uniform_draw(len(self)) if self.cells is None else self.cells.draw_on(device)


@dataclass(frozen=True)
class DatasetEntry:
    """What the dictionary of data sets says about one of them."""

    summary: str
    space: FactorSpace | None
    """None where the user's files decide."""
    image_shape: tuple[int, int, int] | None
    licence: str
    source: str
    """The paper or project it comes from."""
    size: str
    """Memory it takes."""
    obtained: str
    """How it gets onto the user's machine."""
    load: Callable[..., FactorDataset]
    """From the name to store and, where one was given, a file; options follow as keywords."""
    file: str = ""
    """What `name:FILE` stands for; empty where the data set takes no file."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What `name,option=value` or `name:FILE,option=value` may say, and what it means."""
    file_options: tuple[str, ...] = ()
    """Those options that name a file or folder."""
    by_name: bool = False
    """Whether FILE may be the name of something elsewhere."""
    labels: tuple[str, ...] = ()
    """What is said of images without factors."""
    fetch: str = ""
    """What `unweave data fetch` calls its files; empty where there is nothing to fetch."""

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the factors."""
        return () if self.space is None else self.space.names

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of classes of each factor."""
        return () if self.space is None else self.space.sizes


def table_dataset(images: np.ndarray | Sequence, factors: Factors | Sequence[Sequence[int]],
                  names: Sequence[str], *, sizes: Sequence[int] | None = None,
                  types: Sequence[str] = (), name: str = "table") -> FactorDataset:
    """A data set from arrays in memory: bytes `[n, h, w]` or `[n, h, w, c]`, classes `[n, factor]`.

    Rows may come in any order and need not fill the grid; each combination of factors has exactly
    one image. Afterwards the index runs over the combinations, the last factor fastest. `types`
    says whether each factor is categorical, ordinal or circular; ordinal if nothing is said.
    """
    images, factors = np.asarray(images), np.asarray(factors)
    if images.ndim not in (3, 4) or images.shape[0] == 0:
        raise UserError(f"images must be [n, height, width] or [n, height, width, channel] with at "
                        f"least one image, got {list(images.shape)}")
    images = images[..., None] if images.ndim == 3 else images
    if len(images) != len(factors):
        raise UserError(f"{len(images)} images for {len(factors)} rows of factors: "
                        "each image needs one row")
    space = FactorSpace.from_rows(names, factors, sizes, types)
    index = space.index(factors)
    if len(space) != len(index):
        twice = factors[np.flatnonzero(np.bincount(index)[index] > 1)[0]]
        raise UserError(f"several images have the factors {tuple(int(v) for v in twice)}: keep one "
                        "of them, or add the factor that tells them apart")
    return FactorDataset(name, space, BytePixels(images[np.argsort(index)]))
