"""Estimators behind DCI: how important each latent is to predict each factor, by name.

`boosting` is gradient boosting of our own, compiled: see `boosting`. The others are scikit-learn's.

- `random_forest`: forests of 10 regression trees of the class number, as Eastwood & Williams 2018
  have them. Depth and the share of columns that a split sees are chosen by cross-validation.
- `lasso`: linear regression of the class number with an L1 penalty, chosen by cross-validation.
  Codes and class numbers are scaled to [0, 1] by the rows that train; importances are |weights|.
- `l1_svm`: linear support vector machines, one class against the rest, with an L1 penalty and C = 1
  on standardised codes (Locatello et al. 2019, appendix B); importances are mean |weights|.

Regressions take the order of classes for a scale, which only some factors have. Their credit is
not an accuracy but 1 - 12 times the squared error, with 1/12 the variance of a uniform factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_num_values
from unweave.metrics.boosting import boost, sort_features
from unweave.metrics.threads import side_by_side
from unweave.types import Codes, Factors, Float, Int

ESTIMATORS = ("boosting", "random_forest", "lasso", "l1_svm")

PENALTIES = (1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4, 0.8, 1.0)
LASSO_FOLDS = 10
NUM_TREES = 10
DEPTHS = (8, None)
SHARES = (0.2, 0.4, 0.8, 1.0)
FOREST_FOLDS = 5
COST = 1.0

One = Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Fitted:
    """Importances, and the credit of each row: 1 or 0 for a classifier, at most 1 for others."""

    importances: Float[np.ndarray, "latent factor"]
    train: Float[np.ndarray, "sample factor"]
    test: Float[np.ndarray, "test factor"]


def fit_importances(codes: Codes, factors: Factors, num_train: int, *, estimator: str,
                    num_values: ArrayLike | None = None, num_threads: int | None = None,
                    **boosting: Any) -> Fitted:
    """Fit every factor on the first `num_train` rows; all factors must vary there.

    A categorical latent (`num_values`) is a column for each of its classes; their importances are
    added. `boosting` are settings of `boost`. Factors are fitted side by side, `num_threads` at a
    time (as many as there are cores if None), which changes nothing in the result.
    """
    table, owner = latent_columns(codes, num_values)
    if estimator == "boosting":
        one = _boosting(table, factors, num_train, boosting)
    else:
        one = _LEARNERS[estimator](table, factors, num_train)
    num_factors = factors.shape[1]
    # The factor with most classes takes longest: it goes first.
    order = np.argsort(-factors.max(axis=0), kind="stable").tolist()
    results = dict(zip(order, side_by_side(one, order, num_threads)))
    columns, train, test = (np.stack(part, axis=1).astype(np.float64)
                            for part in zip(*(results[k] for k in range(num_factors))))
    importances = np.zeros((codes.shape[1], num_factors))
    np.add.at(importances, owner, columns)
    return Fitted(importances, train, test)


def latent_columns(codes: Codes, num_values: ArrayLike | None,
                   ) -> tuple[np.ndarray, Int[np.ndarray, " column"]]:
    """A table `[sample, column]` of latents and of their classes, and the latent of each column.

    A class has a column of zeros and ones. They come in the order in which classes first occur:
    the numbers of classes decide nothing, not even how ties between columns are broken.
    """
    kinds = as_num_values(num_values, codes)
    if not kinds.any():
        return codes, np.arange(codes.shape[1])
    columns, owner = [], []
    for j, column in enumerate(codes.T):
        if not kinds[j]:
            columns.append(column)
            owner.append(j)
            continue
        names, first = np.unique(column, return_index=True)
        for name in names[np.argsort(first)]:
            columns.append((column == name).astype(codes.dtype))
            owner.append(j)
    return np.stack(columns, axis=1), np.array(owner)


def _boosting(codes: np.ndarray, factors: Factors, num_train: int, settings: dict[str, Any]) -> One:
    features, held_out = sort_features(codes[:num_train]), codes[num_train:]

    def one(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        names, classes = np.unique(factors[:num_train, k], return_inverse=True)
        fitted = boost(features, classes.astype(np.int64), held_out, salt=k, **settings)
        return (fitted.importances,
                names[fitted.predicted(fitted.train)] == factors[:num_train, k],
                names[fitted.predicted(fitted.test)] == factors[num_train:, k])

    return one


def _l1_svm(codes: np.ndarray, factors: Factors, num_train: int) -> One:
    from sklearn.svm import LinearSVC

    codes = codes.astype(np.float64)
    deviation = codes[:num_train].std(axis=0)
    scaled = (codes - codes[:num_train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    scaled[:, _constant(codes[:num_train])] = 0.0

    def one(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # Weights of classes that a line parts from the others grow for very long: a looser stop.
        machine = LinearSVC(penalty="l1", dual=False, C=COST, tol=1e-3, max_iter=100_000,
                            random_state=0)
        machine.fit(scaled[:num_train], factors[:num_train, k])
        right = machine.predict(scaled) == factors[:, k]
        return np.abs(machine.coef_).mean(axis=0), right[:num_train], right[num_train:]

    return one


def _lasso(codes: np.ndarray, factors: np.ndarray, num_train: int) -> One:
    from sklearn.linear_model import LassoCV
    from sklearn.model_selection import KFold

    codes, targets = _to_unit(codes, num_train), _to_unit(factors, num_train)
    folds = KFold(min(LASSO_FOLDS, num_train))

    def one(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        model = LassoCV(alphas=list(PENALTIES), cv=folds, max_iter=5_000)
        model.fit(codes[:num_train], targets[:num_train, k])
        credit = 1.0 - 12.0 * (model.predict(codes) - targets[:, k]) ** 2
        return np.abs(model.coef_), credit[:num_train], credit[num_train:]

    return one


def _random_forest(codes: np.ndarray, factors: np.ndarray, num_train: int) -> One:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import KFold

    codes, targets = _to_unit(codes, num_train), _to_unit(factors, num_train)
    folds = list(KFold(min(FOREST_FOLDS, num_train)).split(codes[:num_train]))

    def grown(rows: np.ndarray | slice, k: int, choice: tuple[int | None, float]) -> Any:
        model = RandomForestRegressor(NUM_TREES, max_depth=choice[0], max_features=choice[1],
                                      random_state=k)
        return model.fit(codes[rows], targets[rows, k])

    def error(k: int, choice: tuple[int | None, float]) -> float:
        return float(np.mean([np.mean((grown(fit, k, choice).predict(codes[rest])
                                       - targets[rest, k]) ** 2) for fit, rest in folds]))

    def one(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        choices = [(depth, share) for depth in DEPTHS for share in SHARES]
        best = min(choices, key=lambda choice: error(k, choice))
        model = grown(slice(num_train), k, best)
        credit = 1.0 - 12.0 * (model.predict(codes) - targets[:, k]) ** 2
        return model.feature_importances_, credit[:num_train], credit[num_train:]

    return one


_LEARNERS = {"random_forest": _random_forest, "lasso": _lasso, "l1_svm": _l1_svm}


def fit_regression(table: np.ndarray, values: Float[np.ndarray, " sample"], num_train: int,
                   estimator: str) -> tuple[np.ndarray, np.ndarray]:
    """Importances of columns for a quantity, and the squared error of every row."""
    columns, train, test = _LEARNERS[estimator](table, values[:, None], num_train)(0)
    width = float(np.ptp(values[:num_train]))
    return columns, (1.0 - np.concatenate([train, test])) / 12.0 * width ** 2


def _to_unit(columns: np.ndarray, num_train: int) -> np.ndarray:
    """Columns scaled so that the rows that train span 0 to 1; constant ones are 0."""
    columns = columns.astype(np.float64)
    low = columns[:num_train].min(axis=0)
    width = columns[:num_train].max(axis=0) - low
    return np.where(width > 0, (columns - low) / np.where(width > 0, width, 1.0), 0.0)


def _constant(columns: np.ndarray) -> np.ndarray:
    return (columns == columns[:1]).all(axis=0)
