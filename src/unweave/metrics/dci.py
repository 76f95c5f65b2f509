"""DCI: disentanglement, completeness, informativeness. Eastwood & Williams 2018, section 2.

A classifier of each factor k from the codes gives importances R_jk of latents j. With

    P_jk = R_jk / sum_k R_jk,    D_j = 1 - H_K(P_j.),    rho_j = sum_k R_jk / sum R,
    Q_jk = R_jk / sum_j R_jk,    C_k = 1 - H_D(Q_.k),    eta_k = sum_j R_jk / sum R,

where H_K is the entropy to base K, for K factors and D latents,

    disentanglement = sum_j rho_j D_j    completeness = sum_k eta_k C_k

and informativeness is the mean over factors of the accuracy, on rows that train and on rows that
test. A latent that no classifier uses has the weight 0, but it counts in D.

The classifier changes the score more than most methods do, and so does the number of rows: both
stand in the settings. That of the published study, and so far the only one here, is gradient
boosting: see `boosting`. Trees see the order of a latent's values only: scale does not matter, as
long as values that differ do so by more than 1e-7.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.boosting import MIN_IMPURITY, UPDATES, available_threads, boost, sort_features
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.types import Codes, Factors, Float, Range, UserError, unknown_name

ESTIMATORS = ("boosting",)


def dci(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None,
        estimator: str = "boosting", num_stages: int = 100, updates: str = "together",
        min_impurity: float = MIN_IMPURITY, num_threads: int | None = None) -> dict[str, float]:
    """The four numbers of codes `[sample, latent]` and factors `[sample, factor]`.

    The first `num_train` rows train (two thirds if None), the rest test. Factors that are constant
    in the rows that train are left out. A class that none of those rows has is never predicted: its
    rows test as wrong. If no latent varies, disentanglement and completeness are 0. Where there is
    one factor, every latent in use is disentangled; where there is one latent, it is complete.

    `updates` and `min_impurity` are details of boosting in which releases of scikit-learn differ:
    see `boosting`. `num_threads` factors are fitted at a time (as many as there are cores if None),
    which changes nothing in the result.
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes))
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
    factors = factors[:, varying(factors[:num_train])]
    importances, train, test = _boosted(codes, factors, num_train, num_stages, updates,
                                        min_impurity, num_threads)
    return {"dci.disentanglement": weighted_purity(importances),
            "dci.completeness": weighted_purity(importances.T),
            "dci.informativeness_train": float(np.mean(train)),
            "dci.informativeness_test": float(np.mean(test))}


def weighted_purity(importances: Float[np.ndarray, "row column"]) -> float:
    """Mean of one minus the entropy of each row, to the base of its length, weighted by its sum.

    Disentanglement of importances `[latent, factor]`, completeness of `[factor, latent]`. Here the
    first latent serves one factor, the second both alike, and the third none:

    >>> weighted_purity(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]))
    0.5
    """
    weight = importances.sum(axis=1)
    if not weight.sum() > 0:
        return 0.0
    used = weight > 0
    shares = importances[used] / weight[used, None]
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy = -(shares * logs).sum(axis=1) / np.log(max(shares.shape[1], 2))
    return float(np.clip(np.average(1.0 - entropy, weights=weight[used]), 0.0, 1.0))


def _boosted(codes: Codes, factors: Factors, num_train: int, num_stages: int, updates: str,
             min_impurity: float, num_threads: int | None) -> tuple[np.ndarray, list, list]:
    """Importances `[latent, factor]`, and accuracies of each factor."""
    features, held_out = sort_features(codes[:num_train]), codes[num_train:]

    def one(k: int) -> tuple[np.ndarray, float, float]:
        names, classes = np.unique(factors[:num_train, k], return_inverse=True)
        fitted = boost(features, classes.astype(np.int64), held_out, num_stages=num_stages,
                       updates=updates, min_impurity=min_impurity, salt=k)
        train = names[fitted.predicted(fitted.train)] == factors[:num_train, k]
        test = names[fitted.predicted(fitted.test)] == factors[num_train:, k]
        return fitted.importances, float(train.mean()), float(test.mean())

    num_factors = factors.shape[1]
    threads = min(num_factors, num_threads or available_threads())
    # The factor with most classes takes longest: it goes first.
    order = np.argsort(-factors.max(axis=0), kind="stable").tolist()
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            results = dict(zip(order, pool.map(one, order)))
    else:
        results = {k: one(k) for k in order}
    importances, train, test = zip(*(results[k] for k in range(num_factors)))
    return np.stack(importances, axis=1), list(train), list(test)


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
        # The paper leaves the classifier open and shows lasso and random forests. Boosting as
        # scikit-learn has it today.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "estimator": "boosting",
                  "num_stages": 100, "updates": "together", "min_impurity": MIN_IMPURITY},
        # As in scikit-learn 0.20.
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000,
                      "estimator": "boosting", "num_stages": 100, "updates": "in_turn",
                      "min_impurity": 1e-7},
    },
    default=False,
)
