"""Does a good setting stay good? Locatello et al. 2019, section 5.5, table 1.

A metric, a data set and a seed are drawn; the setting (method and strength) with the highest score
there is selected. It is then compared, on another seed, with a setting drawn at random: on the same
or another data set, by the same or another metric. A trial counts if the selected setting is as
good or better. The paper averages 10,000 trials; here they are drawn as well, beside the exact
probability, which is a mean over all that can be drawn, and its bootstrap over seeds.

Both settings of a comparison are runs of the same seed. A score that is not defined (DCI of a code
that tells nothing) counts as the lowest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Panel, Question, estimate, percent
from unweave.studies.answers.grid import METRICS, Missing, Rows
from unweave.studies.answers.uncertainty import NUM_REPLICATES, interval

NUM_TRIALS = 10_000
PUBLISHED = {("same", "same"): 0.773, ("same", "different"): 0.550, ("different", "same"): 0.518,
             ("different", "different"): 0.519}
"""The preprint's table 1, by metric and data set: seven data sets, and another estimator of DCI."""


class Contest(NamedTuple):
    """What trials look up: `[metric, data set, seed]` and `[metric, data set, seed, setting]`."""

    chosen: np.ndarray
    """The setting with the highest score."""
    beaten: np.ndarray
    """The share of settings that a setting is at least as good as, itself among them."""


def contest(scores: np.ndarray) -> Contest:
    """Of scores `[metric, data set, setting, seed]`."""
    scores = np.moveaxis(np.where(np.isnan(scores), -np.inf, scores), -2, -1)
    beaten = np.empty(scores.shape)
    for m, d, s in np.ndindex(scores.shape[:3]):  # the settings of one seed are few
        row = scores[m, d, s]
        beaten[m, d, s] = np.searchsorted(np.sort(row), row, side="right") / len(row)
    return Contest(scores.argmax(-1), beaten)


def exact(found: Contest, weights: np.ndarray) -> np.ndarray:
    """Probability for a selection `[metric, data set]` and a comparison `[metric, data set]`.

    The mean over ordered pairs of different seeds, each seed counted by its weight. How often a
    setting was selected, times how well it does on average, less the pairs of a seed with itself.
    """
    num_metrics, num_data, num_seeds, num_settings = found.beaten.shape
    cells = num_metrics * num_data
    chosen = np.eye(num_settings)[found.chosen.reshape(cells, num_seeds)]  # [cell, seed, setting]
    beaten = found.beaten.reshape(cells, num_seeds, num_settings)
    often = np.einsum("s,csh->ch", weights, chosen)
    well = np.einsum("s,csh->ch", weights, beaten)
    own = np.einsum("s,csh,dsh->cd", weights**2, chosen, beaten, optimize=True)
    pairs = weights.sum() ** 2 - (weights**2).sum()
    shape = (num_metrics, num_data) * 2
    return ((often @ well.T - own) / pairs).reshape(shape)


def cells(table: np.ndarray) -> dict[tuple[str, str], float]:
    """The four cells of table 1: metric and data set, the same or a different one."""
    num_metrics, num_data = table.shape[:2]
    same_metric = np.eye(num_metrics, dtype=bool)[:, None, :, None]
    same_data = np.eye(num_data, dtype=bool)[None, :, None, :]
    found = {}
    for metric, wanted in (("same", same_metric), ("different", ~same_metric)):
        for data, here in (("same", same_data), ("different", ~same_data)):
            mask = np.broadcast_to(wanted & here, table.shape)
            if mask.any():
                found[metric, data] = float(table[mask].mean())
    return found


def trials(scores: np.ndarray, rng: np.random.Generator,
           num: int = NUM_TRIALS) -> dict[tuple[str, str], float]:
    """The paper's way: trials drawn one by one, of scores `[metric, data set, setting, seed]`."""
    scores = np.where(np.isnan(scores), -np.inf, scores)
    num_metrics, num_data, num_settings, num_seeds = scores.shape

    def other(than: np.ndarray, size: int) -> np.ndarray:
        return (than + rng.integers(1, size, num)) % size if size > 1 else than

    metric, data = rng.integers(num_metrics, size=num), rng.integers(num_data, size=num)
    seed = rng.integers(num_seeds, size=num)
    chosen = scores[metric, data, :, seed].argmax(-1)
    random, later = rng.integers(num_settings, size=num), other(seed, num_seeds)
    found = {}
    for name in PUBLISHED:
        if (name[0] == "different" and num_metrics < 2) or (
                name[1] == "different" and num_data < 2):
            continue
        m = metric if name[0] == "same" else other(metric, num_metrics)
        d = data if name[1] == "same" else other(data, num_data)
        found[name] = float((scores[m, d, chosen, later] >= scores[m, d, random, later]).mean())
    return found


def answer(rows: Rows, rng: np.random.Generator) -> Answer:
    """Table 1 of the rows."""
    keys = rows.need(METRICS)
    scores = np.stack([rows.scores[k] for k in keys])
    # A setting or seed that was not run everywhere would not be drawn alike everywhere.
    scored = (~np.isnan(scores)).any(0)
    used = scored.any((0, 2))
    complete = scored[:, used].all((0, 1))
    if complete.sum() < 2 or used.sum() < 2:
        raise Missing("model selection needs two settings or more that were run with the same two "
                      "seeds or more on every data set: `unweave study run` adds runs")
    scores = scores[:, :, used][..., complete]
    found = contest(scores)
    num_seeds = scores.shape[-1]
    table = exact(found, np.ones(num_seeds))
    redrawn = rng.multinomial(num_seeds, np.full(num_seeds, 1 / num_seeds), NUM_REPLICATES)
    tables = [exact(found, w) for w in redrawn.astype(float) if (w > 0).sum() > 1]
    replicates = [cells(one) for one in tables]
    drawn = trials(scores, rng)
    summary = [{"metric": metric, "data": data, **estimate(
        value, *interval(np.array([r[metric, data] for r in replicates]))),
        "drawn": drawn[metric, data], **({"preprint": PUBLISHED[metric, data]}
                                         if rows.source == "published" else {})}
        for (metric, data), value in cells(table).items()]
    return Answer(sentence=_sentence(summary, num_seeds, scores.shape[2]), summary=summary,
                  tables={"pairs": _pairs(table, np.stack(tables), keys, rows.data)},
                  figures=(_figure(summary),))


def _pairs(table: np.ndarray, replicates: np.ndarray, keys: list[str],
           data: tuple[str, ...]) -> list[dict[str, Any]]:
    low, high = interval(replicates)
    return [{"metric": keys[m], "data": data[d], "on_metric": keys[n], "on_data": data[e],
             **estimate(table[m, d, n, e], low[m, d, n, e], high[m, d, n, e])}
            for m, d, n, e in np.ndindex(table.shape)]


def _sentence(summary: list[dict[str, Any]], num_seeds: int,
              num_settings: int) -> str:
    parts = [f"{r['metric']} metric and {r['data']} data set "
             f"{percent(r['value'], r['low'], r['high'])}" for r in summary]
    chance = (num_settings + 1) / (2 * num_settings)
    return (f"A setting that was the best on one of {num_seeds} seeds is at least as good as a "
            f"random one on another seed: {'; '.join(parts)}. Of two random ones of "
            f"{num_settings} the first is in {100 * chance:.1f} %.")


def _figure(summary: list[dict[str, Any]]) -> Figure:
    names = ("same", "different")
    held = {(r["metric"], r["data"]): r["value"] for r in summary}
    shades = np.array([[held.get((m, d), np.nan) for d in names] for m in names])
    return Figure("selection", "Probability of beating random selection (table 1)", [
        Panel("metric (down) and data set (across)", shades=shades, rows=names, columns=names)], 1)


QUESTION = Question("selection", "Does a good setting stay good on other data or by other metrics?",
                    "Locatello et al. 2019, section 5.5, table 1", answer)
