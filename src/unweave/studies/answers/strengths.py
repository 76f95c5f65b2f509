"""Scores against strength, and the range each method reaches. Locatello et al. 2019, 5.4 and 5.5.

Both questions look at the median over seeds of each setting: figure 7 at its range over the
strengths of a method, figure 8 at its course along them.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, estimate, percent
from unweave.studies.answers.grid import METRICS, Rows
from unweave.studies.answers.uncertainty import interval, medians


def ranges(rows: Rows, rng: np.random.Generator) -> Answer:
    """For each method the lowest and highest median over its strengths; how ranges overlap."""
    keys = rows.need(METRICS)
    records, panels = [], []
    overlaps, replicates = [], []
    for d, data in enumerate(rows.data):
        for key in keys:
            middle, again = medians(rows.scores[key][d], rng)
            ends = {}
            for method in rows.methods:
                own = [i for i in rows.of_method(method) if middle[i] == middle[i]]
                if not own:
                    continue
                lowest, highest = middle[own].min(), middle[own].max()
                redrawn = (again[:, own].min(-1), again[:, own].max(-1))
                best = rows.settings[own[int(middle[own].argmax())]]
                ends[method] = ((lowest, redrawn[0]), (highest, redrawn[1]))
                records.append({"data": data, "score": key, "method": method,
                                **estimate(lowest, *interval(redrawn[0]), "lowest"),
                                **estimate(highest, *interval(redrawn[1]), "highest"),
                                "best": str(best)})
            for a, b in combinations(ends.values(), 2):
                overlaps.append(a[0][0] <= b[1][0] and b[0][0] <= a[1][0])
                replicates.append((a[0][1] <= b[1][1]) & (b[0][1] <= a[1][1]))
            panels.append(Panel(data, y=key, boxes={
                m: [v for v in middle[rows.of_method(m)] if v == v] for m in rows.methods}))
    shared = "No data set has runs of two methods, so no ranges overlap or differ."
    if overlaps:
        share = percent(float(np.mean(overlaps)), *interval(np.mean(replicates, 0)))
        shared = f"Ranges of two methods overlap in {share} of cases."
    leaders = _leaders(records)
    summary = [{"method": m, "highest_on": n, "of": sum(leaders.values())}
               for m, n in sorted(leaders.items(), key=lambda pair: -pair[1])]
    sentence = "; ".join(f"{r['method']} {r['highest_on']}" for r in summary)
    return Answer(
        sentence=f"{shared} Of {sum(leaders.values())} pairs of a score and a data set, the "
                 f"highest median is that of: {sentence}.",
        summary=summary, tables={"ranges": records},
        figures=(Figure("ranges", "Medians of the settings of each method (fig. 7)", panels,
                        len(keys)),))


def _leaders(records: list[dict]) -> dict[str, int]:
    best: dict[tuple[str, str], dict] = {}
    for record in records:
        at = (record["data"], record["score"])
        if at not in best or record["highest"] > best[at]["highest"]:
            best[at] = record
    found: dict[str, int] = {}
    for record in best.values():
        found[record["method"]] = found.get(record["method"], 0) + 1
    return found


def strengths(rows: Rows, rng: np.random.Generator) -> Answer:
    """The median of each setting, along the strengths of its method."""
    keys = rows.need(METRICS)
    records, panels = [], []
    best: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for d, data in enumerate(rows.data):
        for key in keys:
            middle, again = medians(rows.scores[key][d], rng)
            low, high = interval(again)
            lines = {}
            for method in rows.methods:
                own = [i for i in rows.of_method(method) if middle[i] == middle[i]]
                if not own:
                    continue
                lines[method] = Line(range(len(own)), middle[own], low[own], high[own])
                top = own[int(middle[own].argmax())]
                stable = float((again[:, own].argmax(-1) == own.index(top)).mean())
                best.setdefault(method, {}).setdefault(rows.settings[top].letter, []).append(
                    (rows.settings[top].strength, stable))
                records += [{"data": data, "score": key, "method": method,
                             "letter": rows.settings[i].letter,
                             "strength": rows.settings[i].strength,
                             **estimate(middle[i], low[i], high[i])} for i in own]
            panels.append(Panel(data, x="strength, in order", y=key, lines=lines))
    summary = [_recipe(method, letter, found) for method, letters in best.items()
               for letter, found in letters.items()]
    parts = [f"{r['method']} {r['most_often']:g} in {r['times']} of {r['cases']}"
             for r in summary if r["letter"]]
    moved = [r["method"] for r in summary if r["strengths_that_win"] > 1]
    return Answer(
        sentence="The strength that is best most often, over scores and data sets: "
                 f"{', '.join(parts) or 'no method has a letter that was varied'}. Methods whose "
                 f"best strength is not the same in all cases: {', '.join(moved) or 'none'}.",
        summary=summary, tables={"medians": records},
        figures=(Figure("strengths", "Median score against strength (fig. 8)", panels,
                        len(keys)),))


def _recipe(method: str, letter: str, found: list[tuple[float, float]]) -> dict[str, Any]:
    """Which strength wins most often, and how sure the winners are under the bootstrap."""
    values = [strength for strength, _ in found]
    often = max(set(values), key=values.count)
    return {"method": method, "letter": letter, "most_often": float(often),
            "times": values.count(often), "cases": len(values),
            "strengths_that_win": len(set(values)),
            "same_under_bootstrap": float(np.mean([stable for _, stable in found]))}


RANGES = Question("ranges", "Which scores does each method reach?",
                  "Locatello et al. 2019, section 5.4, figure 7", ranges)
STRENGTHS = Question("strengths", "Is there a rule for the strength?",
                     "Locatello et al. 2019, section 5.5, figure 8", strengths)
