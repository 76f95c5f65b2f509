"""Do good settings carry over to other data? Locatello et al. 2019, section 5.5, figures 10, 11.

For each score, Spearman correlations between data sets of the medians over seeds of all settings.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, estimate, said
from unweave.studies.answers.grid import METRICS, Missing, Rows
from unweave.studies.answers.uncertainty import interval, medians


def answer(rows: Rows, rng: np.random.Generator) -> Answer:
    """Correlations of every pair of data sets, by every score."""
    keys = rows.need(METRICS)
    if len(rows.data) < 2:
        raise Missing(f"transfer needs two data sets or more, the rows have {rows.data[0]}")
    records, heats, points = [], [], []
    for key in keys:
        middle, again = medians(rows.scores[key], rng)  # [data, setting], [replicate, ...]
        table = np.full((len(rows.data),) * 2, np.nan)
        np.fill_diagonal(table, 1.0)
        for i, j in combinations(range(len(rows.data)), 2):
            both = ~np.isnan(middle[[i, j]]).any(0)
            if both.sum() < 3:
                continue
            value = _spearman(middle[None][:, [i, j]][..., both])[0]
            low, high = interval(_spearman(again[:, [i, j]][..., both]))
            table[i, j] = table[j, i] = value
            records.append({"score": key, "data": rows.data[i], "other": rows.data[j],
                            **estimate(value, low, high), "settings": int(both.sum())})
        heats.append(Panel(key, shades=table, rows=rows.data, columns=rows.data))
        points += [Panel(key, x=rows.data[0], y=rows.data[j], lines={
            m: Line(middle[0, rows.of_method(m)], middle[j, rows.of_method(m)], joined=False)
            for m in rows.methods}) for j in range(1, len(rows.data))]
    if not records:
        raise Missing("transfer needs three settings or more that two data sets share")
    summary = _means(records)
    return Answer(sentence=_sentence(summary), summary=summary, tables={"pairs": records}, figures=(
        Figure("transfer", "Rank correlation of settings across data sets (fig. 10)", heats),
        Figure("transfer-scores", f"Medians on {rows.data[0]} and on the others (fig. 11)",
               points, len(rows.data) - 1)))


def _spearman(pairs: np.ndarray) -> np.ndarray:
    """Of `[replicate, 2, setting]`."""
    from scipy.stats import rankdata

    ranks = rankdata(pairs, axis=-1) - (pairs.shape[-1] + 1) / 2
    size = np.sqrt((ranks**2).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ranks[:, 0] * ranks[:, 1]).sum(-1) / (size[:, 0] * size[:, 1])


def _means(records: list[dict]) -> list[dict]:
    """The mean over the scores, for every pair of data sets; the ends are means of ends."""
    pairs: dict[tuple[str, str], list[dict]] = {}
    for record in records:
        pairs.setdefault((record["data"], record["other"]), []).append(record)
    found = [{"data": a, "other": b, **{k: float(np.mean([r[k] for r in own]))
                                        for k in ("value", "low", "high")}}
             for (a, b), own in pairs.items()]
    return sorted(found, key=lambda r: -r["value"])


def _sentence(summary: list[dict]) -> str:
    top, rest = summary[0], summary[1:]
    first = (f"Settings carry over best between {top['data']} and {top['other']}: mean rank "
             f"correlation over the scores {said(top['value'], top['low'], top['high'])}")
    if not rest:
        return f"{first}."
    return f"{first}; over the other pairs it is {np.mean([r['value'] for r in rest]):.2f}."


QUESTION = Question("transfer", "Do good settings carry over to other data?",
                    "Locatello et al. 2019, section 5.5, figures 10 and 11", answer)
