"""The user's own images as data sets: a folder, an array, a data set of the Hugging Face hub.

Everything that decides what a run sees is in the name: `images:FOLDER,size=64,crop=centre`. A
picture that cannot be read is an error that names it, unless `skip=unreadable` is said; then it is
left out, and told.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from unweave.data import array_images, framing, hugging_face, own_table
from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.fetch import written_path
from unweave.data.folder_images import read_folder
from unweave.data.framing import Framing
from unweave.data.own_table import Described, choose, describe, match_files, read_table
from unweave.data.stored import StoredImages
from unweave.factors import FactorSpace
from unweave.types import IndexArray, Int, UserError, unknown_name

_SKIP = ("unreadable", "unlisted")
_OPTIONS = {"skip": "unreadable (pictures that cannot be read) or unlisted (pictures that the "
                    "table does not name), or both joined by +; without it they are errors"}


def load_folder(name: str, file: Path | None, /, **options: str) -> FactorDataset:
    """`images:FOLDER`, with factors where a table is given."""
    file = _given(name, file, "images:FOLDER")
    skip = _skipped(options)
    names, stored = read_folder(file, Framing.of(options))
    usable = _usable(stored, skip, str(file))
    if "table" not in options:
        return _dataset(name, stored, _plain(usable))
    path, column = _table_path(options["table"], file), options.get("file", "file")
    columns = read_table(path, column)
    if column not in columns:
        raise UserError(f"the table {path} has no column {column!r} with the names of the files: "
                        f"say which of {', '.join(columns)} has them, file=COLUMN")
    rows = match_files(names, columns[column], f"the table {path}")
    unlisted = np.setdiff1d(usable, rows)
    if len(unlisted) and "unlisted" not in skip:
        raise UserError(f"{len(unlisted)} pictures in {file} have no row in {path}, the first is "
                        f"{names[unlisted[0]]!r}: add rows, or skip them with skip=unlisted")
    return _labelled(name, stored, choose(columns, options, f"the table {path}", column), rows,
                     usable, options, f"the table {path}")


def load_array(name: str, file: Path | None, /, **options: str) -> FactorDataset:
    """`npz:FILE` or `npy:FILE`; `factors` names another array of an npz, or columns of a table."""
    file = _given(name, file, "npz:FILE or npy:FILE")
    stored = array_images.read_array(file, options)
    rows = np.arange(len(stored.images))
    if "table" in options:
        path = _table_path(options["table"], file.resolve().parent)
        where = f"the table {path}"
        columns = choose(read_table(path, None), options, where)
    elif "factors" in options:
        where = f"the array {options['factors']!r} of {file}"
        array = array_images.read_column(file, options["factors"])
        if array.ndim not in (1, 2) or array.dtype.kind not in "biufU" or not array.size:
            raise UserError(f"{where} has the shape {list(array.shape)} and the type {array.dtype}:"
                            " factors are [image, factor], numbers or names")
        array = array.reshape(len(array), -1)
        columns = {f"{options['factors']}_{k}": array[:, k] for k in range(array.shape[1])}
    else:
        return _dataset(name, stored, _plain(rows))
    num = len(next(iter(columns.values())))
    if num != len(rows):
        raise UserError(f"{where} has {num} rows for the {len(rows)} images of {file}: each image "
                        "needs one, in the same order")
    return _labelled(name, stored, columns, rows, rows, options, where)


def load_hub(name: str, file: Path | None, /, **options: str) -> FactorDataset:
    """`hf:NAME`; `factors` names columns of it."""
    hub = str(_given(name, file, "hf:NAME"))
    skip = _skipped(options)
    table, _, stored = hugging_face.read_hub(hub, options, Framing.of(options))
    usable = _usable(stored, skip, hub)
    wanted = [column for column in options.get("factors", "").split("+") if column]
    if not wanted:
        return _dataset(name, stored, _plain(usable))
    columns = hugging_face.hub_columns(table, wanted)
    return _labelled(name, stored, columns, np.arange(len(stored.images)), usable, options, hub)


def _given(name: str, file: Path | None, how: str) -> Path:
    if file is None:
        raise UserError(f"{name!r} names no images: write {how}")
    return file


def _table_path(said: str, beside: Path) -> Path:
    return beside / written_path(said)


def _skipped(options: dict[str, str]) -> list[str]:
    said = [word for word in options.get("skip", "").split("+") if word]
    for word in said:
        if word not in _SKIP:
            raise unknown_name("kind of pictures to skip", word, _SKIP)
    return said


def _usable(stored: StoredImages, skip: list[str], where: str) -> IndexArray:
    """The rows with an image; refuses, or tells of, those without."""
    if not stored.unreadable:
        return np.arange(len(stored.images))
    bad = sorted(stored.unreadable)
    said = "; ".join(stored.unreadable[row] for row in bad[:3]) + (
        f"; and {len(bad) - 3} more" if len(bad) > 3 else "")
    if "unreadable" not in skip:
        raise UserError(f"{len(bad)} of {len(stored.images)} images of {where} cannot be used: "
                        f"{said}; repair or remove them, or leave them out with skip=unreadable")
    if len(bad) == len(stored.images):
        raise UserError(f"no image of {where} can be used: {said}")
    warnings.warn(f"{len(bad)} of {len(stored.images)} images of {where} are left out: {said}",
                  stacklevel=2)
    return np.setdiff1d(np.arange(len(stored.images)), bad)


def _labelled(name: str, stored: StoredImages, columns: own_table.Columns, rows: IndexArray,
              usable: Int[np.ndarray, " usable"], options: dict[str, str],
              where: str) -> FactorDataset:
    keep = np.isin(rows, usable)
    columns = {key: column[keep] for key, column in columns.items()}
    return _dataset(name, stored, describe(columns, rows[keep], options, where))


def _plain(rows: IndexArray) -> Described:
    return Described(rows, FactorSpace.without_factors(len(rows)), None)


def _dataset(name: str, stored: StoredImages, described: Described) -> FactorDataset:
    in_place = np.array_equal(described.rows, np.arange(len(stored.images)))
    pixels = BytePixels(stored.images, None if in_place else described.rows)
    return FactorDataset(name, described.space, pixels, labels=described.labels)


def _entry(summary: str, file: str, load: object, *options: dict[str, str],
           by_name: bool = False) -> DatasetEntry:
    return DatasetEntry(
        summary=summary, space=None, image_shape=None, licence="yours", source="your own images",
        size="a byte for each pixel and channel", obtained="read once, then kept in the cache",
        load=load, file=file, options={k: v for part in options for k, v in part.items()},
        by_name=by_name)


_WITHOUT_FILES = {k: v for k, v in own_table.OPTIONS.items() if k != "file"}
IMAGES = _entry("pictures in a folder, with factors if a table has them", "a folder of pictures",
                load_folder, framing.OPTIONS, _OPTIONS, own_table.OPTIONS)
NPZ = _entry("images in an npz", "an npz with an array of images", load_array, framing.OPTIONS,
             array_images.OPTIONS, _WITHOUT_FILES)
NPY = _entry("images in an npy", "an array of images", load_array, framing.OPTIONS,
             {k: v for k, v in array_images.OPTIONS.items() if k != "array"}, _WITHOUT_FILES)
HF = _entry("a data set of the Hugging Face hub, or one saved to disk",
            "a name on the hub, or a folder that save_to_disk wrote", load_hub, framing.OPTIONS,
            _OPTIONS, hugging_face.OPTIONS,
            {k: v for k, v in _WITHOUT_FILES.items() if k != "table"}, by_name=True)
