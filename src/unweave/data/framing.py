"""Framing: from a picture of any size and kind to bytes of one shape, by rules that are said.

A data set of the user's own is as good as its rules are plain: which part of a picture is kept,
how it is shrunk, what becomes of colour and of transparency. Each is an option with a name, and the
options are part of the name that a run stores. Nothing depends on the other pictures.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from unweave.types import UInt8, UserError, unknown_name

RULES = {"lanczos": Image.Resampling.LANCZOS, "area": Image.Resampling.BOX,
         "nearest": Image.Resampling.NEAREST}
"""Ways to resize: a windowed sinc (sharp, the usual choice), the mean of the area that a new pixel
covers (for drawings and binary images: no ringing), the nearest pixel (for masks)."""

BACKGROUNDS = {"black": 0, "grey": 128, "white": 255}
MAX_PIXELS = 100_000_000
"""A picture that claims more than this is refused before it is decoded."""

OPTIONS = {
    "size": "height and width in pixels: 64 by default; 32 and 128 suit the architectures too",
    "crop": "centre (the largest square, the default), none (stretched), a number (a centred "
            "square of so many pixels) or LEFT:TOP:RIGHT:BOTTOM in pixels",
    "resize": "lanczos (the default), area or nearest",
    "channels": "3 (grey is repeated, the default) or 1 (colour becomes its luma, ITU-R 601)",
    "background": "white (the default), grey or black: what shows where a picture is transparent",
}

UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError,
              AttributeError, OverflowError, MemoryError, struct.error, zlib.error,
              Image.DecompressionBombError)
"""What Pillow raises at damaged files, format by format."""


@dataclass(frozen=True)
class Framing:
    """The rules, checked. `of(options)` reads them from words."""

    size: int = 64
    crop: str = "centre"
    resize: str = "lanczos"
    channels: int = 3
    background: str = "white"

    def __post_init__(self) -> None:
        if not 8 <= self.size <= 1024:
            raise UserError(f"size={self.size} must lie in 8..1024: 32, 64 and 128 suit the "
                            "architectures")
        if self.channels not in (1, 3):
            raise UserError(f"channels={self.channels} must be 1 (grey) or 3 (colour)")
        if self.resize not in RULES:
            raise unknown_name("way to resize", self.resize, RULES)
        if self.background not in BACKGROUNDS:
            raise unknown_name("background", self.background, BACKGROUNDS)
        if not re.fullmatch(r"centre|none|[1-9]\d{0,5}|\d{1,6}(:\d{1,6}){3}", self.crop):
            raise UserError(f"crop={self.crop} is not understood: write centre, none, a number of "
                            "pixels, or LEFT:TOP:RIGHT:BOTTOM")
        if self.crop.count(":") == 3:
            left, top, right, bottom = map(int, self.crop.split(":"))
            if left >= right or top >= bottom:
                raise UserError(f"crop={self.crop} is empty: LEFT must be below RIGHT, TOP below "
                                "BOTTOM")

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Framing:
        """The rules among the options of a data name; the others are left alone."""
        found: dict[str, str | int] = {}
        for name in (field.name for field in fields(cls)):
            if name not in options:
                continue
            said = options[name]
            if name in ("size", "channels"):
                if not re.fullmatch(r"\d{1,5}", said):
                    raise UserError(f"{name}={said} must be a whole number")
                found[name] = int(said)
            else:
                found[name] = said
        return cls(**found)  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of every image: height, width, channels."""
        return self.size, self.size, self.channels

    def read(self, file: Path | io.BytesIO) -> UInt8[np.ndarray, "height width channel"]:
        """A picture from a file of any format that Pillow knows. Raises one of `UNREADABLE`."""
        with Image.open(file) as picture:
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise ValueError(f"{width} x {height} pixels are more than the {MAX_PIXELS:,} that "
                                 "are allowed")
            picture.load()
            return self.apply(ImageOps.exif_transpose(picture))

    def apply(self, picture: Image.Image) -> UInt8[np.ndarray, "height width channel"]:
        """A decoded picture: colour first, then the crop, then the size."""
        picture = self._cut(self._in_colour(picture))
        if picture.size != (self.size, self.size):
            picture = picture.resize((self.size, self.size), RULES[self.resize])
        return np.asarray(picture, dtype=np.uint8).reshape(self.shape)

    def _in_colour(self, picture: Image.Image) -> Image.Image:
        wanted = "L" if self.channels == 1 else "RGB"
        picture = in_bytes(picture)
        if "transparency" in picture.info or picture.mode in ("LA", "PA", "RGBA", "La", "RGBa"):
            layer = picture.convert("RGBA")
            shade = BACKGROUNDS[self.background]
            ground = Image.new("RGBA", layer.size, (shade, shade, shade, 255))
            picture = Image.alpha_composite(ground, layer).convert("RGB")
        return picture if picture.mode == wanted else picture.convert(wanted)

    def _cut(self, picture: Image.Image) -> Image.Image:
        width, height = picture.size
        if self.crop == "none":
            return picture
        if ":" in self.crop:
            box = tuple(map(int, self.crop.split(":")))
            if box[2] > width or box[3] > height:
                raise ValueError(f"it has {width} x {height} pixels, too few for crop={self.crop}")
            return picture.crop(box)
        side = min(width, height) if self.crop == "centre" else int(self.crop)
        if side > min(width, height):
            raise ValueError(f"it has {width} x {height} pixels, too few for crop={self.crop}")
        left, top = (width - side) // 2, (height - side) // 2
        return picture.crop((left, top, left + side, top + side))


def in_bytes(picture: Image.Image) -> Image.Image:
    """A picture of 16 bits with 8; others as they are. ValueError where the range is not known.

    Pillow's own conversion would clip: whatever is brighter than 255 of 65,535 became white.
    """
    if picture.mode.startswith("I;16"):
        deep = np.asarray(picture).astype(np.uint32)
        return Image.fromarray(((deep + 128) // 257).astype(np.uint8))
    if picture.mode in ("I", "F"):
        raise ValueError(f"its pixels are of the kind {picture.mode!r}, whose range is not known: "
                         "save it with 8 or 16 bits")
    return picture
