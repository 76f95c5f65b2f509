"""Downstream accuracy: how well simple models predict the factors from codes, by number of labels.

Locatello et al. 2019, section 5.6 and appendix B. For each factor a logistic regression is fitted
to the codes, as they are, of 10, 100, 1,000 and 10,000 labelled points. Its penalty is chosen among
ten by five-fold cross-validation. The score is its accuracy on other points, averaged over factors.
The share of the accuracy that fewer labels reach, `downstream.logistic.100` over
`downstream.logistic.10000`, is the study's statistical efficiency.

The study's regression was one-vs-rest, and so was its choice: each class takes the penalty with
which its own yes or no is right most often. For a middle value of an ordered factor that is the
strongest penalty, with which the answer is always no. A perfect code of dSprites-like factors thus
scores about 0.6, and a multinomial regression 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.logistic import (
    Weights,
    decisions,
    fit_multinomial,
    fit_one_vs_rest,
    one_vs_rest_path,
)
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.types import Range, UserError, unknown_name

SIZES = (10, 100, 1_000, 10_000)
STRENGTHS = np.logspace(-4, 4, 10)
NUM_FOLDS = 5
TOLERANCE = 1e-5
"""Of the gradient: the choice of a penalty and an accuracy need no more."""


def downstream(codes: ArrayLike, factors: ArrayLike, *, num_train: int,
               sizes: Sequence[int] = SIZES,
               classifier: str = "one_vs_rest") -> dict[str, float]:
    """Accuracy on the test rows, in [0, 1], as `downstream.logistic.SIZE` for each size.

    Codes are `[sample, latent]`, factors `[sample, factor]`. The first `size` of the `num_train`
    rows train; sizes that exceed them are left out. The rows from `num_train` on test. Factors that
    are constant in all rows are left out; where one is constant in the rows that train, its value
    there is the answer, and a class that they lack is never answered. Of a factor with unknown
    labels the rows that know it count, and fewer than `size` if there are no more.
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    if not 2 <= num_train < len(codes):
        raise UserError(f"num_train must leave rows on either side, got {num_train} of "
                        f"{len(codes)}")
    if classifier not in CLASSIFIERS:
        raise unknown_name("classifier", classifier, CLASSIFIERS)
    used = [size for size in sizes if NUM_FOLDS <= size <= num_train]
    if not used:
        raise UserError(f"no size among {list(sizes)} is between {NUM_FOLDS} and the {num_train} "
                        "rows that train")
    sides = [(k, rows[rows < num_train], rows[rows >= num_train]) for k in varying(factors)
             if (rows := np.flatnonzero(factors[:, k] >= 0)).size]
    sides = [(k, train, test) for k, train, test in sides if len(train) >= NUM_FOLDS and len(test)]
    if not sides:
        raise UserError(f"no factor is known in {NUM_FOLDS} rows that train and one that tests")
    scores = {}
    for size in used:
        right = [np.mean(_answers(codes[train[:size]], factors[train[:size], k], codes[test],
                                  classifier) == factors[test, k])
                 for k, train, test in sides]
        scores[f"downstream.logistic.{size}"] = float(np.mean(right))
    return scores


def _answers(codes: np.ndarray, classes: np.ndarray, test: np.ndarray,
             classifier: str) -> np.ndarray:
    seen, numbers = np.unique(classes, return_inverse=True)
    if len(seen) == 1:
        return np.full(len(test), seen[0])
    weights = CLASSIFIERS[classifier](codes, numbers, len(seen))
    return seen[decisions(weights, test).argmax(axis=1)]


def cross_validated_one_vs_rest(features: np.ndarray, classes: np.ndarray,
                                num_classes: int) -> Weights:
    """One-vs-rest weights, each class with the C that answers its own question best.

    Folds are consecutive rows; of equal Cs the least is taken. The intercept is not penalised.
    This is scikit-learn's LogisticRegressionCV(Cs=10, cv=KFold(5)) of 2019.
    """
    right = np.zeros((num_classes, len(STRENGTHS)))
    for train, test in _folds(len(features)):
        own = classes[test][:, None] == np.arange(num_classes)
        path = one_vs_rest_path(features[train], classes[train], num_classes, STRENGTHS,
                                tolerance=TOLERANCE)
        for i, weights in enumerate(path):
            right[:, i] += ((decisions(weights, features[test]) > 0) == own).mean(axis=0)
    best = STRENGTHS[np.round(right, 9).argmax(axis=1)]
    return fit_one_vs_rest(features, classes, num_classes, strength=best, penalise_intercept=False,
                           tolerance=TOLERANCE)


def cross_validated_multinomial(features: np.ndarray, classes: np.ndarray,
                                num_classes: int) -> Weights:
    """Softmax weights with the C that is right most often: scikit-learn's way of today."""
    right = np.zeros(len(STRENGTHS))
    for train, test in _folds(len(features)):
        for i, strength in enumerate(STRENGTHS):
            weights = fit_multinomial(features[train], classes[train], num_classes,
                                      strength=strength)
            right[i] += (decisions(weights, features[test]).argmax(axis=1) == classes[test]).mean()
    best = STRENGTHS[np.round(right, 9).argmax()]
    return fit_multinomial(features, classes, num_classes, strength=float(best))


def _folds(num: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rows = np.arange(num)
    return [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, NUM_FOLDS)]


CLASSIFIERS = {"one_vs_rest": cross_validated_one_vs_rest,
               "multinomial": cross_validated_multinomial}

METRIC = Metric(
    name="downstream",
    function=downstream,
    draw=draw_split,
    keys={f"downstream.logistic.{size}": Key(Range(0.0, 1.0)) for size in reversed(SIZES)},
    paper="Locatello et al. 2019, section 5.6",
    version="1",
    summary="how well a linear classifier predicts factors, by the number of labelled points",
    conventions={
        # "Scikit-learn default": of the year in which it is read, a multinomial regression.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "sizes": SIZES,
                  "classifier": "multinomial"},
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000, "sizes": SIZES,
                      "classifier": "one_vs_rest"},
    },
    default=False,
    partial=True,
)
