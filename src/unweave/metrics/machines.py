"""Linear support vector machines on several latents, one class against the rest, exactly.

For every class c, with y = 1 for its rows and -1 for the others,

    minimise  (|w|^2 + b^2) / 2 + C sum_i max(0, 1 - y_i (w x_i + b))^2 :

the squared hinge with a penalised intercept, which is scikit-learn's LinearSVC. Newton's method
takes the rows that have a loss: a finite number of steps, as there are finitely many such sets.
Machines on a single latent, with classes balanced, are in `svm`.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.logistic import MAX_COLUMNS, conjugate_gradients
from unweave.types import Float, Int

MOST_STEPS = 100
MOST_HALVINGS = 30


def fit_machines(features: np.ndarray, classes: Int[np.ndarray, " sample"], num_classes: int, *,
                 cost: float = 0.01) -> Float[np.ndarray, "class column"]:
    """Weights and, in the last column, intercept of each class against the rest."""
    rows = np.column_stack([np.asarray(features, dtype=np.float64), np.ones(len(features))])
    return np.stack([_machine(rows, np.where(classes == c, 1.0, -1.0), cost)
                     for c in range(num_classes)])


def _machine(rows: np.ndarray, sign: np.ndarray, cost: float) -> Float[np.ndarray, " column"]:
    weights, rest = np.zeros(rows.shape[1]), np.ones(len(rows))
    value = cost * float(len(rows))
    for _ in range(MOST_STEPS):
        lost = np.flatnonzero(rest > 0)
        some = rows[lost]
        slope = weights - 2.0 * cost * ((rest[lost] * sign[lost]) @ some)
        if np.abs(slope).max() <= 1e-9 * max(1.0, float(np.abs(weights).max())):
            break
        step = -_newton_step(some, slope, cost)
        gain, size = float(step @ slope), 1.0
        for _ in range(MOST_HALVINGS):
            moved = weights + size * step
            ahead = 1.0 - sign * (rows @ moved)
            found = float(moved @ moved) / 2 + cost * float((np.maximum(ahead, 0.0) ** 2).sum())
            if found <= value + 1e-4 * size * gain + 1e-12 * value:
                break
            size /= 2
        weights, rest, value = moved, ahead, found
    return weights


def _newton_step(some: np.ndarray, slope: np.ndarray, cost: float) -> np.ndarray:
    """The inverse of 1 + 2 C X'X over the rows with a loss, times the slope."""
    if len(slope) <= 8 * MAX_COLUMNS:
        curve = 2.0 * cost * (some.T @ some)
        curve[np.diag_indices_from(curve)] += 1.0
        return np.linalg.solve(curve, slope)
    diagonal = 1.0 + 2.0 * cost * (some ** 2).sum(axis=0)
    return conjugate_gradients(lambda v: v + 2.0 * cost * ((v @ some.T) @ some),
                               lambda v: v / diagonal, slope[None], (1,), 1e-12)[0]
