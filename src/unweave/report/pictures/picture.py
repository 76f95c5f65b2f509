"""What a picture is: something that can be saved as PNG or SVG and that a notebook shows by itself.

Three kinds. A `Sheet` is small images in rows with words beside them, drawn with Pillow alone. A
`Chart` is drawn with matplotlib. A `Motion` is a row of frames, saved as GIF or WebP.
"""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unweave.training.folder import write_atomically
from unweave.types import UserError

INK, PAPER, FAINT = (24, 28, 36), (255, 255, 255), (96, 104, 118)
SCALE = 2
"""Pixels of a PNG for each one on the page: sharp in print and on dense screens."""
_DPI = 96 * SCALE
_GAP, _EDGE = 3, 14
_TITLE, _NAME, _REMARK = 15, 14, 12


Word = tuple[float | int, float | int, str, int, tuple[int, int, int]]
"""Something written: its left end, the middle of its height, the text, its size and colour."""


class NoPicture(UserError):
    """A picture that a run cannot have: carries the sentence that says why."""


class NoCharts(NoPicture):
    """Charts need matplotlib, which is an extra; sheets and motion do without."""


class _Still(ABC):
    """What sheets and charts have in common."""

    name: str
    caption: str
    endings = (".png", ".svg")

    @abstractmethod
    def png(self) -> bytes:
        """The picture as a PNG file."""

    @abstractmethod
    def svg(self) -> bytes:
        """The picture as an SVG file."""

    def save(self, path: str | Path) -> Path:
        """Write a PNG or an SVG, whichever the name ends in."""
        path = checked_name(path, self.endings)
        payload = self.svg() if path.suffix == ".svg" else self.png()
        return _write(path, payload)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        payload = self.png()
        with Image.open(io.BytesIO(payload)) as image:
            width, height = image.size
        return payload, {"width": width // SCALE, "height": height // SCALE}


@dataclass(frozen=True, eq=False)
class Sheet(_Still):
    """Rows of images `[num, h, w, c]` in [0, 1], each with a name and a remark at its left.

    A row may be shorter than others. Rows after one of `breaks` stand a little lower.
    """

    name: str
    caption: str
    title: str
    rows: Sequence[np.ndarray] = field(repr=False)
    labels: Sequence[tuple[str, str]] = ()
    footer: str = ""
    breaks: Sequence[int] = ()
    size: int = 64
    """Points that an image is high on the page, at least: small ones are enlarged."""

    def _layout(self) -> _Layout:
        height, width = self.rows[0].shape[1:3]
        zoom = max(1, round(self.size / height))
        left = _EDGE
        if self.labels:
            left += 16 + max(max(length_of(name, _NAME), length_of(remark, _REMARK))
                             for name, remark in self.labels)
        tops, y = [], _EDGE + _TITLE + 14
        for r in range(len(self.rows)):
            y += 10 if r in self.breaks else 0
            tops.append(y)
            y += height * zoom + _GAP
        num = max(len(row) for row in self.rows)
        wide = left + num * (width * zoom + _GAP) - _GAP + _EDGE
        wide = max(wide, 2 * _EDGE + length_of(self.title, _TITLE))
        footer = _wrapped(self.footer, wide - 2 * _EDGE)
        high = y + (len(footer) * 16 + 6 if footer else 0) + _EDGE - _GAP
        return _Layout(int(np.ceil(wide)), int(np.ceil(high)), int(np.ceil(left)), tops,
                       height * zoom, width * zoom, footer)

    def _words(self, at: _Layout) -> list[Word]:
        """Everything that is written."""
        found: list[Word] = [(_EDGE, _EDGE + _TITLE / 2, self.title, _TITLE, INK)]
        for top, (name, remark) in zip(at.tops, self.labels):
            middle = top + at.height / 2
            if remark:
                found += [(_EDGE, middle - 9, name, _NAME, INK),
                          (_EDGE, middle + 9, remark, _REMARK, FAINT)]
            else:
                found.append((_EDGE, middle, name, _NAME, INK))
        below = at.tops[-1] + at.height + 18
        found += [(_EDGE, below + 16 * i, line, _REMARK, FAINT) for i, line in
                  enumerate(at.footer)]
        return found

    def image(self, scale: int = SCALE) -> Image.Image:
        """The sheet as a Pillow image, `scale` pixels for each point of the page."""
        at = self._layout()
        sheet = Image.new("RGB", (at.wide * scale, at.high * scale), PAPER)
        draw = ImageDraw.Draw(sheet)
        for x, y, text, size, colour in self._words(at):
            draw.text((x * scale, y * scale), text, fill=colour, font=font(size * scale),
                      anchor="lm")
        for top, row in zip(at.tops, self.rows):
            for i, image in enumerate(row):
                tile = to_image(image).resize((at.width * scale, at.height * scale),
                                              Image.Resampling.NEAREST)
                sheet.paste(tile, ((at.left + i * (at.width + _GAP)) * scale, top * scale))
        return sheet

    def png(self) -> bytes:
        """The picture as a PNG file."""
        held = io.BytesIO()
        self.image().save(held, format="PNG", dpi=(_DPI, _DPI))
        return held.getvalue()

    def svg(self) -> bytes:
        """The picture as an SVG file: words are words, each row of images is one picture."""
        at = self._layout()
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{at.wide}" height="{at.high}" '
                 f'viewBox="0 0 {at.wide} {at.high}" font-family="Helvetica, Arial, sans-serif">',
                 f"<title>{escape(self.title)}</title>",
                 f'<rect width="100%" height="100%" fill="rgb{PAPER}"/>']
        for x, y, text, size, colour in self._words(at):
            parts.append(f'<text x="{x:g}" y="{y:g}" dominant-baseline="central" '
                         f'font-size="{size}" fill="rgb{colour}">{escape(text)}</text>')
        for top, row in zip(at.tops, self.rows):
            for i, image in enumerate(row):
                parts.append(f'<image x="{at.left + i * (at.width + _GAP)}" y="{top}" '
                             f'width="{at.width}" height="{at.height}" '
                             f'style="image-rendering:pixelated" href="{data_uri(image)}"/>')
        return "\n".join([*parts, "</svg>\n"]).encode()


@dataclass(frozen=True)
class _Layout:
    wide: int
    high: int
    left: int
    tops: list[int]
    height: int
    width: int
    footer: list[str]


@dataclass(frozen=True, eq=False)
class Chart(_Still):
    """A matplotlib figure, drawn when it is first needed."""

    name: str
    caption: str
    draw: Callable[[], Any] = field(repr=False)

    def __post_init__(self) -> None:
        made = self.draw
        object.__setattr__(self, "draw", cache(lambda: literal(made())))

    def _saved(self, kind: str, **options: Any) -> bytes:
        held = io.BytesIO()
        self.draw().savefig(held, format=kind, **options)
        return held.getvalue()

    def png(self) -> bytes:
        """The picture as a PNG file."""
        return self._saved("png", dpi=_DPI)

    def svg(self) -> bytes:
        """The picture as an SVG file, without the date of its making."""
        return self._saved("svg", metadata={"Date": None})


@dataclass(frozen=True, eq=False)
class Motion:
    """Frames that follow each other and start over."""

    name: str
    caption: str
    frames: Sequence[Image.Image] = field(repr=False)
    milliseconds: int = 60
    endings = (".gif", ".webp")

    def movie(self, kind: str = "gif") -> bytes:
        """The file, `gif` or `webp`."""
        held = io.BytesIO()
        frames = list(self.frames)
        options: dict[str, Any] = {"lossless": True} if kind == "webp" else {"optimize": True}
        if kind == "gif":  # one palette for all frames, so that nothing flickers
            palette = _joined(frames).quantize(128, dither=Image.Dither.NONE)
            frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE)
                      for frame in frames]
        frames[0].save(held, format=kind.upper(), save_all=True, append_images=frames[1:],
                       duration=self.milliseconds, loop=0, **options)
        return held.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write a GIF or a WebP, whichever the name ends in."""
        path = checked_name(path, self.endings)
        return _write(path, self.movie(path.suffix[1:]))

    def _repr_html_(self) -> str:
        code = base64.b64encode(self.movie("gif")).decode()
        return (f'<img alt="{escape(self.caption, quote=True)}" '
                f'width="{self.frames[0].width // SCALE}" src="data:image/gif;base64,{code}">')


Picture = Sheet | Chart | Motion
"""Any of the three."""


def to_image(image: np.ndarray) -> Image.Image:
    """A Pillow image of `[h, w, c]` in [0, 1]."""
    pixels = np.round(np.clip(image, 0.0, 1.0) * 255.0).astype(np.uint8)
    if pixels.shape[-1] not in (1, 3):
        raise NoPicture(f"images of {pixels.shape[-1]} channels cannot be shown: 1 and 3 can")
    return Image.fromarray(np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels)


def literal(figure: Any) -> Any:
    """The figure with its words taken as they are: names of factors and data may have a $ in them,
    between two of which matplotlib reads mathematics. Numbers of logarithmic axes stay as they are.
    """
    from matplotlib.text import Text

    numbers = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
               if axis.get_scale() == "log" for label in axis.findobj(Text) if label != axis.label}
    for text in figure.findobj(Text):
        if text not in numbers:
            text.set_parse_math(False)
    return figure


def data_uri(image: np.ndarray) -> str:
    """An image `[h, w, c]` in [0, 1] as a PNG inside an address."""
    held, pixels = io.BytesIO(), to_image(image)
    (pixels.convert("L") if image.shape[-1] == 1 else pixels).save(held, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def checked_name(path: str | Path, endings: Sequence[str]) -> Path:
    """A path with one of the endings, or a sentence that names them."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise UserError(f"{path} must end in {' or '.join(endings)} for this picture")
    return path.with_suffix(path.suffix.lower())


def _write(path: Path, payload: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: temporary.write_bytes(payload))
    return path


def _joined(frames: Sequence[Image.Image]) -> Image.Image:
    """A few frames beside each other: the colours of all."""
    some = frames[:: max(1, len(frames) // 6)]
    sheet = Image.new("RGB", (sum(f.width for f in some), max(f.height for f in some)))
    x = 0
    for frame in some:
        sheet.paste(frame, (x, 0))
        x += frame.width
    return sheet


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font of sheets."""
    return ImageFont.load_default(size=size)


def length_of(text: str, size: int) -> float | int:
    """How long a text is."""
    return font(size).getlength(text) if text else 0.0


def _wrapped(text: str, width: float | int) -> list[str]:
    """Lines of words that are no longer than `width`."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and length_of(longer, _REMARK) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
