"""3D Shapes as published: 480,000 images in the file 3dshapes.h5.

Burgess & Kim 2018, https://github.com/google-deepmind/3d-shapes. The file holds `images`
(480000, 64, 64, 3) of bytes and `labels` (480000, 6). It is packed in pieces, and an image in the
middle of one takes as long as the piece. So the images are unpacked once into the cache folder, 5.9
GB, and mapped from there; those of a file that is not packed are mapped where they lie. The factors
come from the labels, whatever the order of the rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.framing import Framing
from unweave.data.published import PART, marks, place, some_of, wants_part
from unweave.data.shapes3d import SPACE
from unweave.data.stored import Unreadable, key_of, stored_images
from unweave.types import Factors, ImageArray, UserError

FILE_NAME = "3dshapes.h5"
_SHAPE = (64, 64, 3)
_ROW = 64 * 64 * 3
_FORMAT = 1  # of the cached file: a change in how images are read makes a new one
_BROKEN = (OSError, ValueError, KeyError, RuntimeError, TypeError, EOFError)
_WANTED = (f"expected {FILE_NAME} with `images` ({len(SPACE)}, 64, 64, 3) of bytes and `labels` "
           f"({len(SPACE)}, {len(SPACE.sizes)})")


def load(name: str, file: Path | None, *, size: str = "64", part: str = "no") -> FactorDataset:
    """The published images."""
    framing = Framing.of({"size": size, "crop": "none", "channels": "3"})
    path = place("shapes3d", file, FILE_NAME, FILE_NAME)
    if not path.is_file():
        raise UserError(f"{path} is a folder: give the file {FILE_NAME}")
    accept_part = wants_part(name, part)
    try:
        images, rows = _read(path, accept_part, framing)
    except UserError:
        raise
    except _BROKEN as error:
        raise _damaged(path, error) from error
    space = some_of(SPACE, rows)
    index = space.index(rows)
    counts = np.bincount(index, minlength=len(space))
    if counts.max() > 1:
        twice = space.factors(int(counts.argmax()))[0]
        raise UserError(f"{path} has {counts.max()} images with the factors "
                        f"{tuple(twice.tolist())}: each combination occurs once in {FILE_NAME}")
    order = None if (index == np.arange(len(index))).all() else np.argsort(index)
    return FactorDataset(name, space, BytePixels(images, order))


def _damaged(path: Path, error: BaseException) -> UserError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return UserError(f"{path} cannot be read ({reason}): it may be damaged or cut short, fetch it "
                     "again")


def _read(path: Path, accept_part: bool, framing: Framing) -> tuple[ImageArray, Factors]:
    try:
        import h5py
    except ImportError:
        raise UserError(f"{path} needs the package h5py: pip install 'unweave[data]', or use the "
                        "stand-in with the name shapes3d-render") from None
    with h5py.File(path, "r") as file:
        for name in ("images", "labels"):
            if not isinstance(file.get(name), h5py.Dataset):
                raise UserError(f"{path} has no array `{name}`: {_WANTED}")
        images, labels = file["images"], file["labels"]
        num = images.shape[0] if images.ndim else 0
        if images.shape != (num, *_SHAPE) or images.dtype != np.uint8 or not num:
            raise UserError(f"{path} has `images` of {images.dtype} and the shape {images.shape}: "
                            f"{_WANTED}")
        if labels.shape != (num, len(SPACE.sizes)) or labels.dtype.kind not in "fiu":
            raise UserError(f"{path} has `labels` of {labels.dtype} and the shape {labels.shape} "
                            f"for {num} images: {_WANTED}")
        if num > len(SPACE):
            raise UserError(f"{path} holds {num} images: {_WANTED}")
        if num < len(SPACE) and not accept_part:
            raise UserError(f"{path} holds {num} of the {len(SPACE)} images of 3D Shapes: use the "
                            f"published {FILE_NAME}, or add ,part=yes for a run on these alone")
        rows = classes(path, np.asarray(labels[:], dtype=np.float64))
        return _images(path, images, num, framing), rows


def classes(path: Path, labels: np.ndarray) -> Factors:
    """Factor classes `[image, factor]` of labels: each is the value of a class."""
    rows = np.empty(labels.shape, dtype=np.int64)
    for k, (name, values) in enumerate(zip(SPACE.names, SPACE.values)):
        values = np.arange(len(values)) if values.dtype.kind == "U" else values
        nearest = np.abs(labels[:, [k]] - values[None]).argmin(axis=1)
        wrong = ~(np.abs(labels[:, k] - values[nearest]) < 1e-3)  # not a number is wrong too
        if wrong.any():
            row = int(wrong.argmax())
            raise UserError(f"{path} has {name} {labels[row, k]:g} in row {row} of `labels`: "
                            f"allowed are {', '.join(f'{v:g}' for v in values)}")
        rows[:, k] = nearest
    return rows


def _images(path: Path, images: Any, num: int, framing: Framing) -> ImageArray:
    as_it_is = framing.shape == _SHAPE
    plain = not (images.chunks or images.is_virtual or images.external)
    offset = images.id.get_offset() if plain and as_it_is else None
    if offset is not None:
        if path.stat().st_size < offset + num * _ROW:
            raise EOFError("the file ends within the images")
        # Copy on write: torch shares such memory without complaint, and the file stays as it is.
        return np.memmap(path, dtype=np.uint8, mode="c", offset=offset, shape=(num, *_SHAPE))

    def make(start: int, stop: int) -> tuple[np.ndarray, Unreadable]:
        try:
            block = images[start:stop]
        except _BROKEN as error:  # told here, before it is taken for trouble with the cache
            raise _damaged(path, error) from error
        return (block if as_it_is else
                np.stack([framing.apply(Image.fromarray(image)) for image in block])), {}

    key = key_of(["shapes3d", _FORMAT, repr(framing), marks(path)])
    return stored_images(key, num, framing.shape, make, label="shapes3d").images


SHAPES3D = DatasetEntry(
    summary="an object in a room, with six factors; the published images",
    space=SPACE, image_shape=_SHAPE, licence="Apache-2.0",
    source="Burgess & Kim 2018, https://github.com/google-deepmind/3d-shapes",
    size="5.9 GB", obtained="`unweave data fetch shapes3d`, or shapes3d:FILE; needs h5py",
    load=load, file=f"the published {FILE_NAME}", fetch="shapes3d",
    options={"size": "height and width: 64 by default"} | PART)
