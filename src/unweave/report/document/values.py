"""Plain values for a page: numbers short, tables by column, text once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

DIGITS = 5


def short(value: Any) -> Any:
    """A number with five digits, None for one that is not finite; text and truth as they are."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        near = float(f"{value:.{DIGITS}g}")
        return int(near) if near == int(near) and abs(near) < 1e15 else near
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_said(v)}" for k, v in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(_said(v) for v in value)
    return str(value)


def _said(value: Any) -> str:
    value = short(value)
    return "" if value is None else str(value)


def numbers(values: Iterable[Any]) -> list[Any]:
    """A list of short numbers."""
    return [short(v) for v in (values.ravel().tolist() if isinstance(values, np.ndarray)
                               else values)]


def table(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Records as columns; text is written once and pointed to where that is shorter."""
    names = list(dict.fromkeys(k for record in records for k in record))
    return {"num": len(records), "columns": [
        column(name, [record.get(name) for record in records]) for name in names]}


def column(name: str, values: Sequence[Any], **more: Any) -> dict[str, Any]:
    """A column: `values`, or for repeated text its `words` and the `at` of each row."""
    plain = [short(v) for v in values]
    if any(isinstance(v, str) for v in plain):
        plain = [None if v is None else str(v) for v in plain]
        words = list(dict.fromkeys(v for v in plain if v is not None))
        if len(words) < 0.7 * len(plain):
            place = {word: i for i, word in enumerate(words)}
            return {"name": name, "kind": "text", "words": words,
                    "at": [-1 if v is None else place[v] for v in plain], **more}
        return {"name": name, "kind": "text", "values": plain, **more}
    kind = "text" if any(isinstance(v, bool) for v in plain) else "number"
    plain = [str(v).lower() if isinstance(v, bool) else v for v in plain]
    return {"name": name, "kind": kind, "values": plain, **more}
