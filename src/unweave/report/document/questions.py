"""Answers of the study analysis as plain values: sentences, tables, figures by panel."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.report.document.values import numbers, table
from unweave.studies.answers import Rows, analyse
from unweave.studies.answers.answer import Figure, Line, Panel

MOST_ROWS = 2000
"""Of one table in a page; longer ones are cut, and say so."""
_MOST_POINTS = 3000
"""Of one line of points; more are thinned evenly."""
_OUTLIERS = 60


def answers(rows: Rows, *, seed: int = 0) -> list[dict[str, Any]]:
    """Every question of the papers with what the rows say to it."""
    found = []
    for question, answer in analyse(rows, seed=seed):
        tables = {"in short": answer.summary, **answer.tables}
        found.append({
            "name": question.name, "asks": question.asks, "source": question.source,
            "sentence": answer.sentence, "missing": answer.missing,
            "tables": [{"name": name, "cut": max(0, len(records) - MOST_ROWS),
                        **table(records[:MOST_ROWS])}
                       for name, records in tables.items() if len(records)],
            "figures": [_figure(figure) for figure in answer.figures]})
    return found


def _figure(figure: Figure) -> dict[str, Any]:
    return {"name": figure.name, "title": figure.title,
            "panels": [_panel(panel) for panel in figure.panels]}


def _panel(panel: Panel) -> dict[str, Any]:
    said: dict[str, Any] = {"title": panel.title, "x": panel.x, "y": panel.y, "log": panel.log}
    if panel.shades is not None:
        shades = np.asarray(panel.shades, dtype=float)
        return said | {"kind": "shades", "rows": [str(r) for r in panel.rows],
                       "columns": [str(c) for c in panel.columns],
                       "values": [numbers(row) for row in shades],
                       "signed": bool(np.nanmin(shades, initial=0.0) < 0)}
    if panel.boxes:
        return said | {"kind": "boxes", "boxes": [
            {"name": str(name), **box(values)} for name, values in panel.boxes.items()
            if len(values)]}
    return said | {"kind": "lines", "ticks": None if panel.ticks is None else list(panel.ticks),
                   "lines": [_line(str(name), line) for name, line in panel.lines.items()]}


def _line(name: str, line: Line) -> dict[str, Any]:
    x, y = np.asarray(line.x, dtype=float).ravel(), np.asarray(line.y, dtype=float).ravel()
    kept = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(kept) > _MOST_POINTS:
        kept = kept[np.linspace(0, len(kept) - 1, _MOST_POINTS).round().astype(int)]
    said: dict[str, Any] = {"name": name, "joined": line.joined, "x": numbers(x[kept]),
                            "y": numbers(y[kept])}
    for end, values in (("low", line.low), ("high", line.high)):
        if values is not None:
            said[end] = numbers(np.asarray(values, dtype=float).ravel()[kept])
    if line.labels is not None:
        said["labels"] = [str(line.labels[i]) for i in kept]
    return said


def box(values: Any) -> dict[str, Any]:
    """Quartiles, whiskers of at most 1.5 times their distance, and what lies beyond."""
    values = np.asarray(values, dtype=float)
    values = np.sort(values[np.isfinite(values)])
    if not len(values):
        return {"num": 0}
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    inside = values[(values >= low - 1.5 * (high - low)) & (values <= high + 1.5 * (high - low))]
    outside = values[(values < inside[0]) | (values > inside[-1])]
    if len(outside) > _OUTLIERS:
        outside = outside[np.linspace(0, len(outside) - 1, _OUTLIERS).round().astype(int)]
    return {"num": len(values), "five": numbers([inside[0], low, middle, high, inside[-1]]),
            "outside": numbers(outside)}
