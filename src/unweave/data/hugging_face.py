"""`hf:NAME`: a data set of the Hugging Face hub, or a folder that `save_to_disk` wrote.

The package `datasets` is an extra (`pip install unweave[hf]`) and is imported where it is used. It
keeps what it downloads in its own cache; our cache holds the pixels after framing.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data.framing import UNREADABLE, Framing
from unweave.data.stored import StoredImages, each, key_of, stored_images
from unweave.types import UserError, unknown_name

OPTIONS = {
    "split": "train by default",
    "column": "the column with the images; not needed where only one has them",
    "config": "the configuration of a data set that has several",
}

_FORMAT = 1


def read_hub(name: str, options: dict[str, str],
             framing: Framing) -> tuple[Any, list[str], StoredImages]:
    """The data set, a name for each image, and the images."""
    table, image = _opened(name, options)
    column = _image_column(table, image, name, options.get("column"))
    raw = table.select_columns([column]).cast_column(column, image(decode=False))
    names = [f"row {k}" for k in range(len(raw))]

    def read(row: int) -> np.ndarray:
        cell = raw[row][column]
        if cell is None:
            raise ValueError("there is no image")
        return framing.read(io.BytesIO(cell["bytes"]) if cell["bytes"] else Path(cell["path"]))

    def describe(row: int, error: BaseException) -> str:
        reason = " ".join(str(error).split()) or type(error).__name__
        return f"row {row} of {name} cannot be used ({reason[:200]})"

    if len(raw) == 0:
        raise UserError(f"{name} has no rows: choose another split")
    key = key_of(["hf", _FORMAT, name, raw._fingerprint, len(raw), column, repr(framing)])
    make = each(read, framing.shape, UNREADABLE, describe)
    found = stored_images(key, len(raw), framing.shape, make, label=f"hf:{name}")
    return table, names, found


def hub_columns(table: Any, wanted: list[str]) -> dict[str, np.ndarray]:
    """Columns of a data set by name; classes with names come as those."""
    found = {}
    for name in wanted:
        if name not in table.column_names:
            raise unknown_name("column", name, table.column_names)
        values = table[name]
        names = getattr(table.features[name], "names", None)
        if isinstance(names, list):
            values = [None if v is None or v < 0 else names[v] for v in values]
        column = np.array(list(values))
        if column.ndim != 1 or column.dtype.kind not in "biufUO":
            raise UserError(f"the column {name!r} holds no plain numbers or names: choose others "
                            "with factors=")
        found[name] = column
    return found


def _opened(name: str, options: dict[str, str]) -> tuple[Any, Any]:
    try:
        import datasets
    except ImportError:
        raise UserError("hf:NAME needs the package datasets: pip install 'unweave[hf]', or save "
                        "the images in a folder and use images:FOLDER") from None
    split = options.get("split", "train")
    try:
        if Path(name).is_dir() and any((Path(name) / mark).is_file() for mark in (
                "state.json", "dataset_dict.json")):
            table = datasets.load_from_disk(name)
            if isinstance(table, dict):
                if split not in table:
                    raise unknown_name("split", split, table)
                table = table[split]
        else:
            table = datasets.load_dataset(name, options.get("config"), split=split)
    except UserError:
        raise
    except Exception as error:  # the package raises what its own dependencies raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"Hugging Face data set {name!r} cannot be loaded ({reason}): check the "
                        "name, split= and config=, and the connection") from error
    return table, datasets.Image


def _image_column(table: Any, image: Any, name: str, wanted: str | None) -> str:
    fitting = [key for key, kind in table.features.items() if isinstance(kind, image)]
    if wanted is not None and wanted not in fitting:
        raise UserError(f"the column {wanted!r} of {name} holds no images: those with images are "
                        f"{', '.join(fitting) or 'none'}")
    if wanted is None and len(fitting) != 1:
        raise UserError(f"{name} has {len(fitting)} columns with images ({', '.join(fitting)}): "
                        "say which, column=NAME")
    return wanted or fitting[0]
