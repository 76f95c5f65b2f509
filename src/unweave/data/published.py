"""What the loaders of published files have in common: where files lie, and what is said if not.

A data set `name` is read from the user's FILE or folder, or else from the cache folder, where
`unweave data fetch name` puts it. One that is not whole is refused: a run on half the images must
not look like a run on all of them. Who wants it says `part=yes`, which stays in the run's name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unweave.data.fetch import data_folder
from unweave.factors import FactorSpace
from unweave.types import Factors, UserError

PART = {"part": "yes takes what is there of an incomplete set; without it that is an error"}


def place(name: str, file: Path | None, stored: str, what: str) -> Path:
    """The user's file, or the stored one; UserError that says what belongs where."""
    path = data_folder() / stored if file is None else file
    if not path.exists():
        how = (f"run `unweave data fetch {name}`, or put {what} there, or say where it is with "
               f"{name}:FILE" if file is None else f"give {what}")
        raise UserError(f"{name} is not at {path}: {how}")
    return path


def in_folder(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Files of a folder, as they are or with `.gz` at the end, or a sentence that names one."""
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: give the folder that has {names[0]}")
    found = {}
    for name in names:
        path = next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
        if path is None:
            raise UserError(f"{folder} has no file {name}, plain or with .gz: all of "
                            f"{', '.join(names)} belong there")
        found[name] = path
    return found


def wants_part(name: str, said: str) -> bool:
    """Whether an incomplete set will do."""
    if said not in ("yes", "no"):
        raise UserError(f"part={said} of {name} is not understood: yes or no")
    return said == "yes"


def some_of(space: FactorSpace, rows: Factors) -> FactorSpace:
    """The same factors, with those combinations alone that occur in `rows`."""
    cells = np.ravel_multi_index(tuple(rows.T), space.sizes)
    return FactorSpace(space.names, space.sizes, space.values, np.unique(cells), space.types)


def marks(*paths: Path) -> list[tuple[str, int, int]]:
    """What tells one state of some files from another: path, length, time of the last change."""
    found = []
    for path in paths:
        status = os.stat(path)
        found.append((str(path.resolve()), status.st_size, status.st_mtime_ns))
    return found
