"""Choosing runs without labels, and how far to trust the choice.

Runs of each data set are ranked by every score that needs no labels: UDR, the bound and its parts,
total correlation and its like. Where the runs also have scores that need labels, the ranking is
held against them: a rank correlation, and where the run that comes first stands among all. Data
without labels get what the same ranking was worth on data that have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.metrics import ACROSS_RUNS
from unweave.metrics import METRICS as KNOWN
from unweave.studies.answers.answer import estimate
from unweave.studies.answers.correlation import correlate
from unweave.studies.answers.grid import METRICS, UNSUPERVISED, Rows
from unweave.studies.answers.uncertainty import interval
from unweave.studies.compare import percentile
from unweave.types import UserError, unknown_name

ORDER = ("udr", "udr.spearman", "elbo", "tc.mean", "mutual_info_score", "wasserstein.mean",
         "tc.sampled", "elbo.reconstruction", "elbo.kl")
"""Which score orders the list where nothing is said: the first of these that there is."""

_TRUSTED, _DOUBTED, _FEW = 0.7, 0.4, 20
"""The lower end of a correlation from which an order can be trusted, or helps; and how many runs
are too few to say either."""


@dataclass(frozen=True)
class Selection:
    """Ranked runs of every data set, and what the ranking was worth where labels exist."""

    by: str
    runs: list[dict[str, Any]]
    trust: list[dict[str, Any]]
    sentence: str


def direction(key: str) -> int:
    """1 where higher is better, -1 where lower is, or where less information is kept."""
    entry = {**KNOWN, **ACROSS_RUNS}[key.partition(".")[0]].keys[key]
    return 1 if entry.higher_is_better else -1


def select(rows: Rows, *, by: str | None = None, data: str | None = None,
           num: int | None = 10, seed: int = 0) -> Selection:
    """The `num` best runs of each data set by a score without labels, and the trust in it."""
    there = rows.have(UNSUPERVISED)
    if not there:
        raise UserError("the rows have no score that needs no labels: score runs with the metrics "
                        "elbo, tc or mutual_info_score, or with `unweave udr`")
    if by is None:
        by = next(key for key in ORDER if key in there)
    elif by not in there:
        raise unknown_name("score without labels", by, there)
    if data is not None and data not in rows.data:
        raise unknown_name("data set", data, rows.data)
    trust = _trust(rows, there, np.random.default_rng(seed))
    wanted = [data] if data is not None else list(rows.data)
    runs = [record for name in wanted for record in _ranked(rows, name, by, there)[:num]]
    return Selection(by, runs, trust, _sentence(by, wanted, trust))


def _ranked(rows: Rows, data: str, by: str, keys: list[str]) -> list[dict[str, Any]]:
    """The runs of a data set, best first by `by`, with their rank by every score."""
    from scipy.stats import rankdata

    d = rows.data.index(data)
    known = ~np.isnan(rows.scores[by][d])
    settings, seeds = np.nonzero(known)
    ranks = {}
    for key in keys:
        values = direction(key) * rows.scores[key][d][known]
        ranks[key] = np.where(np.isnan(values), np.nan, rankdata(-np.nan_to_num(values,
                                                                                nan=-np.inf)))
    records = []
    for i in np.argsort(ranks[by], kind="stable"):
        setting = rows.settings[settings[i]]
        place = (d, settings[i], seeds[i])
        records.append({"data": data, "run": str(rows.run_ids[place]), "setting": str(setting),
                        "seed": rows.seeds[seeds[i]], by: float(rows.scores[by][place]),
                        **{f"rank_{key}": None if np.isnan(ranks[key][i]) else float(ranks[key][i])
                           for key in keys}})
    return records


def _trust(rows: Rows, keys: list[str], rng: np.random.Generator) -> list[dict[str, Any]]:
    """For each data set and score without labels: does its order go with scores with labels?"""
    metrics = rows.have(METRICS)
    records = []
    for one in correlate(rows, [*keys, *metrics], rng):
        d = rows.where(one.data)
        labelled = [m for m in metrics if m in one.keys]
        for key in keys:
            if key not in one.keys or not labelled:
                continue
            signs = direction(key)
            pairs = [one.at(key, m) for m in labelled]
            value, low, high = _mean([(signs * v, signs * r) for v, r in pairs])
            table = signs * rows.scores[key][d]
            first = np.unravel_index(np.nanargmax(table), table.shape)
            standing = [percentile(rows.scores[m][d], rows.scores[m][d][first]) for m in labelled
                        if not np.isnan(rows.scores[m][d][first])]
            records.append({"data": one.data, "score": key,
                            **estimate(value, low, high, "correlation"),
                            "best_percentile": float(np.mean(standing)) if standing else None,
                            **{m: float(signs * v) for m, (v, _) in zip(labelled, pairs)},
                            "runs": one.num_runs})
    return records


def _mean(pairs: list[tuple[float, np.ndarray]]) -> tuple[float, float, float]:
    """The mean of those correlations that there are, and its interval; NaN if there are none.

    A score that is the same for every run, or for those that were drawn again, has none.
    """
    told = [(value, replicates) for value, replicates in pairs if not np.isnan(value)]
    if not told:
        return np.nan, np.nan, np.nan
    again = np.array([replicates for _, replicates in told])
    again = np.nanmean(again[:, ~np.isnan(again).all(0)], axis=0)
    low, high = interval(again) if again.size else (np.nan, np.nan)
    return float(np.mean([value for value, _ in told])), float(low), float(high)


def _sentence(by: str, wanted: list[str], trust: list[dict[str, Any]]) -> str:
    own = [r for r in trust if r["score"] == by]
    if not own:
        return (f"Ranked by {by}. No run here has scores that need labels, so nothing says how far "
                "to trust the order: score some runs of data with known factors, or import "
                "published ones.")
    parts = []
    for data in wanted:
        found = [r for r in own if r["data"] == data]
        if found and np.isnan(found[0]["correlation"]):
            parts.append(f"on {data} nothing is known, for its runs are all the same by {by}, or "
                         "by every score that needs labels")
        elif found:
            r = found[0]
            stands = "" if r["best_percentile"] is None else (
                ", and the run that it puts first is on average above "
                f"{r['best_percentile']:.0f} % of the runs by them")
            parts.append(f"on {data} {_verdict(r)} (mean rank correlation with "
                         f"scores that need labels {r['correlation']:.2f}, "
                         f"{r['correlation_low']:.2f} to {r['correlation_high']:.2f}{stands})")
        else:
            values = [r["correlation"] for r in own if not np.isnan(r["correlation"])]
            elsewhere = "" if not values else ("; where they exist the correlation is "
                                               f"{min(values):.2f} to {max(values):.2f}")
            parts.append(f"on {data} nothing is known, for its runs have no scores that need "
                         f"labels{elsewhere}")
    return f"How far to trust the order by {by}: {'; '.join(parts)}."


def _verdict(record: dict[str, Any]) -> str:
    if record["runs"] < _FEW:
        return f"{record['runs']} runs are too few to tell"
    if record["correlation_low"] >= _TRUSTED:
        return "it can be trusted"
    if record["correlation_low"] >= _DOUBTED:
        return "it helps, with errors"
    return "do not trust it"
