"""HTML for notebooks: cards, tables, small pictures and curves, from plain values.

What `_repr_html_` of a run, a data set, a score and a store is made of. Whatever comes from a user
or a file is escaped; colours come from the notebook's own theme, so that dark ones stay readable;
pictures are PNG inside the page, so that a saved notebook keeps them.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_CELL = "text-align:left;padding:1px 10px 1px 0;white-space:nowrap"
_FAINT = "opacity:0.65;font-weight:normal"


def card(title: str, facts: Mapping[str, Any], *parts: str) -> str:
    """A title, a line for each fact that is not None, and ready parts below them."""
    rows = "".join(
        f'<tr><th style="{_CELL};{_FAINT}">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in facts.items() if value is not None)
    return (f'<div style="margin:4px 0"><b>{escape(title)}</b>'
            f'<table style="border-collapse:collapse;margin:2px 0">{rows}</table>'
            f'{"".join(parts)}</div>')


def table(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Some columns of records, as a table."""
    heads = "".join(f'<th style="{_CELL};{_FAINT}">{escape(c.replace("_", " "))}</th>'
                    for c in columns)
    rows = "".join("<tr>" + "".join(f'<td style="{_CELL}">{escape(record.get(c))}</td>'
                                    for c in columns) + "</tr>" for record in records)
    return (f'<table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table>")


def escape(value: Any) -> str:
    """A value as text that cannot be taken for markup."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        value = ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}"
                          for k, v in value.items()) or "none"
    elif isinstance(value, list | tuple):
        value = ", ".join(str(v) for v in value)
    return html.escape(str(value))


def strip(rows: Sequence[np.ndarray], *, caption: str = "", zoom: int = 1) -> str:
    """Rows of images `[num, h, w, c]`, bytes or floats in [0, 1], one below the other."""
    whole = np.concatenate([_side_by_side(row) for row in rows], axis=0)
    height, width = whole.shape[0] * zoom, whole.shape[1] * zoom
    said = f'<div style="{_FAINT}">{escape(caption)}</div>' if caption else ""
    pixels = base64.b64encode(png(whole)).decode()
    return (f'<img alt="{escape(caption)}" width="{width}" height="{height}" '
            f'style="image-rendering:pixelated" src="data:image/png;base64,{pixels}">{said}')


def _side_by_side(images: np.ndarray) -> np.ndarray:
    images = np.asarray(images)
    if images.dtype != np.uint8:
        images = np.round(np.clip(images, 0.0, 1.0) * 255.0).astype(np.uint8)
    images = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
    return np.concatenate(list(images), axis=1)


def png(image: np.ndarray) -> bytes:
    """An image `[h, w, c]` of bytes as a PNG; two channels are shown without the second."""
    from PIL import Image

    image = image if image.shape[-1] in (3, 4) else image[..., 0]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(buffer, format="PNG")
    return buffer.getvalue()


def curve(values: Sequence[float], *, caption: str, width: int = 240, height: int = 40) -> str:
    """A line of numbers as a small drawing; gaps where they are not finite."""
    known = [v for v in values if math.isfinite(v)]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    scale = (height - 4) / (high - low) if high > low else 0.0
    step = width / max(len(values) - 1, 1)
    pieces, pen = [], "M"
    for i, value in enumerate(values):
        if math.isfinite(value):
            pieces.append(f"{pen}{i * step:.1f},{height - 2 - (value - low) * scale:.1f}")
            pen = "L"
        else:
            pen = "M"
    return (f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(caption)}">'
            f'<path d="{"".join(pieces)}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
            f'</svg><div style="{_FAINT}">{escape(caption)}: {escape(float(known[0]))} to '
            f"{escape(float(known[-1]))}</div>")
