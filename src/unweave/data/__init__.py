"""Data sets: images with known factors, by name.

`load_data("dsprites")` gives a `FactorDataset`; `name:FILE` takes the pixels, or what else the data
set lacks, from the user's file. A new data set is one file and a line in `DATASETS`.
"""

from __future__ import annotations

from pathlib import Path

from unweave.data.dataset import (
    DatasetEntry,
    Draw,
    FactorDataset,
    ResidentImages,
    table_dataset,
)
from unweave.data.dsprites_file import DSPRITES, FileCheck, check_file
from unweave.data.dsprites_variants import COLOR_DSPRITES, NOISY_DSPRITES, SCREAM_DSPRITES
from unweave.data.fetch import SOURCES, data_folder, fetch
from unweave.data.picture import contact_sheet, factor_walks, save_png
from unweave.types import UserError, unknown_name

__all__ = [
    "DATASETS",
    "SOURCES",
    "DatasetEntry",
    "Draw",
    "FactorDataset",
    "FileCheck",
    "ResidentImages",
    "check_file",
    "contact_sheet",
    "data_folder",
    "factor_walks",
    "fetch",
    "load_data",
    "save_png",
    "table_dataset",
]

DATASETS: dict[str, DatasetEntry] = {
    "dsprites": DSPRITES,
    "color_dsprites": COLOR_DSPRITES,
    "noisy_dsprites": NOISY_DSPRITES,
    "scream_dsprites": SCREAM_DSPRITES,
}


def load_data(spec: str) -> FactorDataset:
    """The data set called `name`, or `name:FILE`; `spec` becomes its name."""
    name, colon, file = spec.partition(":")
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    entry = DATASETS[name]
    if not colon:
        return entry.load(spec, None)
    if not entry.file:
        raise UserError(f"{name} takes no file, got {file!r}: use the name {name} alone")
    if not file:
        raise UserError(f"{spec!r} names no file: write {name}:FILE, where FILE is {entry.file}, "
                        f"or {name} alone")
    return entry.load(spec, Path(file).expanduser())
