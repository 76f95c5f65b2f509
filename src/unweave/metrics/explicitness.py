"""Explicitness: how well a linear classifier reads each value of each factor from the whole code.

Ridgeway & Mozer 2018, section 3; Locatello et al. 2019, appendix B. For every factor k and each of
its values c, a logistic regression tells rows with v_k = c from all others. With AUC_kc the area
under its ROC curve, the chance that it puts a row of the class above one that is not,

    explicitness = 1/K sum_k 1/C_k sum_c AUC_kc.

0.5 is chance and 1 perfect. A linear classifier cannot single out a middle value of a latent that
orders values, so one perfect latent a factor is not enough where each classifier is judged by
itself. The study divided the probabilities of the classifiers by their sum over classes first,
which lets the neighbours of a middle value push it up: a perfect code then comes close to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.metrics.arrays import (
    ArrayLike,
    as_codes,
    as_factors,
    as_num_values,
    class_numbers,
    varying,
)
from unweave.metrics.logistic import fit_one_vs_rest, fit_one_vs_rest_tasks
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.types import Codes, Float, Range, UserError

Part = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of a factor: scores `[class, row]` and class numbers `[row]` of the rows in which it is known,
and which these are among all."""

DECIMALS = 9
LOW_BITS = 22
"""Of the 52 of a normalised probability, which leaves about nine decimals."""


def explicitness(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None,
                 normalised: bool = True, strength: float = 1.0,
                 num_values: ArrayLike | None = None) -> dict[str, float]:
    """Mean area under the ROC curve on rows that test and on rows that train, each in [0, 1].

    Codes are `[sample, latent]`, factors `[sample, factor]`; the first `num_train` rows train and
    the rest test (None: all rows do both). Latents are standardised by the rows that train; one
    that is constant there is left out, and with none left every area is 0.5. `normalised` divides
    probabilities by their sum over classes, `strength` is the regression's C.

    Factors that are constant in the rows that train are left out. Classes that these rows lack have
    no classifier: their rows count as "others" to all classes. A class that the test rows lack, or
    all test rows have, has no area: it is left out there, and so is a factor without any area. Rows
    without a label are left out for that factor.

    `num_values` tells categorical latents: a column for each of their classes takes their place.
    """
    parts = _scores(codes, factors, num_train, normalised, strength, num_values)
    return {f"explicitness.{part}": _mean(parts[part], part) for part in ("test", "train")}


def explicitness_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                           factors: ArrayLike, *, num_train: int | None = None,
                           normalised: bool = True, strength: float = 1.0,
                           num_values: ArrayLike | None = None) -> dict[str, np.ndarray]:
    """Scores when the rows are resampled, the classifiers staying what they are.

    An area is, to first order in the weights of the rows, a mean over rows (DeLong et al. 1988), so
    a resample costs a mean of one number a row.
    """
    parts = _scores(codes, factors, num_train, normalised, strength, num_values)
    replicates = {}
    for part in ("test", "train"):
        value = _mean(parts[part], part)
        influence = np.mean([_of_all_rows(np.mean([_influence(row, own) for row, own in judged],
                                                  axis=0), known)
                             for *factor, known in parts[part] if (judged := _judged(factor))],
                            axis=0)
        num = len(influence)
        picks = (rng.integers(num, size=num) for _ in range(num_replicates))
        replicates[f"explicitness.{part}"] = np.array(
            [value + influence[pick].mean() for pick in picks])
    return replicates


def area(scores: Float[np.ndarray, " sample"], own: np.ndarray) -> float:
    """The area under the ROC curve of scores that should be high where `own` is True.

    The mean rank of the rows of the class says it; ties share their ranks.
    """
    num_own = int(own.sum())
    ordered, mine = np.sort(scores), np.sort(scores[own])
    below = np.searchsorted(ordered, mine, side="left") + np.searchsorted(ordered, mine, "right")
    ranks = float(below.sum() + num_own) / 2
    return (ranks - num_own * (num_own + 1) / 2) / (num_own * (len(scores) - num_own))


def _influence(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """How much a row's weight moves the area: the share of the other side that it beats."""
    mine, others = np.sort(scores[own]), np.sort(scores[~own])
    beaten = np.empty(len(scores))
    for side, rivals in ((own, others), (~own, mine)):
        here = scores[side]
        count = np.searchsorted(rivals, here, "left") + np.searchsorted(rivals, here, "right")
        beaten[side] = count / (2 * len(rivals))
    beaten[~own] = 1.0 - beaten[~own]
    value = beaten[own].mean()
    return (beaten - value) * len(scores) / np.where(own, len(mine), len(others))


def _of_all_rows(influence: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The same mean over all rows as over those in which a factor is known."""
    if known.all():
        return influence
    spread = np.zeros(len(known))
    spread[known] = influence * (len(known) / len(influence))
    return spread


def _mean(factors: list[Part], part: str) -> float:
    areas = [np.mean([area(row, own) for row, own in judged])
             for *factor, _ in factors if (judged := _judged(factor))]
    if not areas:
        raise UserError(f"no factor has two values among the rows that {part}: explicitness needs "
                        "rows of a value and rows of others")
    return float(np.mean(areas))


def _judged(factor: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores and membership of each class that has an area in these rows."""
    scores, classes = factor
    count = np.bincount(classes, minlength=len(scores) + 1)[:len(scores)]
    return [(scores[c], classes == c) for c in np.flatnonzero((count > 0) & (count < len(classes)))]


def _scores(codes: ArrayLike, factors: ArrayLike, num_train: int | None, normalised: bool,
            strength: float, num_values: ArrayLike | None,
            ) -> dict[str, list[Part]]:
    """For both parts and each factor: see `Part`."""
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    if num_train is not None and not 2 <= num_train < len(codes):
        raise UserError(f"num_train must leave rows on either side, got {num_train} of "
                        f"{len(codes)}")
    train = slice(None, num_train)
    test = slice(None) if num_train is None else slice(num_train, None)
    features = standardised(codes, train, num_values)
    parts: dict[str, list[Part]] = {"test": [], "train": []}
    tasks = []
    for k in varying(factors[train]):
        known = factors[:, k] >= 0
        seen = np.unique(factors[train, k][known[train]])
        # Classes that do not train share one number, which is nobody's.
        number = np.full(int(factors[:, k].max()) + 1, len(seen))
        number[seen] = np.arange(len(seen))
        tasks.append((known, number[factors[:, k]], len(seen)))
    if all(known.all() for known, _, _ in tasks):
        fitted = fit_one_vs_rest_tasks(features[train], [(c[train], num) for _, c, num in tasks],
                                       strength=strength)
    else:
        fitted = [fit_one_vs_rest(features[train][known[train]], c[train][known[train]], num,
                                  strength=strength) for known, c, num in tasks]
    for weights, (known, classes, _) in zip(fitted, tasks):
        scores = _compared(weights, features, normalised)
        for part, rows in (("test", test), ("train", train)):
            here = known[rows]
            mine = scores[:, rows] if here.all() else scores[:, rows][:, here]
            parts[part].append((mine, classes[rows][here], here))
    return parts


def _compared(weights: np.ndarray, features: np.ndarray,
              normalised: bool) -> Float[np.ndarray, "class sample"]:
    """Scores to rank rows by: rows with equal codes are ties, whatever rounding did to them."""
    values = weights[:, :-1] @ features.T + weights[:, -1:]
    if not normalised:
        return np.round(values, DECIMALS)
    with np.errstate(over="ignore"):
        shares = np.exp(-values)
    shares += 1.0
    np.reciprocal(shares, out=shares)
    shares /= shares.sum(axis=0) + np.finfo(float).tiny
    # All but the leading bits are rounded away, which is quicker than decimals of a logarithm.
    bits = shares.view(np.int64)
    bits += 1 << (LOW_BITS - 1)
    bits >>= LOW_BITS
    bits <<= LOW_BITS
    return shares


def standardised(codes: Codes, train: slice,
                 num_values: ArrayLike | None) -> Float[np.ndarray, "sample column"]:
    """Columns of mean 0 and deviation 1 over the rows that train, without constant ones."""
    kinds = as_num_values(num_values, codes)
    columns = []
    for j in range(codes.shape[1]):
        column = codes[:, j].astype(np.float64)
        if kinds[j]:
            classes = class_numbers(column)
            columns += [(classes == c).astype(np.float64) for c in range(int(classes.max()) + 1)]
        else:
            columns.append(column)
    kept = [c for c in columns if c[train].min() < c[train].max()]
    if not kept:
        return np.zeros((len(codes), 1))
    table = np.stack(kept, axis=1)
    if np.abs(table).max() > 1e100:
        raise UserError("codes are too large to be standardised: rescale them")
    size = np.abs(table).max(axis=0)
    table = table / np.where(size < 1e-100, size, 1.0)  # squares of the tiniest would vanish
    deviation = table[train].std(axis=0)
    return (table - table[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


METRIC = Metric(
    name="explicitness",
    function=explicitness,
    draw=draw_split,
    keys={"explicitness.test": Key(Range(0.0, 1.0)), "explicitness.train": Key(Range(0.0, 1.0))},
    paper="Ridgeway & Mozer 2018, section 3",
    version="1",
    summary="how well a linear classifier tells each value of each factor from the whole code",
    conventions={
        # One-versus-rest classifiers, each judged by its own ROC curve. The paper tests on the rows
        # of its test sets; the numbers of rows are the study's.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "normalised": False,
                  "strength": 1.0},
        # scikit-learn's `predict_proba` of 2019, which normalises over classes.
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000, "normalised": True,
                      "strength": 1.0},
    },
    partial=True,
    bootstrap=explicitness_bootstrap,
)
