"""The painting behind Scream-dSprites: read, shrunk as for the published runs, cut into patches.

Locatello et al. 2019, appendix D.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from unweave.data.dataset import Draw, Observe
from unweave.types import UInt8, UserError

SIDE = 64
"""Pixels of a patch, and of a sprite's image."""

BOX = (350, 274)
"""Width and height into which the painting was shrunk for the published runs."""


def read_painting(path: Path) -> UInt8[np.ndarray, "height width 3"]:
    """The painting in RGB, shrunk to fit 350 x 274 with its aspect kept."""
    try:
        with Image.open(path) as image:
            picture = image.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"{path} is not an image that can be opened ({error}): "
                        "give a JPEG or PNG scan of the painting") from error
    picture.thumbnail(BOX, Image.Resampling.LANCZOS)
    if min(picture.size) < SIDE:
        raise UserError(f"{path} is {picture.width} x {picture.height} pixels once it fits into "
                        f"{BOX[0]} x {BOX[1]}, patches need {SIDE} x {SIDE}: give a larger scan")
    return np.array(picture)


def scream(painting: UInt8[np.ndarray, "height width 3"], device: torch.device) -> Observe:
    """The background is a random patch, averaged with a random colour; the sprite inverts it.

    The last row and column of patch positions are left out, as in the published runs.
    """
    width = painting.shape[1]
    num_top, num_left = max(painting.shape[0] - SIDE, 1), max(width - SIDE, 1)
    flat = torch.from_numpy(painting.reshape(-1, 3).astype(np.float32) / 255.0).to(device)
    span = torch.arange(SIDE, device=device)
    patch = span[:, None] * width + span[None, :]

    def observe(sprites: Tensor, draw: Draw) -> Tensor:
        uniform = draw(sprites.shape[-4], 5)
        top = (uniform[..., 0] * num_top).to(torch.int64)
        left = (uniform[..., 1] * num_left).to(torch.int64)
        background = flat[(top * width + left)[..., None, None] + patch]
        background = (background + uniform[..., None, None, 2:]) / 2.0
        # |sprite - v| is v outside the sprite (0) and 1 - v inside (1).
        return torch.abs(sprites - background)

    return observe
