"""Sheets of images for a look at a data set: a random sample, and a walk along each factor."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.dataset import FactorDataset
from unweave.random import Purpose, numpy_generator
from unweave.types import ImageArray, UInt8, UserError

Sheet = UInt8[np.ndarray, "row column channel"]

_GAP = 2
_GREY = 128


def tile(images: ImageArray, num_columns: int) -> Sheet:
    """Images in rows of `num_columns`, two grey pixels between them; the last row may be short."""
    num, height, width, channels = images.shape
    rows = -(-num // num_columns)
    sheet = np.full((rows * (height + _GAP) + _GAP, num_columns * (width + _GAP) + _GAP, channels),
                    _GREY, dtype=np.uint8)
    for i, image in enumerate(images):
        top = i // num_columns * (height + _GAP) + _GAP
        left = i % num_columns * (width + _GAP) + _GAP
        sheet[top:top + height, left:left + width] = image
    return sheet


def contact_sheet(dataset: FactorDataset, num: int = 64, seed: int = 0) -> Sheet:
    """`num` images drawn uniformly, in a sheet about as wide as high."""
    if num < 1:
        raise UserError(f"a sheet needs at least 1 image, got {num}")
    index = dataset.space.draw(num, numpy_generator(seed, Purpose.EVALUATION))
    return tile(dataset.images(index, seed=seed), int(np.ceil(np.sqrt(num))))


def factor_walks(dataset: FactorDataset, seed: int = 0, num_columns: int = 10) -> Sheet:
    """One row for each factor: it runs through its classes, the others stay where they are.

    The image walked from is drawn from `seed`. Factors with more than `num_columns` classes show
    that many, evenly spaced from first to last; combinations that do not exist stay grey.
    """
    if num_columns < 1:
        raise UserError(f"a walk needs at least 1 column, got {num_columns}")
    space = dataset.space
    if not space.has_factors:
        raise UserError(f"{dataset.name} has no factors to walk along: its images are known by "
                        "number alone")
    start = space.factors(space.draw(1, numpy_generator(seed, Purpose.EVALUATION)))[0]
    columns = min(num_columns, max(space.sizes))
    sheet = np.full((len(space.sizes) * columns, *dataset.image_shape), _GREY, dtype=np.uint8)
    for k, size in enumerate(space.sizes):
        shown = min(size, columns)
        for column, value in enumerate(np.linspace(0, size - 1, shown).round().astype(np.int64)):
            row = start.copy()
            row[k] = value
            if space.has(row):
                sheet[k * columns + column] = dataset.images(space.index(row[None]), seed=seed)[0]
    return tile(sheet, columns)


def save_png(sheet: Sheet, path: str | Path) -> Path:
    """Write a sheet as PNG, under a temporary name first; its folder is made if need be."""
    path = Path(path)
    if sheet.shape[-1] not in (1, 3):
        raise UserError(f"a PNG has 1 or 3 channels, got {sheet.shape[-1]}")
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(sheet[..., 0] if sheet.shape[-1] == 1 else sheet)
        image.save(draft, format="PNG")
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise UserError(f"cannot write {path} ({error}): choose a place you may write") from error
    return path
