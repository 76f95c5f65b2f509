"""Charts of codes: how latents respond to factors, and how their values are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.random import Purpose, numpy_generator
from unweave.report.pictures.latents import UNUSED, Latents, run_title
from unweave.report.pictures.picture import Chart, NoPicture
from unweave.report.pictures.style import FAINT, INK, PALETTE, SIGNED, new_figure, plain

_POSITIONS = (("position_x", "position_y"), ("pos_x", "pos_y"), ("x", "y"),
              ("horizontal_axis", "vertical_axis"), ("azimuth", "elevation"))
_MOST_IMAGES = 12_000
_MOST_LINES = 6
_MOST_POINTS = 16
"""Along a factor; more classes are put together, so that a line is not lost in noise."""


def responses(latents: Latents, *, factors: Sequence[str] | None = None) -> Chart:
    """The mean code of each latent over two factors, and along each other one. Burgess et al. 2018.

    `factors` names the two of the map, across and down: the position by default, where a data set
    has one. Along the other factors there is a line for each class of the first categorical one.
    """
    space = latents.run.dataset.space
    if not space.has_factors:
        raise NoPicture(f"{latents.run.config.data} has no factors that images can be chosen by: "
                        "a map of responses needs two")
    if factors is None:
        pair = next((pair for pair in _POSITIONS if set(pair) <= set(space.names)), None)
        if pair is None:
            raise NoPicture(f"{latents.run.config.data} has no position among its factors: choose "
                            f"two of {', '.join(space.names)} with --factors A,B")
    elif len(factors) != 2 or factors[0] == factors[1]:
        raise NoPicture("a map of responses is over two different factors: --factors A,B")
    else:
        pair = tuple(factors)
    a, b = (space.position(name) for name in pair)
    return Chart("responses", f"mean code of each latent over {pair[0]} and {pair[1]}",
                 lambda: _draw_responses(latents, a, b))


def _chosen(latents: Latents, a: int, b: int) -> np.ndarray:
    """Images that cover the map evenly, the other factors drawn at random."""
    space = latents.run.dataset.space
    rng = numpy_generator(latents.seed, Purpose.EVALUATION, 2)
    if not space.is_complete:
        return space.draw(min(_MOST_IMAGES, 4 * len(space)), rng)
    cells = space.sizes[a] * space.sizes[b]
    each = max(1, min(_MOST_IMAGES // cells, len(space) // cells))
    rows = np.stack([rng.integers(size, size=cells * each) for size in space.sizes], axis=1)
    rows[:, a] = np.repeat(np.arange(cells) // space.sizes[b], each)
    rows[:, b] = np.repeat(np.arange(cells) % space.sizes[b], each)
    return space.index(rows)


def _draw_responses(latents: Latents, a: int, b: int) -> Any:
    run, space = latents.run, latents.run.dataset.space
    index = _chosen(latents, a, b)
    codes, values = run.encode_at(index, seed=latents.seed), space.factors(index)
    order = [j for j in latents.order if not run.num_values[j]]
    shown = [j for j in order if latents.nats[j] >= UNUSED] or order
    others = [k for k in range(len(space.sizes)) if k not in (a, b) and space.sizes[k] > 1]
    split = next((k for k in others if space.types[k].name == "categorical"
                  and space.sizes[k] <= _MOST_LINES), None)
    columns = [k for k in others if k != split or len(others) == 1]
    figure = new_figure(1.5 * (1 + len(columns)) + 1.4, 1.25 * len(shown) + 1.1, run_title(run))
    grid = figure.subplots(len(shown), 1 + len(columns), squeeze=False)
    for place, (row, j) in enumerate(zip(grid, shown)):
        last = place == len(shown) - 1
        edge = max(float(np.abs(codes[:, j]).max()), 1e-6)
        edge = min(edge, 3.0)
        means = _means(codes[:, j], values[:, a] * space.sizes[b] + values[:, b],
                       space.sizes[a] * space.sizes[b]).reshape(space.sizes[a], space.sizes[b])
        shades = row[0].imshow(means.T, cmap=SIGNED, vmin=-3, vmax=3, interpolation="none",
                               aspect="auto")
        row[0].set_box_aspect(1)
        row[0].set(xticks=[], yticks=[])
        said = f"{latents.name(j)}\n{latents.measure} {latents.nats[j]:.2f}"
        row[0].set_ylabel(said, rotation=0, fontsize=8.5,
                          ha="right", va="center", color=INK)
        if last:
            row[0].set_xlabel(f"across: {space.names[a]}\ndown: {space.names[b]}", fontsize=7.5,
                              color=INK)
        for axes, k in zip(row[1:], columns):
            _lines(axes, codes[:, j], values, space, k, split)
            axes.set_ylim(-edge, edge)
            axes.set_box_aspect(1)
            axes.tick_params(labelbottom=last)
            if last:
                axes.set_xlabel(space.names[k], fontsize=8, color=INK)
    bar = figure.colorbar(shades, ax=grid[:, -1].tolist(), shrink=min(1.0, 2.0 / len(shown)),
                          aspect=14, pad=0.04)
    bar.set_label("mean code", fontsize=8, color=INK)
    bar.ax.tick_params(labelsize=7, length=2, width=0.5)
    bar.outline.set_visible(False)
    if split is not None and columns:
        handles, labels = grid[0, 1].get_legend_handles_labels()
        figure.legend(handles, labels, title=space.names[split], title_fontsize=8, fontsize=7.5,
                      frameon=False, loc="outside lower center", ncols=len(labels))
    return figure


def _means(values: np.ndarray, groups: np.ndarray, num: int) -> np.ndarray:
    """The mean of each group; NaN for one without members."""
    counts = np.bincount(groups, minlength=num)
    sums = np.bincount(groups, weights=values, minlength=num)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _lines(axes: Any, codes: np.ndarray, values: np.ndarray, space: Any, k: int,
           split: int | None) -> None:
    plain(axes, grid=False)
    axes.tick_params(labelsize=6.5)
    axes.axhline(0.0, color="#d9dde3", linewidth=0.7, zorder=0)
    axes.set_xticks([0, space.sizes[k] - 1])
    width = -(-space.sizes[k] // _MOST_POINTS)
    num = -(-space.sizes[k] // width)
    x, groups = np.minimum((np.arange(num) + 0.5) * width - 0.5, space.sizes[k] - 1), values[:, k]
    if split is None or split == k:
        axes.plot(x, _means(codes, groups // width, num), color=PALETTE[0], linewidth=1.2)
        return
    for value in range(space.sizes[split]):
        own = values[:, split] == value
        axes.plot(x, _means(codes[own], groups[own] // width, num), color=PALETTE[value],
                  linewidth=1.1, label=str(space.values[split][value]))


def histograms(latents: Latents) -> Chart:
    """Histograms of q(z_j) over the prior, the largest KL first. Kim & Mnih 2018, figure 40.

    A draw of q(z|x) for each image of the sample; for categorical latents the mean probabilities.
    """
    return Chart("histograms", "values of each latent over the prior",
                 lambda: _draw_histograms(latents))


def _draw_histograms(latents: Latents) -> Any:
    order = latents.order
    rows = math.ceil(len(order) / 5)
    columns = math.ceil(len(order) / rows)
    figure = new_figure(1.6 * columns + 0.3, 1.45 * rows + 0.75, run_title(latents.run))
    grid = figure.subplots(rows, columns, squeeze=False)
    drawn = latents.encoded.sampled(np.arange(len(latents.index)))
    of_prior = (latents.run.prior_codes(20_000, seed=latents.seed)
                if latents.has_own_prior or latents.run.is_generator else None)
    categorical = [j for j, size in enumerate(latents.run.num_values) if size]
    for axes, j in zip(grid.flat, order):
        plain(axes, grid=False)
        axes.spines["left"].set_visible(False)
        axes.set_yticks([])
        axes.set_title(latents.name(j), fontsize=8.5, loc="left", color=INK)
        axes.set_title(f"{latents.measure} {latents.nats[j]:.2f}", fontsize=7.5, loc="right",
                       color=FAINT)
        if j in categorical:
            chances = latents.chances[categorical.index(j)].mean(0)
            axes.bar(range(len(chances)), chances, color=PALETTE[4], width=0.8)
            axes.axhline(1.0 / len(chances), color=PALETTE[1], linewidth=1.2)
            continue
        low, high = _range(drawn[:, j], None if of_prior is None else of_prior[:, j])
        axes.hist(drawn[:, j], bins=50, range=(low, high), density=True, color=PALETTE[4])
        z = np.linspace(low, high, 161)
        prior = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        if of_prior is not None:
            heights, edges = np.histogram(of_prior[:, j], bins=50, range=(low, high), density=True)
            prior = np.interp(z, (edges[1:] + edges[:-1]) / 2, heights)
        axes.plot(z, prior, color=PALETTE[1], linewidth=1.2)
        axes.set_xlim(low, high)
        axes.set_ylim(0.0, max(1.15 * prior.max(), axes.get_ylim()[1]))
        axes.set_xticks([-3, 0, 3] if of_prior is None else np.round([low, high], 1))
    for axes in grid.flat[len(order):]:
        axes.set_axis_off()
    _legend(figure)
    return figure


def _range(drawn: np.ndarray, of_prior: np.ndarray | None) -> tuple[float, float]:
    """-4 to 4 under N(0, 1); under another prior, where it and the codes are."""
    if of_prior is None:
        return -4.0, 4.0
    ends = np.concatenate([np.quantile(x, [0.002, 0.998]) for x in (drawn, of_prior)])
    edge = 0.05 * (ends.max() - ends.min()) + 1e-3
    return float(ends.min() - edge), float(ends.max() + edge)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.legend([Patch(color=PALETTE[4]), Line2D([], [], color=PALETTE[1], linewidth=1.2)],
                  ["draws of q(z)", "prior"], fontsize=7.5, frameon=False, ncols=2,
                  loc="outside lower left")
