"""Logistic regression with an L2 penalty, all classes at once: the classifier of several metrics.

Two objectives, in scikit-learn's units (`strength` is its C), for rows x_i and weights w_c, b_c:

    one-vs-rest   1/2 (|w_c|^2 + b_c^2) + C sum_i log(1 + exp(-y_ic (w_c x_i + b_c))),  y_ic = +-1,
    multinomial   1/2 sum_c |w_c|^2     - C sum_i log softmax_c(w_c x_i + b_c) at i's own class.

The first is scikit-learn's default of 2019 (liblinear: the intercept is penalised), and the
classes are independent problems. The second is its default today. Both are solved to convergence,
so that a score does not depend on where a solver stops.

One-vs-rest runs Newton's method on every class side by side: the products of pairs of columns are
formed once, and a matrix product with the curvatures p (1 - p) gives the Hessians of all classes.
The multinomial Hessian couples classes: its Newton step comes from conjugate gradients, scaled by
those same blocks. With many columns both take conjugate gradients, scaled by diagonals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
    has weights to begin with, those of a neighbouring strength for instance.
    """
    _check(features, strength)
    strengths = np.broadcast_to(np.asarray(strength, dtype=np.float64), (num_classes,))[:, None]
    start = np.zeros((num_classes, features.shape[1] + 1)) if start is None else start
    columns = np.vstack([np.asarray(features, dtype=np.float64).T, np.ones(len(features))])
    block = max(1, VALUES_AT_ONCE // len(features))
    starts = range(0, num_classes, block)
    penalty = np.ones(len(columns))
    if not penalise_intercept:
        penalty[-1] = FREE
    parts = [_newton(columns, classes[None] == np.arange(s, min(s + block, num_classes))[:, None],
                     strengths[s:s + block], penalty, start[s:s + block], tolerance)
             for s in starts]
    return np.concatenate(parts)


def one_vs_rest_path(features: np.ndarray, classes: Int[np.ndarray, " sample"], num_classes: int,
                     strengths: np.ndarray, *, tolerance: float) -> np.ndarray:
    """Weights `[strength, class, column]` for rising strengths, the intercepts not penalised.

    Small problems are solved side by side. Large ones start where the strength before ended.
    """
    if len(features) * num_classes * len(strengths) <= VALUES_AT_ONCE:
        _check(features, strengths)
        columns = np.vstack([np.asarray(features, dtype=np.float64).T, np.ones(len(features))])
        own = np.tile(classes[None] == np.arange(num_classes)[:, None], (len(strengths), 1))
        penalty = np.append(np.ones(len(columns) - 1), FREE)
        start = np.zeros((len(own), len(columns)))
        made = _newton(columns, own, np.repeat(strengths, num_classes)[:, None], penalty, start,
                       tolerance)
        return made.reshape(len(strengths), num_classes, len(columns))
    path: list[np.ndarray] = []
    for strength in strengths:
        path.append(fit_one_vs_rest(features, classes, num_classes, strength=strength,
                                    penalise_intercept=False, start=path[-1] if path else None,
                                    tolerance=tolerance))
    return np.stack(path)


def fit_multinomial(features: np.ndarray, classes: Int[np.ndarray, " sample"], num_classes: int, *,
                    strength: float = 1.0) -> Weights:
    """Weights of the softmax over classes; the intercepts, which sum to 0, are not penalised.

    Two classes are scikit-learn's binary problem, with one penalised weight vector, the difference
    of ours: a penalty twice that of the softmax.
    """
    _check(features, strength)
    columns = np.vstack([np.asarray(features, dtype=np.float64).T, np.ones(len(features))])
    strength = strength / 2 if num_classes == 2 else strength
    penalty = np.append(np.ones(len(columns) - 1), 0.0)
    blocks = _blocks(columns)
    target = (classes[None] == np.arange(num_classes)[:, None]).astype(np.float64)
    weights = np.zeros((num_classes, len(columns)))
    margins = np.zeros(target.shape)
    share = np.full(target.shape, 1.0 / num_classes)
    gradient = strength * ((share - target) @ columns.T)
    first = max(float(np.abs(gradient).max()), 1e-12)
    for _ in range(MAX_STEPS):
        error = float(np.abs(gradient).max()) / first
        if error <= GRADIENT_TOLERANCE:
            break
        step = -_conjugate_gradients(
            lambda v, p=share: v * penalty + strength * (_softmax_bend(p, v @ columns) @ columns.T),
            # A class that nobody is in any doubt about has a flat intercept: a little is added.
            blocks(strength * share * (1.0 - share), penalty + FREE), gradient, (0, 1),
            min(0.1, error) ** 2)
        slope, along, size = float((step * gradient).sum()), step @ columns, 1.0
        for _ in range(20):
            moved = margins + size * along
            share = np.exp(moved - moved.max(axis=0))
            share /= share.sum(axis=0)
            change = (weights + size * step) * penalty + strength * ((share - target) @ columns.T)
            new_slope = float((step * change).sum())
            if new_slope <= -0.25 * slope:
                break
            size *= slope / (slope - new_slope)
        weights, margins, gradient = weights + size * step, moved, change
    weights[:, -1] -= weights[:, -1].mean()
    return weights


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
    """Weights `[class, column]`; `columns` is `[column, row]` and `own` `[class, row]`."""
    blocks = _blocks(columns)
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
        solve = blocks(curvature, penalty)
        if len(columns) <= MAX_COLUMNS:
            step = -solve(gradient[some])
        else:
            step = -_conjugate_gradients(
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


def _blocks(columns: np.ndarray) -> Callable[..., Solve]:
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
        inverse = np.linalg.inv(hessian)
        return lambda v: (inverse @ v[:, :, None])[:, :, 0]

    return solver


def _conjugate_gradients(product: Solve, scale: Solve, goal: np.ndarray, axes: tuple[int, ...],
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


def _softmax_bend(share: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The derivative of the softmax `[class, row]` along a change of its margins."""
    bend = share * along
    bend -= share * bend.sum(axis=0)
    return bend


def _sigmoid(values: np.ndarray) -> np.ndarray:
    shares = np.negative(values)
    with np.errstate(over="ignore"):
        np.exp(shares, out=shares)
    shares += 1.0
    return np.reciprocal(shares, out=shares)


def _check(features: np.ndarray, strength: float | np.ndarray) -> None:
    if not np.all(np.asarray(strength) > 0):
        raise UserError(f"strength must be above 0, got {strength}")
    if float(np.abs(features).max(initial=0.0)) > 1e100:
        raise UserError("codes are too large for a logistic regression: rescale them")
