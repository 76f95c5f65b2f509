"""How charts look: one palette that colour-blind readers can tell apart, sizes for print.

The colours are those of Okabe & Ito (2008). Nothing global of matplotlib is touched.
"""

from __future__ import annotations

import textwrap
from typing import Any

from unweave.report.pictures.picture import NoCharts

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6A3D9A", "#8C6D31",
           "#333333", "#B2182B")
INK, FAINT, RULE = "#181c24", "#606876", "#d9dde3"
SIGNED, SHADES = "RdBu_r", "Blues"


def new_figure(width: float, height: float, title: str) -> Any:
    """An empty matplotlib figure with a title at its left; sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NoCharts("charts need matplotlib: pip install 'unweave[pictures]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08, wspace=0.04, hspace=0.04)
    wrapped = "\n".join(textwrap.wrap(title, max(24, int(width * 12.5))))
    figure.suptitle(wrapped, fontsize=10, x=0.012, ha="left", color=INK)
    return figure


def plain(axes: Any, *, grid: bool = True) -> None:
    """Axes with two thin lines, small ticks and, if wanted, faint horizontal lines."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
        axes.spines[side].set_linewidth(0.6)
    axes.tick_params(labelsize=7.5, colors=INK, width=0.6, length=2.5)
    if grid:
        axes.grid(axis="y", color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)


def matrix(axes: Any, table: Any, rows: list[str], columns: list[str], *, signed: bool,
           title: str, high: float = 1.0) -> None:
    """A table of shades with a number in each cell; percent, or hundredths of a correlation."""
    import numpy as np

    table = np.asarray(table, dtype=float)
    axes.imshow(table, cmap=SIGNED if signed else SHADES, vmin=-high if signed else 0.0, vmax=high,
                aspect="equal", interpolation="none")
    for (i, j), value in np.ndenumerate(table):
        if value == value:
            axes.text(j, i, f"{100 * value:.0f}".replace("-0", "0") if abs(value) < 0.005
                      else f"{100 * value:.0f}", ha="center", va="center", fontsize=7,
                      color="white" if abs(value) > 0.6 * high else INK)
    axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right",
                    rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(labelsize=8, length=0, colors=INK)
    axes.set_title(title, fontsize=8.5, color=INK, loc="left")
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xticks(np.arange(-0.5, len(columns)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(rows)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="minor", length=0)
