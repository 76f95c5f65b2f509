"""smallNORB: photographs of 50 toys, LeCun, Huang and Bottou 2004, from its six published files.

Both halves are joined, of the two cameras the first is taken, and images of 96 x 96 are shrunk to
64 x 64 by a Lanczos filter, as for the runs of Locatello et al. 2019. In that study the ten toys of
a category are not a factor: an image is drawn by category, elevation, azimuth and lighting, and
which toy it shows is left to chance. `smallnorb` is this reading, `smallnorb_instances` has the toy
as a factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.framing import Framing
from unweave.data.matrix import norb_header, opened, read_whole
from unweave.data.published import PART, in_folder, marks, place, some_of, wants_part
from unweave.data.stored import StoredImages, key_of, stored_images
from unweave.factors import FactorSpace
from unweave.types import Factors, UserError

HALVES = ("smallnorb-5x46789x9x18x6x2x96x96-training-", "smallnorb-5x01235x9x18x6x2x96x96-testing-")
FILES = tuple(f"{half}{kind}.mat" for half in HALVES for kind in ("dat", "cat", "info"))

WHAT = "the folder with the six .mat files, plain or .gz"
INSTANCES = FactorSpace(
    names=("category", "instance", "elevation", "azimuth", "lighting"),
    sizes=(5, 10, 9, 18, 6),
    values=(np.array(["animal", "human", "airplane", "truck", "car"]), np.arange(10),
            np.arange(30, 75, 5), np.arange(0, 360, 20), np.arange(6)),
    types=("categorical", "categorical", "ordinal", "circular", "categorical"))

STUDY = FactorSpace(*(tuple(x[k] for k in (0, 2, 3, 4)) for x in (
    INSTANCES.names, INSTANCES.sizes, INSTANCES.values)),
    types=tuple(INSTANCES.types[k] for k in (0, 2, 3, 4)))

_FORMAT = 1  # of the cached file: a change in how images are read makes a new one
_SIDE = 96


def load(name: str, file: Path | None, *, size: str = "64", part: str = "no",
         instances: bool = False) -> FactorDataset:
    """The study's reading, or with `instances` all five factors."""
    folder = place("smallnorb", file, "smallnorb", WHAT)
    paths = in_folder(folder, FILES)
    rows = np.concatenate([_factors(paths, half) for half in HALVES])
    cells = INSTANCES.index(rows)
    if len(np.unique(cells)) != len(cells):
        twice = rows[np.flatnonzero(np.bincount(cells)[cells] > 1)[0]]
        raise UserError(f"{folder} has two images of {_words(twice)}: it is not smallNORB")
    if len(rows) != len(INSTANCES) and not wants_part(name, part):
        raise UserError(f"{folder} has {len(rows)} images, smallNORB has {len(INSTANCES)}: fetch "
                        "the files again, or take what is there with part=yes")
    stored = _images(paths, len(rows), Framing.of({"size": size, "crop": "none", "channels": "1"}))
    if instances:
        return FactorDataset(name, some_of(INSTANCES, rows),
                             BytePixels(stored.images, np.argsort(cells)))
    space = some_of(STUDY, rows[:, [0, 2, 3, 4]])
    num_each, rest = divmod(len(rows), len(space))
    place_of = space.index(rows[:, [0, 2, 3, 4]])
    if rest or (np.bincount(place_of) != num_each).any():
        raise UserError(f"{folder} does not have the same number of toys for every combination of "
                        f"{', '.join(space.names)}: use smallnorb_instances")
    order = np.lexsort((rows[:, 1], place_of))
    return FactorDataset(name, space, BytePixels(stored.images, order), num_each=num_each)


def _words(row: np.ndarray) -> str:
    return ", ".join(f"{name} {int(k)}" for name, k in zip(INSTANCES.names, row))


def _factors(paths: dict[str, Path], half: str) -> Factors:
    """Classes of all five factors of one half's images."""
    category = read_whole(paths[f"{half}cat.mat"], norb_header)
    info = read_whole(paths[f"{half}info.mat"], norb_header)
    with opened(paths[f"{half}dat.mat"], norb_header) as (header, _):
        num = header.shape[0]
        wanted = {"dat": ((num, 2, _SIDE, _SIDE), "uint8"), "cat": ((num,), "int32"),
                  "info": ((num, 4), "int32")}
        found = {"dat": (header.shape, str(header.dtype)),
                 "cat": (category.shape, str(category.dtype)),
                 "info": (info.shape, str(info.dtype))}
    for kind, expected in wanted.items():
        if found[kind] != expected:
            raise UserError(f"{paths[f'{half}{kind}.mat']} holds {found[kind][1]} of the shape "
                            f"{found[kind][0]}, expected {expected[1]} of {expected[0]}")
    rows = np.column_stack([category, info]).astype(np.int64)
    if (rows[:, 3] % 2).any():
        raise UserError(f"{paths[f'{half}info.mat']} has azimuths that are odd: they go from 0 to "
                        "34 in steps of 2")
    rows[:, 3] //= 2
    wrong = np.flatnonzero(((rows < 0) | (rows >= np.array(INSTANCES.sizes))).any(axis=1))
    if len(wrong):
        raise UserError(f"row {wrong[0]} of {paths[f'{half}info.mat']} and its category are "
                        f"{_words(rows[wrong[0]])}, beyond the sizes {INSTANCES.sizes}")
    return rows


def _images(paths: dict[str, Path], num: int, framing: Framing) -> StoredImages:
    """Camera 0 of all images, the training half first, shrunk."""
    files = [paths[f"{half}dat.mat"] for half in HALVES]
    running: list[tuple[int, Iterator[np.ndarray]]] = []

    def make(start: int, stop: int) -> tuple[np.ndarray, dict[int, str]]:
        # Images come in order: the files stay open from one call to the next.
        if not running or running[0][0] != start:
            running[:] = [(start, _photographs(files, start))]
        photographs = running[0][1]
        made = np.stack([framing.apply(Image.fromarray(next(photographs)))
                         for _ in range(start, stop)])
        running[0] = stop, photographs
        return made, {}

    key = key_of(["smallnorb", _FORMAT, repr(framing), marks(*files)])
    return stored_images(key, num, framing.shape, make, label="smallnorb")


def _photographs(files: list[Path], skip: int) -> Iterator[np.ndarray]:
    for path in files:
        with opened(path, norb_header) as (_, blocks):
            for block in blocks:
                yield from block[skip:, 0]
                skip = max(0, skip - len(block))


def load_instances(name: str, file: Path | None, **options: str) -> FactorDataset:
    """With the toy as a factor."""
    return load(name, file, instances=True, **options)


_SAID = {
    "image_shape": (64, 64, 1), "licence": "for research, with citation; not for sale",
    "source": "LeCun, Huang & Bottou 2004, https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
    "size": "199 MB", "obtained": "`unweave data fetch smallnorb` (263 MB), or from its files",
    "file": WHAT, "fetch": "smallnorb",
    "options": {"size": "height and width: 64 by default"} | PART}

SMALLNORB = DatasetEntry(
    summary="photographs of toys; which of ten toys is left to chance, as in the 2019 study",
    space=STUDY, load=load, **_SAID)

SMALLNORB_INSTANCES = DatasetEntry(
    summary="photographs of toys; which of ten toys is a factor",
    space=INSTANCES, load=load_instances, **_SAID)
