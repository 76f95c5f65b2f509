"""The lasso for many targets at once, by coordinate descent on inner products.

For standardised features X `[sample, feature]` and every target y of some,

    minimise over w   |y - X w|^2 / 2n + alpha |w|_1 ,

which is scikit-learn's `Lasso` without an intercept. Rows enter through G = X'X / n and X'y / n
alone: once these are known a sweep costs the same for ten rows or a million. The slope
s = X'(y - X w) / n is kept up to date, so that a weight which stays at 0 costs one comparison. A
step sets w_j to sign(c) max(|c| - alpha, 0) / G_jj with c = s_j + G_jj w_j (Friedman et al. 2007,
section 2).
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.compiled import compiled
from unweave.types import Float

MOST_SWEEPS = 100_000
TOLERANCE = 1e-8
"""A sweep that moves no weight by more than this, in deviations of its feature, is the last."""


def lasso(gram: Float[np.ndarray, "feature feature"], cross: Float[np.ndarray, "feature target"],
          alpha: float) -> Float[np.ndarray, "feature target"]:
    """Weights of every target, from X'X / n and X'Y / n. A feature that is zero has weight 0.

    Descent starts at 0 and takes features in order. Of equal features the first has all the
    weight: where minimisers are many, this one is found, as it is in scikit-learn.

    >>> lasso(np.eye(2), np.array([[1.0, 0.5], [0.05, -0.5]]), 0.1).tolist()
    [[0.9, 0.4], [0.0, -0.4]]
    """
    weights = np.zeros(cross.shape[::-1])
    compiled(_descend)(np.ascontiguousarray(gram, dtype=np.float64),
                       np.ascontiguousarray(cross.T, dtype=np.float64), float(alpha), weights)
    return weights.T


def _descend(gram, cross, alpha, weights):
    """Weights `[target, feature]`, target by target; what is close to 0 costs next to nothing."""
    num_targets, num_features = cross.shape
    for t in range(num_targets):
        slope, own = cross[t].copy(), weights[t]
        for _ in range(MOST_SWEEPS):
            moved = 0.0
            for j in range(num_features):
                size, before = gram[j, j], own[j]
                if size <= 0.0:
                    continue
                pull = slope[j] + size * before
                if pull > alpha:
                    now = (pull - alpha) / size
                elif pull < -alpha:
                    now = (pull + alpha) / size
                else:
                    now = 0.0
                change = now - before
                if change != 0.0:
                    own[j] = now
                    for k in range(num_features):
                        slope[k] -= gram[j, k] * change
                    moved = max(moved, abs(change) * np.sqrt(size))
            if moved <= TOLERANCE:
                break
