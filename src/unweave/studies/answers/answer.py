"""What an answer is: a sentence, tables of numbers, and figures as plain values.

Nothing is drawn here: a `Figure` says what is in its panels, and `report/figures.py` draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from unweave.studies.answers.grid import Rows

Record = Mapping[str, Any]
Values = Sequence[Any] | np.ndarray


class Line(NamedTuple):
    """Points along x, joined; with a band, or bare where `low` is None."""

    x: Values
    y: Values
    low: Values | None = None
    high: Values | None = None
    labels: Sequence[str] | None = None
    joined: bool = True


@dataclass(frozen=True)
class Panel:
    """One plot of a figure: lines by name, boxes by name, or a table of shades."""

    title: str
    x: str = ""
    y: str = ""
    lines: Mapping[str, Line] = field(default_factory=dict)
    boxes: Mapping[str, Values] = field(default_factory=dict)
    shades: np.ndarray | None = None
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    ticks: Sequence[str] | None = None
    """Names of the points 0, 1, 2, ... along x."""
    log: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels in rows of `columns`."""

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 3


@dataclass(frozen=True)
class Answer:
    """To a question: `missing` is the sentence that says why there is none."""

    sentence: str = ""
    summary: Sequence[Record] = ()
    """The few numbers behind the sentence."""
    tables: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    figures: Sequence[Figure] = ()
    missing: str | None = None


@dataclass(frozen=True)
class Question:
    """A question of a paper to the rows of a store."""

    name: str
    asks: str
    source: str
    answer: Callable[[Rows, np.random.Generator], Answer]


def estimate(value: Any, low: Any, high: Any, name: str = "value") -> dict[str, float]:
    """A number with the ends of its interval, as fields of a record."""
    ends = ("low", "high") if name == "value" else (f"{name}_low", f"{name}_high")
    return {name: float(value), ends[0]: float(low), ends[1]: float(high)}


def percent(value: float, low: float, high: float) -> str:
    """`77.3 % (76.5 to 78.0)`."""
    return f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def said(value: float, low: float, high: float) -> str:
    """`0.712 (0.694 to 0.731)`."""
    return f"{value:.3f} ({low:.3f} to {high:.3f})"
