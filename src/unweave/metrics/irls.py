"""Many two-class logistic regressions on the same rows, by Newton's method on all at once.

Problem b has weights w_b (the last is the intercept), its own rows, a strength C_b, and minimises

    1/2 sum_j a_j w_bj^2 + C_b sum_i log(1 + exp(-y_bi w_b x_i)),   y_bi = 1 for its rows, else -1.

With p = sigmoid(w_b x_i) the gradient needs sum_i p x_i and the Hessian sum_i p (1 - p) x_i x_i'.
Both are matrix products for all problems together: of p with the rows, and of p (1 - p) with the
products of pairs of columns, which are formed once. Rows go in pieces, so that p stays in the
cache. Newton's method squares the error, so the last step forms no Hessian.

Cross-validation solves all rows first, along rising strengths. What a fold contributes to gradient
and Hessian there is known, so without the fold one step of Newton's method is nearly the solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from unweave.metrics.threads import available_threads, side_by_side
from unweave.types import Float, Int, UserError

VALUES_AT_ONCE = 1 << 16
"""Pieces have about this many (problem, row) pairs: two arrays of them fit the second cache."""

WORTH_A_THREAD = 1 << 18
"""As many (problem, row) pairs as make another thread worth its while."""

LEAST_ROWS = 64
MAX_STEPS = 100
LEAST_ERROR = 1e-12
FEW_ROWS = 1500
NEARBY = 1e-3
"""What the first step leaves of the error where a fold of many is missing."""

Task = tuple[np.ndarray, int]
"""Class numbers `[sample]` and how many classes there are: a problem for each."""


class Design:
    """Columns of features and of ones, in parts (folds) of consecutive rows, in pieces."""

    def __init__(self, features: np.ndarray, num_problems: int,
                 edges: Sequence[int] | None = None) -> None:
        """`edges` are the first rows of the parts, and the number of rows; None: one part."""
        self.edges = [0, len(features)] if edges is None else list(edges)
        self.num_columns = features.shape[1] + 1
        self.pairs = np.triu_indices(self.num_columns)
        size = max(LEAST_ROWS, VALUES_AT_ONCE // num_problems)
        self.parts = []
        for low, high in pairwise(self.edges):
            cuts = range(low, high, size)
            self.parts.append([self._piece(features[s:min(s + size, high)]) for s in cuts])
        moment = np.zeros((self.num_columns, self.num_columns))
        for part in self.parts:
            for rows, columns, _ in part:
                moment += columns @ rows
        values, vectors = np.linalg.eigh(moment / len(features))
        self.root = vectors * np.sqrt(np.maximum(values, 0.0))
        """Norms of weights times this are root mean squares of margins."""
        self.piece = max(len(rows) for part in self.parts for rows, _, _ in part)

    def _piece(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.ones((len(features), self.num_columns))
        rows[:, :-1] = features
        columns = np.ascontiguousarray(rows.T)
        products = columns[self.pairs[0]] * columns[self.pairs[1]]
        return rows, columns, np.ascontiguousarray(products.T)

    def own_sums(self, tasks: Sequence[Task]) -> Float[np.ndarray, "part problem column"]:
        """Sums of the columns over the rows of each class, those of all tasks one after another."""
        sums = []
        for part, (low, high) in zip(self.parts, pairwise(self.edges)):
            columns = np.concatenate([columns for _, columns, _ in part], axis=1)
            sums.append(np.concatenate([
                np.stack([np.bincount(classes[low:high], weights=column, minlength=num)
                          for column in columns], axis=1) for classes, num in tasks]))
        return np.stack(sums)

    def sums(self, weights: np.ndarray, *, without: np.ndarray | None = None,
             curved: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Sums of p x `[part, problem, column]` and of p (1 - p) x x' `[part, problem, pair]`.

        Parts that all problems are `without` stay at zero.
        """
        num = len(weights)
        first = np.zeros((len(self.parts), num, self.num_columns))
        second = np.zeros((len(self.parts), num, len(self.pairs[0]))) if curved else None
        minus, spaces = -weights, np.empty((2, num * self.piece))
        with np.errstate(over="ignore"):
            for part, pieces in enumerate(self.parts):
                if without is not None and (without == part).all():
                    continue
                for rows, columns, products in pieces:
                    share, bend = (space[:num * len(rows)].reshape(num, len(rows))
                                   for space in spaces)
                    np.matmul(minus, columns, out=share)
                    np.exp(share, out=share)
                    share += 1.0
                    np.reciprocal(share, out=share)
                    first[part] += share @ rows
                    if second is not None:
                        np.multiply(share, share, out=bend)
                        np.subtract(share, bend, out=bend)
                        second[part] += bend @ products
        return first, second

    def inverses(self, second: np.ndarray, strength: np.ndarray,
                 penalty: np.ndarray) -> Float[np.ndarray, "problem column column"]:
        """Inverse Hessians."""
        hessian = np.empty((len(second), self.num_columns, self.num_columns))
        upper = second * strength
        hessian[:, self.pairs[0], self.pairs[1]] = upper
        hessian[:, self.pairs[1], self.pairs[0]] = upper
        hessian += np.diag(penalty)
        return inverted(hessian)


def inverted(hessian: np.ndarray) -> np.ndarray:
    """`numpy.linalg.inv`, or the sentence that says why there is none."""
    try:
        return np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        raise UserError("codes are too large, or too unequal in size, for a logistic regression: "
                        "rescale them") from None


@dataclass(frozen=True)
class Problems:
    """What tells the problems on a design apart. `own` are sums of columns over their own rows."""

    own: Float[np.ndarray, "problem column"]
    strength: Float[np.ndarray, "problem 1"]
    penalty: Float[np.ndarray, " column"]
    without: Int[np.ndarray, " problem"] | None = None
    """The part that each leaves out."""

    def of(self, some: np.ndarray) -> Problems:
        """Some of them."""
        return Problems(self.own[some], self.strength[some], self.penalty,
                        None if self.without is None else self.without[some])

    def gradient(self, weights: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Gradients at weights with these sums of p x."""
        return weights * self.penalty + self.strength * (self._total(first) - self.own)

    def inverses(self, design: Design, second: np.ndarray) -> np.ndarray:
        """Inverse Hessians at weights with these sums of p (1 - p) x x'."""
        return design.inverses(self._total(second), self.strength, self.penalty)

    def _total(self, sums: np.ndarray) -> np.ndarray:
        total = sums.sum(axis=0)
        return total if self.without is None else total - sums[self.without, np.arange(len(total))]


def minimise(design: Design, problems: Problems, start: np.ndarray, tolerance: float, *,
             known: tuple[np.ndarray, np.ndarray] | None = None, rate: float = 0.1) -> np.ndarray:
    """Weights for which a step of Newton's method changes little.

    Margins w x would move by `tolerance` of what they are, or less, in root mean square: that has
    no scale, and holds where classes can be told apart and gradients say little. `known` are the
    sums at `start`, if they are, and `rate` is what the first step may leave of the error.
    """
    weights, everyone = start.copy(), np.arange(len(start))
    first, second = known or design.sums(weights, without=problems.without)
    gradient, inverse = problems.gradient(weights, first), problems.inverses(design, second)
    steps, error, enough = np.empty_like(start), np.empty(len(start)), np.empty(len(start))
    rates = np.full(len(start), rate)

    def look(at: np.ndarray) -> None:
        steps[at] = -(inverse[at] @ gradient[at, :, None])[:, :, 0]
        error[at] = np.linalg.norm(steps[at] @ design.root, axis=1)
        enough[at] = np.maximum(tolerance * np.linalg.norm(weights[at] @ design.root, axis=1),
                                LEAST_ERROR)

    look(everyone)
    for _ in range(MAX_STEPS):
        left = np.flatnonzero(error > enough)
        if len(left) == 0:
            break
        those = problems.of(left)
        step, slope = steps[left], (steps[left] * gradient[left]).sum(axis=1)
        # Hessians are formed where the step will, going by the last one, not be the last.
        curved = bool((rates[left] * error[left] > enough[left]).any())
        size = np.ones(len(left))
        for _ in range(20):
            moved = weights[left] + size[:, None] * step
            first, second = design.sums(moved, without=those.without, curved=curved)
            change = those.gradient(moved, first)
            # Along the step the objective is convex: a slope that has turned upwards by more than
            # a quarter of what it fell is too far, and the secant says where it is level.
            new_slope = (step * change).sum(axis=1)
            far = new_slope > -0.25 * slope
            if not far.any():
                break
            turn = slope[far] - new_slope[far]
            # Where rounding has left no slope at all, as with codes of a thousand million: half.
            size[far] *= np.divide(slope[far], turn, out=np.full(len(turn), 0.5), where=turn < 0)
        weights[left], gradient[left] = moved, change
        if second is not None:
            inverse[left] = those.inverses(design, second)
        before = error[left]
        look(left)
        rates[left] = error[left] / before
    # The step that was found small enough is taken: it is at hand, and squares the error.
    return weights + np.where((error <= enough)[:, None], steps, 0.0)


def fit_tasks(features: np.ndarray, tasks: Sequence[Task], strength: np.ndarray,
              penalty: np.ndarray, start: np.ndarray, tolerance: float,
              ) -> Float[np.ndarray, "problem column"]:
    """Weights of each class against the rest, those of all tasks one after another."""
    groups = _groups(len(start), len(features))
    design = Design(features, len(groups[0]))
    problems = Problems(design.own_sums(tasks)[0], strength, penalty)
    return np.concatenate(side_by_side(
        lambda some: minimise(design, problems.of(some), start[some], tolerance), groups))


def _groups(num_problems: int, num_rows: int) -> list[np.ndarray]:
    """Problems for each thread, as many threads as there is work for."""
    work = max(1, num_problems * num_rows // WORTH_A_THREAD)
    return np.array_split(np.arange(num_problems), min(available_threads(), work, num_problems))


def cross_validated_path(features: np.ndarray, tasks: Sequence[Task], strengths: np.ndarray,
                         penalty: np.ndarray, edges: Sequence[int], tolerance: float,
                         ) -> tuple[np.ndarray, np.ndarray]:
    """Weights `[strength, problem, column]` of all rows, and accuracies `[problem, strength]`.

    The latter are of yes or no on each part, from the other parts, averaged over parts.
    """
    num, num_parts = sum(number for _, number in tasks), len(edges) - 1
    groups = _groups(num, len(features))
    # Few rows: the folds side by side, which takes more sums and fewer calls.
    together = num_parts if len(features) <= FEW_ROWS else 1
    design = Design(features, len(groups[0]) * together, edges)
    own = design.own_sums(tasks)
    member = np.concatenate([classes[None] == np.arange(number)[:, None]
                             for classes, number in tasks])
    made = side_by_side(lambda some: _path(design, features, own[:, some], member[some], strengths,
                                           penalty, together, tolerance), groups)
    return np.concatenate([path for path, _ in made], axis=1), np.concatenate(
        [right for _, right in made])


def _path(design: Design, features: np.ndarray, own: np.ndarray, member: np.ndarray,
          strengths: np.ndarray, penalty: np.ndarray, together: int,
          tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """The same for problems with these sums of columns over their own rows, `member`."""
    num, num_parts = len(member), len(design.parts)
    weights = np.zeros((num, design.num_columns))
    known = design.sums(weights)
    path, right = [], np.zeros((num, len(strengths)))
    for i, value in enumerate(strengths):
        strength = np.full((num, 1), value)
        everyone = Problems(own.sum(axis=0), strength, penalty)
        weights = minimise(design, everyone, weights, tolerance, known=known)
        path.append(weights)
        known = design.sums(weights)
        for parts in np.arange(num_parts).reshape(-1, together):
            rest = Problems(np.concatenate([everyone.own - own[part] for part in parts]),
                            np.tile(strength, (together, 1)), penalty, np.repeat(parts, num))
            made = minimise(design, rest, np.tile(weights, (together, 1)), tolerance,
                            known=tuple(np.tile(sums, (1, together, 1)) for sums in known),
                            rate=NEARBY)
            for part, fitted in zip(parts, np.split(made, together)):
                rows = slice(design.edges[part], design.edges[part + 1])
                yes = fitted[:, :-1] @ features[rows].T + fitted[:, -1:] > 0
                right[:, i] += (yes == member[:, rows]).mean(axis=1)
    return np.stack(path), right / num_parts
