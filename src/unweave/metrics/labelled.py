"""Importances of latents for factors of any type, whose labels may be unknown: a fit for each.

Each factor is fitted to the rows that know it. Classes have the estimators of `importances`. A
quantity is a regression: boosting by squared error, or the forests and the lasso, which regress
anyway; its credit is R2. On a circle there are two targets, sine and cosine, of which importances
are averaged and errors added. `l1_svm` has no regression: it sees bins.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from unweave.factors import FactorType
from unweave.metrics.boosting import boost_quantity, sort_features
from unweave.metrics.importances import Fitted, fit_importances, fit_regression, latent_columns
from unweave.metrics.labels import Labels
from unweave.metrics.threads import available_threads
from unweave.types import Codes, Float

Part = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Importances `[latent]`, and the credit of every row that trains and that tests; NaN: unknown."""


def fit_labelled(codes: Codes, labels: Labels, num_train: int, *, num_threads: int | None = None,
                 **settings: Any) -> Fitted:
    """`fit_importances` for labels; every factor varies in training and is known in some test."""
    classes = labels.classes

    def one(k: int) -> Part:
        known = labels.known[:, k]
        own = int(known[:num_train].sum())
        if labels.types[k].is_quantity and settings["estimator"] != "l1_svm":
            made = _regressed(codes[known], labels.values[known, k], labels.types[k], own, settings)
        else:
            fitted = fit_importances(codes[known], classes[known, k:k + 1], own, num_threads=1,
                                     **settings)
            made = fitted.importances[:, 0], fitted.train[:, 0], fitted.test[:, 0]
        credit = np.full(len(codes), np.nan)
        credit[known] = np.concatenate(made[1:])
        return made[0], credit[:num_train], credit[num_train:]

    columns = range(len(labels.types))
    threads = min(len(columns), num_threads or available_threads())
    with ThreadPoolExecutor(threads) as pool:
        parts = zip(*pool.map(one, columns))
        return Fitted(*(np.stack(part, axis=1).astype(np.float64) for part in parts))


def targets(values: Float[np.ndarray, " sample"],
            kind: FactorType) -> Float[np.ndarray, "target sample"]:
    """What a regression predicts: the quantity, or on a circle sine and cosine."""
    if kind.period is None:
        return values[None]
    angle = 2.0 * np.pi * (values / kind.period)
    return np.stack([np.sin(angle), np.cos(angle)])


def _regressed(codes: Codes, values: np.ndarray, kind: FactorType, num_train: int,
               settings: dict[str, Any]) -> Part:
    """Importances, and the credit of rows: its mean over a part is R2 there."""
    table, owner = latent_columns(codes, settings.get("num_values"))
    errors, spreads, importances = np.zeros(len(codes)), np.zeros(2), np.zeros(codes.shape[1])
    wanted = targets(values, kind)
    for target in wanted:
        if settings["estimator"] == "boosting":
            fitted = boost_quantity(sort_features(table[:num_train]), target[:num_train],
                                    table[num_train:], num_stages=settings["num_stages"],
                                    min_impurity=settings["min_impurity"])
            columns = fitted.importances
            missed = (np.concatenate([fitted.train[0], fitted.test[0]]) - target) ** 2
        else:
            columns, missed = fit_regression(table, target, num_train, settings["estimator"])
        np.add.at(importances, owner, columns / len(wanted))
        errors += missed
        spreads += [target[:num_train].var(), target[num_train:].var()]
    # Where the rows of a part are all alike there is nothing to explain: what is missed is lost.
    spreads = np.where(spreads > 0, spreads, 1.0)
    credit = 1.0 - errors / np.repeat(spreads, [num_train, len(codes) - num_train])
    return importances, credit[:num_train], credit[num_train:]
