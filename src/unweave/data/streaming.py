"""Images that do not fit into a device's memory: gathered ahead of time by a thread of the host.

Which images a step needs is a function of the run's seed and the number of the step, so the host
can know it before the device does: streams give the same integers everywhere. A `Feed` keeps a few
batches of coming steps ready and puts that of the present step into a buffer that never moves,
which is all that a recorded step ever looks at. A streamed run is the resident run bit for bit.
"""

from __future__ import annotations

import math
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Draw, Observe
from unweave.data.pixels import BytePixels, PackedPixels, Pixels, as_floats
from unweave.types import ImageBatch, IndexBatch, UserError

Indices = Callable[[int, int], Tensor]
"""`indices(step, num)` gives the index of `num` steps from `step` on, `[num, *stack, batch]`, on
the host."""

DEPTH = 8
"""Batches that are ready ahead of time."""

GPU_SHARE, CPU_SHARE = 0.3, 0.5
"""Of the free memory, for resident images. The rest of a GPU is what stacks of runs count on."""

_BLOCK = 32
"""Steps whose indices are made at once: many small tensor operations cost more than a large one."""

_PATIENCE = 0.2  # seconds between looks at whether anybody still wants the batches


def is_resident(pixels: Pixels, num: int, device: torch.device, wanted: bool | None) -> bool:
    """Whether images go onto a device: if they take at most a share of what is free there.

    On a CPU images in memory are there already, and those in a file are mapped.
    """
    if wanted is None and (said := os.environ.get("UNWEAVE_RESIDENT")):
        if said not in ("yes", "no"):
            raise UserError(f"UNWEAVE_RESIDENT={said} is not understood: set it to yes or no")
        wanted = said == "yes"
    if wanted is not None:
        return wanted
    if device.type == "cpu" and not getattr(pixels, "is_mapped", False):
        return True
    if str(device) in getattr(pixels, "_tensors", ()):
        return True
    needed = num * math.prod(pixels.shape) // (8 if isinstance(pixels, PackedPixels) else 1)
    needed = getattr(pixels, "num_bytes", needed)  # of pixels that take less than their images
    if device.type == "cuda":
        return needed <= GPU_SHARE * torch.cuda.mem_get_info(device)[0]
    return needed <= CPU_SHARE * _free_memory()


def _free_memory() -> int:
    """Bytes that a program may still take on this machine; without end where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return sys.maxsize


class StreamedImages:
    """A data set whose images stay on the host; `feed` for training, `batch` for all else."""

    is_streamed = True

    def __init__(self, pixels: Pixels, device: torch.device, observe: Observe | None) -> None:
        self._pixels, self._device, self._observe = pixels, device, observe

    def batch(self, index: IndexBatch, draw: Draw | None = None) -> ImageBatch:
        """Images `[*stack, batch, height, width, channel]` in [0, 1]: fetched now, waited for."""
        rows = self._pixels.rows(index.reshape(-1).cpu().numpy())
        stored = torch.from_numpy(np.ascontiguousarray(rows)).to(self._device)
        return _seen(stored.reshape(*index.shape, *self._pixels.shape), self._observe, draw)

    def feed(self, indices: Indices) -> Feed:
        """Batches of coming steps, made ready in the background."""
        return Feed(self._pixels, self._device, self._observe, indices)


class Feed:
    """The batches of one purpose of a stack, step after step."""

    def __init__(self, pixels: Pixels, device: torch.device, observe: Observe | None,
                 indices: Indices) -> None:
        self._shape = tuple(indices(0, 1).shape[1:])
        self._pixels, self._observe, self._indices = pixels, observe, indices
        self._buffer = torch.zeros(*self._shape, *pixels.shape, dtype=torch.uint8, device=device)
        pinned = device.type == "cuda"
        self._slots = [torch.zeros_like(self._buffer, device="cpu", pin_memory=pinned)
                       for _ in range(DEPTH)]
        self._copied = [torch.cuda.Event() if pinned else None for _ in range(DEPTH)]
        self._next: int | None = None
        self._shown: int | None = None
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = lambda: None

    def fill(self, step: int) -> None:
        """Put the images of a step into the buffer; call it before the step."""
        if step != self._next:
            self._start(step)
        # A look now and then: a thread that died without a word must not be waited for.
        slot: int | BaseException | None = None
        while slot is None:
            alive = self._thread.is_alive()
            with suppress(queue.Empty):
                slot = self._ready.get(timeout=_PATIENCE)
            if slot is None and not alive:
                raise RuntimeError("the thread that gathers images has ended")
        if isinstance(slot, BaseException):
            self._next = None
            raise slot
        event = self._copied[slot]
        if event is None:
            # On the host the slot itself will do; the one before it is free now.
            if self._shown is not None:
                self._free.put(self._shown)
            self._buffer, self._shown = self._slots[slot], slot
        else:
            self._buffer.copy_(self._slots[slot], non_blocking=True)
            event.record()
            self._free.put(slot)
        self._next = step + 1

    def batch(self, draw: Draw | None = None) -> ImageBatch:
        """The images in the buffer, in [0, 1]: tensor operations alone, so a graph can hold it."""
        return _seen(self._buffer, self._observe, draw)

    def _start(self, step: int) -> None:
        self._stop()
        if self._thread is not None:
            self._thread.join()  # it may be filling a slot, and the slots stay the same
        stopped = threading.Event()
        self._shown = None
        self._ready: queue.Queue[int | BaseException] = queue.Queue()
        self._free: queue.Queue[int] = queue.Queue()
        for slot in range(DEPTH):
            self._free.put(slot)
        # The thread knows nothing of the feed: once nobody has the feed, the thread ends.
        self._thread = threading.Thread(
            target=_gather, name="unweave-feed", daemon=True,
            args=(self._pixels, self._indices, step, self._slots, self._copied, self._free,
                  self._ready, stopped))
        self._thread.start()
        self._stop = weakref.finalize(self, stopped.set)


def _gather(pixels: Pixels, indices: Indices, step: int, slots: list[Tensor],
            copied: list[torch.cuda.Event | None], free: queue.Queue[int],
            ready: queue.Queue[int | BaseException], stopped: threading.Event) -> None:
    """Fill slots with the images of step after step, until told to stop."""
    arrays = [slot.reshape(-1, *pixels.shape).numpy() for slot in slots]
    block = np.empty((0, 0), dtype=np.int64)
    first = step
    try:
        while not stopped.is_set():
            try:
                slot = free.get(timeout=_PATIENCE)
            except queue.Empty:
                continue
            if not first <= step < first + len(block):
                first, block = step, indices(step, _BLOCK).reshape(_BLOCK, -1).numpy()
            event = copied[slot]
            if event is not None:
                event.synchronize()
            if isinstance(pixels, BytePixels):
                pixels.rows_into(block[step - first], arrays[slot])
            else:
                arrays[slot][...] = pixels.rows(block[step - first])
            ready.put(slot)
            step += 1
    except BaseException as error:
        ready.put(error)


def _seen(stored: Tensor, observe: Observe | None, draw: Draw | None) -> Tensor:
    images = as_floats(stored)
    if observe is None:
        return images
    if draw is None:
        raise UserError("this data set is random: give batch a draw, its uniform numbers")
    return observe(images, draw)
