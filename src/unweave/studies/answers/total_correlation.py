"""Do methods make codes factorise? Locatello et al. 2019, section 5.2, figures 2 to 4.

Gaussian total correlation of sampled and of mean codes: medians over seeds against strength, and
the two beside each other for every run.
"""

from __future__ import annotations

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, estimate, percent
from unweave.studies.answers.grid import Rows
from unweave.studies.answers.uncertainty import draw_counts, interval, medians

_FIGURES = {"tc.sampled": "2", "tc.mean": "3"}


def answer(rows: Rows, rng: np.random.Generator) -> Answer:
    """Medians by setting, their course, and how often mean codes are the more correlated."""
    keys = rows.need(("tc.sampled", "tc.mean"))
    records, figures, falls = [], [], []
    for key in keys:
        panels = []
        for d, data in enumerate(rows.data):
            middle, again = medians(rows.scores[key][d], rng)
            low, high = interval(again)
            lines = {}
            for method in rows.methods:
                own = [i for i in rows.of_method(method) if middle[i] == middle[i]]
                if not own:
                    continue
                lines[method] = Line(range(len(own)), middle[own], low[own], high[own])
                records += [{"key": key, "data": data, "setting": str(rows.settings[i]),
                             **estimate(middle[i], low[i], high[i])} for i in own]
                if len(own) > 1:
                    change = again[:, own[-1]] - again[:, own[0]]
                    falls.append({"key": key, "data": data, "method": method, **estimate(
                        middle[own[-1]] - middle[own[0]], *interval(change))})
            panels.append(Panel(data, x="strength, in order", y=key, lines=lines))
        figures.append(Figure(key.replace(".", "-"), f"Total correlation against strength, {key} "
                              f"(fig. {_FIGURES[key]})", panels))
    above = _above(rows, rng) if len(keys) == 2 else []
    if above:
        figures.append(_beside(rows))
    return Answer(sentence=_sentence(falls, above), summary=[*above] or falls,
                  tables={"medians": records, "strongest_less_weakest": falls, "above": above},
                  figures=figures)


def _above(rows: Rows, rng: np.random.Generator) -> list[dict]:
    """For each method, the share of runs whose mean codes have the larger total correlation."""
    found = []
    for method in rows.methods:
        own = rows.of_method(method)
        mean, sampled = rows.scores["tc.mean"][:, own], rows.scores["tc.sampled"][:, own]
        known = ~np.isnan(mean) & ~np.isnan(sampled)
        if known.any():
            cells = np.broadcast_to(np.arange(mean[..., 0].size).reshape(
                (*mean.shape[:2], 1)), mean.shape)
            larger = (mean > sampled)[known]
            again = draw_counts(cells[known], rng) @ larger / len(larger)
            found.append({"method": method, **estimate(larger.mean(), *interval(again)),
                          "runs": len(larger)})
    return found


def _beside(rows: Rows) -> Figure:
    panels = [Panel(data, x="tc.sampled", y="tc.mean", log=True, lines={
        m: Line(rows.scores["tc.sampled"][d, rows.of_method(m)].ravel(),
                rows.scores["tc.mean"][d, rows.of_method(m)].ravel(), joined=False)
        for m in rows.methods}) for d, data in enumerate(rows.data)]
    return Figure("tc", "Total correlation of mean and of sampled codes (fig. 4)", panels)


def _sentence(falls: list[dict], above: list[dict]) -> str:
    parts = []
    for key in _FIGURES:
        own = [r for r in falls if r["key"] == key]
        if own:
            down = sum(r["high"] < 0 for r in own)
            up = sum(r["low"] > 0 for r in own)
            parts.append(f"from the weakest to the strongest setting {key} falls in {down} and "
                         f"rises in {up} of {len(own)} cases")
    parts += [f"{r['method']} {percent(r['value'], r['low'], r['high'])}" for r in above[:1]]
    if above:
        parts[-1] = "mean codes have the larger total correlation in this share of runs: " + (
            ", ".join(f"{r['method']} {percent(r['value'], r['low'], r['high'])}" for r in above))
    text = "; ".join(parts) or "medians of the settings that are there"
    return f"{text[0].upper()}{text[1:]}."


QUESTION = Question("total_correlation", "Do methods make codes factorise?",
                    "Locatello et al. 2019, section 5.2, figures 2 to 4", answer)
