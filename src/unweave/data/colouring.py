"""Putting colours into pictures of scenes on a CPU, as machine code: see `shapes3d.py`.

Tensor operations make a pass over memory for each of: gather, multiply, round, clamp, divide and
put channels side by side. Here a few pixels at a time go through all of it within the nearest
cache. The arithmetic is the same, whole numbers in float32, and so are the bytes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache

import numpy as np

_SPAN = 256  # pixels at a time; divides the pixels of every size that is rendered

Paint = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float, np.ndarray], None]
"""`paint(table, colours, scene, colour, white, out)`.

`table` holds whole numbers `[scene, 6, pixel]`, `colours` a matrix `[3, 6]` for each triple of
hues, `scene` and `colour` a row of each for every image. Levels of 0 to 255, divided by `white`, go
into `out`, `[image, pixel, 3]` of float32 or bytes.
"""


@cache
def painter(steps: int) -> Paint:
    """The machine code, for tables with so many steps to a level of a colour in fifths."""
    import numba

    plain = inspect.unwrap(_paint)
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(plain)
    except RuntimeError:  # no folder to keep it in
        compiled = numba.njit(nogil=True, error_model="numpy")(plain)
    scale, half = np.float32(1.0 / steps), np.float32(0.5 * steps + 0.5)

    def paint(table: np.ndarray, colours: np.ndarray, scene: np.ndarray, colour: np.ndarray,
              white: float, out: np.ndarray) -> None:
        compiled(table, colours, scene, colour, scale, half, np.float32(white), out)

    return paint


def _paint(table, colours, scene, colour, scale, half, white, out):
    full = np.float32(255.0)
    levels = np.empty((3, _SPAN), dtype=np.float32)
    red, green, blue = levels[0], levels[1], levels[2]
    for image in range(len(scene)):
        parts, mix = table[scene[image]], colours[colour[image]]
        for start in range(0, table.shape[2], _SPAN):
            for channel in range(3):
                # Loops over one span of plain arrays: what a compiler turns into wide instructions.
                floor, walls = parts[0, start:start + _SPAN], parts[1, start:start + _SPAN]
                thing, rest = parts[2, start:start + _SPAN], parts[3 + channel, start:start + _SPAN]
                of_floor, of_walls, of_thing = mix[channel, 0], mix[channel, 1], mix[channel, 2]
                of_rest = mix[channel, 3 + channel]
                level = levels[channel]
                for k in range(_SPAN):
                    total = (of_floor * np.float32(floor[k]) + of_walls * np.float32(walls[k])
                             + of_thing * np.float32(thing[k]) + of_rest * np.float32(rest[k])
                             + half)
                    level[k] = min(np.float32(np.int32(total * scale)), full) / white
            made = out[image, start:start + _SPAN]
            for k in range(_SPAN):
                made[k, 0] = red[k]
                made[k, 1] = green[k]
                made[k, 2] = blue[k]
