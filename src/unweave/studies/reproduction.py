"""Our runs beside the published ones, cell by cell: are we where they were?

A cell is a data set, a method and a strength. For each score the median of our runs stands beside
the median of the published ones and the band that holds the middle nine tenths of those, and a
two-sided Kolmogorov-Smirnov test says how likely runs of one kind would differ as much. `as_group`
asks the same of several cells together, where each has too few runs of ours to say.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unweave.studies.published import CONVENTION, read_published
from unweave.studies.store import Store
from unweave.types import UserError

BAND = (5.0, 95.0)
"""Percentiles of the published scores."""


def agreement(store: Store, published: Sequence[str | Path]) -> list[dict[str, Any]]:
    """A record for each cell and score that both have; `inside` says whether we agree."""
    released = read_published(published)
    theirs = _cells(released.runs.values(), released.scores)
    rows = [row for row in store.runs() if row["source"] == "unweave" and row["status"] == "done"]
    if not rows:
        raise UserError(f"{store.address} has no finished runs of its own to set beside the "
                        "published ones: `unweave study run locatello2019` makes some")
    found = sorted((row for row in store.scores() if row["convention"] == CONVENTION
                    and not json.loads(row["overridden"] or "[]")),
                   key=lambda row: row["written"] or 0.0)
    ours = _cells(rows, {(row["run_id"], row["key"]): row["value"] for row in found})
    records = [_record(cell, ours[cell], theirs[cell]) for cell in sorted(ours) if cell in theirs]
    if not records:
        here = sorted({cell[0] for cell in ours}) or ["none"]
        there = sorted({cell[0] for cell in theirs}) or ["none"]
        raise UserError(f"no cell is in both: {store.address} has scores of {', '.join(here)}, "
                        f"the published files of {', '.join(there)}, and method, strength and "
                        "score must be the same too")
    return records


def summary(records: Sequence[dict[str, Any]]) -> str:
    """How many cells agree, in a sentence."""
    inside = sum(record["inside"] for record in records)
    fewest = min(record["runs"] for record in records)
    return (f"{inside} of {len(records)} medians ({100 * inside / len(records):.0f} %) lie within "
            f"the 5 to 95 % band of the published runs; the smallest cell has {fewest} of ours.")


class Group(NamedTuple):
    """Where our runs lie among the published ones, over several cells."""

    place: float
    """The mean share of a cell's published runs that lie below one of ours: 1/2 if none is off."""
    p: float
    """Of a two-sided test of that. van Elteren 1960: a rank-sum test in each cell, added up."""


def as_group(records: Sequence[dict[str, Any]]) -> Group:
    """Are our runs off together, be it within the bands? `records` of one score, of many cells.

    Cells are taken to be independent. Runs of one seed share their start and their batches whatever
    the strength, so with few seeds p is too small.
    """
    from scipy.stats import norm

    ours, theirs, places = (np.array([record[k] for record in records], float)
                            for k in ("runs", "published_runs", "place"))
    spread = np.sqrt((ours * (ours + theirs + 1.0) / (12.0 * theirs)).sum())
    shift = (ours * (places - 0.5)).sum() / spread
    return Group(float(np.average(places, weights=ours)), float(2.0 * norm.sf(abs(shift))))


Cell = tuple[str, str, float, str]


def _cells(runs: Any, scores: dict[tuple[str, str], float]) -> dict[Cell, list[float]]:
    about = {row["run_id"]: row for row in runs}
    found: dict[Cell, list[float]] = {}
    for (run_id, key), value in scores.items():
        row = about.get(run_id)
        if row is None or row["strength"] is None or value is None or value != value:
            continue
        cell = (row["data"].partition(":")[0], row["method"], float(row["strength"]), key)
        found.setdefault(cell, []).append(float(value))
    return found


def _record(cell: Cell, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    from scipy.stats import ks_2samp

    low, high = np.percentile(theirs, BAND)
    median = float(np.median(ours))
    below = np.subtract.outer(np.array(ours), np.array(theirs))
    return {"data": cell[0], "method": cell[1], "strength": cell[2], "score": cell[3],
            "runs": len(ours), "median": median, "published_runs": len(theirs),
            "published_median": float(np.median(theirs)), "published_5": float(low),
            "published_95": float(high), "inside": bool(low <= median <= high),
            "place": float(((below > 0) + 0.5 * (below == 0)).mean()),
            "p": float(ks_2samp(ours, theirs).pvalue)}
