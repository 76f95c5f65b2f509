"""How much of a score is the method, the strength, the seed? Locatello et al. 2019, section 5.4.

The sum of squares of a score over the runs of a data set falls into three parts: between methods,
between the strengths of a method, between the seeds of a setting. The share of the first is the R2
of a linear model that knows the method, the first two together that of one that knows the setting.
`adjusted` takes from the R2 of the setting what as many random groups would explain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, estimate, percent
from unweave.studies.answers.grid import METRICS, Missing, Rows
from unweave.studies.answers.uncertainty import draw_counts, interval

PARTS = ("method", "strength", "seed")


def shares(values: np.ndarray, settings: np.ndarray, methods: np.ndarray,
           counts: np.ndarray) -> np.ndarray:
    """Shares `[replicate, part]` of the variance of `values` `[run]`, each run counted so often.

    `settings` numbers the setting of each run, `methods` the method of each setting.
    """
    values = values - values.mean()  # squares of large numbers would cancel
    onehot = np.eye(len(methods))[settings]
    number = counts @ onehot  # [replicate, setting]
    total = (counts * values) @ onehot
    squares = counts @ values**2
    of_method = np.eye(methods.max() + 1)[methods]
    overall = total.sum(-1) ** 2 / number.sum(-1)
    between = _square(total @ of_method, number @ of_method).sum(-1) - overall
    within = _square(total, number).sum(-1)
    whole = squares - overall
    parts = np.stack([between, within - between - overall, squares - within], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return parts / whole[:, None]


def _square(total: np.ndarray, number: np.ndarray) -> np.ndarray:
    return np.divide(total**2, number, out=np.zeros(total.shape), where=number > 0)


def answer(rows: Rows, rng: np.random.Generator) -> Answer:
    """The three shares for every score and data set, and their means."""
    keys = rows.need(METRICS)
    methods = np.array([rows.methods.index(s.method) for s in rows.settings])
    where = np.broadcast_to(np.arange(len(methods))[:, None], rows.run_ids.shape[1:])
    records, values, replicates = [], [], []
    for key in keys:
        for d, data in enumerate(rows.data):
            known = ~np.isnan(rows.scores[key][d])
            groups = where[known]
            num, num_settings = len(groups), len(np.unique(groups))
            own = rows.scores[key][d][known]
            if num <= num_settings or num_settings < 2 or np.ptp(own) == 0.0:
                continue
            value = shares(own, groups, methods, np.ones((1, num)))[0]
            again = shares(own, groups, methods, draw_counts(groups, rng))
            # Redrawn seeds add their noise to the settings' means a second time: taken off again.
            again = np.clip(again + value - again.mean(0), 0.0, 1.0)
            low, high = interval(again)
            explained = value[:2].sum()
            record: dict[str, Any] = {"data": data, "score": key}
            for i, part in enumerate(PARTS):
                record |= estimate(value[i], low[i], high[i], part)
            record["adjusted"] = float(1 - (1 - explained) * (num - 1) / (num - num_settings))
            records.append(record | {"runs": num})
            values.append(value)
            replicates.append(again)
    if not records:
        raise Missing("shares of variance need two settings or more with two seeds or more: "
                      "`unweave study run` adds runs")
    mean, (low, high) = np.mean(values, 0), interval(np.mean(replicates, 0))
    summary = [{"part": part, **estimate(mean[i], low[i], high[i])}
               for i, part in enumerate(PARTS)]
    return Answer(sentence=_sentence(mean, low, high), summary=summary,
                  tables={"shares": records}, figures=(_figure(records, keys, rows.data),))


def _sentence(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    parts = [f"{part} {percent(mean[i], low[i], high[i])}" for i, part in enumerate(PARTS)]
    return ("Of the variance of a score on a data set, on average over both, is due to "
            f"{', '.join(parts)}.")


def _figure(records: list[dict[str, Any]], keys: list[str],
            data: tuple[str, ...]) -> Figure:
    panels = []
    for name in data:
        own = [r for r in records if r["data"] == name]
        if own:
            lines = {part: Line(range(len(own)), [r[part] for r in own],
                                [r[f"{part}_low"] for r in own],
                                [r[f"{part}_high"] for r in own]) for part in PARTS}
            panels.append(Panel(name, y="share of variance", lines=lines,
                                ticks=[r["score"] for r in own]))
    return Figure("variance", "Variance explained by method, strength and seed", panels)


QUESTION = Question("variance", "How much of a score is the method, the strength, the seed?",
                    "Locatello et al. 2019, section 5.4", answer)
