"""Rank correlations of scores over the runs of a data set: several questions are this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unweave.studies.answers.answer import Panel, estimate
from unweave.studies.answers.grid import Rows
from unweave.studies.answers.uncertainty import draw_counts, interval, rank_correlations


class Correlated(NamedTuple):
    """Spearman correlations of scores on one data set, and replicates of them."""

    data: str
    keys: tuple[str, ...]
    value: np.ndarray
    replicates: np.ndarray
    num_runs: int

    def at(self, a: str, b: str) -> tuple[float, np.ndarray]:
        """The correlation of two keys, and its replicates."""
        i, j = self.keys.index(a), self.keys.index(b)
        return float(self.value[i, j]), self.replicates[:, i, j]


def correlate(rows: Rows, keys: Sequence[str], rng: np.random.Generator) -> list[Correlated]:
    """For each data set, over the runs that have all of those scores that its runs have."""
    found = []
    groups = np.broadcast_to(np.arange(len(rows.settings))[:, None], rows.run_ids.shape[1:])
    for d, data in enumerate(rows.data):
        own = tuple(k for k in rows.have(keys) if not np.isnan(rows.scores[k][d]).all())
        if len(own) < 2:
            continue
        values = np.stack([rows.scores[k][d].ravel() for k in own], axis=-1)
        known = ~np.isnan(values).any(-1)
        if known.sum() < 3:
            continue
        values = values[known]
        once = np.ones((1, len(values)), dtype=np.int64)
        counts = draw_counts(groups.ravel()[known], rng)
        found.append(Correlated(data, own, rank_correlations(values, once)[0],
                                rank_correlations(values, counts), len(values)))
    return found


def pair_records(found: Sequence[Correlated], left: Sequence[str],
                 right: Sequence[str]) -> list[dict[str, Any]]:
    """A record for each data set and pair of a left and a right key, no pair twice."""
    records = []
    for one in found:
        seen = set()
        for a in left:
            for b in right:
                if a == b or {a, b} - set(one.keys) or (b, a) in seen:
                    continue
                seen.add((a, b))
                value, replicates = one.at(a, b)
                records.append({"data": one.data, "score": a, "other": b,
                                **estimate(value, *interval(replicates)), "runs": one.num_runs})
    return records


def mean_records(found: Sequence[Correlated], left: Sequence[str],
                 right: Sequence[str]) -> list[dict[str, Any]]:
    """For each left key the mean over data sets of its correlations with the right keys."""
    records = []
    for a in left:
        record: dict[str, Any] = {"score": a}
        for b in right:
            both = [one.at(a, b)[0] for one in found if a != b and {a, b} <= set(one.keys)]
            if both:
                record[b] = float(np.mean(both))
        if len(record) > 1:
            records.append(record)
    return records


def shades(one: Correlated, left: Sequence[str], right: Sequence[str]) -> Panel:
    """The correlations of a data set as a table of shades."""
    rows, columns = ([k for k in keys if k in one.keys] for keys in (left, right))
    table = np.array([[one.at(a, b)[0] for b in columns] for a in rows])
    return Panel(one.data, shades=table, rows=rows, columns=columns)
