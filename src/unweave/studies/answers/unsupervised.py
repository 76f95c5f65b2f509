"""Do scores without labels tell which runs are good? Locatello et al. 2019, 5.5, figure 9.

Spearman correlations over the runs of a data set, between what can be computed without labels and
the six scores that need them.
"""

from __future__ import annotations

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Question, said
from unweave.studies.answers.correlation import correlate, mean_records, pair_records, shades
from unweave.studies.answers.grid import METRICS, UNSUPERVISED, Missing, Rows


def answer(rows: Rows, rng: np.random.Generator) -> Answer:
    """Correlations of every score without labels with every score with labels."""
    metrics, without = rows.need(METRICS), rows.need(UNSUPERVISED)
    found = correlate(rows, [*without, *metrics], rng)
    records = pair_records(found, without, metrics)
    if not records:
        raise Missing("no data set has three runs with scores of both kinds: "
                      "`unweave study add` scores them")
    strongest = max(records, key=lambda r: abs(r["value"]))
    parts = [(f"{r['score']} with {r['other']} on {r['data']}",
              said(r["value"], r["low"], r["high"])) for r in [strongest]]
    typical = float(np.median([abs(r["value"]) for r in records]))
    switching = sum(len({r["value"] > 0 for r in records
                         if (r["score"], r["other"]) == pair}) > 1
                    for pair in {(r["score"], r["other"]) for r in records})
    pairs = len({(r["score"], r["other"]) for r in records})
    return Answer(
        sentence=f"The median size of a correlation is {typical:.2f}; the largest is "
                 f"{parts[0][0]}, {parts[0][1]}. Of {pairs} pairs of scores {switching} change "
                 "their sign from one data set to another.",
        summary=mean_records(found, without, metrics), tables={"pairs": records},
        figures=(Figure("unsupervised", "Rank correlation of scores without and with labels "
                        "(fig. 9)", [shades(one, without, metrics) for one in found]),))


QUESTION = Question("unsupervised", "Do scores without labels tell which runs are good?",
                    "Locatello et al. 2019, section 5.5, figure 9", answer)
