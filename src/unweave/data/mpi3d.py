"""MPI3D: a robot arm that holds an object, as toy and realistic renderings and as photographs.

Gondal et al. 2019. One npz for each kind with `images`, 1,036,800 of them in the order of the
factors, 12.7 GB. Where the npz is not packed the images are mapped where they lie; a packed one is
inflated once into the cache folder, in pieces. Neither way is there a second copy in memory.
"""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.framing import Framing
from unweave.data.published import PART, marks, place, wants_part
from unweave.data.stored import each, key_of, stored_images
from unweave.factors import FactorSpace
from unweave.types import ImageArray, UserError

SPACE = FactorSpace(
    names=("object_color", "object_shape", "object_size", "camera_height", "background_color",
           "horizontal_axis", "vertical_axis"),
    sizes=(6, 6, 2, 3, 3, 40, 40),
    types=("categorical", "categorical", "ordinal", "ordinal", "categorical", "ordinal", "ordinal"))

_SHAPE = (64, 64, 3)
_ROW = 64 * 64 * 3
_FORMAT = 1  # of the cached file: a change in how images are read makes a new one
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, SyntaxError,
           tokenize.TokenError, NotImplementedError, RuntimeError, struct.error)


def load(kind: str, name: str, file: Path | None, *, size: str = "64",
         part: str = "no") -> FactorDataset:
    """One of the three kinds."""
    framing = Framing.of({"size": size, "crop": "none", "channels": "3"})
    path = place(f"mpi3d_{kind}", file, f"mpi3d_{kind}.npz", f"mpi3d_{kind}.npz")
    if not path.is_file():
        raise UserError(f"{path} is a folder: give the file mpi3d_{kind}.npz")
    accept_part = wants_part(name, part)
    try:
        images = _read(path, f"mpi3d_{kind}", accept_part)
        if framing.shape != _SHAPE:
            images = _resized(path, f"mpi3d_{kind}", images, framing)
    except UserError:
        raise
    except _BROKEN as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path} cannot be read ({reason}): it may be damaged or cut short, fetch "
                        "it again") from error
    space = SPACE
    if len(images) < len(SPACE):
        space = FactorSpace(SPACE.names, SPACE.sizes, SPACE.values, np.arange(len(images)),
                            SPACE.types)
    return FactorDataset(name, space, BytePixels(images))


def _read(path: Path, label: str, accept_part: bool) -> ImageArray:
    with zipfile.ZipFile(path) as archive:
        if "images.npy" not in archive.namelist():
            raise UserError(f"{path} has no array `images`: it is not {label}.npz")
        info = archive.getinfo("images.npy")
        with archive.open(info) as stream:
            shape = _header(path, stream, accept_part)
            begins = stream.tell()
    if info.file_size != begins + shape[0] * _ROW:
        raise EOFError(f"`images` has {info.file_size} bytes, expected "
                       f"{begins + shape[0] * _ROW}")
    if info.compress_type == zipfile.ZIP_STORED:
        offset = _data_offset(path, info) + begins
        if path.stat().st_size < offset + shape[0] * _ROW:
            raise EOFError("the file ends within the images")
        # Copy on write: torch shares such memory without complaint, and the file stays as it is.
        return np.memmap(path, dtype=np.uint8, mode="c", offset=offset, shape=(shape[0], *_SHAPE))
    return _inflated(path, label, shape[0], begins)


def _resized(path: Path, label: str, images: np.ndarray, framing: Framing) -> ImageArray:
    make = each(lambda row: framing.apply(Image.fromarray(images[row])), framing.shape, (),
                lambda row, error: str(error))
    key = key_of([label, _FORMAT, repr(framing), marks(path)])
    return stored_images(key, len(images), framing.shape, make, label=label).images


def _header(path: Path, stream: zipfile.ZipExtFile, accept_part: bool) -> tuple[int, ...]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy format {version}")
    read = (np.lib.format.read_array_header_1_0 if version == (1, 0)
            else np.lib.format.read_array_header_2_0)
    shape, fortran, dtype = read(stream)
    if shape[-3:] != _SHAPE or dtype != np.uint8 or fortran or 0 in shape:
        raise UserError(f"{path} has `images` of {dtype} and the shape {tuple(shape)}, expected "
                        f"uint8 of ({len(SPACE)}, 64, 64, 3), in colour and C order")
    num = int(np.prod(shape[:-3], dtype=object))
    if num > len(SPACE) or (num < len(SPACE) and not accept_part):
        raise UserError(f"{path} has {num} images, MPI3D has {len(SPACE)}: fetch it again, or take "
                        "the first ones that are there with part=yes")
    return num, *_SHAPE


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin: after its local header, name and extra field."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)
        if len(header) != 30 or header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("the local header of `images` is damaged")
        name, extra = struct.unpack("<HH", header[26:30])
    return info.header_offset + 30 + name + extra


def _inflated(path: Path, label: str, num: int, begins: int) -> ImageArray:
    archive = zipfile.ZipFile(path)
    stream = archive.open("images.npy")

    def make(start: int, stop: int) -> tuple[np.ndarray, dict[int, str]]:
        stream.seek(begins + start * _ROW)  # where it is already, unless an earlier try broke off
        raw = stream.read((stop - start) * _ROW)
        if len(raw) != (stop - start) * _ROW:
            raise UserError(f"{path} ends within the images: fetch it again")
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, *_SHAPE), {}

    with archive, stream:
        key = key_of([label, _FORMAT, marks(path)])
        return stored_images(key, num, _SHAPE, make, label=label).images


def _entry(kind: str, summary: str) -> DatasetEntry:
    return DatasetEntry(
        summary=summary, space=SPACE, image_shape=_SHAPE, licence="CC BY 4.0",
        source="Gondal et al. 2019, https://github.com/rr-learning/disentanglement_dataset",
        size="12.7 GB, mapped", load=partial(load, kind), file=f"mpi3d_{kind}.npz",
        obtained=f"`unweave data fetch mpi3d_{kind}` (up to 13 GB), or from its npz",
        fetch=f"mpi3d_{kind}",
        options={"size": "height and width: 64 by default, as they are"} | PART)


MPI3D_TOY = _entry("toy", "a robot arm with an object, simple rendering")
MPI3D_REALISTIC = _entry("realistic", "a robot arm with an object, realistic rendering")
MPI3D_REAL = _entry("real", "a robot arm with an object, photographs")
