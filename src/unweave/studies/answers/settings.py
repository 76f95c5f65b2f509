"""Strengths and seeds of one method. Hartmann 2021, 5.1.3 to 5.1.5, figures 9 to 11.

Figure 9 shows the mean over seeds of every setting on one data set, figure 10 how the best strength
moves from data set to data set, figure 11 how far seeds of one setting lie apart.
"""

from __future__ import annotations

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, estimate, percent
from unweave.studies.answers.boxes import SCORES
from unweave.studies.answers.grid import Missing, Rows
from unweave.studies.answers.uncertainty import NUM_REPLICATES, interval, means

RECONSTRUCTION = "elbo.reconstruction"


def hyperparameters(rows: Rows, rng: np.random.Generator) -> Answer:
    """The mean over seeds of every setting on the first data set, with reconstruction."""
    keys = rows.need(SCORES) + rows.have([RECONSTRUCTION])
    data = rows.data[0]
    records, panels = [], []
    gains: dict[str, list[float]] = {}
    for key in keys:
        value, again = means(rows.scores[key][0], rng)
        low, high = interval(again)
        lines = {}
        for method in rows.methods:
            own = [i for i in rows.of_method(method) if value[i] == value[i]]
            if own:
                lines[method] = Line(range(len(own)), value[own], low[own], high[own])
                if key != RECONSTRUCTION:
                    gains.setdefault(method, []).append(float(np.ptp(value[own])))
            records += [{"data": data, "score": key, "method": method,
                         "strength": rows.settings[i].strength,
                         **estimate(value[i], low[i], high[i])} for i in own]
        panels.append(Panel(data, x="strength, in order", y=key, lines=lines))
    summary = [{"method": m, "difference": float(np.mean(g))} for m, g in gains.items()]
    parts = ", ".join(f"{r['method']} {r['difference']:.3f}" for r in summary)
    return Answer(sentence=f"On {data} the best strength of a method is above its worst, on "
                  f"average over the scores, by: {parts}.", summary=summary,
                  tables={"means": records}, figures=(
                      Figure("hyperparameters", f"Scores by strength on {data} (Hartmann, fig. 9)",
                             panels),))


def best_strengths(rows: Rows, rng: np.random.Generator) -> Answer:
    """Which strength has the highest mean over scores and seeds, for each method and data set."""
    keys = rows.need(SCORES)
    found = [means(rows.scores[k], rng) for k in keys]
    value = np.mean([v for v, _ in found], axis=0)  # [data, setting]
    again = np.mean([a for _, a in found], axis=0)
    records = []
    for method in rows.methods:
        for d, data in enumerate(rows.data):
            own = [i for i in rows.of_method(method) if value[d, i] == value[d, i]]
            if len(own) > 1:
                top = int(value[d, own].argmax())
                sure = float((again[:, d, own].argmax(-1) == top).mean())
                records.append({"method": method, "data": data, "letter": rows.settings[own[top]].
                                letter, "best": rows.settings[own[top]].strength,
                                **estimate(value[d, own[top]], *interval(again[:, d, own[top]]),
                                           "mean"), "same_under_bootstrap": sure})
    if not records:
        raise Missing("this needs two strengths or more of a method: `unweave study run` adds runs")
    main = records[0]["method"]
    own = [i for i in rows.of_method(main)]
    panels = []
    for key, (v, a) in zip(keys, found):
        low, high = interval(a)
        panels.append(Panel(key, x=rows.settings[own[0]].letter, lines={
            data: Line(range(len(own)), v[d, own], low[d, own], high[d, own])
            for d, data in enumerate(rows.data)},
            ticks=[f"{rows.settings[i].strength:g}" for i in own]))
    parts = ", ".join(f"{r['data']} {r['best']:g}" for r in records if r["method"] == main)
    moved = [m for m in rows.methods if len({r["best"] for r in records if r["method"] == m}) > 1]
    return Answer(sentence=f"The best strength of {main}: {parts}. Methods whose best strength is "
                  f"not the same on all data sets: {', '.join(moved) or 'none'}.",
                  summary=[r for r in records if r["method"] == main], tables={"best": records},
                  figures=(Figure("best_strengths", f"{main} on each data set (Hartmann, fig. 10)",
                                  panels),))


def seeds(rows: Rows, rng: np.random.Generator) -> Answer:
    """How far seeds of one setting lie apart, and how often a worse setting wins by luck."""
    keys = rows.need(SCORES)
    method = next((m for m in rows.methods if len(rows.of_method(m)) > 1), rows.methods[0])
    own, data = rows.of_method(method), rows.data[0]
    records, panels, summary = [], [], []
    for key in keys:
        grid = rows.scores[key][0, own]
        boxes = {f"{rows.settings[i].strength:g}": row[~np.isnan(row)]
                 for i, row in zip(own, grid) if not np.isnan(row).all()}
        panels.append(Panel(key, x=rows.settings[own[0]].letter, boxes=boxes))
        for name, values in boxes.items():
            again = values[rng.integers(0, len(values), (NUM_REPLICATES, len(values)))]
            records.append({"data": data, "method": method, "score": key, "strength": float(name),
                            **estimate(values.std(), *interval(again.std(-1)), "spread"),
                            "lowest": float(values.min()), "highest": float(values.max()),
                            "seeds": len(values)})
        if len(boxes) > 1:
            order = sorted(boxes.values(), key=lambda v: v.mean())
            summary.append({"score": key, **_luck(order[0], order[-1], rng)})
    if not any(len(values) > 1 for panel in panels for values in panel.boxes.values()):
        raise Missing("this needs two seeds or more of a setting: `unweave study run` adds runs")
    parts = "; ".join(f"{r['score']} {percent(r['value'], r['low'], r['high'])}" for r in summary)
    return Answer(sentence=f"On {data} a run of the worst strength of {method} is at least as good "
                  f"as a run of its best strength with probability: {parts or 'one strength only'}"
                  ".", summary=summary, tables={"spread": records}, figures=(
                      Figure("seeds", f"Seeds of {method} on {data} (Hartmann, fig. 11)", panels),))


def _luck(worst: np.ndarray, best: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    wins = worst[:, None] >= best[None, :]
    again = [wins[rng.integers(0, len(worst), len(worst))][:, rng.integers(
        0, len(best), len(best))].mean() for _ in range(NUM_REPLICATES)]
    return estimate(wins.mean(), *interval(np.array(again)))


HYPERPARAMETERS = Question("hyperparameters", "What does the strength do to scores?",
                           "Hartmann 2021, section 5.1.3, figure 9", hyperparameters)
BEST_STRENGTHS = Question("best_strengths", "Is the best strength the same on all data?",
                          "Hartmann 2021, section 5.1.4, figure 10", best_strengths)
SEEDS = Question("seeds", "Do seeds matter?", "Hartmann 2021, section 5.1.5, figure 11", seeds)
