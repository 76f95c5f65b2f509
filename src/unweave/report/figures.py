"""Figures of answers: panels of lines, points, boxes or shades, drawn with matplotlib.

matplotlib is an extra (`web`); without it a figure is one sentence about what to install. Nothing
global is touched: no window, no current figure.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from unweave.report.pictures.picture import literal
from unweave.studies.answers.answer import Figure, Line, Panel
from unweave.training.folder import write_atomically
from unweave.types import UserError

_WIDTH, _HEIGHT = 3.0, 2.4
_MANY = 200
"""Points beyond this are a picture inside the SVG: thousands of circles would open slowly."""


def save_figure(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure as PNG and SVG; the files."""
    drawn = draw(figure)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{figure.name}.{ending}" for ending in ("png", "svg")]
    for file in files:
        write_atomically(file, lambda temporary, kind=file.suffix[1:]: drawn.savefig(
            temporary, format=kind, dpi=120))
        drawn.set_layout_engine("none")  # places are found; to find them again is most of the time
    return files


def draw(figure: Figure) -> Any:
    """A matplotlib figure."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise UserError("figures need matplotlib: pip install 'unweave[web]', or leave out "
                        "--out") from None
    columns = min(figure.columns, len(figure.panels)) or 1
    rows = math.ceil(len(figure.panels) / columns) or 1
    canvas = Canvas(figsize=(_WIDTH * columns, _HEIGHT * rows + 0.6), layout="constrained")
    canvas.suptitle(figure.title, fontsize=10)
    grid = canvas.subplots(rows, columns, squeeze=False)
    names = list(dict.fromkeys(name for panel in figure.panels for name in panel.lines))
    colours = {name: f"C{i % 10}" for i, name in enumerate(names)}
    signed = any(np.nanmin(panel.shades, initial=0.0) < 0 for panel in figure.panels
                 if panel.shades is not None)  # one scale for all panels
    for axes, panel in zip(grid.flat, figure.panels):
        _panel(axes, panel, colours, signed)
    for axes in grid.flat[len(figure.panels):]:
        axes.set_axis_off()
    shared = [panel for panel in figure.panels if panel.lines]
    if shared and len(names) <= 12:
        handles = {}
        for axes in grid.flat:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels())))
        canvas.legend(handles.values(), handles.keys(), loc="outside lower center",
                      ncols=min(len(handles), 6), fontsize=7, frameon=False)
    return literal(canvas)


def _panel(axes: Any, panel: Panel, colours: dict[str, str], signed: bool) -> None:
    axes.set_title(panel.title, fontsize=8)
    axes.tick_params(labelsize=6)
    axes.set_xlabel(panel.x, fontsize=7)
    axes.set_ylabel(panel.y, fontsize=7)
    if panel.shades is not None:
        _shades(axes, panel, signed)
    elif panel.boxes:
        held = {name: values for name, values in panel.boxes.items() if len(values)}
        axes.boxplot(list(held.values()), widths=0.6, flierprops={
            "markersize": 1.5, "markeredgewidth": 0.3, "rasterized": True})
        axes.set_xticks(range(1, len(held) + 1), list(held), rotation=35, ha="right")
    else:
        for name, line in panel.lines.items():
            _line(axes, name, line, colours[name])
        if panel.ticks is not None:
            axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=35, ha="right")
        if panel.log:
            axes.set_xscale("log")
            axes.set_yscale("log")


def _line(axes: Any, name: str, line: Line, colour: str) -> None:
    x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
    if not line.joined:
        axes.plot(x, y, ".", color=colour, label=name, markersize=2.0, alpha=0.5,
                  rasterized=x.size > _MANY)
        return
    axes.plot(x, y, ".-", color=colour, label=name, markersize=3.0, linewidth=1.0)
    if line.low is not None and line.high is not None:
        axes.fill_between(x, np.asarray(line.low, dtype=float), np.asarray(line.high, dtype=float),
                          color=colour, alpha=0.2, linewidth=0)
    for px, py, label in zip(x, y, line.labels or ()):
        axes.annotate(label, (px, py), fontsize=5, xytext=(2, 2), textcoords="offset points")


def _shades(axes: Any, panel: Panel, signed: bool) -> None:
    table = np.asarray(panel.shades, dtype=float)
    axes.imshow(table, cmap="RdBu_r" if signed else "Blues", vmin=-1.0 if signed else 0.0,
                vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        if value == value:
            axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=6,
                      color="white" if abs(value) > 0.6 else "black")
    axes.set_xticks(range(len(panel.columns)), panel.columns, rotation=35, ha="right")
    axes.set_yticks(range(len(panel.rows)), panel.rows)
