"""dSprites, rendered: the 737,280 images from formulas, bit for bit, in about a second.

Matthey et al. 2017, https://github.com/google-deepmind/dsprites-dataset. The set is a rasterised
polygon for each combination of shape, scale, orientation and position; the constants below were
measured from public images of it. A pixel is on when its centre lies inside the polygon whose
vertices were snapped to 1/256 pixel (even-odd; left and bottom edges inside). The published file
was rasterised in float32 on a GPU, so some 50 to 100 of its 3.02e9 pixels may differ from these.

The snapped x of a vertex depends on position_x alone and the snapped y on position_y alone, so the
crossings of outlines with rows are found once for 32 columns of positions. A row of 64 pixels is
one word; a crossing at column c toggles the columns from c on, so a row is an XOR of masks.
"""

from __future__ import annotations

import hashlib
import threading

import numpy as np

from unweave.data.dataset import PackedPixels
from unweave.factors import FactorSpace
from unweave.types import IndexArray, UInt8

SHA256 = "3a228f4037ef3d42a42588e0e01f1078aa2df13cfa17584e88c95ed9fb5672da"
"""Of the packed bits of the whole set, in index order."""

SPACE = FactorSpace(
    names=("shape", "scale", "orientation", "position_x", "position_y"),
    sizes=(3, 6, 40, 32, 32),
    values=(np.array(["square", "ellipse", "heart"]), np.linspace(0.5, 1.0, 6),
            np.linspace(0.0, 2.0 * np.pi, 40), np.linspace(0.0, 1.0, 32),
            np.linspace(0.0, 1.0, 32)),
    # The last orientation is the first again, a full turn later: a circle with one value twice.
    types=("categorical", "ordinal", "circular", "ordinal", "ordinal"))

_SIDE = 64
_UNIT = 9.6  # pixels: half the side of the largest square
_CENTRES = 16.0 + 32.0 * SPACE.values[3]  # the same along x and y
_CHUNK = 4096
# Toggling a column and all right of it, as the eight bytes of a packed row (first column on top).
_MASKS = np.packbits(np.arange(_SIDE)[None, :] >= np.arange(_SIDE + 1)[:, None],
                     axis=1).view(np.uint64)[:, 0]

_whole: np.ndarray | None = None
_lock = threading.Lock()


def _outlines() -> tuple[np.ndarray, ...]:
    """Vertices `[vertex, 2]` of square, ellipse and heart at unit size, y pointing down."""
    square = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    p = 2.0 * np.pi * np.arange(100) / 100
    ellipse = np.stack([1.33 * np.cos(p), np.sin(p) / 1.33], axis=1)
    t = 2.0 * np.pi * np.arange(150) / 150
    y = (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 14.5 + 0.15
    return square, ellipse, np.stack([np.sin(t) ** 3, -y], axis=1)


_OUTLINES = _outlines()


def _turned(shape: int, scale: np.ndarray,
            orientation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates x and y `[sprite, vertex]` of one shape at classes of scale and orientation."""
    outline = _OUTLINES[shape] * _UNIT
    size, angle = SPACE.values[1][scale][:, None], SPACE.values[2][orientation][:, None]
    x, y = outline[:, 0] * size, outline[:, 1] * size
    return np.cos(angle) * x + np.sin(angle) * y, -np.sin(angle) * x + np.cos(angle) * y


def _snapped(v: np.ndarray) -> np.ndarray:
    """Coordinates in units of 1/256 pixel."""
    return np.floor(256.0 * v + 0.5).astype(np.int64)


def _fill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows `[p, 64, q]` of polygons, a word each, from snapped vertices.

    `y` is `[p, vertex]`. `x` is `[vertex, q]`, shared by every p, or `[p * vertex, q]`.
    """
    num, vertices = y.shape
    y_far = np.roll(y, -1, axis=1)
    # An edge crosses the row centres 256 j + 128 in (lower y, upper y]: j from row + 1 on.
    row, row_far = (y - 128) >> 8, (y_far - 128) >> 8
    count = np.abs(row_far - row).ravel()
    edge = np.repeat(np.arange(num * vertices), count)
    within = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)
    line = np.minimum(row, row_far).ravel()[edge] + 1 + within
    y0, y1 = y.ravel()[edge], y_far.ravel()[edge]
    # Crossings of one row of one polygon come in pairs: sort them together.
    cell = edge // vertices * _SIDE + line
    order = np.argsort(cell, kind="stable")
    cell, edge = cell[order], edge[order]
    along = ((256 * line + 128 - y0) / (y1 - y0))[order]
    # First column whose centre is not left of the crossing. In exact arithmetic a crossing that is
    # no whole column stays 1e-7 away from one, and rounding moves it by 1e-14: 1e-9 tells ties.
    start = (x - 128) / 256.0 - 1e-9
    folded = x.reshape(-1, vertices, x.shape[1])
    slope = ((np.roll(folded, -1, axis=1) - folded) / 256.0).reshape(x.shape)
    edge = edge % len(x)
    crossing = slope.take(edge, axis=0)
    crossing *= along[:, None]
    crossing += start.take(edge, axis=0)
    masks = _MASKS.take(np.ceil(crossing, out=crossing).astype(np.intp))
    pairs, cell = masks[0::2] ^ masks[1::2], cell[0::2]
    out = np.zeros((num * _SIDE, x.shape[1]), dtype=np.uint64)
    first = np.diff(cell, prepend=-1) != 0
    out[cell[first]] = pairs[first]
    np.bitwise_xor.at(out, cell[~first], pairs[~first])  # the heart's notch: four in a row
    return out.reshape(num, _SIDE, -1)


def _render_whole() -> np.ndarray:
    """All images, `[737280, 64, 8]`."""
    out = np.empty((*SPACE.sizes, _SIDE), dtype=np.uint64)
    for shape in range(3):
        for scale in range(6):
            xs, ys = _turned(shape, np.full(40, scale), np.arange(40))
            for orientation in range(40):
                x = _snapped(xs[orientation][:, None] + _CENTRES[None, :])
                y = _snapped(ys[orientation][None, :] + _CENTRES[:, None])
                out[shape, scale, orientation] = _fill(x, y).transpose(2, 0, 1)
    return out.view(np.uint8).reshape(len(SPACE), _SIDE, 8)


def _packed() -> np.ndarray:
    global _whole
    with _lock:
        if _whole is None:
            _whole = _render_whole()
    return _whole


def packed() -> UInt8[np.ndarray, "image 64 8"]:
    """All images as packed bits, read-only; rendered on the first call of the process."""
    view = _packed().view()
    view.flags.writeable = False
    return view


def digest() -> str:
    """SHA-256 of the rendered set, to be compared with `SHA256`."""
    return hashlib.sha256(packed()).hexdigest()


def render(index: IndexArray) -> UInt8[np.ndarray, "image 64 8"]:
    """Packed bits of the images at `index`, without rendering the others."""
    if _whole is not None or len(index) > len(SPACE) // 8:
        return _packed()[index]
    out = np.empty((len(index), _SIDE), dtype=np.uint64)
    rows = SPACE.factors(index)
    for shape in range(3):
        of_shape = np.flatnonzero(rows[:, 0] == shape)
        for start in range(0, len(of_shape), _CHUNK):
            where = of_shape[start:start + _CHUNK]
            x, y = _turned(shape, rows[where, 1], rows[where, 2])
            x = _snapped(x + _CENTRES[rows[where, 3]][:, None])
            y = _snapped(y + _CENTRES[rows[where, 4]][:, None])
            out[where] = _fill(x.reshape(-1, 1), y)[:, :, 0]
    return out.view(np.uint8).reshape(len(index), _SIDE, 8)


PIXELS = PackedPixels(_SIDE, _SIDE, _packed, render)
"""The rendered images; the variants share them."""
