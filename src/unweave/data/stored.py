"""Images in one file of bytes in the cache folder: made once, read in place ever after.

Two hundred thousand small pictures take minutes to decode and a moment to map into memory. The
file is a plain `.npy`, `[image, height, width, channel]`, named by a hash of everything that went
into it. While it is made it is called `.part` and grows from the front, so that an interrupted
start goes on where it was; pictures that cannot be read leave a row of zeros and a line in a
journal, and whoever asked decides whether that is an error.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data.fetch import data_folder
from unweave.types import UInt8, UserError

Progress = Callable[[int, int], None]
"""Called with the images done and the images in all."""

Unreadable = dict[int, str]
"""Rows without an image, and why."""

Make = Callable[[int, int], tuple[UInt8[np.ndarray, "image height width channel"], Unreadable]]
"""Images from one row to before another, and which of them could not be read."""

_CHUNK = 512
_TOO_MANY = 100
"""So many unreadable pictures at the very start are a mistake in the options, not damage."""

_REFUSED = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.EIO)
"""What the system says where it did not let a file be read, whatever is in it."""


@dataclass(frozen=True, eq=False)
class StoredImages:
    """Bytes `[image, height, width, channel]`, mapped from a file, and the rows that are void."""

    images: np.ndarray
    unreadable: Unreadable


def key_of(parts: Sequence[object]) -> str:
    """A name for what a list of plain values makes."""
    text = json.dumps(list(parts), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]


def stored_images(key: str, num: int, shape: tuple[int, int, int], make: Make, *, label: str,
                  progress: Progress | None = None) -> StoredImages:
    """The file called `key`, made with `make` unless it is there already."""
    folder = data_folder() / "images"
    path = folder / f"{key}.npy"
    if (found := _opened(path, (num, *shape))) is not None:
        return found
    progress = _Lines(label) if progress is None else progress
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f"{key}.lock"):
            if (found := _opened(path, (num, *shape))) is not None:  # made by another meanwhile
                return found
            _write(path, num, shape, make, progress, label)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UserError(f"no space is left for the images of {label} in {folder}: free "
                            f"{_size(num * int(np.prod(shape)))}, or set UNWEAVE_DATA to a folder "
                            "elsewhere") from error
        raise UserError(f"cannot write the images of {label} to {folder} ({error.strerror or error}"
                        "): set UNWEAVE_DATA to a folder you may write") from error
    found = _opened(path, (num, *shape))
    assert found is not None
    return found


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{-(-num_bytes // 10**6)} MB"


def _opened(path: Path, shape: tuple[int, ...]) -> StoredImages | None:
    """What a finished file holds; None if it is not there, or not what its name says."""
    try:
        # Copy on write: torch shares such memory without complaint, and the file stays as it is.
        images = np.load(path, mmap_mode="c", allow_pickle=False)
        notes = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        unreadable = {int(row): str(why) for row, why in notes["unreadable"].items()}
    except (OSError, ValueError, KeyError, EOFError):
        return None
    if images.shape != shape or images.dtype != np.uint8:
        return None
    return StoredImages(images, unreadable)


def _write(path: Path, num: int, shape: tuple[int, int, int], make: Make, progress: Progress,
           label: str) -> None:
    part, journal = path.with_name(path.name + ".part"), path.with_suffix(".journal")
    row = int(np.prod(shape))
    with part.open("r+b" if part.exists() else "w+b") as file:
        start = _header(file, num, shape)
        size = part.stat().st_size
        done = max(0, size - start) // row if size > start else 0
        unreadable = {k: v for k, v in _journal(journal).items() if k < done}
        if shutil.disk_usage(path.parent).free < (num - done) * row:
            raise OSError(errno.ENOSPC, "too little space")
        file.truncate(start + done * row)
        file.seek(start + done * row)
        while done < num:
            until = min(done + _CHUNK, num)
            images, bad = make(done, until)
            if bad:
                # Journal first: a row of zeros must never stand without its reason.
                unreadable |= bad
                _append(journal, bad)
            file.write(np.ascontiguousarray(images).data)
            file.flush()
            done = until
            if len(unreadable) >= _TOO_MANY and 2 * len(unreadable) > done:
                first = min(unreadable)
                raise UserError(f"{len(unreadable)} of the first {done} images of {label} cannot "
                                f"be used, the first one because {unreadable[first]}: check the "
                                "options and the files")
            progress(done, num)
        os.fsync(file.fileno())
    notes = {"label": label, "unreadable": {str(k): v for k, v in unreadable.items()}}
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path.with_suffix(".json"))
    os.replace(part, path)
    journal.unlink(missing_ok=True)


def _header(file: Any, num: int, shape: tuple[int, int, int]) -> int:
    """Write the beginning of the `.npy` file; where the images start."""
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False,
                                                "shape": (num, *shape)})
    file.flush()
    return file.tell()


def _append(journal: Path, bad: Unreadable) -> None:
    with journal.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps([row, why]) + "\n" for row, why in bad.items())
        file.flush()
        os.fsync(file.fileno())


def _journal(journal: Path) -> Unreadable:
    found: Unreadable = {}
    if not journal.exists():
        return found
    for line in journal.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):  # a last line that was cut short
            row, why = json.loads(line)
            found[int(row)] = str(why)
    return found


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Only one process makes a file; others wait for it. Released by the system at any end."""
    try:
        import fcntl
    except ImportError:  # Windows: two at once would make the same bytes twice
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    # The empty file stays: removing it could let two processes hold "the" lock.


class _Lines:
    """A line on standard error every few seconds, and none for what is done at once."""

    def __init__(self, label: str, every: float = 5.0) -> None:
        self._label, self._every = label, every
        self._began = self._last = time.monotonic()
        self._from: int | None = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._from is None:
            self._from, self._began = done, now
        if now - self._last < self._every:
            return
        self._last = now
        left = (total - done) * (now - self._began) / max(done - self._from, 1)
        print(f"{self._label}: {done}/{total} images read  {left:.0f} s left", file=sys.stderr,
              flush=True)


def each(row_of: Callable[[int], np.ndarray], shape: tuple[int, int, int], errors: Any,
         describe: Callable[[int, BaseException], str]) -> Make:
    """A `Make` that reads images one by one, on all cores: Pillow decodes without the GIL."""
    from concurrent.futures import ThreadPoolExecutor

    def make(start: int, stop: int) -> tuple[np.ndarray, Unreadable]:
        images = np.zeros((stop - start, *shape), dtype=np.uint8)
        bad: Unreadable = {}

        def read(row: int) -> None:
            try:
                images[row - start] = row_of(row)
            except errors as error:
                if isinstance(error, OSError) and error.errno in _REFUSED:
                    # Not damage. Once kept it would outlast its repair, as a file that may be read
                    # again has the same length and time of change.
                    raise UserError(f"{describe(row, error)}: make it readable and start again, "
                                    "or take it away") from error
                bad[row] = describe(row, error)

        # Pillow warns of odd metadata. Filters belong to the whole process: set here once, and not
        # by each thread.
        with (warnings.catch_warnings(action="ignore"),
              ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool):
            list(pool.map(read, range(start, stop)))
        return images, dict(sorted(bad.items()))

    return make
