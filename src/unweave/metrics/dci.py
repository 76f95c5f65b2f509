"""DCI: disentanglement, completeness, informativeness. Eastwood & Williams 2018, section 2.

A classifier of each factor k from the codes gives importances R_jk of latents j. With

    P_jk = R_jk / sum_k R_jk,    D_j = 1 - H_K(P_j.),    rho_j = sum_k R_jk / sum R,
    Q_jk = R_jk / sum_j R_jk,    C_k = 1 - H_D(Q_.k),

where H_K is the entropy to base K, for K factors and D latents,

    disentanglement = sum_j rho_j D_j    completeness = 1/K sum_k C_k

and informativeness is the mean over factors of the accuracy, on rows that train and on rows that
test. A latent that no classifier uses has the weight 0, but it counts in D. Importances of trees
sum to 1 for each factor, so the published study's mean of C_k by weight is the plain one.

The classifier changes the score more than most methods do, and so does the number of rows: both
stand in the settings. That of the published study is gradient boosting: see `boosting`, and
`importances` for the others. Trees see the order of a latent's values only: scale does not matter,
as long as values that differ do so by more than 1e-7.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np
from scipy.special import ndtri

from unweave.metrics.arrays import ArrayLike, as_codes, as_labels, as_num_values, varying
from unweave.metrics.boosting import MIN_IMPURITY, UPDATES
from unweave.metrics.importances import ESTIMATORS, Fitted, fit_importances
from unweave.metrics.labelled import fit_labelled
from unweave.metrics.labels import Labels
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.types import Codes, Factors, Float, Range, UserError, unknown_name

NUM_BLOCKS = 10
BLOCK_ROWS = 50
"""Blocks of the interval have at least this many rows; with fewer than two there is none."""

KEPT = 4
"""Fits left for an interval that may be asked for: score, floor and ceiling come before it."""

_left: OrderedDict[bytes, Fitted] = OrderedDict()


def dci(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None,
        estimator: str = "boosting", num_stages: int = 100, updates: str = "together",
        min_impurity: float = MIN_IMPURITY, num_values: ArrayLike | None = None,
        factor_types: Any = None, num_threads: int | None = None) -> dict[str, float]:
    """The four numbers of codes `[sample, latent]` and factors `[sample, factor]`.

    The first `num_train` rows train (two thirds if None), the rest test. Factors that are constant
    in the rows that train are left out. A class that none of those rows has is never predicted: its
    rows test as wrong. If no latent varies, disentanglement and completeness are 0. Where there is
    one factor, every latent in use is disentangled; where there is one latent, it is complete.

    `estimator` is one of `boosting`, `random_forest`, `lasso`, `l1_svm`. `num_stages`, `updates`
    and `min_impurity` are settings of boosting; releases of scikit-learn differ in the last two.
    `num_values` tells categorical latents: a column for each class takes their place, and the
    importances of these columns are added. `num_threads` factors are fitted at a time (as many as
    there are cores if None), which changes nothing in the result.

    Quantities (`factor_types`, inferred if None) have a regression, and R2 where classes have an
    accuracy, 0 if it is below. Rows without a label are left out for that factor: see `labelled`.
    """
    codes, factors, num_train, settings = _checked(codes, factors, num_train, estimator, num_stages,
                                                   updates, min_impurity, num_values,
                                                   factor_types)
    fitted = _fit(codes, factors, num_train, num_threads, settings)
    _left[_digest(codes, factors, num_train, settings)] = fitted
    while len(_left) > KEPT:
        _left.popitem(last=False)
    return {**_purities(fitted.importances),
            "dci.informativeness_train": _informativeness(np.nanmean(fitted.train, axis=0)),
            "dci.informativeness_test": _informativeness(np.nanmean(fitted.test, axis=0))}


def dci_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                  factors: ArrayLike, *, num_train: int | None = None,
                  estimator: str = "boosting", num_stages: int = 100, updates: str = "together",
                  min_impurity: float = MIN_IMPURITY, num_values: ArrayLike | None = None,
                  factor_types: Any = None,
                  num_threads: int | None = None) -> dict[str, np.ndarray]:
    """Replicates of the four numbers, at the cost of about one more fit.

    Informativeness: the rows are resampled and the classifiers stay what they are. The other two
    need classifiers fitted anew. The rows that train are dealt into ten blocks, a block is fitted
    in a tenth of the time, and the variance of a mean of ten blocks stands for that of the whole:
    the replicates are quantiles of a normal with this variance. With fewer than 100 rows to train
    there is no interval for these two.
    """
    codes, factors, num_train, settings = _checked(codes, factors, num_train, estimator, num_stages,
                                                   updates, min_impurity, num_values,
                                                   factor_types)
    fitted = _left.pop(_digest(codes, factors, num_train, settings), None)
    if fitted is None:
        fitted = _fit(codes, factors, num_train, num_threads, settings)
    replicates = {}
    for part, credit in (("train", fitted.train), ("test", fitted.test)):
        num = len(credit)
        drawn = (rng.integers(num, size=num) for _ in range(num_replicates))
        weights = np.stack([np.bincount(rows, minlength=num) for rows in drawn])
        known = ~np.isnan(credit)
        means = weights @ np.where(known, credit, 0.0) / np.maximum(weights @ known, 1)
        replicates[f"dci.informativeness_{part}"] = np.array([_informativeness(m) for m in means])
    num_blocks = min(NUM_BLOCKS, num_train // BLOCK_ROWS)
    if num_blocks < 2:
        return replicates
    blocks = []
    for rows in np.array_split(rng.permutation(num_train), num_blocks):
        # One row stands for those that test: nobody asks about it.
        part = _block(factors, rows, len(codes) - 1)
        if part is not None:
            made = _fit(codes[np.append(rows, len(codes) - 1)], part, len(rows), num_threads,
                        settings)
            blocks.append(list(_purities(made.importances).values()))
    if len(blocks) < 2:
        return replicates
    deviation = np.std(blocks, axis=0, ddof=1) / np.sqrt(len(blocks))
    normal = ndtri((np.arange(num_replicates) + 0.5) / num_replicates)
    for (key, value), spread in zip(_purities(fitted.importances).items(), deviation):
        replicates[key] = value + spread * normal
    return replicates


def weighted_purity(importances: Float[np.ndarray, "row column"]) -> float:
    """Mean of one minus the entropy of each row, to the base of its length, weighted by its sum.

    Disentanglement of importances `[latent, factor]`. Here the first latent serves one factor, the
    second both alike, and the third none:

    >>> weighted_purity(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]))
    0.5
    """
    weight = importances.sum(axis=1)
    if not weight.sum() > 0:
        return 0.0
    return float(np.clip(np.average(_purity(importances), weights=weight), 0.0, 1.0))


def mean_purity(importances: Float[np.ndarray, "row column"]) -> float:
    """The plain mean instead; rows of zeros count as 0. Completeness of `[factor, latent]`.

    >>> mean_purity(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0], [0.0, 3.0]]))
    0.5
    """
    return float(np.clip(_purity(importances).mean(), 0.0, 1.0))


def _purity(importances: np.ndarray) -> np.ndarray:
    weight = importances.sum(axis=1, keepdims=True)
    shares = importances / np.where(weight > 0, weight, 1.0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy = -(shares * logs).sum(axis=1) / np.log(max(shares.shape[1], 2))
    return np.where(weight[:, 0] > 0, 1.0 - entropy, 0.0)


def _purities(importances: np.ndarray) -> dict[str, float]:
    return {"dci.disentanglement": weighted_purity(importances),
            "dci.completeness": mean_purity(importances.T)}


def _informativeness(credit: np.ndarray) -> float:
    """Mean over factors; a regression worse than nothing has no credit."""
    return float(np.maximum(credit, 0.0).mean())


def _fit(codes: Codes, factors: Factors | Labels, num_train: int, num_threads: int | None,
         settings: dict[str, Any]) -> Fitted:
    if isinstance(factors, Labels):
        return fit_labelled(codes, factors, num_train, num_threads=num_threads, **settings)
    return fit_importances(codes, factors, num_train, num_threads=num_threads, **settings)


def _block(factors: np.ndarray | Labels, rows: np.ndarray,
           test: int) -> np.ndarray | Labels | None:
    """The factors that vary in a block of rows, with the row that tests at the end."""
    if not isinstance(factors, Labels):
        kept = (factors[rows] != factors[rows[:1]]).any(axis=0)
        return factors[np.append(rows, test)][:, kept] if kept.any() else None
    columns = factors.take(rows).varying()
    if not columns:
        return None
    values = factors.take(np.append(rows, test), columns)
    values.values[-1] = values.take(slice(-1)).filled()[-1]  # whatever is known will do
    return values


def _checked(codes: ArrayLike, factors: ArrayLike, num_train: int | None, estimator: str,
             num_stages: int, updates: str, min_impurity: float, num_values: ArrayLike | None,
             factor_types: Any) -> tuple[Codes, Factors | Labels, int, dict[str, Any]]:
    """Codes, the factors that vary in training, where training ends, settings of the estimator.

    Factors are labels if some of them are quantities or unknown.
    """
    codes = as_codes(codes)
    labels = as_labels(factors, len(codes), factor_types)
    num_train = 2 * len(codes) // 3 if num_train is None else num_train
    if not 2 <= num_train < len(codes):
        raise UserError("DCI needs at least 2 rows that train and one that tests, got num_train "
                        f"{num_train} of {len(codes)} rows")
    if np.abs(codes).max() > 1e38:
        raise UserError("codes are too large for single precision: rescale them")
    if estimator not in ESTIMATORS:
        raise unknown_name("estimator", estimator, ESTIMATORS)
    if updates not in UPDATES:
        raise unknown_name("updates", updates, UPDATES)
    if num_stages < 1:
        raise UserError(f"num_stages must be at least 1, got {num_stages}")
    settings: dict[str, Any] = {"estimator": estimator}
    if estimator == "boosting":
        settings |= {"num_stages": num_stages, "updates": updates, "min_impurity": min_impurity}
    kinds = as_num_values(num_values, codes)
    if kinds.any():
        settings["num_values"] = kinds.tolist()
    if labels.are_classes:
        classes = labels.classes
        return codes, classes[:, varying(classes[:num_train])], num_train, settings
    tested = labels.known[num_train:].any(axis=0)
    used = [k for k in labels.take(slice(num_train)).varying() if tested[k]]
    if not used:
        raise UserError("no factor varies in rows that train and is known in rows that test: DCI "
                        "needs labels on either side")
    return codes, labels.take(slice(None), used), num_train, settings


def _digest(codes: Codes, factors: Factors | Labels, num_train: int,
            settings: dict[str, Any]) -> bytes:
    """What a fit is a function of, in short. `dci` always fits; only the interval looks it up."""
    table, types = (factors.values, factors.types) if isinstance(factors, Labels) else (factors, ())
    said = repr((codes.shape, codes.dtype, num_train, settings, types)).encode()
    return hashlib.sha256(said + codes.tobytes() + table.tobytes()).digest()


SHARE = Key(Range(0.0, 1.0))

METRIC = Metric(
    name="dci",
    function=dci,
    draw=draw_split,
    keys={"dci.disentanglement": SHARE, "dci.completeness": SHARE,
          "dci.informativeness_train": SHARE, "dci.informativeness_test": SHARE},
    paper="Eastwood & Williams 2018, section 2",
    version="1",
    summary="whether a latent serves one factor, a factor needs one latent, and all is known",
    conventions={
        # The paper leaves the estimator open and shows lasso and random forests, which regress.
        # Factors are classes here: boosting, as scikit-learn has it today.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "estimator": "boosting",
                  "num_stages": 100, "updates": "together", "min_impurity": MIN_IMPURITY},
        # As in scikit-learn 0.20.
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000,
                      "estimator": "boosting", "num_stages": 100, "updates": "in_turn",
                      "min_impurity": 1e-7},
    },
    bootstrap=dci_bootstrap,
    default=False,
    partial=True,
)
