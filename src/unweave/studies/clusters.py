"""Scores of a run's clusters against the labels, or factors, of its data set.

Of several labels the one that clusters agree with best (by NMI) is taken, and the settings of each
score say which; `factor` chooses one instead.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import as_labels
from unweave.metrics.clusters import KEYS, PAPERS, VERSION, contingency, nmi, of_table
from unweave.metrics.record import CONVENTIONS, Score
from unweave.random import Purpose, numpy_generator
from unweave.training import Run
from unweave.types import IndexArray, UserError, unknown_name

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


def _classes(run: Run, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Classes `[image, label]`, and which of them are known."""
    if run.dataset.labels is not None:
        held = run.dataset.labels
        values = np.asarray(held.values)[index]
        return values.astype(str), as_labels(values, factor_types=held.types or None).known
    factors = run.dataset.factors(index)
    return factors, np.ones(factors.shape, dtype=bool)


def score_clusters(run: Run, *, factor: str | None = None, convention: str = "study2019",
                   seed: int = 0, num_points: int = NUM_POINTS,
                   rows: IndexArray | None = None) -> list[Score]:
    """`clusters.accuracy`, `clusters.nmi` and `clusters.ari` of a run on its data set.

    `rows` are the images that count, all if None. Those without a label are left out for it.
    """
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
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
    index = np.arange(len(run.dataset)) if rows is None else rows
    if len(index) > num_points:
        index = index[np.sort(rng.choice(len(index), num_points, replace=False))]
    clusters = run.clusters_of(run.heads_at(index, seed))
    classes, known = _classes(run, index)
    tables = {name: contingency(clusters[seen], column[seen])
              for name, column, seen in zip(names, classes.T, known.T) if seen.any()}
    if (factor or next(iter(tables), None)) not in tables:
        raise UserError(f"no image has a known {factor or 'label'}: clusters need labels to be "
                        "compared with")
    chosen = factor or max(tables, key=lambda name: nmi(tables[name]))
    table, seen = tables[chosen], known[:, names.index(chosen)]
    values, num = of_table(table), int(seen.sum())
    mixed = rng.permutation(clusters)[seen]
    shuffled = of_table(contingency(mixed, classes[seen, names.index(chosen)]))
    draws = rng.multinomial(num, table.ravel() / table.sum(), size=_NUM_REPLICATES)
    again = [of_table(draw.reshape(table.shape).astype(np.float64)) for draw in draws]
    settings = {"factor": chosen, "num_clusters": run.num_clusters, "num_points": num}
    found = []
    for key, value in values.items():
        low, high = np.percentile([made[key] for made in again], [2.5, 97.5])
        found.append(Score(
            key=key, value=value, low=min(float(low), value), high=max(float(high), value),
            chance=shuffled[key], ceiling=1.0, range_low=KEYS[key].low, range_high=KEYS[key].high,
            higher_is_better=True, metric="clusters", convention=convention, version=VERSION,
            paper=PAPERS[key], seed=seed, num_points=num, num_groups=0, group_size=0,
            num_rows=num, num_latents=len(run.num_values), settings=settings))
    return found
