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

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.metrics.svm import fit_latent, predict_latent
from unweave.types import Codes, Factors, Float, Range, UserError

LARGEST = 1e100
"""Codes beyond this cannot be squared and added."""


def sap(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None, cost: float = 0.01,
        standardise: bool = False, regression: bool = False) -> dict[str, float]:
    """Mean over factors of the lead of the latent that predicts best, 0 to 1.

    The first `num_train` rows train and the rest test; None trains and tests on all rows. Machines
    are weighted for balanced classes. `standardise` scales latents by mean and standard deviation
    of the training rows. A test row whose class was not in training counts as wrong. With
    `regression` S is the squared correlation in the training rows, class numbers taken as
    quantities. A constant latent predicts one class, or explains nothing; a single latent is
    compared with 0. Factors that are constant in the training rows are left out.

    >>> sap([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]], cost=100.0)
    {'sap': 0.5}
    """
    codes, classes, num_train = _checked(codes, factors, num_train, cost, standardise)
    train = codes[:num_train]
    if regression:
        return {"sap": float(_lead(_squared_correlation(train, classes[:num_train])).mean())}
    right = _right(codes, classes, num_train, cost)
    return {"sap": float(_lead(right.mean(axis=0)).mean())}


def sap_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                  factors: ArrayLike, *, num_train: int | None = None, cost: float = 0.01,
                  standardise: bool = False, regression: bool = False) -> dict[str, np.ndarray]:
    """SAP when the rows that test are resampled; the machines stay as they are.

    Squared correlations, which test nothing, have no interval here.
    """
    if regression:
        return {}
    codes, classes, num_train = _checked(codes, factors, num_train, cost, standardise)
    right = _right(codes, classes, num_train, cost)
    num = len(right)
    flat = right.reshape(num, -1).astype(np.float32)
    weights = np.stack([np.bincount(rng.integers(num, size=num), minlength=num)
                        for _ in range(num_replicates)]).astype(np.float32)
    accuracy = (weights @ flat / num).reshape(num_replicates, *right.shape[1:])
    return {"sap": np.array([_lead(one).mean() for one in accuracy], dtype=np.float64)}


def _checked(codes: ArrayLike, factors: ArrayLike, num_train: int | None, cost: float,
             standardise: bool) -> tuple[Codes, Factors, int]:
    """Codes in float64, the factors that vary in training, and where training ends."""
    codes = as_codes(codes).astype(np.float64)
    factors = as_factors(factors, len(codes))
    if num_train is None:
        num_train = len(codes)
    elif not 2 <= num_train < len(codes):
        raise UserError(f"num_train must leave rows to test, got {num_train} of {len(codes)}")
    if not cost > 0:
        raise UserError(f"cost must be above 0, got {cost}")
    if np.abs(codes).max() > LARGEST:
        raise UserError(f"codes up to {np.abs(codes).max():.1g} are too large: rescale them")
    if standardise:
        train = codes[:num_train]
        spread = train.std(axis=0)
        codes = (codes - train.mean(axis=0)) / np.where(_constant(train), 1.0, spread)
    return codes, factors[:, varying(factors[:num_train])], num_train


def _right(codes: Codes, classes: Factors, num_train: int, cost: float) -> np.ndarray:
    """Whether each machine is right: `[test row, latent, factor]`."""
    test = slice(num_train if num_train < len(codes) else 0, None)
    right = np.empty((len(codes[test]), codes.shape[1], classes.shape[1]), dtype=bool)
    for k, column in enumerate(classes.T):
        names, labels = np.unique(column[:num_train], return_inverse=True)
        for j, x in enumerate(np.ascontiguousarray(codes.T)):
            solution = fit_latent(x[:num_train], labels, len(names), cost)
            right[:, j, k] = names[predict_latent(x[test], solution)] == column[test]
    return right


def _squared_correlation(codes: Codes, classes: Factors) -> Float[np.ndarray, "latent factor"]:
    left, right = codes - codes.mean(axis=0), classes - classes.mean(axis=0)
    spread = np.outer((left ** 2).sum(axis=0), (right ** 2).sum(axis=0))
    spread[_constant(codes)] = np.inf
    return (left.T @ right) ** 2 / np.where(spread > 0, spread, np.inf)


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
    version="1",
    summary="how much better one latent predicts a factor than the next one does",
    conventions={
        # Codes are standardised, as the study's text also says; its code does not.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "cost": 0.01,
                  "standardise": True, "regression": False},
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000, "cost": 0.01,
                      "standardise": False, "regression": False},
    },
    bootstrap=sap_bootstrap,
)
