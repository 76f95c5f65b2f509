"""dSprites as a data set: rendered, or read from the user's copy of the published file.

The published npz and hdf5 hold `imgs` (737280, 64, 64) of 0 and 1, three gigabytes once inflated;
they are read in slices and kept as packed bits. The npz also holds a pickle (`metadata`), which is
never opened. `check_file` compares a copy with the rendered images.
"""

from __future__ import annotations

import contextlib
import functools
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data import dsprites
from unweave.data.dataset import DatasetEntry, FactorDataset, PackedPixels
from unweave.data.fetch import written_path
from unweave.types import UserError

FILE_NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
_WANTED = "expected the dSprites npz or hdf5 with `imgs` (n, 64, 64) of bytes 0 and 1"
_SLICE = 4096
# What zipfile, zlib, h5py and numpy's parser of headers raise on damaged bytes.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, SyntaxError,
           tokenize.TokenError, NotImplementedError)


@dataclass(frozen=True)
class FileCheck:
    """How a file compares with the rendered set."""

    path: str
    num_images: int
    complete: bool
    """Whether the file holds the whole set, in the published order: then it can be trained on."""
    differing_images: int
    differing_pixels: int
    first: tuple[int, ...]
    """Indices of the first few images that differ."""

    def __str__(self) -> str:
        part = "all" if self.complete else "part"
        said = f"{self.path}: {self.num_images} images ({part} of dSprites), "
        if not self.differing_images:
            return said + "equal to the rendered ones in every pixel"
        where = ", ".join(str(i) for i in self.first)
        more = ", ..." if self.differing_images > len(self.first) else ""
        return said + (f"{self.differing_pixels} pixels in {self.differing_images} images differ "
                       f"from the rendered ones (images {where}{more})")


@dataclass
class _Opened:
    """An open file: how many images, which ones (None: not said), and the images in slices."""

    num_images: int
    index: np.ndarray | None
    slices: Iterator[np.ndarray]

    @property
    def complete(self) -> bool:
        whole = self.num_images == len(dsprites.SPACE)
        return whole and (self.index is None
                          or bool((self.index == np.arange(self.num_images)).all()))


def read_packed(path: Path) -> np.ndarray:
    """The images of a complete file as packed bits `[737280, 64, 8]`."""
    with _opened(path) as file:
        if file.num_images != len(dsprites.SPACE):
            raise UserError(f"{path} holds {file.num_images} images, training needs all "
                            f"{len(dsprites.SPACE)}: use the published {FILE_NAME}, or the "
                            "rendered set with the name dsprites")
        if not file.complete:
            raise UserError(f"{path} holds its images in another order than the published file: "
                            f"use the published {FILE_NAME}, or the rendered set with the name "
                            "dsprites")
        out = np.empty((file.num_images, 64, 8), dtype=np.uint8)
        done = 0
        for bits in file.slices:
            out[done:done + len(bits)] = bits
            done += len(bits)
    return out


def check_file(path: str | Path, *, num_first: int = 10) -> FileCheck:
    """Compare a file with the rendered set, image by image.

    A file with only some of the images can be checked too, if it has `latents_classes`.
    """
    path = written_path(path)
    pixels, differing = 0, []
    with _opened(path) as file:
        if file.index is None and file.num_images != len(dsprites.SPACE):
            raise UserError(f"{path} holds {file.num_images} images and no latents_classes, so it "
                            "does not say which images of dSprites they are: check a file that "
                            "has them, or the complete one")
        done = 0
        for bits in file.slices:
            part = slice(done, done + len(bits))
            index = np.arange(part.start, part.stop) if file.index is None else file.index[part]
            complete = file.num_images == len(dsprites.SPACE)
            rendered = dsprites.packed()[index] if complete else dsprites.render(index)
            wrong = np.bitwise_count(bits ^ rendered).sum(axis=(1, 2), dtype=np.int64)
            pixels += int(wrong.sum())
            differing.extend(int(i) for i in index[wrong > 0])
            done = part.stop
        return FileCheck(str(path), file.num_images, file.complete, len(differing), pixels,
                         tuple(differing[:num_first]))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Opened]:
    if not path.is_file():
        raise UserError(f"no file {path}: give the path of {FILE_NAME}, or use the rendered set "
                        "with the name dsprites")
    with path.open("rb") as stream:
        magic = stream.read(8)
    with contextlib.ExitStack() as stack:
        try:
            if magic.startswith(b"PK"):
                opened = _open_npz(stack.enter_context(zipfile.ZipFile(path)), path, stack)
            elif magic.startswith(b"\x89HDF"):
                opened = _open_hdf5(path, stack)
            else:
                raise UserError(f"{path} is neither an npz nor an hdf5 file: {_WANTED}")
            yield opened
        except UserError:
            raise
        except _BROKEN as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(f"{path} cannot be read ({reason}): it may be damaged or cut short, "
                            "fetch it again") from error


def _open_npz(archive: zipfile.ZipFile, path: Path, stack: contextlib.ExitStack) -> _Opened:
    if "imgs.npy" not in archive.namelist():
        raise UserError(f"{path} has no array `imgs`: {_WANTED}")
    stream = stack.enter_context(archive.open("imgs.npy"))
    shape, fortran, dtype = _npy_header(stream)
    _check_images(path, shape, dtype)
    if fortran:
        raise UserError(f"{path} stores `imgs` column by column: save it again in C order")

    def slices() -> Iterator[np.ndarray]:
        for start in range(0, shape[0], _SLICE):
            num = min(_SLICE, shape[0] - start)
            raw = _read_exactly(stream, num * 4096)
            yield _packed(path, np.frombuffer(raw, dtype=np.uint8).reshape(num, 64, 64))

    classes = None
    if "latents_classes.npy" in archive.namelist():
        with archive.open("latents_classes.npy") as member:
            classes = np.lib.format.read_array(member, allow_pickle=False)
    return _Opened(shape[0], _index(path, classes, shape[0]), slices())


def _open_hdf5(path: Path, stack: contextlib.ExitStack) -> _Opened:
    try:
        import h5py
    except ImportError:
        raise UserError(f"{path} is an hdf5 file, which needs the package h5py: pip install h5py, "
                        f"or use the published {FILE_NAME}") from None
    file: Any = stack.enter_context(h5py.File(path, "r"))
    if not isinstance(file.get("imgs"), h5py.Dataset):
        raise UserError(f"{path} has no array `imgs`: {_WANTED}")
    images = file["imgs"]
    _check_images(path, images.shape, images.dtype)

    def slices() -> Iterator[np.ndarray]:
        for start in range(0, images.shape[0], _SLICE):
            yield _packed(path, images[start:start + _SLICE])

    classes = file["latents/classes"][:] if "latents/classes" in file else None
    return _Opened(images.shape[0], _index(path, classes, images.shape[0]), slices())


def _npy_header(stream: zipfile.ZipExtFile) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"npy format {version}")
    return read(stream)


def _check_images(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if len(shape) != 3 or tuple(shape[1:]) != (64, 64) or shape[0] == 0:
        raise UserError(f"{path} has `imgs` of shape {tuple(shape)}: {_WANTED}")
    if dtype not in (np.dtype(np.uint8), np.dtype(bool)):
        raise UserError(f"{path} has `imgs` of type {dtype}: {_WANTED}")


def _index(path: Path, classes: np.ndarray | None, num_images: int) -> np.ndarray | None:
    """Which images a file holds, from its classes `[n, 6]`: colour (always 0), then our factors."""
    if classes is None:
        return None
    if classes.shape != (num_images, 6) or classes.dtype.kind not in "iu" or classes[:, 0].any():
        raise UserError(f"{path} has latents_classes of shape {classes.shape} and type "
                        f"{classes.dtype}: expected ({num_images}, 6) whole numbers, the first of "
                        "each row 0")
    rows = classes[:, 1:].astype(np.int64)
    if (rows < 0).any() or (rows >= np.array(dsprites.SPACE.sizes)).any():
        raise UserError(f"{path} has latents_classes beyond the sizes {dsprites.SPACE.sizes} of "
                        f"{', '.join(dsprites.SPACE.names)}: it is not a dSprites file")
    return dsprites.SPACE.index(rows)


def _read_exactly(stream: zipfile.ZipExtFile, num_bytes: int) -> bytes:
    raw = stream.read(num_bytes)
    if len(raw) != num_bytes:
        raise EOFError("the images end early")
    return raw


def _packed(path: Path, images: np.ndarray) -> np.ndarray:
    if images.max() > 1:
        raise UserError(f"{path} has pixels of {images.max()}: {_WANTED}")
    return np.packbits(images, axis=-1)


@functools.lru_cache(maxsize=1)
def _pixels_of(path: Path, size: int, changed: int) -> PackedPixels:
    packed = read_packed(path)
    return PackedPixels(64, 64, lambda: packed)


def load(name: str, file: Path | None) -> FactorDataset:
    """The rendered set, or the one in `file`."""
    if file is None:
        return FactorDataset(name, dsprites.SPACE, dsprites.PIXELS)
    if not file.is_file():
        raise UserError(f"no file {file}: give the path of {FILE_NAME}, or use the rendered set "
                        "with the name dsprites")
    # Inflating takes seconds, and a study asks for its data once for each stack.
    status = file.stat()
    pixels = _pixels_of(file.resolve(), status.st_size, status.st_mtime_ns)
    return FactorDataset(name, dsprites.SPACE, pixels)


DSPRITES = DatasetEntry(
    summary="2D sprites (square, ellipse, heart), binary; rendered bit for bit",
    space=dsprites.SPACE, image_shape=(64, 64, 1), licence="Apache-2.0",
    source="Matthey et al. 2017, https://github.com/google-deepmind/dsprites-dataset",
    size="378 MB packed", obtained="rendered in about a second, or read from the published file",
    load=load, file="the published npz or hdf5")
