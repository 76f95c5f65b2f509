"""Linear support vector machines on one latent, all classes at once, exactly.

For every class c against the rest, with y = 1 for its rows and -1 for the others,

    minimise  (w^2 + b^2) / 2 + C sum_i u_i max(0, 1 - y_i (w x_i + b))^2 :

the squared hinge with a penalised intercept, which is what liblinear solves. u_i is
n / (K n_c) for rows of class c and 1 for the rest; with two classes there is one problem, and both
sides are weighted. The objective is piecewise quadratic in two numbers. On sorted codes the rows
with a loss are a head or a tail, so sums over them are differences of running sums, and a step of
Newton's method for every class costs a few searches in sorted arrays whatever the number of rows.
"""

from __future__ import annotations

import numpy as np

from unweave.types import Float, Int

MOST_STEPS = 100
MOST_HALVINGS = 30


def fit_latent(x: Float[np.ndarray, " sample"], labels: Int[np.ndarray, " sample"],
               num_classes: int, cost: float) -> Float[np.ndarray, "classifier 2"]:
    """Slope and intercept of each class against the rest; a single row if there are two classes.

    Every class from 0 to `num_classes` - 1 must occur. With two, the row is for class 1.
    """
    counts = np.bincount(labels, minlength=num_classes)
    weight = len(x) / (num_classes * counts)
    if num_classes == 2:
        positive, inside, outside = np.array([1]), cost * weight[1:], cost * weight[:1]
    else:
        positive = np.arange(num_classes)
        inside, outside = cost * weight, np.full(num_classes, cost)
    sums = _Sums(x, labels, counts)
    solution = np.zeros((len(positive), 2))
    value, slope, curve = _objective(sums, solution, positive, inside, outside)
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
            found = _objective(sums, moved, positive, inside, outside)
            worse = found[0] > value + 1e-4 * size * gain + 1e-12 * np.abs(value)
            if not worse.any():
                break
            size = np.where(worse, size / 2, size)
        solution, (value, slope, curve) = moved, found
    return solution


def predict_latent(x: Float[np.ndarray, " sample"], solution: Float[np.ndarray, "classifier 2"],
                   ) -> Int[np.ndarray, " sample"]:
    """The class with the largest decision value, the first among equals."""
    if len(solution) == 1:
        return (x * solution[0, 0] + solution[0, 1] > 0).astype(np.int64)
    return (x[:, None] * solution[:, 0] + solution[:, 1]).argmax(axis=1)


class _Sums:
    """Running sums of 1, x and x^2 over sorted codes: over all rows, and within each class."""

    def __init__(self, x: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> None:
        order = np.argsort(x, kind="stable")
        self.x, labels = x[order], labels[order]
        by_class = np.argsort(labels, kind="stable")
        # Place among all rows, classes one after the other: sorted, so one search finds a place
        # within any class.
        self.stride = len(x) + 1
        self.places = labels[by_class] * self.stride + by_class
        self.first, self.counts = np.cumsum(counts) - counts, counts
        self.all = _running(self.x)
        self.classes = _running(self.x[by_class])

    def heads(self, bound: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums `[classifier, 3]` of codes below a bound: of all rows, and of one class."""
        place = np.searchsorted(self.x, bound)
        within = np.searchsorted(self.places, classes * self.stride + place)
        return self.all[place], self.classes[within] - self.classes[self.first[classes]]

    def totals(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = self.first[classes]
        return self.all[-1], self.classes[first + self.counts[classes]] - self.classes[first]


def _running(x: np.ndarray) -> np.ndarray:
    sums = np.zeros((len(x) + 1, 3))
    np.cumsum(np.stack([np.ones_like(x), x, x * x], axis=1), axis=0, out=sums[1:])
    return sums


def _objective(sums: _Sums, solution: np.ndarray, positive: np.ndarray, inside: np.ndarray,
               outside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, gradient and Hessian of every classifier's objective."""
    w, b = solution.T
    value, slope = (w * w + b * b) / 2, solution.copy()
    curve = np.broadcast_to(np.eye(2), (len(w), 2, 2)).copy()
    for sign, weight in ((1.0, inside), (-1.0, outside)):
        # Rows with a loss have sign (w x + b) < 1: x below a bound if sign w > 0, else above it.
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = (sign - b) / w
        bound = np.where(w == 0, np.where(sign * b < 1, np.inf, -np.inf), bound)
        everyone, members = sums.heads(bound, positive)
        head = members if sign > 0 else everyone - members
        everyone, members = sums.totals(positive)
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
