"""One-vs-rest logistic regression with an L2 penalty: the classifier of several metrics.

In scikit-learn's units (`strength` is its C), for rows x_i and weights w_c, b_c of class c:

    1/2 (|w_c|^2 + b_c^2) + C sum_i log(1 + exp(-y_ic (w_c x_i + b_c))),    y_ic = +-1.

This is scikit-learn's default of 2019 (liblinear: the intercept is penalised); classes are problems
of their own. It is solved to convergence, so that a score does not depend on where a solver stops.
With few columns all problems are solved side by side by Newton's method: see `irls`. With many, the
Newton step comes from conjugate gradients, scaled by diagonals. Today's default is in `softmax`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from unweave.metrics.irls import Task, cross_validated_path, fit_tasks, inverted
from unweave.types import Float, Int, UserError

MAX_COLUMNS = 32
"""Up to this many columns (intercept included) Hessians are formed and solved exactly."""

VALUES_AT_ONCE = 1 << 20
"""Classes are solved in blocks of about this many (class, row) pairs."""

MAX_STEPS = 100
MAX_PRODUCTS = 500
"""Of conjugate gradients, in one step of Newton's method."""

GRADIENT_TOLERANCE = 1e-9
"""A class is solved when its gradient has shrunk to this part of the gradient at zero weights."""

MARGIN_TOLERANCE = 1e-5
"""With few columns, when a step moves margins by this part of them; that step is still taken."""

ROUGH = 1e-3, 1e-5
"""The same two, of margins and of gradients, where only a choice of strength depends on them."""

FREE = 1e-9
"""The penalty of an intercept that has none: enough to end where a class has no rows at all."""

Solve = Callable[[np.ndarray], np.ndarray]
Weights = Float[np.ndarray, "class column"]
"""The last column is the intercept."""


def fit_one_vs_rest(features: np.ndarray, classes: Int[np.ndarray, " sample"], num_classes: int, *,
                    strength: float | np.ndarray = 1.0, penalise_intercept: bool = True,
                    start: Weights | None = None, tolerance: float = GRADIENT_TOLERANCE) -> Weights:
    """Weights of one classifier a class, each telling its class from all the others.

    With two classes the weights of one are those of the other with the sign changed. A class
    without rows gets a classifier that says no. `strength` may differ from class to class; `start`
    has weights to begin with, those of a neighbouring strength for instance. `tolerance` is that of
    gradients, with many columns.
    """
    check(features, strength)
    strengths = np.broadcast_to(np.asarray(strength, dtype=np.float64), (num_classes,))[:, None]
    start = np.zeros((num_classes, features.shape[1] + 1)) if start is None else start
    penalty = _penalty(features, penalise_intercept)
    if len(penalty) <= MAX_COLUMNS:
        return fit_tasks(features, [(classes, num_classes)], strengths, penalty, start,
                         MARGIN_TOLERANCE)
    columns = np.vstack([np.asarray(features, dtype=np.float64).T, np.ones(len(features))])
    block = max(1, VALUES_AT_ONCE // len(features))
    parts = [_newton(columns, classes[None] == np.arange(s, min(s + block, num_classes))[:, None],
                     strengths[s:s + block], penalty, start[s:s + block], tolerance)
             for s in range(0, num_classes, block)]
    return np.concatenate(parts)


def fit_one_vs_rest_tasks(features: np.ndarray, tasks: Sequence[Task], *,
                          strength: float = 1.0) -> list[Weights]:
    """`fit_one_vs_rest` for several tasks on the same rows, which share what they can."""
    numbers = [number for _, number in tasks]
    if features.shape[1] + 1 > MAX_COLUMNS:
        return [fit_one_vs_rest(features, *task, strength=strength) for task in tasks]
    check(features, strength)
    start = np.zeros((sum(numbers), features.shape[1] + 1))
    made = fit_tasks(features, tasks, np.full((len(start), 1), strength),
                     _penalty(features, True), start, MARGIN_TOLERANCE)
    return np.split(made, np.cumsum(numbers)[:-1])


def cross_validated_one_vs_rest(features: np.ndarray, tasks: Sequence[Task],
                                strengths: np.ndarray, num_folds: int) -> list[Weights]:
    """One-vs-rest weights, each class with the C that answers its own question best.

    Folds are consecutive rows; of equal Cs the least is taken; `strengths` rise. The intercept is
    not penalised. This is scikit-learn's LogisticRegressionCV(cv=KFold(num_folds)) of 2019.
    """
    check(features, strengths)
    edges = fold_edges(len(features), num_folds)
    numbers = [number for _, number in tasks]
    features = np.asarray(features, dtype=np.float64)
    if features.shape[1] + 1 <= MAX_COLUMNS:
        path, right = cross_validated_path(features, tasks, strengths, _penalty(features, False),
                                           edges, ROUGH[0])
        best = np.round(right, 9).argmax(axis=1)
        return np.split(path[best, np.arange(len(best))], np.cumsum(numbers)[:-1])
    made = []
    for classes, number in tasks:
        right = np.zeros((number, len(strengths)))
        for low, high in pairwise(edges):
            rest = np.r_[0:low, high:len(features)]
            own, weights = classes[low:high, None] == np.arange(number), None
            for i, strength in enumerate(strengths):
                weights = fit_one_vs_rest(features[rest], classes[rest], number, strength=strength,
                                          penalise_intercept=False, start=weights,
                                          tolerance=ROUGH[1])
                yes = decisions(weights, features[low:high]) > 0
                right[:, i] += (yes == own).mean(axis=0)
        made.append(fit_one_vs_rest(features, classes, number, penalise_intercept=False,
                                    strength=strengths[np.round(right, 9).argmax(axis=1)],
                                    tolerance=ROUGH[1]))
    return made


def fold_edges(num_rows: int, num_folds: int) -> list[int]:
    """Where folds of consecutive rows begin, and the number of rows; the first have one more."""
    return np.cumsum([0, *(len(fold) for fold in np.array_split(np.arange(num_rows), num_folds))]
                     ).tolist()


def decisions(weights: Weights, features: np.ndarray) -> Float[np.ndarray, "sample class"]:
    """Decision values: the class with the largest is the prediction."""
    return np.asarray(features, dtype=np.float64) @ weights[:, :-1].T + weights[:, -1]


def one_vs_rest_probabilities(values: Float[np.ndarray, "sample class"],
                              ) -> Float[np.ndarray, "sample class"]:
    """Each classifier's probability of its own class, divided by the sum over classes."""
    shares = _sigmoid(values)
    total = shares.sum(axis=1, keepdims=True)
    # Where every classifier is sure that it is not its class, all sigmoids may round to zero.
    return np.where(total > 0, shares / np.where(total > 0, total, 1.0), 1.0 / values.shape[1])


def _newton(columns: np.ndarray, own: np.ndarray, strength: np.ndarray, penalty: np.ndarray,
            start: np.ndarray, tolerance: float) -> np.ndarray:
    """Weights `[class, column]`, for many columns `[column, row]`; `own` is `[class, row]`."""
    solvers = blocks(columns)
    target = own.astype(np.float64)
    first = strength * ((0.5 - target) @ columns.T)
    enough = tolerance * np.maximum(np.abs(first).max(axis=1), 1e-12)
    weights = start.copy()
    margins = weights @ columns
    share = _sigmoid(margins)
    gradient = weights * penalty + strength * ((share - target) @ columns.T)
    left = np.arange(len(own))
    for _ in range(MAX_STEPS):
        left = left[np.abs(gradient[left]).max(axis=1) > enough[left]]
        if len(left) == 0:
            break
        some = slice(None) if len(left) == len(own) else left
        curvature = share[some] * (1.0 - share[some])
        curvature *= strength[some]
        solve = solvers(curvature, penalty)
        step = -conjugate_gradients(
            lambda v, c=curvature: v * penalty + (v @ columns * c) @ columns.T,
            solve, gradient[some], (1,), 1e-6)
        slope = (step * gradient[some]).sum(axis=1)
        along = step @ columns
        size = np.ones(len(left))
        for _ in range(20):
            moved = margins[some] + size[:, None] * along
            trial = _sigmoid(moved)
            new = weights[some] + size[:, None] * step
            change = new * penalty + strength[some] * ((trial - target[some]) @ columns.T)
            # Along the step the objective is convex: a slope that has turned upwards by more than
            # a quarter of what it fell is too far, and the secant says where it is level.
            new_slope = (step * change).sum(axis=1)
            far = new_slope > -0.25 * slope
            if not far.any():
                break
            size[far] *= slope[far] / (slope[far] - new_slope[far])
        weights[some], margins[some], share[some], gradient[some] = new, moved, trial, change
    return weights


def blocks(columns: np.ndarray) -> Callable[..., Solve]:
    """A function of curvatures `[class, row]` and a penalty that gives a solver of the Hessians.

    Each class has its own Hessian. Beyond `MAX_COLUMNS` only its diagonal is used: a scaling.
    """
    num = len(columns)
    if num > MAX_COLUMNS:
        squares = (columns**2).T

        def scaler(curvature: np.ndarray, penalty: np.ndarray) -> Solve:
            diagonal = penalty + curvature @ squares
            return lambda v: v / diagonal

        return scaler
    first, second = np.triu_indices(num)
    products = np.ascontiguousarray((columns[first] * columns[second]).T)

    def solver(curvature: np.ndarray, penalty: np.ndarray) -> Solve:
        upper = curvature @ products
        hessian = np.empty((len(curvature), num, num))
        hessian[:, first, second] = upper
        hessian[:, second, first] = upper
        hessian += np.diag(penalty)
        inverse = inverted(hessian)
        return lambda v: (inverse @ v[:, :, None])[:, :, 0]

    return solver


def conjugate_gradients(product: Solve, scale: Solve, goal: np.ndarray, axes: tuple[int, ...],
                         tolerance: float) -> np.ndarray:
    """The solution of `product(x) = goal`, as one problem or, with axis 1 alone, one a class."""
    solution = np.zeros_like(goal)
    rest = goal.copy()
    scaled = scale(rest)
    direction = scaled
    dot = (rest * scaled).sum(axis=axes, keepdims=True)
    enough = tolerance * dot
    for _ in range(min(goal.size, MAX_PRODUCTS)):
        image = product(direction)
        bend = (direction * image).sum(axis=axes, keepdims=True)
        length = dot / np.where(bend > 0, bend, 1.0)
        solution += length * direction
        rest -= length * image
        scaled = scale(rest)
        before, dot = dot, (rest * scaled).sum(axis=axes, keepdims=True)
        if (dot <= enough).all():
            break
        direction = scaled + dot / np.where(before > 0, before, 1.0) * direction
    return solution


def _sigmoid(values: np.ndarray) -> np.ndarray:
    shares = np.negative(values)
    with np.errstate(over="ignore"):
        np.exp(shares, out=shares)
    shares += 1.0
    return np.reciprocal(shares, out=shares)


def _penalty(features: np.ndarray, intercept: bool) -> np.ndarray:
    return np.append(np.ones(features.shape[1]), 1.0 if intercept else FREE)


def check(features: np.ndarray, strength: float | np.ndarray) -> None:
    """Refuses strengths that are not positive, and codes that cannot be multiplied."""
    if not np.all(np.asarray(strength) > 0):
        raise UserError(f"strength must be above 0, got {strength}")
    if float(np.abs(features).max(initial=0.0)) > 1e100:
        raise UserError("codes are too large for a logistic regression: rescale them")
