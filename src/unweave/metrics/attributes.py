"""Attribute classification by mean difference. Kumar et al. 2018, section 3 and table 2.

For a binary attribute the difference of two means of codes is the direction of a classifier,

    w = mean{ z : y = 1 } - mean{ z : y = 0 },      predict 1 where  w.z + b > 0,

and only b is learned, by minimising the hinge loss sum_i max(0, 1 - y_i (w.z_i + b)), y in {-1, 1},
on the rows that train. The loss is piecewise linear in b with a corner at y_i - w.z_i for each row.
Its slope starts at minus the number of rows with y = 1 and gains one at each corner: the corner at
that place in their order is a minimum. Sorting finds it, exactly, for all attributes at once.

A factor with more than two values is as many attributes as it has values, each against the rest. A
middle value of an ordered latent is then a rare attribute without a direction, and "no" is always
nearly right: `attributes.balanced` counts both answers alike, in the loss and in the accuracy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unweave.metrics.arrays import (
    ArrayLike,
    as_codes,
    as_factors,
    as_num_values,
    class_numbers,
    varying,
)
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.types import Codes, Float, Int, Range, UserError

LARGEST = 1e70
"""Codes beyond this cannot be multiplied and added."""


class Attributes(NamedTuple):
    """Accuracy on the rows that test, of each attribute: a factor, and the value that is told."""

    factor: Int[np.ndarray, " attribute"]
    value: Int[np.ndarray, " attribute"]
    """The number of the value, among those of the factor in order."""
    accuracy: Float[np.ndarray, " attribute"]
    balanced: Float[np.ndarray, " attribute"]


class _Answers(NamedTuple):
    """Of each test row and attribute: is it known, is it there, is either classifier right."""

    factor: np.ndarray
    value: np.ndarray
    known: np.ndarray
    own: np.ndarray
    right: np.ndarray
    right_balanced: np.ndarray


def attributes(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None,
               num_values: ArrayLike | None = None) -> dict[str, float]:
    """Accuracy of mean-difference classifiers, the mean over factors of that over values, 0 to 1.

    Codes are `[sample, latent]` and taken as they are, factors `[sample, factor]`; the first
    `num_train` rows train and the rest test (None: all rows do both). `attributes.accuracy` is the
    share of right answers, `attributes.balanced` the mean of that among rows with the attribute and
    that among rows without, with a hinge loss that weighs both sides alike. A side that no test row
    is on does not count. Factors that are constant in the rows that train are left out, and values
    that only test rows have are nobody's. Rows in which a factor is unknown are left out for it.
    `num_values` tells categorical latents: a column for each of their classes takes their place.

    >>> attributes([[0, 3], [0, 5], [8, 3], [8, 5]], [0, 0, 1, 1])
    {'attributes.accuracy': 1.0, 'attributes.balanced': 1.0}
    """
    table = attribute_table(codes, factors, num_train=num_train, num_values=num_values)
    shares = _shares(table.factor)
    return {"attributes.accuracy": float(min(table.accuracy @ shares, 1.0)),
            "attributes.balanced": float(min(table.balanced @ shares, 1.0))}


def attribute_table(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None,
                    num_values: ArrayLike | None = None) -> Attributes:
    """The accuracy of each attribute, as in table 2; see `attributes`."""
    answers = _answers(codes, factors, num_train, num_values)
    every = np.ones((1, len(answers.own)))
    accuracy, balanced = _accuracies(answers, every)
    return Attributes(answers.factor, answers.value, accuracy[0], balanced[0])


def attributes_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                         factors: ArrayLike, *, num_train: int | None = None,
                         num_values: ArrayLike | None = None) -> dict[str, np.ndarray]:
    """The scores when the rows that test are resampled; the classifiers stay as they are."""
    answers = _answers(codes, factors, num_train, num_values)
    num = len(answers.own)
    weights = np.stack([np.bincount(rng.integers(num, size=num), minlength=num)
                        for _ in range(num_replicates)]).astype(np.float32)
    shares = _shares(answers.factor)
    # Of an attribute that no row of a resample knows there is no news: it is what it was.
    accuracy, balanced = (np.where(np.isnan(drawn), whole, drawn) for drawn, whole in zip(
        _accuracies(answers, weights), _accuracies(answers, np.ones((1, num)))))
    return {"attributes.accuracy": accuracy @ shares, "attributes.balanced": balanced @ shares}


def _answers(codes: ArrayLike, factors: ArrayLike, num_train: int | None,
             num_values: ArrayLike | None) -> _Answers:
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    if num_train is None:
        num_train = len(codes)
    elif not 2 <= num_train < len(codes):
        raise UserError(f"num_train must leave rows to test, got {num_train} of {len(codes)}")
    columns = _columns(codes, num_values)
    if np.abs(columns).max() > LARGEST:
        raise UserError(f"codes up to {np.abs(columns).max():.1g} are too large: rescale them")
    # The place of the codes is free, as the bias takes it up; the mean keeps products small.
    columns = columns - columns[:num_train].mean(axis=0)
    test = slice(num_train if num_train < len(codes) else 0, None)
    parts = []
    for k in varying(factors[:num_train]):
        known = factors[:, k] >= 0
        train = np.flatnonzero(known[:num_train])
        if not known[test].any():
            continue
        names = np.unique(factors[train, k])
        values = names[1:] if len(names) == 2 else names
        own = factors[:, k, None] == values[None, :]
        sums = own[train].T.astype(np.float64) @ columns[train]
        counts = own[train].sum(axis=0)[:, None]
        rest = columns[train].sum(axis=0) - sums
        direction = sums / counts - rest / (len(train) - counts)
        projected = columns @ direction.T
        right = [(projected[test] + bias > 0) == own[test]
                 for bias in _biases(projected[train], own[train])]
        tested = np.repeat(known[test, None], len(values), axis=1)
        parts.append(_Answers(np.full(len(values), k), values, tested, own[test], *right))
    if not parts:
        raise UserError("no factor is known both in rows that train and in rows that test: "
                        "attributes need labels on either side")
    return _Answers(*(np.concatenate(column, axis=-1) for column in zip(*parts)))


def _columns(codes: Codes, num_values: ArrayLike | None) -> Float[np.ndarray, "sample column"]:
    kinds = as_num_values(num_values, codes)
    columns = []
    for j in range(codes.shape[1]):
        if kinds[j]:
            classes = class_numbers(codes[:, j])
            columns.append(np.eye(int(classes.max()) + 1)[classes])
        else:
            columns.append(codes[:, j:j + 1].astype(np.float64))
    return np.concatenate(columns, axis=1)


def _biases(projected: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bias of least hinge loss for each attribute, every row alike and both sides alike.

    Between two corners the loss may be flat: the middle of the flat part is taken.
    """
    corners = np.where(own, 1.0, -1.0) - projected
    order = np.argsort(corners, axis=0, kind="stable")
    corners = np.take_along_axis(corners, order, axis=0)
    mine = np.take_along_axis(own, order, axis=0)
    num_own, num = own.sum(axis=0), len(own)
    column = np.arange(own.shape[1])
    plain = (corners[num_own - 1, column] + corners[num_own, column]) / 2
    # Whole numbers, so that "the slope is 0" is exact: each side weighs the size of the other.
    slope = np.cumsum(np.where(mine, num - num_own, num_own), axis=0) - num_own * (num - num_own)
    first = (slope >= 0).argmax(axis=0)
    flat = slope[first, column] == 0
    after = corners[np.minimum(first + flat, num - 1), column]
    return plain, (corners[first, column] + after) / 2


def _accuracies(answers: _Answers, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and balanced accuracy `[replicate, attribute]` of rows with weights.

    NaN where no row that knows the attribute has a weight.
    """
    def summed(which: np.ndarray) -> np.ndarray:
        return weights @ (which & answers.known).astype(weights.dtype)

    right, own = answers.right_balanced, answers.own
    total, have = summed(answers.known), summed(own)
    hits, every = summed(own & right), summed(right)
    accuracy = _share(summed(answers.right), total)
    sides = np.stack([_share(hits, have), _share(every - hits, total - have)])
    seen = ~np.isnan(sides)
    balanced = _share(np.where(seen, sides, 0.0).sum(axis=0), seen.sum(axis=0))
    return accuracy.astype(np.float64), balanced.astype(np.float64)


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def _shares(factor: np.ndarray) -> np.ndarray:
    """What each attribute adds to the mean: factors count alike, and so do the values of one."""
    _, which, count = np.unique(factor, return_inverse=True, return_counts=True)
    return 1.0 / (count[which] * len(count))


METRIC = Metric(
    name="attributes",
    function=attributes,
    draw=draw_split,
    keys={"attributes.accuracy": Key(Range(0.0, 1.0)), "attributes.balanced": Key(Range(0.0, 1.0))},
    paper="Kumar et al. 2018, section 3 and table 2",
    version="1",
    summary="how well the difference of two mean codes tells an attribute",
    # The study did not have it. The paper's rows are those of its data set, CelebA.
    conventions={"paper": {"num_train_points": 10_000, "num_test_points": 5_000},
                 "study2019": {"num_train_points": 10_000, "num_test_points": 5_000}},
    partial=True,
    bootstrap=attributes_bootstrap,
)
