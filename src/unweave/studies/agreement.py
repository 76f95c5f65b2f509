"""Do our runs come out like the published ones? Cell by cell, score by score.

A cell is a data set, a method and a strength. For each score, the median of our runs is set beside
the median and the 5-95 % band of the published runs of the same cell, and both samples are compared
by a two-sided Kolmogorov-Smirnov test. A median inside the band is what a cell of the same
distribution gives nine times of ten even with one run, and nearly always with several.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.studies.answers.grid import Rows, Setting, read_rows
from unweave.studies.published import import_published
from unweave.studies.store import Store, open_store
from unweave.types import UserError

KEYS = ("elbo.reconstruction", "elbo.kl", "beta_vae", "factor_vae", "mig", "sap",
        "dci.disentanglement", "dci.completeness", "modularity", "explicitness.test")
"""What the released table has of every run: losses first, then the scores of the study."""

BAND = (5.0, 95.0)
"""Percentiles of the published runs between which a median counts as inside."""

_CURVES = {"elbo.reconstruction": "recon", "elbo.kl": "kl"}


def published_rows(files: Sequence[str | Path], keys: Sequence[str] = KEYS) -> Rows:
    """The grid of released scores, from files of either form or from a store that has them."""
    if len(files) == 1 and (Path(files[0]) / "store.json").exists():
        return read_rows(open_store(files[0]), source="published", keys=keys)
    store = open_store(f"memory://published-{uuid.uuid4().hex}", create=True)
    import_published(store, files)
    return read_rows(store, source="published", keys=keys)


def agreement(store: Store, published: Rows, *, keys: Sequence[str] = KEYS,
              study: str | None = None) -> list[dict[str, Any]]:
    """A record for each cell and score that both sides have.

    Where reconstruction and KL were not scored, they are read off the last point of the curves.
    """
    ours = read_rows(store, source="unweave", study=study, keys=keys)
    losses = _last_of_curves(store, ours)
    theirs = {_name(s): i for i, s in enumerate(published.settings)}
    records = []
    for d, data in enumerate(ours.data):
        if data not in published.data:
            continue
        e = published.data.index(data)
        for s, setting in enumerate(ours.settings):
            if _name(setting) not in theirs:
                continue
            for key in published.have(keys):
                a = _of(ours, losses, key, d, s)
                b = published.scores[key][e, theirs[_name(setting)]]
                if len(a) and not np.isnan(b).all():
                    records.append({"data": data, "method": setting.method,
                                    "strength": setting.strength, "key": key,
                                    **_beside(a, b[~np.isnan(b)])})
    if not records:
        raise UserError(f"{store.address} has no run whose data set, method and strength is among "
                        "the published ones: `unweave study run locatello2019` makes such runs")
    return records


def summary(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each score: cells, those with the median inside, the methods that are off as a group.

    A method is off where more than half of at least three cells are outside, all on one side.
    """
    found = []
    for key in dict.fromkeys(r["key"] for r in records):
        cells = [r for r in records if r["key"] == key]
        off = []
        for method in dict.fromkeys(r["method"] for r in cells):
            own = [r for r in cells if r["method"] == method]
            sides = [np.sign(r["median"] - r["published"]) for r in own if not r["inside"]]
            if len(own) >= 3 and len(sides) > len(own) / 2 and len(set(sides)) == 1:
                off.append(method)
        found.append({"key": key, "cells": len(cells), "runs": sum(r["runs"] for r in cells),
                      "inside": sum(r["inside"] for r in cells),
                      "share": sum(r["inside"] for r in cells) / len(cells),
                      "low_p": sum(r["p"] < 0.01 for r in cells), "off": ", ".join(off)})
    return found


def _beside(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    from scipy.stats import ks_2samp

    low, middle, high = np.percentile(theirs, [BAND[0], 50.0, BAND[1]])
    median = float(np.median(ours))
    return {"runs": len(ours), "median": median, "published": float(middle), "low": float(low),
            "high": float(high), "inside": bool(low <= median <= high),
            "p": float(ks_2samp(ours, theirs).pvalue)}


def _of(rows: Rows, losses: dict[tuple[str, str], float], key: str, d: int, s: int) -> np.ndarray:
    """Values of our runs in a cell."""
    scored = rows.scores.get(key)
    values = [] if scored is None else [v for v in scored[d, s] if not np.isnan(v)]
    if not values and key in _CURVES:
        values = [losses[run, _CURVES[key]] for run in rows.run_ids[d, s]
                  if (run, _CURVES[key]) in losses]
    return np.asarray(values, dtype=float)


def _last_of_curves(store: Store, rows: Rows) -> dict[tuple[str, str], float]:
    """The last value of both losses, by run and term."""
    if all(key in rows.scores for key in _CURVES):
        return {}
    found = store.sql("SELECT run_id, term, arg_max(value, step) AS value FROM curves "
                      "WHERE term IN ('recon', 'kl') GROUP BY run_id, term")
    return {(row["run_id"], row["term"]): row["value"] for row in found}


def _name(setting: Setting) -> tuple[str, float]:
    return setting.method, round(setting.strength, 9)
