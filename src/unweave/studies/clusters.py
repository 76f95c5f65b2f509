"""Scores of a run's clusters against the labels, or factors, of its data set.

Of several labels the one that clusters agree with best (by NMI) is taken, and the settings of each
score say which; `factor` chooses one instead.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.clusters import KEYS, PAPERS, VERSION, contingency, nmi, of_table
from unweave.metrics.record import Score
from unweave.random import Purpose, numpy_generator
from unweave.training import Run
from unweave.types import UserError, unknown_name

NUM_POINTS = 70_000
"""Images that are looked at: all, up to this many."""

_NUM_REPLICATES = 200


def can_score(run: Run) -> bool:
    """Whether a run has clusters and its data set something to compare them with."""
    return bool(run.num_clusters) and bool(_names(run))


def _names(run: Run) -> tuple[str, ...]:
    dataset = run.dataset
    if dataset.labels is not None:
        return dataset.labels.names
    return dataset.space.names if dataset.space.has_factors else ()


def _classes(run: Run, index: np.ndarray) -> np.ndarray:
    if run.dataset.labels is not None:
        return np.asarray(run.dataset.labels.values)[index].astype(str)
    return run.dataset.factors(index)


def score_clusters(run: Run, *, factor: str | None = None, convention: str = "study2019",
                   seed: int = 0, num_points: int = NUM_POINTS) -> list[Score]:
    """`clusters.accuracy`, `clusters.nmi` and `clusters.ari` of a run on its data set."""
    if run.status == "diverged":
        raise UserError(f"{run.run_id} diverged at step {run.info['diverged_at']}: "
                        "it has no clusters to score")
    names = _names(run)
    if not run.num_clusters or not names:
        lack = "no clusters" if not run.num_clusters else "a data set without labels"
        raise UserError(f"{run.run_id} has {lack}: scores of clusters need a method such as vade "
                        "or infogan, and labels")
    if factor is not None and factor not in names:
        raise unknown_name("label", factor, names)
    rng = numpy_generator(seed, Purpose.EVALUATION)
    index = np.arange(len(run.dataset))
    if len(index) > num_points:
        index = np.sort(rng.choice(len(index), num_points, replace=False))
    clusters = run.clusters_of(run.heads_at(index, seed))
    classes = _classes(run, index)
    tables = {name: contingency(clusters, classes[:, k]) for k, name in enumerate(names)}
    chosen = factor or max(tables, key=lambda name: nmi(tables[name]))
    table = tables[chosen]
    values = of_table(table)
    shuffled = of_table(contingency(rng.permutation(clusters), classes[:, names.index(chosen)]))
    draws = rng.multinomial(len(index), table.ravel() / table.sum(), size=_NUM_REPLICATES)
    again = [of_table(draw.reshape(table.shape).astype(np.float64)) for draw in draws]
    settings = {"factor": chosen, "num_clusters": run.num_clusters, "num_points": len(index)}
    found = []
    for key, value in values.items():
        low, high = np.percentile([made[key] for made in again], [2.5, 97.5])
        found.append(Score(
            key=key, value=value, low=min(float(low), value), high=max(float(high), value),
            chance=shuffled[key], ceiling=1.0, range_low=KEYS[key].low, range_high=KEYS[key].high,
            higher_is_better=True, metric="clusters", convention=convention, version=VERSION,
            paper=PAPERS[key], seed=seed, num_points=len(index), num_groups=0, group_size=0,
            num_rows=len(index), num_latents=len(run.num_values), settings=settings))
    return found
