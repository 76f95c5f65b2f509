"""Pixels: the stored images of a data set, bits or bytes, and how a device gathers them.

A copy on a device is made when somebody first trains from it there, and goes with the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from unweave.random import has_triton
from unweave.types import ImageArray, IndexArray, Int, UserError

Gather = Callable[[Tensor], Tensor]
"""Index `[*stack, batch]` to stored images `[*stack, batch, height, width, channel]` in [0, 1]."""

_UPLOAD = 8192


@runtime_checkable
class Pixels(Protocol):
    """Stored images: one for each index, or as many for each as the data set says."""

    shape: tuple[int, int, int]

    def rows(self, index: IndexArray) -> ImageArray:
        """The stored images at `index`, as bytes."""
        ...

    def gather_on(self, device: torch.device) -> Gather:
        """A function on that device from an index tensor to float images in [0, 1]."""
        ...


class PackedPixels:
    """Binary images, a bit a pixel, most significant bit first; the width is a multiple of 8.

    `whole()` makes all of them, `some(index)` a few without making the rest.
    """

    def __init__(self, height: int, width: int, whole: Callable[[], np.ndarray],
                 some: Callable[[IndexArray], np.ndarray] | None = None) -> None:
        self.shape = (height, width, 1)
        self._whole, self._some = whole, some or (lambda index: whole()[index])
        # Weak: the copy on a device lives as long as somebody trains from it.
        self._tensors: WeakValueDictionary[str, Tensor] = WeakValueDictionary()

    def rows(self, index: IndexArray) -> ImageArray:
        """The stored images at `index`: 0 or 255."""
        bits = np.unpackbits(self._some(index), axis=-1)
        return (bits * np.uint8(255)).reshape(len(index), *self.shape)

    def gather_on(self, device: torch.device) -> Gather:
        """Gather and unpack on the device: tensor operations alone, so a CUDA graph can hold it."""
        packed = self._tensors.get(str(device))
        if packed is None:
            packed = torch.from_numpy(self._whole()).flatten(1).to(device)
            self._tensors[str(device)] = packed
        if device.type == "cuda" and has_triton():
            # Zeros and ones need no more than bfloat16, whatever they are computed with.
            return partial(_gather_on_gpu, packed, self.shape, True, torch.bfloat16)
        # A byte of the packed row stands for eight pixels, which travel as one int64 of eight
        # bytes: a quarter of the time of shifting and masking on a CPU.
        table = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).view(np.int64)[:, 0]
        eight = torch.from_numpy(table.copy()).to(device)
        shape = self.shape

        def gather(index: Tensor) -> Tensor:
            rows = packed.index_select(0, index.reshape(-1)).reshape(-1)
            pixels = eight.index_select(0, rows.to(torch.int32)).view(torch.uint8)
            return pixels.to(torch.float32).reshape(*index.shape, *shape)

        return gather


class BytePixels:
    """Images in memory or mapped from a file, a byte for each pixel and channel.

    `order` has the row of each index, where that is not the index itself.
    """

    def __init__(self, images: np.ndarray,
                 order: Int[np.ndarray, " index"] | None = None) -> None:
        if images.dtype != np.uint8:  # fractions would be divided by 255, and nearly black
            raise UserError(f"images must be bytes, 0 to 255, got values of type {images.dtype}: "
                            "make them of fractions by (255 * images).round().astype(numpy.uint8)")
        self.shape = tuple(int(s) for s in images.shape[1:])
        self.is_mapped = isinstance(images, np.memmap)
        self._images, self._order = np.ascontiguousarray(images), order
        self._tensors: WeakValueDictionary[str, Tensor] = WeakValueDictionary()

    def rows(self, index: IndexArray) -> ImageArray:
        """The stored images at `index`."""
        # take, as plain indexing keeps other threads waiting while it copies.
        return np.take(self._images, index if self._order is None else self._order[index], axis=0)

    def gather_on(self, device: torch.device) -> Gather:
        """Gather on the device and divide by 255."""
        stored = self._tensors.get(str(device))
        if stored is None:
            stored = self._stored_on(device)
            self._tensors[str(device)] = stored
        if device.type == "cuda" and has_triton():
            return partial(_gather_on_gpu, stored, self.shape, False, torch.float32)
        shape = self.shape
        order = None if self._order is None or device.type != "cpu" else torch.from_numpy(
            self._order)

        def gather(index: Tensor) -> Tensor:
            flat = index.reshape(-1)
            rows = stored.index_select(0, flat if order is None else order.index_select(0, flat))
            return as_floats(rows).reshape(*index.shape, *shape)

        return gather

    def rows_into(self, index: IndexArray, out: ImageArray) -> None:
        """As `rows`, into an array that is there; indices are not checked."""
        index = index if self._order is None else self._order[index]
        np.take(self._images, index, axis=0, out=out, mode="clip")

    def _stored_on(self, device: torch.device) -> Tensor:
        """The images on a device in the order of the index; on a CPU as they lie."""
        if self._order is None or device.type == "cpu":
            images = self._images if self._images.flags.writeable else self._images.copy()
            return torch.from_numpy(images).to(device)
        stored = torch.empty(len(self._order), *self.shape, dtype=torch.uint8, device=device)
        for start in range(0, len(stored), _UPLOAD):
            part = self._order[start:start + _UPLOAD]
            stored[start:start + len(part)] = torch.from_numpy(np.take(self._images, part, axis=0))
        return stored


def as_floats(stored: Tensor) -> Tensor:
    """Bytes as float32 in [0, 1], in one pass."""
    return torch.div(stored, 255.0, out=torch.empty_like(stored, dtype=torch.float32))


def _gather_on_gpu(stored: Tensor, shape: tuple[int, int, int], packed: bool, dtype: torch.dtype,
                   index: Tensor) -> Tensor:
    from unweave.data.gather import gather

    return gather(stored, index, shape, packed=packed, dtype=dtype)
