"""A picture that somebody sends, decoded with suspicion and framed like the data set's images."""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image, ImageOps

from unweave.data.framing import UNREADABLE, in_bytes
from unweave.types import UserError

MAX_BYTES = 8_000_000
MAX_PIXELS = 40_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
"""What is decoded: no format that can call other programs, no vector format."""


def read_picture(payload: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    """Bytes `[height, width, channel]`: the largest centred part of the picture that fits.

    Transparent parts become white. The size that the file claims is checked before a pixel is
    decoded; whatever is wrong with it is one sentence.
    """
    if len(payload) > MAX_BYTES:
        raise UserError(f"the picture is larger than {MAX_BYTES // 1_000_000} MB: send a smaller "
                        "one")
    height, width, channels = shape
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of what is refused below
            with Image.open(io.BytesIO(payload), formats=FORMATS) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise UserError(f"the picture has {picture.width} x {picture.height} pixels, "
                                    f"more than the {MAX_PIXELS // 1_000_000} million that are "
                                    "allowed: send a smaller one")
                picture.load()
                upright = in_bytes(ImageOps.exif_transpose(picture)).convert("RGBA")
                ground = Image.new("RGBA", upright.size, "white")
                flat = Image.alpha_composite(ground, upright).convert(
                    "L" if channels == 1 else "RGB")
    except UserError:
        raise
    except UNREADABLE:
        raise UserError(f"this is not a picture that can be read: send one of "
                        f"{', '.join(FORMATS)}") from None
    scale = min(flat.width / width, flat.height / height)
    part = max(1, round(scale * width)), max(1, round(scale * height))
    left, top = (flat.width - part[0]) // 2, (flat.height - part[1]) // 2
    flat = flat.crop((left, top, left + part[0], top + part[1]))
    if flat.size != (width, height):
        flat = flat.resize((width, height), Image.Resampling.LANCZOS)
    return np.array(flat, dtype=np.uint8).reshape(shape)
