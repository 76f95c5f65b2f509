"""Linear support vector machines on one latent, all classes and latents at once, exactly.

For every class c against the rest, with y = 1 for its rows and -1 for the others,

    minimise  (w^2 + b^2) / 2 + C sum_i u_i max(0, 1 - y_i (w x_i + b))^2 :

the squared hinge with a penalised intercept, which is what liblinear solves. u_i is
n / (K n_c) for rows of class c and 1 for the rest; with two classes there is one problem, and both
sides are weighted. The objective is piecewise quadratic in two numbers. On sorted codes the rows
with a loss are a head or a tail, so sums over them are differences of running sums, and a step of
Newton's method for every class costs a few searches in sorted arrays whatever the number of rows.
With few rows several latents are solved side by side.
"""

from __future__ import annotations

import numpy as np

from unweave.types import Float, Int

MOST_STEPS = 100
MOST_HALVINGS = 30


VALUES_AT_ONCE = 1 << 14
"""Latents are taken in pieces of about this many (row, latent) pairs: one by one if rows are many,
as a search in one array is faster than one in several."""


def fit_latent(x: Float[np.ndarray, " sample"], labels: Int[np.ndarray, " sample"],
               num_classes: int, cost: float) -> Float[np.ndarray, "classifier 2"]:
    """The machines of one latent: see `fit_latents`."""
    return fit_latents(x[:, None], labels, num_classes, cost)[0]


def fit_latents(codes: Float[np.ndarray, "sample latent"], labels: Int[np.ndarray, " sample"],
                num_classes: int, cost: float) -> Float[np.ndarray, "latent classifier 2"]:
    """Slope and intercept of each class against the rest, from each latent alone.

    Every class from 0 to `num_classes` - 1 must occur. If there are two, one classifier stands for
    both, and is for class 1.
    """
    piece = max(1, VALUES_AT_ONCE // len(codes))
    parts = [_fit(codes[:, start:start + piece], labels, num_classes, cost)
             for start in range(0, codes.shape[1], piece)]
    return np.concatenate(parts)


def _fit(codes: np.ndarray, labels: np.ndarray, num_classes: int, cost: float) -> np.ndarray:
    num_latents = codes.shape[1]
    counts = np.bincount(labels, minlength=num_classes)
    weight = len(codes) / (num_classes * counts)
    if num_classes == 2:
        positive, inside, outside = np.array([1]), cost * weight[1:], cost * weight[:1]
    else:
        positive = np.arange(num_classes)
        inside, outside = cost * weight, np.full(num_classes, cost)
    sums = _Sums(codes, labels, counts, positive)
    inside, outside = np.tile(inside, num_latents), np.tile(outside, num_latents)
    solution = np.zeros((num_latents * len(positive), 2))
    value, slope, curve = _objective(sums, solution, inside, outside)
    scale = np.maximum(1.0, np.abs(slope).max(axis=1))
    for _ in range(MOST_STEPS):
        open_ = np.abs(slope).max(axis=1) > 1e-10 * scale
        if not open_.any():
            break
        step = -np.linalg.solve(curve, slope[:, :, None])[:, :, 0]
        gain = (step * slope).sum(axis=1)
        size = np.where(open_, 1.0, 0.0)
        for _ in range(MOST_HALVINGS):
            moved = solution + size[:, None] * step
            found = _objective(sums, moved, inside, outside)
            worse = found[0] > value + 1e-4 * size * gain + 1e-12 * np.abs(value)
            if not worse.any():
                break
            size = np.where(worse, size / 2, size)
        solution, (value, slope, curve) = moved, found
    return solution.reshape(num_latents, len(positive), 2)


def predict_latent(x: Float[np.ndarray, " sample"], solution: Float[np.ndarray, "classifier 2"],
                   ) -> Int[np.ndarray, " sample"]:
    """The class with the largest decision value, the first among equals."""
    if len(solution) == 1:
        return (x * solution[0, 0] + solution[0, 1] > 0).astype(np.int64)
    return (x[:, None] * solution[:, 0] + solution[:, 1]).argmax(axis=1)


class _Sums:
    """Running sums of 1, x and x^2 over sorted codes: over all rows, and within each class.

    There is a classifier for each latent and each class in `positive`, the latents one after the
    other.
    """

    def __init__(self, codes: np.ndarray, labels: np.ndarray, counts: np.ndarray,
                 positive: np.ndarray) -> None:
        order = np.argsort(codes.T, axis=1, kind="stable")
        self.x, labels = np.take_along_axis(codes.T, order, axis=1), labels[order]
        by_class = np.argsort(labels, axis=1, kind="stable")
        # Place among all rows, classes one after the other: sorted, so one search finds a place
        # within any class.
        self.stride = len(codes) + 1
        self.places = np.take_along_axis(labels, by_class, axis=1) * self.stride + by_class
        self.all = _running(self.x)
        self.members = _running(np.take_along_axis(self.x, by_class, axis=1))
        num_latents = len(self.x)
        self.latent = np.repeat(np.arange(num_latents), len(positive))
        self.positive = np.tile(positive, num_latents)
        self.before = self.members[self.latent, (np.cumsum(counts) - counts)[self.positive]]
        after = self.members[self.latent, np.cumsum(counts)[self.positive]]
        self.totals = self.all[self.latent, -1], after - self.before

    def heads(self, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums `[classifier, 3]` of codes below a bound: of all rows, and of one class."""
        place = _search(self.x, self.latent, bound)
        within = _search(self.places, self.latent, self.positive * self.stride + place)
        return self.all[self.latent, place], self.members[self.latent, within] - self.before


def _search(rows: np.ndarray, which: np.ndarray, value: np.ndarray) -> np.ndarray:
    """`numpy.searchsorted` with a sorted row of its own for each value."""
    if len(rows) == 1:
        return np.searchsorted(rows[0], value)
    low, high = np.zeros(len(which), dtype=np.int64), np.full(len(which), rows.shape[1])
    for _ in range(rows.shape[1].bit_length()):
        middle = (low + high) // 2
        above = (low < high) & (rows[which, np.minimum(middle, rows.shape[1] - 1)] < value)
        low, high = np.where(above, middle + 1, low), np.where(above, high, middle)
    return low


def _running(x: np.ndarray) -> np.ndarray:
    sums = np.zeros((len(x), x.shape[1] + 1, 3))
    np.cumsum(np.stack([np.ones_like(x), x, x * x], axis=2), axis=1, out=sums[:, 1:])
    return sums


def _objective(sums: _Sums, solution: np.ndarray, inside: np.ndarray, outside: np.ndarray,
               ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, gradient and Hessian of every classifier's objective."""
    w, b = solution.T
    value, slope = (w * w + b * b) / 2, solution.copy()
    curve = np.broadcast_to(np.eye(2), (len(w), 2, 2)).copy()
    for sign, weight in ((1.0, inside), (-1.0, outside)):
        # Rows with a loss have sign (w x + b) < 1: x below a bound if sign w > 0, else above it.
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = (sign - b) / w
        bound = np.where(w == 0, np.where(sign * b < 1, np.inf, -np.inf), bound)
        everyone, members = sums.heads(bound)
        head = members if sign > 0 else everyone - members
        everyone, members = sums.totals
        total = members if sign > 0 else everyone - members
        below = (sign * w > 0) | (w == 0)
        n, x, xx = np.where(below[:, None], head, total - head).T
        # With residuals r = 1 - sign (w x + b): sums of r, r x and r^2.
        rest = 1.0 - sign * b
        r = rest * n - sign * w * x
        rx = rest * x - sign * w * xx
        value = value + weight * (rest * r - sign * w * rx)
        slope -= 2.0 * (sign * weight)[:, None] * np.stack([rx, r], axis=1)
        curve += 2.0 * weight[:, None, None] * np.stack([xx, x, x, n], axis=1).reshape(-1, 2, 2)
    return value, slope, curve
