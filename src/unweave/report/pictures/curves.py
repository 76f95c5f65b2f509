"""Charts of a run's training: the KL of each latent, and every term of the objective."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from unweave.report.pictures.latents import UNUSED, run_title
from unweave.report.pictures.picture import Chart, NoPicture
from unweave.report.pictures.style import FAINT, INK, PALETTE, new_figure, plain
from unweave.training import Run

_OF_LATENT = re.compile(r"kl\.(\d+)")
_SHARE = re.compile(r"_(accuracy|right)$")


def kl(run: Run) -> Chart:
    """The KL of each latent against the step. Kaddah 2020, figure 1a and appendix A."""
    own = {int(m[1]): np.asarray(values, dtype=float) for term, values in run.curves.items()
           if (m := _OF_LATENT.fullmatch(term))}
    if run.is_generator:
        raise NoPicture(f"{run.config.method} is a generator against a critic, whose codes have no "
                        "KL: see `losses` for `mi`, what images tell of their codes")
    if not own:
        raise NoPicture(f"the curves of {run.run_id} have no KL of single latents")
    return Chart("kl", "KL of each latent during training", lambda: _draw_kl(run, own))


def _draw_kl(run: Run, own: dict[int, np.ndarray]) -> Any:
    figure = new_figure(6.4, 3.8, run_title(run))
    axes = figure.subplots()
    plain(axes)
    steps = np.asarray(run.curves["step"], dtype=float)
    order = sorted(own, key=lambda j: -_last(own[j]))
    used = [j for j in order if _last(own[j]) >= UNUSED]
    ends = []
    for place, j in enumerate(order):
        colour = PALETTE[place % len(PALETTE)] if j in used else "#b4bac4"
        _smooth(axes, steps, own[j], colour, 1.4 if j in used else 0.8)
        if j in used:
            ends.append((_last(own[j]), f"z{j}  {_last(own[j]):.2f}", colour))
    axes.set_xlim(steps[0], steps[-1])
    _to_what_matters(axes, np.stack(list(own.values()), axis=1).max(axis=1))
    axes.set_ylim(bottom=0.0)
    unused = [f"z{j}" for j in order if j not in used]
    if unused:
        ends.append((0.0, f"{_list(unused)}  unused", FAINT))
    _at_the_end(axes, ends)
    axes.set_xlabel("step", fontsize=8.5, color=INK)
    axes.set_ylabel("KL to the prior (nats)", fontsize=8.5, color=INK)
    return figure


def _at_the_end(axes: Any, ends: list[tuple[float, str, str]]) -> None:
    """Names at the right ends of curves, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    apart = (high - low) * 0.052
    places: list[float] = []
    for value, _, _ in reversed(ends):  # from the lowest
        places.append(max(value, places[-1] + apart) if places else max(value, low))
    for place, (value, text, colour) in zip(reversed(places), ends):
        axes.annotate(text, (1.0, value), xytext=(1.025, place), fontsize=7.5, color=colour,
                      xycoords=("axes fraction", "data"), textcoords=("axes fraction", "data"),
                      va="center", arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5,
                                               "shrinkA": 1, "shrinkB": 1,
                                               "relpos": (0.0, 0.5)},
                      annotation_clip=False)


def _list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} latents"


def losses(run: Run) -> Chart:
    """Every term of the objective against the step, each in a panel of its own."""
    terms = {term: np.asarray(values, dtype=float) for term, values in run.curves.items()
             if term != "step" and not re.search(r"\.\d+$", term)}
    if not terms:
        raise NoPicture(f"{run.run_id} has no curves")
    return Chart("losses", "every term of the objective during training",
                 lambda: _draw_losses(run, terms))


def _draw_losses(run: Run, terms: dict[str, np.ndarray]) -> Any:
    columns = min(3, len(terms))
    rows = math.ceil(len(terms) / columns)
    figure = new_figure(max(2.5 * columns, 4.5), 1.9 * rows + 0.5, run_title(run))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    steps = np.asarray(run.curves["step"], dtype=float)
    for place, (axes, (term, values)) in enumerate(zip(grid.flat, terms.items())):
        plain(axes)
        _smooth(axes, steps, values, PALETTE[0], 1.3)
        axes.set_title(term, fontsize=9, loc="left", color=INK)
        axes.set_title(f"{_last(values):.4g}", fontsize=8, loc="right", color=FAINT)
        _to_what_matters(axes, values)
        if _SHARE.search(term):
            axes.set_ylim(-0.03, 1.03)
        if place % columns == 0:
            axes.set_ylabel(_unit(run, term), fontsize=8, color=INK)
        if place >= len(terms) - columns:
            axes.set_xlabel("step", fontsize=8, color=INK)
            axes.tick_params(labelbottom=True)
    for axes in grid.flat[len(terms):]:
        axes.set_axis_off()
    return figure


def _unit(run: Run, term: str) -> str:
    if _SHARE.search(term):
        return "share of images"
    # What a Wasserstein critic says has no unit, and losses with it have none.
    return "" if run.config.method == "infowgan_gp" and not term.startswith("mi") else (
        "nats per image")


def _smooth(axes: Any, steps: np.ndarray, values: np.ndarray, colour: str, width: float) -> None:
    """A curve as it is, faint, and its running median over a fortieth of it on either side."""
    span = len(values) // 40
    if span < 2:
        axes.plot(steps, values, color=colour, linewidth=width, zorder=3)
        return
    axes.plot(steps, values, color=colour, linewidth=0.6, alpha=0.3, zorder=2)
    middle = [np.median(values[max(0, i - span):i + span + 1]) for i in range(len(values))]
    axes.plot(steps, middle, color=colour, linewidth=width, zorder=3)


def _to_what_matters(axes: Any, values: np.ndarray) -> None:
    """Cut off the first points where they would make a flat line of the rest."""
    known = values[np.isfinite(values)]
    if len(known) < 20:
        return
    later = known[len(known) // 20:]
    low, high = later.min(), later.max()
    if known.max() - known.min() > 2.0 * max(high - low, 1e-12):
        edge = 0.06 * max(high - low, 1e-12)
        axes.set_ylim(low - edge, high + edge)


def _last(values: np.ndarray) -> float:
    """Where a curve ends: the median of its last fortieth, as its smooth line has it."""
    known = values[np.isfinite(values)]
    return float(np.median(known[-(len(values) // 40) - 1:])) if len(known) else float("nan")
