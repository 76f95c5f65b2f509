"""Motion: every latent in use swings at once, each in a picture of its own."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from unweave.report.pictures.latents import UNUSED, Latents, run_title
from unweave.report.pictures.picture import (
    FAINT,
    INK,
    PAPER,
    SCALE,
    Motion,
    font,
    length_of,
    to_image,
)

_GAP, _EDGE, _BELOW = 14, 14, 46


def motion(latents: Latents, *, image: int | str = "typical", span: float | None = None,
           frames: int = 40) -> Motion:
    """Each latent swings between -span and span around an image; categories step through classes.

    Latents that are not in use stay out, unless none is.
    """
    shown = [j for j in latents.order if latents.nats[j] >= UNUSED]
    shown = shown or latents.order
    start, _ = latents.start(image)
    span = latents.span if span is None else span
    half = frames // 2 + 1
    walks = latents.walks(start, shown, span, half)
    # Even steps of a cosine: slow at the ends, as a pendulum.
    phase = (1 - np.cos(2 * np.pi * np.arange(frames) / frames)) / 2
    steps = np.round(phase * (half - 1)).astype(int)
    made = [_frame(latents, shown, walks[:, step], float(part)) for step, part in
            zip(steps, phase)]
    return Motion("motion", "every latent in use moved back and forth", made)


def _frame(latents: Latents, shown: list[int], images: np.ndarray, part: float) -> Image.Image:
    """A grid of pictures with the name of each latent, and a dot for where it stands."""
    title = run_title(latents.run)
    height, width = images.shape[1:3]
    zoom = max(1, round(112 / height))
    high, wide = height * zoom, width * zoom
    words = [(latents.name(j), latents.remark(j)) for j in shown]
    wide = max(wide, int(max(length_of(remark, 11) for _, remark in words)) + 1)
    rows = -(-len(shown) // 5)
    columns = -(-len(shown) // rows)
    across = max(2 * _EDGE + columns * wide + (columns - 1) * _GAP,
                 int(2 * _EDGE + length_of(title, 14)) + 1)
    frame = Image.new("RGB", (across * SCALE, (_EDGE + 26 + rows * (high + _BELOW + _GAP))
                              * SCALE), PAPER)
    draw = ImageDraw.Draw(frame)
    draw.text((_EDGE * SCALE, (_EDGE + 6) * SCALE), title, fill=INK, font=font(14 * SCALE),
              anchor="lm")
    for i, (name, remark) in enumerate(words):
        x = _EDGE + i % columns * (wide + _GAP)
        y = _EDGE + 26 + i // columns * (high + _BELOW + _GAP)
        tile = to_image(images[i]).resize((width * zoom * SCALE, high * SCALE),
                                          Image.Resampling.NEAREST)
        frame.paste(tile, (x * SCALE, y * SCALE))
        track, dot = y + high + 8, x + 3 + part * (width * zoom - 6)
        draw.line([(x * SCALE, track * SCALE), ((x + width * zoom) * SCALE, track * SCALE)],
                  fill=(205, 210, 218), width=SCALE)
        draw.ellipse([(dot - 3) * SCALE, (track - 3) * SCALE, (dot + 3) * SCALE,
                      (track + 3) * SCALE], fill=(0, 114, 178))
        draw.text((x * SCALE, (track + 13) * SCALE), name, fill=INK, font=font(13 * SCALE),
                  anchor="lm")
        draw.text((x * SCALE, (track + 28) * SCALE), remark, fill=FAINT, font=font(11 * SCALE),
                  anchor="lm")
    return frame
