"""`npz:FILE` and `npy:FILE`: images that are an array already.

`[image, height, width]` or `[image, height, width, channel]`, as bytes, booleans, or fractions in
[0, 1]. An npy file that needs no change is mapped into memory as it stands; anything else goes
through the same framing as pictures do, into the cache. Arrays are read piece by piece, and pickles
are never opened.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unweave.data.framing import Framing
from unweave.data.stored import StoredImages, Unreadable, key_of, stored_images
from unweave.types import UserError

OPTIONS = {
    "array": "the array of an npz that holds the images; not needed where only one can",
    "axes": "hwc (the default) or chw, for arrays [image, channel, height, width]",
    "white": "the value of white: 255 by default for bytes, 1 for booleans and fractions",
}

_FORMAT = 1
_WANTED = ("[image, height, width] or [image, height, width, channel] of bytes, booleans or "
           "fractions in [0, 1]")
_BROKEN = (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError, SyntaxError,
           RuntimeError, tokenize.TokenError, zlib.error, TypeError, KeyError, OverflowError,
           MemoryError)


def read_array(file: Path, options: dict[str, str]) -> StoredImages:
    """The images of a file, in its order."""
    if not file.is_file():
        raise UserError(f"no file {file}: give the path of an npz or npy file")
    try:
        return _read(file.resolve(), options)
    except UserError:
        raise
    except _BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "Object arrays" in reason:
            reason = "it holds Python objects, which are never opened"
        raise UserError(f"{file} cannot be read ({reason}): it may be damaged or cut short; save "
                        "it again with numpy") from error


def read_column(file: Path, name: str) -> np.ndarray:
    """Another array of an npz, one row for each image."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile) or name not in archive.files:
                held = ", ".join(getattr(archive, "files", ())) or "one array without a name"
                raise UserError(f"{file} has no array {name!r}: it holds {held}")
            return archive[name]
    except UserError:
        raise
    except _BROKEN as error:
        raise UserError(f"the array {name!r} of {file} cannot be read ({error}): save numbers or "
                        "strings with numpy") from error


def _read(file: Path, options: dict[str, str]) -> StoredImages:
    zipped = zipfile.is_zipfile(file)
    name = _member(file, options.get("array")) if zipped else ""
    what = f"the array {name!r} of {file}" if name else str(file)
    with _stream(file, name) as stream:
        return _read_stream(stream, file, name, what, options)


def _read_stream(stream: Any, file: Path, name: str, what: str,
                 options: dict[str, str]) -> StoredImages:
    shape, fortran, dtype = _header(stream)
    if dtype.hasobject:
        raise ValueError("Object arrays")
    axes = options.get("axes", "hwc")
    if axes not in ("hwc", "chw"):
        raise UserError(f"axes={axes} is not understood: write hwc or chw")
    image = shape[1:] if len(shape) == 4 else (*shape[1:], 1)
    if len(shape) == 4 and axes == "chw":
        image = (shape[2], shape[3], shape[1])
    if len(shape) not in (3, 4) or min(shape) < 1 or image[2] not in (1, 3, 4):
        hint = "; add axes=chw if channels come first" if len(shape) == 4 and shape[1] < 5 else ""
        raise UserError(f"{what} has the shape {list(shape)}: images are {_WANTED}, with 1, 3 or 4 "
                        f"channels{hint}")
    if _length(file, name) - stream.tell() < math.prod(shape) * dtype.itemsize:
        raise EOFError("the images end early")  # before anybody makes room for them
    if fortran:
        raise UserError(f"{what} is stored column by column: save numpy.ascontiguousarray of it")
    white = _white(what, dtype, options)
    framing = Framing.of({"channels": str(min(image[2], 3))} | options)
    if not name and dtype == np.uint8 and white == 255 and axes == "hwc" and image == framing.shape:
        mapped = np.load(file, mmap_mode="c", allow_pickle=False)
        _not_dark(what, mapped[:512], options)
        return StoredImages(mapped.reshape(shape[0], *framing.shape), {})
    row = math.prod(shape[1:])
    read = _reader(stream, row * dtype.itemsize)

    def make(first: int, stop: int) -> tuple[np.ndarray, Unreadable]:
        raw = np.frombuffer(read(first, stop), dtype).reshape(stop - first, *shape[1:])
        images = _bytes(what, raw, white)
        if first == 0:
            _not_dark(what, raw, options)
        images = images[..., None] if images.ndim == 3 else images
        images = np.moveaxis(images, 1, -1) if axes == "chw" and len(shape) == 4 else images
        if image == framing.shape:
            return images, {}
        out = np.empty((stop - first, *framing.shape), dtype=np.uint8)
        for k, one in enumerate(images):
            try:
                one = np.ascontiguousarray(one)
                out[k] = framing.apply(Image.fromarray(one[..., 0] if image[2] == 1 else one))
            except ValueError as error:
                raise UserError(f"image {first + k} of {what} cannot be used: {error}") from error
        return out, {}

    status = file.stat()
    key = key_of(["array", _FORMAT, str(file), status.st_size, status.st_mtime_ns, name, axes,
                  white, repr(framing)])
    return stored_images(key, shape[0], framing.shape, make, label=what)


def _member(file: Path, wanted: str | None) -> str:
    with zipfile.ZipFile(file) as archive:
        held = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        if wanted is not None:
            if wanted not in held:
                raise UserError(f"{file} has no array {wanted!r}: it holds {', '.join(held)}")
            return wanted
        fitting = []
        for name in held:
            with archive.open(f"{name}.npy") as stream:
                shape, _, dtype = _header(stream)
            if len(shape) in (3, 4) and not dtype.hasobject:
                fitting.append(name)
    if len(fitting) != 1:
        raise UserError(f"{file} holds {len(fitting)} arrays that could be images "
                        f"({', '.join(fitting or held) or 'nothing'}): say which, array=NAME")
    return fitting[0]


def _length(file: Path, name: str) -> int:
    """Bytes of an array with its header."""
    if not name:
        return file.stat().st_size
    with zipfile.ZipFile(file) as archive:
        return archive.getinfo(f"{name}.npy").file_size


def _stream(file: Path, name: str) -> Any:
    """The bytes of an array from their beginning; closing it closes the file."""
    return zipfile.ZipFile(file).open(f"{name}.npy") if name else file.open("rb")


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"npy format {version} is not known")
    return read(stream)


def _reader(stream: Any, row: int) -> Callable[[int, int], bytes]:
    """Rows of an array in rising order; a start in the middle skips what is before it."""
    start, at = stream.tell(), 0

    def read(first: int, stop: int) -> bytes:
        nonlocal at
        if first != at:
            stream.seek(start + first * row)
        raw = stream.read((stop - first) * row)
        if len(raw) != (stop - first) * row:
            raise EOFError("the images end early")
        at = stop
        return raw

    return read


def _white(what: str, dtype: np.dtype, options: dict[str, str]) -> float:
    if dtype.kind not in "bf" and dtype != np.uint8:
        raise UserError(f"{what} holds values of type {dtype}: images are {_WANTED}")
    said = options.get("white")
    if said is None:
        return 255.0 if dtype == np.uint8 else 1.0
    try:
        white = float(said)
    except ValueError:
        white = 0.0
    if not 0 < white <= 65535:
        raise UserError(f"white={said} must be a number above 0, such as 1 or 255")
    return white


def _bytes(what: str, raw: np.ndarray, white: float) -> np.ndarray:
    if raw.dtype == np.uint8 and white == 255:
        return raw
    if raw.dtype.kind == "b":
        return raw.astype(np.uint8) * np.uint8(255)
    low, high = float(raw.min()), float(raw.max())
    if not 0 <= low <= high <= white:
        raise UserError(f"{what} holds values from {low:g} to {high:g}, outside 0..{white:g}: "
                        "rescale it, or say which value is white, white=VALUE")
    return np.round(raw.astype(np.float32) * np.float32(255.0 / white)).astype(np.uint8)


def _not_dark(what: str, raw: np.ndarray, options: dict[str, str]) -> None:
    if "white" not in options and raw.dtype == np.uint8 and raw.max() <= 1:
        raise UserError(f"the first images of {what} have no value above 1: add white=1 if 1 is "
                        "white there, or white=255 if they are meant to be black")
