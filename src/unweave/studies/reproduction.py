"""Our runs beside the published ones, cell by cell: are we where they were?

A cell is a data set, a method and a strength. For each score the median of our runs stands beside
the median of the published ones and the band that holds the middle nine tenths of those, and a
two-sided Kolmogorov-Smirnov test says how likely runs of one kind would differ as much. `as_group`
asks the same of several cells together, where each has too few runs of ours to say.

A store may hold runs of other studies, or shorter ones, of the same method and strength: only runs
with the published settings count (`trained_alike`), unless all are asked for.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unweave.config import RunConfig
from unweave.data import parse_spec
from unweave.objectives import complete
from unweave.studies.catalog import locatello2019
from unweave.studies.published import CONVENTION, read_published
from unweave.studies.store import Store
from unweave.types import UserError

BAND = (5.0, 95.0)
"""Percentiles of the published scores."""

Cell = tuple[str, str, float, str]
"""Data set, method, strength, score."""

Cells = dict[Cell, list[tuple[int, float]]]
"""Seed and score of every run of each cell."""


def both_sides(store: Store, published: Sequence[str | Path], *, every: bool = False,
               ) -> tuple[Cells, Cells]:
    """Cells of a store's own runs and of the published ones; those that both have.

    `every` also takes runs that were not trained as the published ones were.
    """
    released = read_published(published)
    theirs = _cells(released.runs.values(), released.scores)
    own = _finished(store)
    if not own:
        raise UserError(f"{store.address} has no finished runs of its own to set beside the "
                        "published ones: `unweave study run locatello2019` makes some")
    rows = own if every else [row for row in own if trained_alike(row)]
    if not rows:
        raise UserError(f"no run of {store.address} has the settings of the published ones (such "
                        "as 300,000 steps, the network conv64-study2019, letters of table 3): "
                        "`unweave study run locatello2019` makes such runs, --all takes those that "
                        "are there")
    found = sorted((row for row in store.scores() if row["convention"] == CONVENTION
                    and not json.loads(row["overridden"] or "[]")),
                   key=lambda row: row["written"] or 0.0)
    ours = _cells(rows, {(row["run_id"], row["key"]): row["value"] for row in found})
    if not any(cell in theirs for cell in ours):
        here = sorted({cell[0] for cell in ours}) or ["none"]
        there = sorted({cell[0] for cell in theirs}) or ["none"]
        raise UserError(f"no cell is in both: {store.address} has scores of {', '.join(here)}, "
                        f"the published files of {', '.join(there)}, and method, strength and "
                        "score must be the same too")
    return ({cell: ours[cell] for cell in sorted(ours) if cell in theirs},
            {cell: theirs[cell] for cell in sorted(ours) if cell in theirs})


def left_out(store: Store) -> int:
    """How many finished runs of a store were trained otherwise than the published ones."""
    return sum(not trained_alike(row) for row in _finished(store))


def trained_alike(row: Mapping[str, Any]) -> bool:
    """Was the run of this row trained as the published ones were? Arithmetic, seed, data aside."""
    try:
        config = RunConfig.from_record(json.loads(row.get("config") or "null"))
        letters = complete(config.method, dict(config.hyper))
    except (TypeError, ValueError):
        return False
    options = parse_spec(config.data)[2]  # such as combinations that training does not see
    return not options and config.replace(hyper=letters, **_ASIDE) in _published_settings()


_ASIDE = {"seed": 0, "data": "dsprites", "precision": "float32"}


@functools.cache
def _published_settings() -> frozenset[RunConfig]:
    planned = locatello2019([_ASIDE["data"]], [_ASIDE["seed"]], device="cpu")
    return frozenset(config.replace(**_ASIDE) for config in planned)


def _finished(store: Store) -> list[dict[str, Any]]:
    return [row for row in store.runs() if row["source"] == "unweave" and row["status"] == "done"]


def agreement(store: Store, published: Sequence[str | Path], *, every: bool = False,
              ) -> list[dict[str, Any]]:
    """A record for each cell and score that both have; `inside` says whether we agree."""
    ours, theirs = both_sides(store, published, every=every)
    return [_record(cell, _values(ours[cell]), _values(theirs[cell])) for cell in ours]


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
    """How often as many published seeds, drawn at random, are as far from 1/2 as ours."""


def as_group(ours: Cells, theirs: Cells, *, draws: int = 10_000, seed: int = 0) -> Group:
    """Are our runs off together, be it within the bands? The cells of `ours`, of one score.

    Our runs of one seed share their start and their batches whatever the strength, and published
    ones go together too, so cells are not independent (docs/reproduction.md has by how much): whole
    seeds are drawn for the comparison, and set beside the published ones that were not drawn, as
    ours are no part of them. A cell counts once, however many runs of ours it has: those that were
    in doubt have more.
    """
    cells = sorted(cell for cell in ours if cell in theirs)
    if not cells:
        raise UserError("no cell is in both, so there is no group to compare: method, strength "
                        "and score must be the same")
    common = sorted(set.intersection(*({s for s, _ in theirs[cell]} for cell in cells)))
    most = max(len(ours[cell]) for cell in cells)
    if most > len(common):
        raise UserError(f"the published runs have {len(common)} seeds in common, fewer than the "
                        f"{most} of ours that they are to be compared with")
    found, known, weights = [], [], np.zeros((len(cells), most))
    others = np.ones((len(cells), 1, 1))
    for i, cell in enumerate(cells):
        held, by_seed = _values(theirs[cell]), dict(theirs[cell])
        found.append(_places(_values(ours[cell]), held))
        known.append(_places(np.array([by_seed[s] for s in common]), held))
        weights[i, : len(found[-1])] = 1.0 / len(found[-1])
        # The mean place of n of N runs among the N - n others is this many times as far from 1/2
        # as among all N, where the n are compared with themselves, too.
        others[i] = len(held) / max(1, len(held) - len(found[-1]))
    place = float(np.mean([places.mean() for places in found]))
    random = np.random.default_rng(seed)
    chosen = np.argsort(random.random((draws, len(common))), 1)[:, :most]
    away = (np.array(known)[:, chosen] - 0.5) * others * weights[:, None]
    far = np.abs(away.sum((0, 2)) / weights.sum()) >= abs(place - 0.5) - 1e-12
    return Group(place, float((1 + far.sum()) / (1 + draws)))


def shares_draws(runs: Sequence[tuple[int, float]], *, num_test: int = 5_000) -> bool:
    """Were these runs scored on one draw of test points? For scores that are accuracies.

    `num_test` points drawn anew for each run would by themselves give equally good runs a variance
    of p (1 - p) / num_test. If theirs is smaller beyond chance (a thousandth, by chi-square), they
    had the same points, and a run that is as good but has other ones can lie outside their band.
    """
    from scipy.stats import chi2

    values = _values(list(runs))
    accuracy = float(values.mean())
    alone = accuracy * (1.0 - accuracy) / num_test
    least = chi2.ppf(0.001, len(values) - 1) if len(values) > 1 else 0.0
    return bool(((values - accuracy) ** 2).sum() < least * alone)


def _values(runs: list[tuple[int, float]]) -> np.ndarray:
    return np.array([value for _, value in runs])


def _places(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The share of a sample below each value; equal ones count half."""
    below = np.subtract.outer(values, among)
    return ((below > 0) + 0.5 * (below == 0)).mean(1)


def _cells(runs: Any, scores: dict[tuple[str, str], float]) -> Cells:
    about = {row["run_id"]: row for row in runs}
    found: Cells = {}
    for (run_id, key), value in scores.items():
        row = about.get(run_id)
        if row is None or row["strength"] is None or value is None or value != value:
            continue
        cell = (parse_spec(row["data"])[0], row["method"], float(row["strength"]), key)
        found.setdefault(cell, []).append((int(row["seed"]), float(value)))
    return found


def _record(cell: Cell, ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    from scipy.stats import ks_2samp

    low, high = np.percentile(theirs, BAND)
    median = float(np.median(ours))
    return {"data": cell[0], "method": cell[1], "strength": cell[2], "score": cell[3],
            "runs": len(ours), "median": median, "published_runs": len(theirs),
            "published_median": float(np.median(theirs)), "published_5": float(low),
            "published_95": float(high), "inside": bool(low <= median <= high),
            "place": float(_places(ours, theirs).mean()),
            "p": float(ks_2samp(ours, theirs).pvalue)}
