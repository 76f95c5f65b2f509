"""How well clusters agree with known classes: accuracy by best matching, NMI, ARI.

Clusters have no names. Accuracy pairs clusters and classes one to one so that as many rows as
possible agree (Kuhn 1955, the Hungarian method; Jiang et al. 2017, section 4.4, report it). NMI is
their mutual information divided by the mean of the two entropies (Strehl & Ghosh 2002, with the
arithmetic mean); ARI counts pairs of rows that both keep together or apart, less what chance would
give (Hubert & Arabie 1985). All three are 1 for the same partition. This is not a metric of codes:
it asks for a cluster of each row, so it has no entry in METRICS.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_array
from unweave.types import Float, Range, UserError

KEYS = {"clusters.accuracy": Range(0.0, 1.0), "clusters.nmi": Range(0.0, 1.0),
        "clusters.ari": Range(-0.5, 1.0)}
PAPERS = {"clusters.accuracy": "Jiang et al. 2017, section 4.4",
          "clusters.nmi": "Strehl & Ghosh 2002", "clusters.ari": "Hubert & Arabie 1985"}
VERSION = "2"


def contingency(clusters: ArrayLike, classes: ArrayLike) -> Float[np.ndarray, "cluster class"]:
    """How many rows each cluster shares with each class; values are any that can be sorted."""
    left, right = as_array(clusters), as_array(classes)
    if left.ndim != 1 or left.shape != right.shape or not len(left):
        raise UserError("clusters and classes need one value for each of the same rows, got the "
                        f"shapes {left.shape} and {right.shape}")
    rows, columns = (np.unique(side, return_inverse=True)[1] for side in (left, right))
    width = columns.max() + 1
    table = np.bincount(rows * width + columns, minlength=(rows.max() + 1) * width)
    return table.reshape(-1, width).astype(np.float64)


def cluster_scores(clusters: ArrayLike, classes: ArrayLike) -> dict[str, float]:
    """Accuracy by best matching, NMI and ARI of clusters `[sample]` and classes `[sample]`.

    >>> cluster_scores([7, 7, 3, 3], [0, 0, 1, 1])
    {'clusters.accuracy': 1.0, 'clusters.nmi': 1.0, 'clusters.ari': 1.0}
    """
    return of_table(contingency(clusters, classes))


def of_table(table: Float[np.ndarray, "cluster class"]) -> dict[str, float]:
    """As `cluster_scores`, from the counts."""
    return {"clusters.accuracy": accuracy(table), "clusters.nmi": nmi(table),
            "clusters.ari": ari(table)}


def matching(table: Float[np.ndarray, "cluster class"]) -> dict[int, int]:
    """The class of each cluster in the best matching; clusters beyond the classes have none."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(table, maximize=True)
    return dict(zip(rows.tolist(), columns.tolist()))


def accuracy(table: Float[np.ndarray, "cluster class"]) -> float:
    """The share of rows whose cluster is the one of their class, matched as well as can be."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def nmi(table: Float[np.ndarray, "cluster class"]) -> float:
    """Mutual information over the mean entropy; two partitions of one part each agree: 1."""
    joint = table / table.sum()
    left, right = joint.sum(1), joint.sum(0)
    mean = 0.5 * (_entropy(left) + _entropy(right))
    if mean == 0.0:
        return 1.0
    shared = _entropy(left) + _entropy(right) - _entropy(joint.ravel())
    return float(np.clip(shared / mean, 0.0, 1.0))


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0.0]
    return float(-(p * np.log(p)).sum())


def ari(table: Float[np.ndarray, "cluster class"]) -> float:
    """The adjusted Rand index. Hubert & Arabie 1985, eq. 5."""
    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1.0)).sum() / 2.0)

    both, left, right = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    whole = pairs(table.sum()[None])
    expected = left * right / whole if whole else 0.0
    most = 0.5 * (left + right)
    return 1.0 if most == expected else float((both - expected) / (most - expected))
