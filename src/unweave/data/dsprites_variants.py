"""Color-, Noisy- and Scream-dSprites: sprites with a random look, drawn anew for every sample.

Locatello et al. 2019, "Challenging common assumptions in the unsupervised learning of disentangled
representations", appendix D. The factors are those of dSprites; what is random is not a factor.
All three have three channels. Each takes its numbers in a single draw.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unweave.data import dsprites
from unweave.data.dataset import DatasetEntry, Draw, FactorDataset, Observe
from unweave.data.fetch import stored_path
from unweave.data.painting import read_painting, scream
from unweave.types import UserError


def colour(sprites: Tensor, draw: Draw) -> Tensor:
    """Each channel of a sprite is scaled by its own uniform(0.5, 1)."""
    scale = 0.5 + 0.5 * draw(sprites.shape[-4], 3)
    return sprites * scale[..., None, None, :]


def noisy(sprites: Tensor, draw: Draw) -> Tensor:
    """The background is uniform(0, 1) for each pixel and channel; the sprite is white."""
    return torch.maximum(sprites, draw(*sprites.shape[-4:-1], 3))


@functools.lru_cache(maxsize=2)
def _painting_of(path: Path, size: int, changed: int) -> np.ndarray:
    return read_painting(path)


def _load(observe: Observe) -> Callable[[str, Path | None], FactorDataset]:
    def load(name: str, file: Path | None) -> FactorDataset:
        return FactorDataset(name, dsprites.SPACE, dsprites.PIXELS, channels=3,
                             observe_on=lambda device: observe)

    return load


def _load_scream(name: str, file: Path | None) -> FactorDataset:
    path = file or stored_path("scream")
    if not path.is_file():
        way = (f"give the path of a scan of the painting as {name.partition(':')[0]}:FILE" if file
               else "run `unweave data fetch scream`, put a scan of the painting there, "
                    "or name one as scream_dsprites:FILE")
        raise UserError(f"the painting is not at {path}: {way}")
    status = path.stat()
    painting = _painting_of(path.resolve(), status.st_size, status.st_mtime_ns)
    return FactorDataset(name, dsprites.SPACE, dsprites.PIXELS, channels=3,
                         observe_on=functools.partial(scream, painting))


_SOURCE = "Locatello et al. 2019, appendix D, https://arxiv.org/abs/1811.12359"

COLOR_DSPRITES = DatasetEntry(
    summary="dSprites, each sprite in a random colour",
    space=dsprites.SPACE, image_shape=(64, 64, 3), licence="Apache-2.0", source=_SOURCE,
    size="378 MB packed", obtained="rendered in about a second", load=_load(colour))

NOISY_DSPRITES = DatasetEntry(
    summary="dSprites, white sprites before random noise",
    space=dsprites.SPACE, image_shape=(64, 64, 3), licence="Apache-2.0", source=_SOURCE,
    size="378 MB packed", obtained="rendered in about a second", load=_load(noisy))

SCREAM_DSPRITES = DatasetEntry(
    summary="dSprites, sprites that invert a random patch of Munch's The Scream",
    space=dsprites.SPACE, image_shape=(64, 64, 3),
    licence="Apache-2.0; the painting is in the public domain", source=_SOURCE,
    size="378 MB packed, and the painting",
    obtained="rendered; the painting by `unweave data fetch scream` or from a file",
    load=_load_scream, file="a scan of the painting", fetch="scream")
