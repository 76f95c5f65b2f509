"""Does disentanglement help downstream? Locatello et al. 2019, section 5.6, figures 12 to 14.

Figure 12 correlates the six scores with the accuracy of predicting the factors from codes;
figures 13 and 14 hold them against statistical efficiency, the accuracy with 100 labels divided by
that with 10,000, for logistic regression and for boosted trees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, said
from unweave.studies.answers.correlation import correlate, mean_records, pair_records, shades
from unweave.studies.answers.grid import DOWNSTREAM, EFFICIENCY, METRICS, Rows


def accuracy(rows: Rows, rng: np.random.Generator) -> Answer:
    """Correlations of every score with every downstream accuracy."""
    metrics, tasks = rows.need(METRICS), rows.need(DOWNSTREAM)
    found = correlate(rows, [*metrics, *tasks], rng)
    records = pair_records(found, metrics, tasks)
    return Answer(
        sentence=_sentence(records, "downstream accuracy"),
        summary=mean_records(found, metrics, tasks), tables={"pairs": records},
        figures=(Figure("downstream", "Rank correlation with downstream accuracy (fig. 12)",
                        [shades(one, metrics, tasks) for one in found]),))


def efficiency(rows: Rows, rng: np.random.Generator) -> Answer:
    """Correlations of every score with statistical efficiency, and the points themselves."""
    metrics, kinds = rows.need(METRICS), rows.need(EFFICIENCY)
    found = correlate(rows, [*metrics, *kinds], rng)
    records = pair_records(found, metrics, kinds)
    figures = []
    for number, kind in enumerate(EFFICIENCY, start=13):
        if kind in kinds:
            panels = [_points(rows, d, key, kind) for d in range(len(rows.data))
                      for key in metrics]
            figures.append(Figure(kind.replace(".", "-"), f"Statistical efficiency against scores "
                                  f"(fig. {number})", panels, len(metrics)))
    return Answer(sentence=_sentence(records, "statistical efficiency"),
                  summary=mean_records(found, metrics, kinds), tables={"pairs": records},
                  figures=figures)


def _points(rows: Rows, d: int, key: str, kind: str) -> Panel:
    lines = {}
    for method in rows.methods:
        own = rows.of_method(method)
        lines[method] = Line(rows.scores[key][d, own].ravel(), rows.scores[kind][d, own].ravel(),
                             joined=False)
    return Panel(rows.data[d], x=key, y=kind, lines=lines)


def _sentence(records: Sequence[dict], what: str) -> str:
    if not records:
        return "No data set has runs with both kinds of scores."
    by_metric: dict[str, list[float]] = {}
    for record in records:
        by_metric.setdefault(record["score"], []).append(record["value"])
    best = max(by_metric, key=lambda k: np.mean(by_metric[k]))
    top = max(records, key=lambda r: r["value"])
    return (f"Of the scores {best} goes most with {what} (mean rank correlation "
            f"{np.mean(by_metric[best]):.2f}); the largest is {top['score']} with {top['other']} "
            f"on {top['data']}, {said(top['value'], top['low'], top['high'])}.")


DOWNSTREAM_QUESTION = Question(
    "downstream", "Do scores go with downstream accuracy?",
    "Locatello et al. 2019, section 5.6, figure 12", accuracy)
EFFICIENCY_QUESTION = Question(
    "efficiency", "Do fewer labels suffice where scores are high?",
    "Locatello et al. 2019, section 5.6, figures 13 and 14", efficiency)
