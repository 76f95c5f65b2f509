"""Cars3D: 183 car models from 24 directions and 4 heights, Reed et al. 2015, from its archive.

One MATLAB file for each model holds `im` (128, 128, 3, 24, 4): height, width, channel, azimuth,
elevation. Files are sorted by name, as the order of a directory is not the same everywhere; the
numbers of the models may therefore differ from those of published runs. The order of the factors is
that of the 2019 study. Images are shrunk by a Lanczos filter.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.archive import contents
from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.framing import Framing
from unweave.data.published import PART, marks, place, wants_part
from unweave.data.stored import key_of, stored_images
from unweave.factors import FactorSpace
from unweave.types import ImageArray, UserError

NUM_MODELS = 183
WHAT = "nips2015-analogy-data.tar.gz, or the folder data/cars from it"
SHAPE = (128, 128, 3, 24, 4)
WANTED = re.compile(r"^[^/.][^/]*\.mat$")
"""Of a folder: not what lies in folders below it, and nothing hidden."""

MAX_BYTES = 16 << 20
"""Three times what `im` and the mask beside it take without packing."""

_FORMAT = 1  # of the cached file: a change in how images are read makes a new one


def space_of(num_models: int) -> FactorSpace:
    """The factors, in the order of the study."""
    return FactorSpace(names=("elevation", "azimuth", "type"), sizes=(4, 24, num_models),
                       values=(np.arange(4), np.arange(0, 360, 15), np.arange(num_models)),
                       types=("ordinal", "circular", "categorical"))


def load(name: str, file: Path | None, *, size: str = "64", part: str = "no") -> FactorDataset:
    """From the archive, or from the folder that was unpacked from it."""
    path = place("cars3d", file, "nips2015-analogy-data.tar.gz", WHAT)
    framing = Framing.of({"size": size, "crop": "none", "channels": "3"})
    accept_part = wants_part(name, part)
    if path.is_dir():
        # The whole archive has sprites beside the cars.
        path = next((p for p in (path / "data" / "cars", path / "cars") if p.is_dir()), path)
        files = sorted(p for p in path.iterdir() if WANTED.search(p.name) and p.is_file())
        state = marks(*files)
        num_models = len(files)
    else:
        state, num_models = marks(path), 0
    made: list[ImageArray] = []

    def whole() -> ImageArray:
        if not made:
            made.append(read_models(path, framing, accept_part))
        return made[0]

    # How many models an archive has is known once it is read; a whole one has them all.
    num_models = num_models or (len(whole()) // 96 if accept_part else NUM_MODELS)
    if num_models != NUM_MODELS and not accept_part:
        raise UserError(_incomplete(path, num_models))
    key = key_of(["cars3d", _FORMAT, repr(framing), state])
    stored = stored_images(key, 96 * num_models, framing.shape,
                           lambda start, stop: (whole()[start:stop], {}), label="cars3d")
    return FactorDataset(name, space_of(num_models), BytePixels(stored.images))


def read_models(path: Path, framing: Framing, accept_part: bool = False) -> ImageArray:
    """All images in the order of the index: elevation, azimuth, then the model fastest."""
    wanted = WANTED if path.is_dir() else re.compile(r"(^|/)cars/[^/.][^/]*\.mat$")
    models = {}
    for name, content in contents(path, wanted, MAX_BYTES):
        models[name] = _model(f"{name} in {path}", content, framing)
        if len(models) > NUM_MODELS:
            raise UserError(f"{path} has more than {NUM_MODELS} models: give the folder data/cars, "
                            "or the archive")
    if len(models) != NUM_MODELS and not (accept_part and models):
        raise UserError(_incomplete(path, len(models)))
    stacked = np.stack([models[name] for name in sorted(models)], axis=2)
    return stacked.reshape(-1, *framing.shape)


def _incomplete(path: Path, num: int) -> str:
    return (f"{path} has {num} models, Cars3D has {NUM_MODELS}: fetch it again, or take what is "
            "there with part=yes")


def _model(where: str, content: bytes, framing: Framing) -> np.ndarray:
    """Images `[elevation, azimuth, height, width, 3]` of one file."""
    import scipy.io  # slow to import, and needed here alone

    try:
        found = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(io.BytesIO(content))}
        if "im" in found and found["im"] == (SHAPE, "uint8"):
            images = scipy.io.loadmat(io.BytesIO(content), variable_names=["im"])["im"]
        else:
            images = None
    except Exception as error:  # scipy's reader raises nearly anything at damaged bytes
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{where} cannot be read ({reason}): it may be damaged, fetch the archive "
                        "again") from error
    if images is None:
        held = ", ".join(f"{name} {shape} of {kind}" for name, (shape, kind) in found.items())
        raise UserError(f"{where} holds {held or 'nothing'}, expected im {SHAPE} of uint8, in "
                        "colour")
    ordered = np.ascontiguousarray(images.transpose(4, 3, 0, 1, 2)).reshape(96, 128, 128, 3)
    small = np.stack([framing.apply(Image.fromarray(image)) for image in ordered])
    return small.reshape(4, 24, *framing.shape)


CARS3D = DatasetEntry(
    summary="rendered cars from all sides; the factors in the order of the 2019 study",
    space=space_of(NUM_MODELS), image_shape=(64, 64, 3), licence="not stated; for research",
    source="Reed et al. 2015, Deep visual analogy-making; Fidler et al. 2012",
    size="216 MB", obtained="`unweave data fetch cars3d` (about 300 MB), or from its archive",
    load=load, file=WHAT,
    fetch="cars3d", options={"size": "height and width: 64 by default"} | PART)
