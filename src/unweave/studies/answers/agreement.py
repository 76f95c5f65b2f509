"""How much do metrics agree? Locatello et al. 2019, section 5.3, figures 5 and 6.

Spearman correlations of the six scores over the runs of a data set. The paper sees a block of the
BetaVAE score, the FactorVAE score and MIG, and little beside it.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, said
from unweave.studies.answers.correlation import (
    Correlated,
    correlate,
    mean_records,
    pair_records,
    shades,
)
from unweave.studies.answers.grid import METRICS, Missing, Rows
from unweave.studies.answers.uncertainty import interval

BLOCK = ("beta_vae", "factor_vae", "mig")


def answer(rows: Rows, rng: np.random.Generator) -> Answer:
    """Correlations of every pair of scores on every data set."""
    keys = rows.need(METRICS, at_least=2)
    found = correlate(rows, keys, rng)
    if not found:
        raise Missing("no data set has three runs with two of the scores: "
                      "`unweave study add` scores them")
    records = pair_records(found, keys, keys)
    return Answer(
        sentence=_sentence(found), summary=mean_records(found, keys, keys),
        tables={"pairs": records},
        figures=(Figure("agreement-scores", f"Scores beside each other on {found[0].data}",
                        _scatter(rows, found[0]), 5),
                 Figure("agreement", "Rank correlation of scores (fig. 6)",
                        [shades(one, keys, keys) for one in found])))


def block_records(found: list[Correlated]) -> list[dict[str, Any]]:
    """For each data set the mean correlation within the block, and of all other pairs."""
    records = []
    for one in found:
        pairs = list(combinations(one.keys, 2))
        inside = [pair for pair in pairs if set(pair) <= set(BLOCK)]
        outside = [pair for pair in pairs if pair not in inside]
        record: dict[str, Any] = {"data": one.data}
        for name, some in (("block", inside), ("others", outside)):
            if some:
                value = np.mean([one.at(*pair)[0] for pair in some])
                low, high = interval(np.mean([one.at(*pair)[1] for pair in some], axis=0))
                record[name] = (float(value), float(low), float(high))
        records.append(record)
    return records


def _sentence(found: list[Correlated]) -> str:
    parts = []
    for record in block_records(found):
        if "block" in record and "others" in record:
            parts.append(f"{record['data']} {said(*record['block'])} against "
                         f"{said(*record['others'])}")
    if not parts:
        return "Rank correlations of the scores that are there."
    return ("Mean rank correlation among the BetaVAE score, the FactorVAE score and MIG, against "
            f"that of all other pairs: {'; '.join(parts)}.")


def _scatter(rows: Rows, one: Correlated) -> list[Panel]:
    d = rows.where(one.data)
    panels = []
    for a, b in combinations(one.keys, 2):
        lines = {}
        for method in rows.methods:
            own = rows.of_method(method)
            lines[method] = Line(rows.scores[a][d, own].ravel(), rows.scores[b][d, own].ravel(),
                                 joined=False)
        panels.append(Panel("", x=a, y=b, lines=lines))
    return panels


QUESTION = Question("agreement", "How much do metrics agree?",
                    "Locatello et al. 2019, section 5.3, figures 5 and 6", answer)
