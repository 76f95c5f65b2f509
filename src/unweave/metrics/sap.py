"""SAP, separated attribute predictability. Kumar et al. 2018, section 3.

Predict each factor from each latent alone. S_jk is the accuracy of a linear support vector machine
on the test rows, or the squared correlation if factors are quantities. With the latents ordered by
S for each of K factors,

    SAP = 1/K sum_k ( S_(1)k - S_(2)k ),

the lead of the best latent over the next. Each machine is one class against the rest on a single
number, so a value in the middle of a range is hard to tell: the factors themselves stay well below
1. The cost C = 0.01 also makes the score depend on the scale of codes and on the number of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.factors import FactorType
from unweave.metrics.arrays import (
    ArrayLike,
    as_codes,
    as_labels,
    as_num_values,
    class_numbers,
)
from unweave.metrics.labels import Labels
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.metrics.svm import fit_latents, predict_latent
from unweave.types import Codes, Float, Range, UserError

LARGEST = 1e100
"""Codes beyond this cannot be squared and added."""


def sap(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None, cost: float = 0.01,
        standardise: bool = False, regression: bool = False, factor_types: Any = None,
        num_values: ArrayLike | None = None) -> dict[str, float]:
    """Mean over factors of the lead of the latent that predicts best, 0 to 1.

    The first `num_train` rows train and the rest test; None trains and tests on all rows. Machines
    are weighted for balanced classes. `standardise` scales latents by mean and standard deviation
    of the training rows. A test row whose class was not in training counts as wrong. A constant
    latent predicts one class, or explains nothing; a single latent is compared with 0. Factors that
    are constant in the training rows are left out, and so, for each factor, are rows without label.

    For quantities (`factor_types`, inferred if None: see `labels`) S is the squared correlation in
    the training rows; for those on a circle the share of a latent's variance that sine and cosine
    explain. With `regression` it is so for every factor: ordinal class numbers are taken as
    quantities, circular ones as angles, and categorical classes explain a latent by their means.

    `num_values` tells categorical latents. Such a one predicts for each of its classes the value
    that most training rows of that class have, or that most rows have if none is of it; for
    quantities S is the share of the factor's variance between its classes.

    >>> sap([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]], cost=100.0)
    {'sap': 0.5}
    """
    codes, labels, used, num_train, kinds = _checked(codes, factors, num_train, cost, standardise,
                                                     factor_types, regression, num_values)
    scores = []
    for k in used:
        column, kind = labels.values[:, k], labels.types[k]
        if regression or kind.is_quantity:
            scores.append(explained(codes[:num_train], column[:num_train], _closed(kind, column),
                                    kinds))
        else:
            scores.append(_right(codes, column, num_train, cost, kinds)[0].mean(axis=0))
    return {"sap": float(_lead(np.stack(scores, axis=1)).mean())}


def sap_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                  factors: ArrayLike, *, num_train: int | None = None, cost: float = 0.01,
                  standardise: bool = False, regression: bool = False,
                  factor_types: Any = None,
                  num_values: ArrayLike | None = None) -> dict[str, np.ndarray]:
    """SAP when the rows that test are resampled; the machines stay as they are.

    Squared correlations of quantities are made anew from resampled training rows; those of
    `regression` have no interval.
    """
    if regression:
        return {}
    codes, labels, used, num_train, kinds = _checked(codes, factors, num_train, cost, standardise,
                                                     factor_types, regression, num_values)
    num = len(codes) - num_train if num_train < len(codes) else num_train
    weights = np.stack([np.bincount(rng.integers(num, size=num), minlength=num)
                        for _ in range(num_replicates)]).astype(np.float32)
    scores = []
    for k in used:
        column, kind = labels.values[:, k], labels.types[k]
        if kind.is_quantity:
            draws = (rng.integers(num_train, size=num_train) for _ in range(num_replicates))
            scores.append([explained(codes[rows], column[rows], kind, kinds) for rows in draws])
        else:
            right, known = _right(codes, column, num_train, cost, kinds)
            own = weights if known.all() else weights[:, known]
            scores.append(own @ right.astype(np.float32)
                          / np.maximum(own.sum(axis=1, keepdims=True), 1))
    accuracy = np.stack(scores, axis=2)
    return {"sap": np.array([_lead(one).mean() for one in accuracy], dtype=np.float64)}


def explained(codes: Codes, column: Float[np.ndarray, " sample"], kind: FactorType,
              categorical: np.ndarray | None = None) -> Float[np.ndarray, " latent"]:
    """The share of each latent's variance that a factor explains in a straight line: R2.

    For a quantity that is the squared correlation; on a circle the line is one of sine and cosine,
    and for categories that of an indicator for each, which are the means of their rows. A
    categorical latent instead explains a share of the factor's variance. Rows without label do not
    count.
    """
    known = ~np.isnan(column)
    if not known.all():
        codes, column = codes[known], column[known]
    if len(column) == 0:
        return np.zeros(codes.shape[1])
    left = codes - codes.mean(axis=0)
    spread = (left ** 2).sum(axis=0)
    if kind.name == "categorical":
        order = np.argsort(column, kind="stable")
        starts = np.flatnonzero(np.diff(column[order], prepend=np.nan) != 0)
        sums = np.add.reduceat(left[order], starts, axis=0)
        fitted = (sums ** 2 / np.diff(starts, append=len(column))[:, None]).sum(axis=0)
    else:
        right = _spelled_out(column, kind)
        centred = right - right.mean(axis=0)
        # An orthonormal basis of what can be explained, without directions that rounding made.
        basis, sizes, _ = np.linalg.svd(centred, full_matrices=False)
        basis = basis[:, sizes > 1e-9 * max(float(np.abs(right).max()), 1e-300)]
        fitted = ((basis.T @ left) ** 2).sum(axis=0)
    spread = np.where(_constant(codes) | (spread == 0), np.inf, spread)
    shares = np.minimum(fitted / spread, 1.0)
    for j in [] if categorical is None else np.flatnonzero(categorical):
        shares[j] = _between_classes(codes[:, j], _spelled_out(column, kind))
    return shares


def _closed(kind: FactorType, column: Float[np.ndarray, " sample"]) -> FactorType:
    """A circle of classes with its length: those that only rows that test have are on it, too."""
    if kind.name != "circular" or kind.is_quantity:
        return kind
    return FactorType(kind.name, float(np.nanmax(column)) + 1.0)


def _spelled_out(column: np.ndarray, kind: FactorType) -> Float[np.ndarray, "sample column"]:
    """A factor in columns whose distances are those of its values."""
    if kind.name == "categorical":
        return (column[:, None] == np.unique(column)).astype(np.float64)
    if kind.name == "circular":
        period = column.max() + 1 if kind.period is None else kind.period
        angle = 2.0 * np.pi * (column / period)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return column[:, None]


def _between_classes(latent: np.ndarray, table: np.ndarray) -> float:
    """The share of a table's variance that lies between the classes of a latent."""
    classes, centred = class_numbers(latent), table - table.mean(axis=0)
    counts, total = np.bincount(classes), float((centred ** 2).sum())
    sums = np.stack([np.bincount(classes, weights=c) for c in centred.T], axis=1)
    return float(min((sums ** 2 / counts[:, None]).sum() / total, 1.0)) if total > 0 else 0.0


def _checked(codes: ArrayLike, factors: ArrayLike, num_train: int | None, cost: float,
             standardise: bool, factor_types: Any, regression: bool, num_values: ArrayLike | None,
             ) -> tuple[Codes, Labels, list[int], int, np.ndarray]:
    """Codes in float64, labels, factors that can be scored, where training ends, which latents
    are categorical.
    """
    codes = as_codes(codes).astype(np.float64)
    categorical = as_num_values(num_values, codes) > 0
    labels = as_labels(factors, len(codes), factor_types)
    if num_train is None:
        num_train = len(codes)
    elif not 2 <= num_train < len(codes):
        raise UserError(f"num_train must leave rows to test, got {num_train} of {len(codes)}")
    if not cost > 0:
        raise UserError(f"cost must be above 0, got {cost}")
    if np.abs(codes).max() > LARGEST or np.nanmax(np.abs(labels.values), initial=0.0) > LARGEST:
        raise UserError(f"codes or factors beyond {LARGEST:.1g} are too large: rescale them")
    if standardise:
        train = codes[:num_train]
        spread = train.std(axis=0)
        scaled = (codes - train.mean(axis=0)) / np.where(_constant(train), 1.0, spread)
        codes = np.where(categorical, codes, scaled)
    tested = labels.known[num_train if num_train < len(codes) else 0:].any(axis=0)
    able = labels.take(slice(num_train)).varying()
    if not able:
        raise UserError("every factor is constant in the rows that train: nothing can be scored")
    used = [k for k in able if tested[k] or regression or labels.types[k].is_quantity]
    if not used:
        raise UserError("no factor is known both in rows that train and in rows that test: SAP "
                        "needs labels on either side")
    return codes, labels, used, num_train, categorical


def _right(codes: Codes, column: np.ndarray, num_train: int, cost: float,
           categorical: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each machine is right, `[test row, latent]`, and which test rows these are."""
    known = ~np.isnan(column)
    start = num_train if num_train < len(codes) else 0
    test = np.flatnonzero(known[start:]) + start
    train = np.flatnonzero(known[:num_train])
    names, labels = np.unique(column[train], return_inverse=True)
    right = np.empty((len(test), codes.shape[1]), dtype=bool)
    for j in np.flatnonzero(categorical):
        told = _by_class(codes[train, j], labels, len(names), codes[test, j])
        right[:, j] = names[told] == column[test]
    others = np.flatnonzero(~categorical)
    if len(others):
        lines = fit_latents(codes[train][:, others], labels, len(names), cost)
        for j, line, x in zip(others, lines, np.ascontiguousarray(codes[test][:, others].T)):
            right[:, j] = names[predict_latent(x, line)] == column[test]
    return right, known[start:]


def _by_class(latent: np.ndarray, labels: np.ndarray, num: int, test: np.ndarray) -> np.ndarray:
    """The label that most rows of a latent's class have, the first among equals."""
    classes, numbers = np.unique(latent, return_inverse=True)
    counts = np.bincount(numbers * num + labels, minlength=len(classes) * num).reshape(-1, num)
    told = np.append(counts.argmax(axis=1), counts.sum(axis=0).argmax())
    place = np.minimum(np.searchsorted(classes, test), len(classes) - 1)
    return told[np.where(classes[place] == test, place, len(classes))]


def _constant(codes: Codes) -> np.ndarray:
    return (codes == codes[:1]).all(axis=0)


def _lead(scores: np.ndarray) -> np.ndarray:
    """Per factor, the best of `[latent, factor]` less the next; a single latent leads nothing."""
    if len(scores) == 1:
        return scores[0]
    ordered = np.partition(scores, -2, axis=0)
    return ordered[-1] - ordered[-2]


METRIC = Metric(
    name="sap",
    function=sap,
    draw=draw_split,
    keys={"sap": Key(Range(0.0, 1.0))},
    paper="Kumar et al. 2018, section 3",
    version="2",
    summary="how much better one latent predicts a factor than the next one does",
    conventions={
        # Codes are standardised, as the study's text also says; its code does not.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "cost": 0.01,
                  "standardise": True, "regression": False},
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000, "cost": 0.01,
                      "standardise": False, "regression": False},
    },
    partial=True,
    bootstrap=sap_bootstrap,
)
