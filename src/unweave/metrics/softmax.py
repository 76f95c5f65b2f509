"""Multinomial logistic regression with an L2 penalty: scikit-learn's default of today.

In scikit-learn's units (`strength` is its C), for rows x_i and weights w_c, b_c of class c:

    1/2 sum_c |w_c|^2 - C sum_i log softmax_c(w_c x_i + b_c) at i's own class.

The Hessian couples classes: the step of Newton's method comes from conjugate gradients, scaled by
the Hessians of single classes, or by their diagonals if there are many columns. It is solved to
convergence, so that a score does not depend on where a solver stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from unweave.metrics.irls import Task
from unweave.metrics.logistic import (
    FREE,
    GRADIENT_TOLERANCE,
    MAX_STEPS,
    ROUGH,
    Weights,
    blocks,
    check,
    conjugate_gradients,
    decisions,
    fold_edges,
)
from unweave.types import Int


def fit_multinomial(features: np.ndarray, classes: Int[np.ndarray, " sample"], num_classes: int, *,
                    strength: float = 1.0, start: Weights | None = None,
                    tolerance: float = GRADIENT_TOLERANCE) -> Weights:
    """Weights of the softmax over classes; the intercepts, which sum to 0, are not penalised.

    Two classes are scikit-learn's binary problem, with one penalised weight vector, the difference
    of ours: a penalty twice that of the softmax.
    """
    check(features, strength)
    columns = np.vstack([np.asarray(features, dtype=np.float64).T, np.ones(len(features))])
    strength = strength / 2 if num_classes == 2 else strength
    penalty = np.append(np.ones(len(columns) - 1), 0.0)
    solvers = blocks(columns)
    target = (classes[None] == np.arange(num_classes)[:, None]).astype(np.float64)
    first = strength * float(np.abs((1.0 / num_classes - target) @ columns.T).max())
    weights = np.zeros((num_classes, len(columns))) if start is None else start
    margins = weights @ columns
    share = _softmax(margins)
    gradient = weights * penalty + strength * ((share - target) @ columns.T)
    for _ in range(MAX_STEPS):
        error = float(np.abs(gradient).max()) / max(first, 1e-12)
        if error <= tolerance:
            break
        step = -conjugate_gradients(
            lambda v, p=share: v * penalty + strength * (_softmax_bend(p, v @ columns) @ columns.T),
            # A class that nobody is in any doubt about has a flat intercept: a little is added.
            solvers(strength * share * (1.0 - share), penalty + FREE), gradient, (0, 1),
            min(0.1, error) ** 2)
        slope, along, size = float((step * gradient).sum()), step @ columns, 1.0
        for _ in range(20):
            moved = margins + size * along
            share = _softmax(moved)
            change = (weights + size * step) * penalty + strength * ((share - target) @ columns.T)
            new_slope = float((step * change).sum())
            if new_slope <= -0.25 * slope:
                break
            size *= slope / (slope - new_slope)
        weights, margins, gradient = weights + size * step, moved, change
    weights[:, -1] -= weights[:, -1].mean()
    return weights


def cross_validated_multinomial(features: np.ndarray, tasks: Sequence[Task],
                                strengths: np.ndarray, num_folds: int) -> list[Weights]:
    """Softmax weights with the C that is right most often: scikit-learn's way of today."""
    edges, made = fold_edges(len(features), num_folds), []
    for classes, number in tasks:
        right, path, weights = np.zeros(len(strengths)), [], None
        for i, strength in enumerate(strengths):
            # All rows first: what they give is a good place to begin without a fold.
            weights = fit_multinomial(features, classes, number, strength=strength, start=weights,
                                      tolerance=ROUGH[1])
            path.append(weights)
            for low, high in pairwise(edges):
                rest = np.r_[0:low, high:len(features)]
                fitted = fit_multinomial(features[rest], classes[rest], number, strength=strength,
                                         start=weights, tolerance=ROUGH[1])
                told = decisions(fitted, features[low:high]).argmax(axis=1)
                right[i] += (told == classes[low:high]).mean()
        made.append(path[int(np.round(right, 9).argmax())])
    return made


def _softmax(margins: np.ndarray) -> np.ndarray:
    share = margins - margins.max(axis=0)
    np.exp(share, out=share)
    share /= share.sum(axis=0)
    return share


def _softmax_bend(share: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The derivative of the softmax `[class, row]` along a change of its margins."""
    bend = share * along
    bend -= share * bend.sum(axis=0)
    return bend
