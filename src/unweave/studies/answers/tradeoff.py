"""What does a score cost in reconstruction? Kim & Mnih 2018, figures 4 and 5; Kumar et al., fig. 1.

Figure 5 and Kumar's figure 1 hold the mean score of a setting against its mean reconstruction
error, by the FactorVAE and the BetaVAE score; errors are nats per image here. Figure 4 follows the
reconstruction error through training, from the curves of the runs.
"""

from __future__ import annotations

import numpy as np

from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question, estimate
from unweave.studies.answers.grid import Missing, Rows
from unweave.studies.answers.uncertainty import draw_counts, interval, means

RECONSTRUCTION = "elbo.reconstruction"
_FIGURES = {"factor_vae": "Kim & Mnih, fig. 5", "beta_vae": "Kumar et al., fig. 1"}


def tradeoff(rows: Rows, rng: np.random.Generator) -> Answer:
    """Mean reconstruction error and mean score of every setting."""
    keys = rows.need(tuple(_FIGURES))
    rows.need((RECONSTRUCTION,))
    error, errors = means(rows.scores[RECONSTRUCTION], rng)
    error_low, error_high = interval(errors)
    records, figures, summary = [], [], []
    for key in keys:
        value, again = means(rows.scores[key], rng)
        low, high = interval(again)
        panels = []
        for d, data in enumerate(rows.data):
            lines = {}
            for method in rows.methods:
                own = [i for i in rows.of_method(method)
                       if value[d, i] == value[d, i] and error[d, i] == error[d, i]]
                if own:
                    lines[method] = Line(error[d, own], value[d, own], labels=[
                        f"{rows.settings[i].strength:g}" for i in own])
                records += [{"data": data, "score": key, "setting": str(rows.settings[i]),
                             **estimate(error[d, i], error_low[d, i], error_high[d, i],
                                        "reconstruction"),
                             **estimate(value[d, i], low[d, i], high[d, i])} for i in own]
            panels.append(Panel(data, x="reconstruction error", y=key, lines=lines))
            own_settings = {r["setting"]: r for r in records
                            if (r["data"], r["score"]) == (data, key)}
            summary += [own_settings[str(rows.settings[i])] for i in _front(error[d], value[d])]
        figures.append(Figure(f"tradeoff-{key}", f"{key} against reconstruction "
                              f"({_FIGURES[key]})", panels))
    first = [r for r in summary if r["data"] == rows.data[0]]
    parts = "; ".join(f"by {k}: " + ", ".join(r["setting"] for r in first if r["score"] == k)
                      for k in keys)
    return Answer(sentence=f"Settings on {rows.data[0]} that no other beats in both, from the "
                  f"smallest error to the highest score, {parts}.", summary=first,
                  tables={"settings": records, "front": summary}, figures=figures)


def _front(error: np.ndarray, value: np.ndarray) -> list[int]:
    """Settings of which no other has a smaller error and a higher score, by error."""
    found, best = [], -np.inf
    for i in np.argsort(np.where(np.isnan(error), np.inf, error), kind="stable"):
        if value[i] == value[i] and error[i] == error[i] and value[i] > best:
            best = value[i]
            found.append(int(i))
    return found


def training(rows: Rows, rng: np.random.Generator) -> Answer:
    """The reconstruction error during training: mean over seeds of every setting."""
    found = [] if rows.store is None else _curves(rows)
    if not found:
        raise Missing("the rows have no curves of the reconstruction error: published runs come "
                      "without, `unweave study run` stores them")
    records, panels = [], []
    for data, method, lines in found:
        shown = {}
        for name, (steps, table) in lines.items():
            value, low, high = _mean_curve(table, rng)
            shown[name] = Line(steps, value, low, high)
            records += [{"data": data, "method": method, "setting": name, "step": int(step),
                         **estimate(v, a, b)} for step, v, a, b in zip(steps, value, low, high)]
        panels.append(Panel(f"{method} on {data}", x="step", y="reconstruction error",
                            lines=shown))
    last: dict[str, dict] = {}
    for record in records:
        last[f"{record['data']} {record['setting']}"] = record
    return Answer(sentence=f"The reconstruction error of {len(last)} settings through training, "
                  "means over seeds; below, at the end.", summary=list(last.values()),
                  tables={"curves": records}, figures=(
                      Figure("training", "Reconstruction during training (Kim & Mnih, fig. 4)",
                             panels, max(1, len(rows.methods))),))


def _mean_curve(errors: np.ndarray,
                rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over seeds of errors `[step, seed]`, and its interval: whole runs are redrawn."""
    known = ~np.isnan(errors)
    there = known.any(0)
    values, known = np.where(known, errors, 0.0)[:, there], known[:, there].astype(float)
    counts = draw_counts(np.zeros(values.shape[1], dtype=np.int64), rng).astype(float)
    number = counts @ known.T
    again = np.divide(counts @ values.T, number, out=np.full(number.shape, np.nan),
                      where=number > 0)
    low, high = np.nanquantile(again, (0.025, 0.975), axis=0)
    return values.sum(-1) / known.sum(-1), low, high


def _curves(rows: Rows) -> list[tuple[str, str, dict[str, tuple[np.ndarray, np.ndarray]]]]:
    """For each data set and method, by setting: steps, and errors `[step, seed]`."""
    import pyarrow as pa

    known = rows.run_ids != ""
    places = np.argwhere(known)
    table = pa.table({"run_id": rows.run_ids[known].tolist(),
                      "place": np.arange(len(places), dtype=np.int32)})
    with rows.store.connect() as connection:
        connection.register("picked", table)
        points = connection.execute("SELECT place, step, value FROM curves JOIN picked "
                                    "USING (run_id) WHERE term = 'recon'").fetchnumpy()
    place, step, value = (np.ma.getdata(points[k]) for k in ("place", "step", "value"))
    if len(place) == 0:
        return []
    # One sort puts the points of a setting beside each other.
    cell = (places[:, 0] * len(rows.settings) + places[:, 1])[place]
    order = np.argsort(cell, kind="stable")
    bounds = np.searchsorted(cell[order], np.arange(len(rows.data) * len(rows.settings) + 1))
    at_seed = places[place, 2]
    found = []
    for d, data in enumerate(rows.data):
        for method in rows.methods:
            lines = {}
            for i in rows.of_method(method):
                number = d * len(rows.settings) + i
                own = order[bounds[number]:bounds[number + 1]]
                if len(own):
                    steps, at = np.unique(step[own], return_inverse=True)
                    errors = np.full((len(steps), len(rows.seeds)), np.nan)
                    errors[at, at_seed[own]] = value[own]
                    lines[str(rows.settings[i])] = steps, errors
            if lines:
                found.append((data, method, lines))
    return found


TRADEOFF = Question("tradeoff", "What does a score cost in reconstruction?",
                    "Kim & Mnih 2018, figure 5; Kumar et al. 2018, figure 1", tradeoff)
TRAINING = Question("training", "How does reconstruction fall during training?",
                    "Kim & Mnih 2018, figure 4", training)
