"""`images:FOLDER`: every picture below a folder, in the order of their names.

Files are those that Pillow has a reader for, by their endings; whatever is hidden (a leading dot)
or not a picture by name is passed over. The order is that of the relative paths, character by
character, on every system. Links to folders are not followed.
"""

from __future__ import annotations

import os
from pathlib import Path

from PIL import Image

from unweave.data.fetch import whole_path
from unweave.data.framing import UNREADABLE, Framing
from unweave.data.stored import StoredImages, each, key_of, stored_images
from unweave.types import UserError

_FORMAT = 1  # of the cached file: a change in how pictures are read makes a new one

_NO_PICTURES = frozenset({"BUFR", "GRIB", "HDF5", "MPEG", "PALM", "PDF"})
"""Formats that Pillow knows by name but does not read: notes, tables and films may lie beside."""


def list_pictures(folder: Path) -> list[tuple[str, int, int]]:
    """(relative path with /, bytes, time of change) of each picture, sorted by path."""
    if not folder.is_dir():
        kind = "is a file, not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {kind}: give the folder with the pictures, images:FOLDER")
    Image.init()
    endings = {ending.removeprefix(".") for ending, kind in Image.registered_extensions().items()
               if kind not in _NO_PICTURES}
    found: list[tuple[str, int, int]] = []
    pending = [("", str(folder))]
    while pending:
        prefix, place = pending.pop()
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            raise UserError(f"cannot list {place} ({error.strerror}): allow reading it, or give "
                            "another folder") from error
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append((f"{prefix}{entry.name}/", entry.path))
            elif (entry.name.rpartition(".")[2].lower() in endings and "." in entry.name
                  and entry.is_file()):
                status = entry.stat()
                found.append((prefix + entry.name, status.st_size, status.st_mtime_ns))
    if not found:
        raise UserError(f"{folder} holds no pictures: their names must end in .png, .jpg or "
                        "another format that Pillow reads")
    return sorted(found)


def read_folder(folder: Path, framing: Framing) -> tuple[list[str], StoredImages]:
    """Relative paths of all pictures and their pixels; unreadable ones are among them."""
    folder = whole_path(folder)
    pictures = list_pictures(folder)
    names = [name for name, _, _ in pictures]

    def describe(row: int, error: BaseException) -> str:
        reason = " ".join(str(error).replace(f"{folder}/", "").split()) or type(error).__name__
        return f"{names[row]} cannot be used ({reason[:200]})"

    make = each(lambda row: framing.read(folder / names[row]), framing.shape, UNREADABLE, describe)
    key = key_of(["folder", _FORMAT, str(folder), repr(framing), pictures])
    return names, stored_images(key, len(names), framing.shape, make, label=f"images:{folder}")
