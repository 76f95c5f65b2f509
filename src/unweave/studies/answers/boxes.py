"""Which method, on which data? Box plots of Hartmann 2021, 5.1.1 and 5.1.2, figures 7 and 8.

Figure 7 pools data sets, strengths and seeds for each method and score; figure 8 pools the scores
as well, for each data set.
"""

from __future__ import annotations

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Panel, Question, estimate, said
from unweave.studies.answers.grid import Rows
from unweave.studies.answers.uncertainty import (
    NUM_REPLICATES,
    draw_counts,
    interval,
    pooled,
)

SCORES = ("beta_vae", "factor_vae", "mig", "sap", "dci.disentanglement")
"""The five scores of the comparison; modularity is not among them."""


def models(rows: Rows, rng: np.random.Generator) -> Answer:
    """Quartiles and mean of each method by each score, and over all scores."""
    keys = rows.need(SCORES)
    records, panels = [], []
    for key in [*keys, "all"]:
        own = [rows.scores[k] for k in (keys if key == "all" else [key])]
        boxes = _boxes(rows, own)
        panels.append(Panel(key, boxes=boxes))
        records += _records(rows, own, boxes, rng, score=key)
    overall = sorted((r for r in records if r["score"] == "all"), key=lambda r: -r["mean"])
    reconstruction = "elbo.reconstruction"
    if reconstruction in rows.scores:
        own = [rows.scores[reconstruction]]
        panels.append(Panel(reconstruction, boxes=_boxes(rows, own)))
        records += _records(rows, own, _boxes(rows, own), rng, score=reconstruction)
    return Answer(sentence=_order(overall, "over all scores, data sets, strengths and seeds"),
                  summary=overall, tables={"boxes": records},
                  figures=(Figure("models", "Scores of each method (Hartmann, fig. 7)", panels),))


def datasets(rows: Rows, rng: np.random.Generator) -> Answer:
    """Quartiles and mean of each method on each data set, over all scores."""
    keys = rows.need(SCORES)
    records, panels, orders = [], [], []
    for d, data in enumerate(rows.data):
        own = [rows.scores[k][d:d + 1] for k in keys]
        boxes = _boxes(rows, own)
        panels.append(Panel(data, boxes=boxes))
        found = _records(rows, own, boxes, rng, data=data)
        records += found
        orders.append([r["method"] for r in sorted(found, key=lambda r: -r["mean"])])
    leaders = "; ".join(f"{data}: {', '.join(order[:3])}"
                        for data, order in zip(rows.data, orders) if order)
    return Answer(sentence=f"The highest means over all scores. {leaders}.",
                  summary=[{"data": data, **{f"{i + 1}.": m for i, m in enumerate(order)}}
                           for data, order in zip(rows.data, orders)],
                  tables={"boxes": records}, figures=(
                      Figure("datasets", "Methods on each data set (Hartmann, fig. 8)", panels),))


def _boxes(rows: Rows, scores: list[np.ndarray]) -> dict[str, np.ndarray]:
    found = {}
    for method in rows.methods:
        values = np.concatenate([s[:, rows.of_method(method)].ravel() for s in scores])
        values = values[~np.isnan(values)]
        if len(values):
            found[method] = values
    return found


def _records(rows: Rows, scores: list[np.ndarray], boxes: dict[str, np.ndarray],
             rng: np.random.Generator, **extra: str) -> list[dict]:
    """Quartiles and mean; for intervals, seeds are drawn anew within settings.

    A run that is drawn brings all of its scores.
    """
    records = []
    for method, values in boxes.items():
        parts = np.stack([s[:, rows.of_method(method)] for s in scores])  # score data setting seed
        known = ~np.isnan(parts)
        there = known.any(0)
        cells = np.broadcast_to(np.arange(there[..., 0].size).reshape((*there.shape[:2], 1)),
                                there.shape)
        counts = np.zeros((NUM_REPLICATES, there.size), dtype=np.int32)
        counts[:, there.ravel()] = draw_counts(cells[there], rng)
        counts = np.concatenate([counts[:, one.ravel()] for one in known], axis=1)
        mean, median = pooled(values, counts)
        quartiles = np.quantile(values, (0.25, 0.5, 0.75))
        records.append({**extra, "method": method,
                        **estimate(values.mean(), *interval(mean), "mean"),
                        **estimate(quartiles[1], *interval(median), "median"),
                        "quarter": float(quartiles[0]), "three_quarters": float(quartiles[2]),
                        "values": len(values)})
    return records


def _order(records: list[dict], what: str) -> str:
    parts = [f"{r['method']} {said(r['mean'], r['mean_low'], r['mean_high'])}" for r in records]
    medians = sorted(records, key=lambda r: -r["median"])
    tail = ", ".join(f"{r['method']} {said(r['median'], r['median_low'], r['median_high'])}"
                     for r in medians[:3])
    return f"Means {what}: {', '.join(parts)}; the highest medians: {tail}."


MODELS = Question("models", "Which method has the highest scores?",
                  "Hartmann 2021, section 5.1.1, figure 7", models)
DATASETS = Question("datasets", "Is the order of methods the same on all data?",
                    "Hartmann 2021, section 5.1.2, figure 8", datasets)
