"""Data sets: images, with factors or without, by name.

`load_data("dsprites")` gives a `FactorDataset`; `name:FILE` takes the pixels, or what else the data
set lacks, from the user's file; `name,option=value` and `name:FILE,option=value` say how it is
read. A new data set is one file and a line in `DATASETS`.
"""

from __future__ import annotations

import re
from pathlib import Path

from unweave.data import cells
from unweave.data.cars3d import CARS3D
from unweave.data.celeba import CELEBA
from unweave.data.chairs3d import CHAIRS3D
from unweave.data.dataset import (
    DatasetEntry,
    Draw,
    FactorDataset,
    ResidentImages,
    table_dataset,
)
from unweave.data.dsprites_file import DSPRITES, FileCheck, check_file
from unweave.data.dsprites_variants import COLOR_DSPRITES, NOISY_DSPRITES, SCREAM_DSPRITES
from unweave.data.fetch import SOURCES, data_folder, fetch, whole_path, written_path
from unweave.data.mnist import FASHION_MNIST, MNIST
from unweave.data.mpi3d import MPI3D_REAL, MPI3D_REALISTIC, MPI3D_TOY
from unweave.data.own import HF, IMAGES, NPY, NPZ
from unweave.data.picture import contact_sheet, factor_walks, save_png
from unweave.data.shapes3d import SHAPES3D_RENDER
from unweave.data.shapes3d_file import SHAPES3D
from unweave.data.smallnorb import SMALLNORB, SMALLNORB_INSTANCES
from unweave.plugins import Entries
from unweave.types import UserError, unknown_name

__all__ = [
    "DATASETS",
    "SOURCES",
    "DatasetEntry",
    "Draw",
    "FactorDataset",
    "FileCheck",
    "ResidentImages",
    "absolute_spec",
    "check_file",
    "checked_spec",
    "contact_sheet",
    "data_folder",
    "factor_walks",
    "fetch",
    "load_data",
    "parse_spec",
    "save_png",
    "shown_name",
    "split_specs",
    "table_dataset",
]

_OURS: dict[str, DatasetEntry] = {
    "dsprites": DSPRITES,
    "color_dsprites": COLOR_DSPRITES,
    "noisy_dsprites": NOISY_DSPRITES,
    "scream_dsprites": SCREAM_DSPRITES,
    "shapes3d": SHAPES3D,
    "shapes3d-render": SHAPES3D_RENDER,
    "images": IMAGES,
    "npz": NPZ,
    "npy": NPY,
    "hf": HF,
    "smallnorb": SMALLNORB,
    "smallnorb_instances": SMALLNORB_INSTANCES,
    "cars3d": CARS3D,
    "mpi3d_toy": MPI3D_TOY,
    "mpi3d_realistic": MPI3D_REALISTIC,
    "mpi3d_real": MPI3D_REAL,
    "chairs3d": CHAIRS3D,
    "celeba": CELEBA,
    "mnist": MNIST,
    "fashion_mnist": FASHION_MNIST,
}

DATASETS: Entries[DatasetEntry] = Entries("unweave.datasets", DatasetEntry, _OURS)
"""Data sets by name: ours, and those of installed plugins."""


def load_data(spec: str) -> FactorDataset:
    """The data set called `name`, `name:FILE`, or either with options; `spec` becomes its name."""
    name, file, options = checked_spec(spec)
    entry = DATASETS[name]
    chosen = {option: options.pop(option) for option in cells.OPTIONS if option in options}
    path = None if file is None else written_path(file)
    return _trained_on(entry.load(spec, path, **options), chosen)


def checked_spec(spec: str) -> tuple[str, str | None, dict[str, str]]:
    """As `parse_spec`, of what can be a data set as far as its name and options tell.

    Nothing is opened: whether its files are here, and what the options are set to, is not asked.
    """
    name, file, options = parse_spec(spec)
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    entry = DATASETS[name]
    for option in options:
        if option in cells.OPTIONS:
            continue
        if not entry.options:
            raise UserError(f"{name} has no options, got {option}={options[option]}: leave it out")
        if option not in entry.options:
            raise unknown_name(f"option of {name}", option, entry.options)
    if file is not None and not entry.file:
        raise UserError(f"{name} takes no file, got {file!r}: use the name {name} alone")
    if file is not None and not file:
        raise UserError(f"{spec!r} names no file: write {name}:FILE, where FILE is {entry.file}, "
                        f"or {name} alone")
    return name, file, options


def _trained_on(dataset: FactorDataset, chosen: dict[str, str]) -> FactorDataset:
    return dataset.trained_on(cells.training_cells(dataset.space, chosen)) if chosen else dataset


def absolute_spec(spec: str) -> str:
    """The same with files by their whole paths: a run must find them again from anywhere."""
    name, file, options = parse_spec(spec)
    if name not in DATASETS:
        return spec
    entry = DATASETS[name]
    files = entry.file_options
    if file is not None:
        here = not entry.by_name or written_path(file).exists()
        name = f"{name}:{whole_path(file) if here else file}"
    for key, value in sorted(options.items()):
        name += f",{key}={whole_path(value) if key in files else value}"
    return name


def split_specs(text: str) -> list[str]:
    """Data sets with commas between, each with its options: `dsprites,mnist:FOLDER,size=28` is two.

    A word with `=` is an option of the data set before it, and a comma that no known name follows
    is part of a file's name. UserError if a data set is unknown.
    """
    found: list[str] = []
    for part in text.split(","):
        begins = parse_spec(part.strip())[0] in DATASETS
        if found and not begins and (re.match(r"[A-Za-z_]+=", part) or ":" in found[-1]):
            found[-1] += f",{part}"
        else:
            found.append(part.strip())
    for spec in found:
        name = parse_spec(spec)[0]
        if name not in DATASETS:
            raise unknown_name("data set", name, DATASETS)
    return found


def parse_spec(spec: str) -> tuple[str, str | None, dict[str, str]]:
    """Name, file (None without a colon) and options of a data set as users write it.

    Options stand at the end. A comma that no `word=` follows is part of the file's name.
    """
    found = re.fullmatch(r"([^:,]*)(?::(.*?))?((?:,[A-Za-z_]+=[^,]*)*)", spec, re.DOTALL)
    if found is None:  # nothing that could be loaded, but data sets in memory are named freely
        return spec, None, {}
    pairs = [part.split("=", 1) for part in found[3].split(",")[1:]]
    return found[1], found[2], {key: value.strip() for key, value in pairs}


def shown_name(spec: str) -> str:
    """A data set's name without the folders that lead to its files."""
    name, file, options = parse_spec(spec)
    if file is not None:
        name = f"{name}:{Path(file).name}"
    return name + "".join(f",{k}={Path(v).name}" for k, v in options.items())
