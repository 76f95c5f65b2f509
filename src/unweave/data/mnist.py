"""MNIST and Fashion-MNIST, from their four idx files.

Several thousand images share a class, so the class is a label and not a factor: nothing else is
known of an image, and none can be asked for by its class alone. Images of 28 x 28 become 32 x 32
by a black border of two pixels, with every pixel as it was.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.framing import RULES
from unweave.data.matrix import idx_header, read_whole
from unweave.data.published import in_folder, place
from unweave.factors import FactorSpace, LabelTable
from unweave.types import ImageArray, UserError

SPLITS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}
FILES = tuple(f"{half}-{kind}" for half in ("train", "t10k")
              for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
WHAT = "the folder with the four idx files, plain or .gz"
_SIDE = 28

DIGITS = tuple("0123456789")
CLOTHES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
           "ankle boot")


def load(dataset: str, label: str, classes: tuple[str, ...], name: str, file: Path | None, *,
         split: str = "train", size: str = "32", fit: str = "pad") -> FactorDataset:
    """Images of a split with their class as a label."""
    if split not in SPLITS:
        raise UserError(f"split={split} of {dataset} is not understood: train, test or all")
    side = int(size) if size.isdecimal() and len(size) < 5 else 0
    if not 8 <= side <= 1024 or (fit == "pad" and side < _SIDE):
        raise UserError(f"size={size} of {dataset} must be a whole number, 8 to 1024, and at least "
                        f"{_SIDE} where images are padded")
    if fit not in ("pad", "resize"):
        raise UserError(f"fit={fit} of {dataset} is not understood: pad (a black border) or resize")
    paths = in_folder(place(dataset, file, dataset, WHAT), FILES)
    parts = [_half(paths, half) for half in SPLITS[split]]
    images = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([labels for _, labels in parts])
    table = LabelTable((label,), np.array(classes)[labels][:, None], ("categorical",))
    return FactorDataset(name, FactorSpace.without_factors(len(images)),
                         BytePixels(_fitted(images, side, fit)), labels=table)


def _half(paths: dict[str, Path], half: str) -> tuple[np.ndarray, np.ndarray]:
    pictures, answers = (paths[f"{half}-{kind}"] for kind in ("images-idx3-ubyte",
                                                              "labels-idx1-ubyte"))
    images, labels = read_whole(pictures, idx_header), read_whole(answers, idx_header)
    if images.ndim != 3 or images.shape[1:] != (_SIDE, _SIDE) or images.dtype != np.uint8:
        raise UserError(f"{pictures} holds {images.dtype} of the shape {images.shape}, expected "
                        f"uint8 of (n, {_SIDE}, {_SIDE})")
    if labels.shape != images.shape[:1] or labels.dtype != np.uint8 or labels.max() > 9:
        raise UserError(f"{answers} holds {labels.dtype} of the shape {labels.shape} up to "
                        f"{labels.max()}, expected uint8 of ({len(images)},) from 0 to 9")
    return images, labels


def _fitted(images: np.ndarray, side: int, fit: str) -> ImageArray:
    if fit == "pad":
        before, after = (side - _SIDE) // 2, side - _SIDE - (side - _SIDE) // 2
        return np.pad(images, ((0, 0), (before, after), (before, after)))[..., None]
    made = np.empty((len(images), side, side, 1), dtype=np.uint8)
    for i, image in enumerate(images):
        made[i, ..., 0] = Image.fromarray(image).resize((side, side), RULES["lanczos"])
    return made


def _entry(name: str, label: str, classes: tuple[str, ...], **said: str) -> DatasetEntry:
    return DatasetEntry(
        space=FactorSpace.without_factors(60_000), image_shape=(32, 32, 1), size="61 MB",
        load=partial(load, name, label, classes), fetch=name,
        file=WHAT,
        labels=(label,), **said,
        options={"split": "train (the default), test or all",
                 "size": "height and width: 32 by default",
                 "fit": "pad (a black border, the default) or resize (Lanczos)"})


MNIST = _entry(
    "mnist", "digit", DIGITS, summary="handwritten digits, 28 x 28 in a black border",
    licence="CC BY-SA 3.0", source="LeCun, Cortes & Burges 1998, http://yann.lecun.com/exdb/mnist/",
    obtained="`unweave data fetch mnist` (12 MB), or from its files")

FASHION_MNIST = _entry(
    "fashion_mnist", "article", CLOTHES, summary="pieces of clothing, 28 x 28 in a black border",
    licence="MIT", source="Xiao, Rasul & Vollgraf 2017, https://arxiv.org/abs/1708.07747",
    obtained="`unweave data fetch fashion_mnist` (31 MB), or from its files")
