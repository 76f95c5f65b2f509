"""Charts of tables: correlations, mutual information, importances of latents for factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.metrics.arrays import as_labels
from unweave.metrics.correlation import correlations as correlate
from unweave.metrics.dci import METRIC as DCI
from unweave.metrics.dci import mean_purity, weighted_purity
from unweave.metrics.importances import fit_importances
from unweave.metrics.information import entropy, mutual_information
from unweave.metrics.labelled import fit_labelled
from unweave.report.pictures.latents import Latents, run_title
from unweave.report.pictures.picture import Chart
from unweave.report.pictures.style import FAINT, INK, PALETTE, matrix, new_figure
from unweave.types import UserError

_CELL = 0.36
"""Inches of a cell of a matrix."""


def correlations(latents: Latents) -> Chart:
    """Pearson's correlations: latents with factors, latents with latents. Kumar et al. 2018."""
    latents.needs_factors("a correlation matrix")
    return Chart("correlations", "correlations of latents with factors and with each other",
                 lambda: _draw_correlations(latents))


def _draw_correlations(latents: Latents) -> Any:
    run = latents.run
    # The order of classes means nothing: categorical latents are left out.
    order = [j for j in latents.order if not run.num_values[j]]
    codes = latents.codes[:, order].astype(float)
    labels = run.dataset.labels
    given = latents.factors if labels is None else labels.values[latents.index]
    types = None if labels is None else labels.types or None
    found = correlate(codes, given, factor_types=types)
    names = [latents.name(j) for j in order]
    return _two(latents, found.factors, found.latents, names, signed=True,
                titles=("with factors, in hundredths", "with each other"))


def information(latents: Latents) -> Chart:
    """Mutual information: of latents with factors, and of latents with each other.

    With a factor as a share of its entropy, between latents of the smaller entropy of the two;
    codes are put into 20 bins, as for MIG.
    """
    latents.needs_factors("a matrix of mutual information")
    return Chart("information", "information that latents share with factors and with each other",
                 lambda: _draw_information(latents))


def _draw_information(latents: Latents) -> Any:
    order = latents.order
    bins = latents.bins[:, order]
    own = np.maximum(entropy(bins), 1e-12)
    between = mutual_information(bins, bins) / np.minimum(own[:, None], own[None, :])
    np.fill_diagonal(between, np.nan)
    names = [latents.name(j) for j in order]
    return _two(latents, latents.information[order], between, names, signed=False,
                titles=("percent of the factor's entropy", "percent of the smaller entropy"))


def _two(latents: Latents, left: np.ndarray, right: np.ndarray, names: list[str], *,
         signed: bool, titles: tuple[str, str]) -> Any:
    factors = list(latents.factor_names)
    rows = [_named(latents, int(name[1:])) for name in names]
    figure = new_figure(_CELL * (len(factors) + len(names)) + 2.6,
                        _CELL * len(names) + 1.6, run_title(latents.run))
    first, second = figure.subplots(1, 2, width_ratios=(len(factors), len(names)))
    matrix(first, left, rows, factors, signed=signed, title=titles[0])
    matrix(second, right, names, names, signed=signed, title=titles[1])
    return figure


def importances(latents: Latents, *, num_stages: int = 30) -> Chart:
    """How much each factor's classifier needs each latent: a Hinton diagram of DCI's importances.

    Gradient boosting with the settings of the published study, of fewer rows and stages; the score
    itself is `unweave score --metric dci`. Eastwood & Williams 2018.
    """
    latents.needs_factors("a diagram of importances")
    return Chart("importances", "importance of each latent for each factor",
                 lambda: _draw_importances(latents, num_stages))


def _draw_importances(latents: Latents, num_stages: int) -> Any:
    kept, table = _importances(latents, num_stages)
    order = latents.order
    table = table[order]
    names = [latents.factor_names[k] for k in kept]
    figure = new_figure(max(_CELL * len(names) + 2.2, 4.4), _CELL * len(order) + 1.9,
                        run_title(latents.run))
    axes = figure.subplots()
    largest = max(float(table.max()), 1e-12)
    for (i, j), value in np.ndenumerate(table):
        side = 0.92 * float(np.sqrt(max(value, 0.0) / largest))
        axes.add_patch(_square(j, i, side))
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(order) - 0.5, -0.5), aspect="equal",
             facecolor="#eef1f5")
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(order)), [_named(latents, j)
                                        for j in order])
    axes.tick_params(labelsize=8, length=0, colors=INK)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(f"area: importance, the largest {largest:.2f}\ndisentanglement "
                   f"{weighted_purity(table):.2f}, completeness {mean_purity(table.T):.2f}",
                   fontsize=8, color=FAINT, loc="left")
    return figure


def _named(latents: Latents, j: int) -> str:
    return f"{latents.name(j)}  {latents.measure} {latents.nats[j]:.2f}"


def _square(x: int, y: int, side: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - side / 2, y - side / 2), side, side, facecolor=PALETTE[0], linewidth=0)


def _importances(latents: Latents, num_stages: int) -> tuple[list[int], np.ndarray]:
    """The factors that vary, and R `[latent, factor]`."""
    run = latents.run
    settings = DCI.conventions["study2019"]
    given = {k: settings[k] for k in ("estimator", "updates", "min_impurity")}
    given |= {"num_stages": num_stages, "num_values": list(run.num_values)}
    if not any(run.num_values):
        del given["num_values"]
    num_train = 2 * len(latents.codes) // 3
    held = run.dataset.labels
    if held is not None:
        labels = as_labels(held.values[latents.index], None, held.types or None)
        tested = labels.known[num_train:].any(axis=0)
        kept = [k for k in labels.take(slice(num_train)).varying() if tested[k]]
        if not kept:
            raise UserError("no label varies in the sample: there is nothing to predict")
        found = fit_labelled(latents.codes, labels.take(slice(None), kept), num_train, **given)
        return kept, found.importances
    kept = [k for k, c in enumerate(latents.factors[:num_train].T) if c.min() != c.max()]
    found = fit_importances(latents.codes, latents.factors[:, kept], num_train, **given)
    return kept, found.importances
