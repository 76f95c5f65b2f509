"""Gradient-boosted trees, exact and compiled: Friedman 2001, algorithms 2 (quantities) and 6.

The model is that of scikit-learn's GradientBoostingClassifier with its defaults (100 stages, depth
3, learning rate 0.1, every split of every feature tried, midpoints as thresholds), written so that
what does not change is done once. Features are sorted once for all factors, classes and trees. A
tree grows level by level; at each level the sorted order of every feature is partitioned, so rows
of a node stay side by side and sorted, and a scan of running sums finds the best split. Four
features are scanned at once: their sums do not wait for each other.

For K classes with scores F_k, p = softmax(F) and residuals r_k = y_k - p_k, a stage fits a tree to
each r_k (to one for K = 2), gives leaf L the Newton step

    (K - 1) / K  sum_L r / sum_L p (1 - p)        (without the factor for K = 2)

and adds 0.1 of it to F_k. For a quantity y (`boost_quantity`) there is one score F, which begins at
the mean of y; residuals are y - F, and a leaf is their mean: GradientBoostingRegressor.

A split that takes sums S, n into S_l, n_l and S_r, n_r gains (n S_l - n_l S)^2 / (n n_l n_r), the
decrease in squared error; the importance of a feature is the sum of its gains.

Where features tie (copies of a latent), scikit-learn picks one by its random order of features. So
does this one, in an order that is a function of factor, class, stage and node alone: equal input,
equal output, whatever the number of threads. Features are seen in float32, and values closer than
1e-7 are not told apart, as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unweave.metrics.compiled import compiled
from unweave.metrics.threads import available_threads as available_threads
from unweave.types import Float, Int

NUM_STAGES = 100
SAME_VALUE = 1e-7

UPDATES = ("together", "in_turn")
"""`together`: trees of a stage see the scores of the stage before, and the first scores are the
logarithms of the shares of classes, so that their softmax is the shares. `in_turn`: a tree sees the
scores that the trees of lower classes in the same stage have left, and the first scores are the
shares themselves. This is what scikit-learn 0.20 did for more than two classes."""

MIN_IMPURITY = float(np.finfo(np.float64).eps)
"""A node whose residuals have no more variance than this is a leaf; in scikit-learn 0.20, 1e-7."""


NO_QUANTITY, NO_CLASSES = np.empty(0), np.empty(0, np.int64)


@dataclass(frozen=True)
class Sorted:
    """Features, sorted once. Constant ones are left out: no tree can use them."""

    values: Float[np.ndarray, "kept sample"]
    order: np.ndarray
    """Row numbers `[kept, sample]`, unsigned: the compiled code then checks no signs."""
    rank: Int[np.ndarray, "kept sample"]
    kept: Int[np.ndarray, " kept"]
    num_features: int


def sort_features(codes: np.ndarray) -> Sorted:
    """The order and the ranks of each column of `[sample, feature]`."""
    values = np.ascontiguousarray(codes.T, dtype=np.float32)
    order = np.argsort(values, axis=1, kind="stable")
    steps = np.diff(np.take_along_axis(values, order, axis=1), axis=1) > np.float32(SAME_VALUE)
    rank = np.zeros(values.shape, dtype=np.int32)
    ranks = np.concatenate([np.zeros((len(values), 1), bool), steps], axis=1).cumsum(axis=1)
    np.put_along_axis(rank, order, ranks.astype(np.int32), axis=1)
    kept = np.flatnonzero(steps.any(axis=1))
    return Sorted(values[kept], order[kept].astype(np.uint32), rank[kept],
                  kept, len(values))


@dataclass(frozen=True)
class Boosted:
    """What boosting a factor gives: scores F of all rows, and importances of features."""

    train: Float[np.ndarray, "tree sample"]
    test: Float[np.ndarray, "tree test"]
    importances: Float[np.ndarray, " feature"]

    def predicted(self, raw: np.ndarray) -> Int[np.ndarray, " row"]:
        """Classes from scores; ties go to the first class."""
        return (raw[0] >= 0).astype(np.int64) if len(raw) == 1 else raw.argmax(axis=0)


def boost(features: Sorted, classes: Int[np.ndarray, " sample"], test: np.ndarray, *,
          num_stages: int = NUM_STAGES, updates: str = "together",
          min_impurity: float = MIN_IMPURITY, salt: int = 0) -> Boosted:
    """Boost trees for `classes`, numbered from 0 without gaps, two at least.

    `test` are codes `[row, feature]` to be scored along the way; `salt` (the number of the factor)
    is part of what orders features that tie. The work is done without Python's lock: threads may
    boost factors side by side.
    """
    return boost_path(features, classes, test, (num_stages,), updates=updates,
                      min_impurity=min_impurity, salt=salt)[0]


def boost_path(features: Sorted, classes: Int[np.ndarray, " sample"], test: np.ndarray,
               stages: Sequence[int], *, updates: str = "together",
               min_impurity: float = MIN_IMPURITY, salt: int = 0) -> list[Boosted]:
    """What there is after each of some rising numbers of stages, in one go."""
    num_rows, counts = len(classes), np.bincount(classes)
    num_trees = len(counts) if len(counts) > 2 else 1
    priors = counts / num_rows
    if num_trees == 1:
        start = np.log(priors[1:] / priors[:1])
    else:
        start = priors if updates == "in_turn" else np.log(priors)
    raw = np.repeat(start[:, None], num_rows, axis=1)
    rows = np.ascontiguousarray(test.T[features.kept], dtype=np.float32)
    raw_test = np.repeat(start[:, None], rows.shape[1], axis=1)
    inverse = 1.0 / np.maximum(np.arange(num_rows + 1), 1)
    found = np.zeros(len(features.kept))
    made, done = [], 0
    for stop in stages:
        if len(features.kept):
            # Stages are counted from 0 again: another salt, or ties would go as they went before.
            compiled(_boost)(stop - done, updates == "in_turn", salt + 7919 * done, min_impurity,
                             classes, NO_QUANTITY, features.values, features.order, features.rank,
                             inverse, raw, rows, raw_test, found)
        gains, done = np.zeros(features.num_features), stop
        gains[features.kept] = found
        made.append(Boosted(raw.copy(), raw_test.copy(), gains / (gains.sum() or 1.0)))
    return made


def boost_quantity(features: Sorted, values: Float[np.ndarray, " sample"], test: np.ndarray, *,
                   num_stages: int = NUM_STAGES, min_impurity: float = MIN_IMPURITY,
                   salt: int = 0) -> Boosted:
    """Boost trees for a quantity, by squared error; the scores are its predictions, `[1, row]`.

    Trees see the quantity with mean 0 and deviation 1, so that `min_impurity` has no unit.
    """
    mean, deviation = float(values.mean()), float(values.std()) or 1.0
    rows = np.ascontiguousarray(test.T[features.kept], dtype=np.float32)
    raw, raw_test = np.zeros((1, len(values))), np.zeros((1, rows.shape[1]))
    gains, found = np.zeros(features.num_features), np.zeros(len(features.kept))
    if len(features.kept):
        inverse = 1.0 / np.maximum(np.arange(len(values) + 1), 1)
        compiled(_boost)(num_stages, False, salt, min_impurity, NO_CLASSES,
                         (values - mean) / deviation, features.values, features.order,
                         features.rank, inverse, raw, rows, raw_test, found)
        gains[features.kept] = found
    return Boosted(mean + deviation * raw, mean + deviation * raw_test,
                   gains / (gains.sum() or 1.0))


def _boost(num_stages, in_turn, salt, min_impurity, classes, quantity, values, order, rank,
           inverse, raw, test, raw_test, gains):
    """All trees of a factor: adds to the scores `raw` and `raw_test`, and to `gains`.

    With a `quantity`, trees are regressions on it, and `classes` are empty.
    """
    squared = len(quantity) > 0
    num_trees, num_rows = raw.shape
    num_features = len(order)
    before, after = np.empty_like(order), np.empty_like(order)
    node_of, left_side = np.empty(num_rows, np.uint8), np.empty(num_rows, np.uint8)
    feature, threshold = np.empty(15, np.int64), np.empty(15)
    begin, end = np.empty(15, np.int64), np.empty(15, np.int64)
    total, square = np.empty(15), np.empty(15)
    value, upper, lower = np.empty(15), np.empty(15), np.empty(15)
    visit, cuts = np.empty(num_features, np.int64), np.empty(num_features, np.int64)
    most = np.empty(num_features)
    g, top, norm = np.empty(num_rows), np.empty(num_rows), np.empty(num_rows)
    weight = np.empty_like(raw)
    for tree in range(num_stages * num_trees):
        stage, k = tree // num_trees, tree % num_trees
        if squared:
            for i in range(num_rows):
                g[i] = quantity[i] - raw[0, i]
        elif num_trees == 1:
            for i in range(num_rows):
                g[i] = classes[i] - 1.0 / (1.0 + math.exp(-raw[0, i]))
        else:
            if k == 0:
                top[:] = raw[0]
                for c in range(1, num_trees):
                    for i in range(num_rows):
                        top[i] = max(top[i], raw[c, i])
                norm[:] = 0.0
                for c in range(num_trees):
                    for i in range(num_rows):
                        weight[c, i] = math.exp(raw[c, i] - top[i])
                        norm[i] += weight[c, i]
            for i in range(num_rows):
                g[i] = (1.0 if classes[i] == k else 0.0) - weight[k, i] / norm[i]
        feature[:] = -1
        begin[:], end[:], total[:], square[:] = 0, 0, 0.0, 0.0
        end[0] = num_rows
        for i in range(num_rows):
            total[0] += g[i]
            square[0] += g[i] * g[i]
        node_of[:] = 0
        for node in range(7):
            lo, hi = begin[node], end[node]
            m = hi - lo
            if m < 2 or square[node] / m - (total[node] / m) ** 2 <= min_impurity:
                continue
            source = order if node == 0 else before if node < 3 else after
            mean = total[node] / m
            for f0 in range(0, num_features, 4):
                f1, f2 = min(f0 + 1, num_features - 1), min(f0 + 2, num_features - 1)
                f3 = min(f0 + 3, num_features - 1)
                r0, r1, r2, r3 = (source[f0, lo:hi], source[f1, lo:hi], source[f2, lo:hi],
                                  source[f3, lo:hi])
                s0 = s1 = s2 = s3 = 0.0
                m0 = m1 = m2 = m3 = -1.0
                c0 = c1 = c2 = c3 = 0
                for i in range(m - 1):
                    w = inverse[i + 1] * inverse[m - 1 - i]
                    s0 += g[r0[i]] - mean
                    s1 += g[r1[i]] - mean
                    s2 += g[r2[i]] - mean
                    s3 += g[r3[i]] - mean
                    # Whether a split may be here is asked only where it would be the best yet.
                    if s0 * s0 * w > m0 and rank[f0, r0[i]] != rank[f0, r0[i + 1]]:
                        m0, c0 = s0 * s0 * w, i + 1
                    if s1 * s1 * w > m1 and rank[f1, r1[i]] != rank[f1, r1[i + 1]]:
                        m1, c1 = s1 * s1 * w, i + 1
                    if s2 * s2 * w > m2 and rank[f2, r2[i]] != rank[f2, r2[i + 1]]:
                        m2, c2 = s2 * s2 * w, i + 1
                    if s3 * s3 * w > m3 and rank[f3, r3[i]] != rank[f3, r3[i + 1]]:
                        m3, c3 = s3 * s3 * w, i + 1
                most[f3], cuts[f3] = m3, c3
                most[f2], cuts[f2] = m2, c2
                most[f1], cuts[f1] = m1, c1
                most[f0], cuts[f0] = m0, c0
            # Ties go by a random order, drawn from a hash of where we are (splitmix64). Sums that
            # run the other way differ by rounding: that is a tie as well.
            state = np.uint64(((salt * 1009 + k) * 1009 + stage) * 16 + node)
            for f in range(num_features):
                visit[f] = f
            best = -1
            for j in range(num_features - 1, -1, -1):
                state += np.uint64(0x9E3779B97F4A7C15)
                h = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                h = h ^ (h >> np.uint64(31))
                other = np.int64(h % np.uint64(j + 1))
                f = visit[other]
                visit[other] = visit[j]
                if cuts[f] > 0 and (best < 0 or most[f] > most[best] * (1.0 + 1e-9)):
                    best = f
            if best < 0:
                continue
            rows, cut = source[best, lo:hi], cuts[best]
            low, high = values[best, rows[cut - 1]], values[best, rows[cut]]
            middle = low / 2.0 + high / 2.0
            feature[node], threshold[node] = best, low if middle == high else middle
            gains[best] += most[best] * m / num_rows
            left, right = 2 * node + 1, 2 * node + 2
            begin[left], end[left] = lo, lo + cut
            begin[right], end[right] = lo + cut, hi
            for child in (left, right):
                sum_1, sum_2, here = 0.0, 0.0, child == left
                for i in range(begin[child] - lo, end[child] - lo):
                    r = rows[i]
                    left_side[r], node_of[r] = here, child
                    sum_1 += g[r]
                    sum_2 += g[r] * g[r]
                total[child], square[child] = sum_1, sum_2
            if node < 3:
                target = before if node == 0 else after
                for f in range(num_features):
                    rows, placed = source[f, lo:hi], target[f, lo:hi]
                    # Places in the left and the right part, chosen without a branch.
                    a, b = np.uint64(0), np.uint64(cut)
                    for i in range(m):
                        r = rows[i]
                        on_left = np.uint64(left_side[r])
                        placed[b + (a - b) * on_left] = r
                        a += on_left
                        b += np.uint64(1) - on_left
        upper[:], lower[:] = 0.0, 0.0
        for i in range(num_rows):
            size = abs(g[i])
            upper[node_of[i]] += g[i]
            lower[node_of[i]] += 1.0 if squared else size * (1.0 - size)
        for node in range(15):
            value[node] = 0.0 if lower[node] < 1e-150 else 0.1 * upper[node] / lower[node]
            if num_trees > 1:
                value[node] *= (num_trees - 1.0) / num_trees
        for i in range(num_rows):
            raw[k, i] += value[node_of[i]]
        if in_turn and num_trees > 1:
            for i in range(num_rows):
                norm[i] -= weight[k, i]
                weight[k, i] = math.exp(min(raw[k, i] - top[i], 600.0))
                norm[i] += weight[k, i]
        for i in range(raw_test.shape[1]):
            node = 0
            while feature[node] >= 0:
                node = 2 * node + (1 if test[feature[node], i] <= threshold[node] else 2)
            raw_test[k, i] += value[node]
