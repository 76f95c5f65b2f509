"""Downstream accuracy: how well simple models predict the factors from codes, by number of labels.

Locatello et al. 2019, section 5.6 and appendix B. Two models learn each factor from the codes, as
they are, of 10, 100, 1,000 and 10,000 labelled points: a logistic regression, its penalty chosen
among ten by five-fold cross-validation, and gradient-boosted trees. The score is the accuracy on
other points, averaged over factors. Statistical efficiency is the share of the accuracy with 10,000
labels that 100 labels reach; `efficiency_1000` is that of 1,000.

The study's regression was one-vs-rest, and so was its choice: each class takes the penalty with
which its own yes or no is right most often. For a middle value of an ordered factor that is the
strongest penalty, with which the answer is always no. A perfect code of dSprites-like factors thus
scores about 0.6, and a multinomial regression 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.boosting import MIN_IMPURITY, UPDATES, boost, sort_features
from unweave.metrics.logistic import cross_validated_one_vs_rest, decisions
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.metrics.softmax import cross_validated_multinomial
from unweave.metrics.threads import side_by_side
from unweave.types import Codes, Factors, Range, UserError, unknown_name

SIZES = (10, 100, 1_000, 10_000)
WHOLE = SIZES[-1]
EFFICIENCIES = (100, 1_000)
"""Sizes whose accuracy is compared with that of the `WHOLE`; the study's is the first."""
MODELS = ("logistic", "boosting")
CLASSIFIERS = {"one_vs_rest": cross_validated_one_vs_rest,
               "multinomial": cross_validated_multinomial}
STRENGTHS = np.logspace(-4, 4, 10)
NUM_FOLDS = 5


def downstream(codes: ArrayLike, factors: ArrayLike, *, num_train: int,
               sizes: Sequence[int] = SIZES, models: str | Sequence[str] = MODELS,
               classifier: str = "one_vs_rest", num_stages: int = 100, updates: str = "together",
               min_impurity: float = MIN_IMPURITY) -> dict[str, float]:
    """Accuracy on the test rows, in [0, 1], as `downstream.MODEL.SIZE` for each model and size.

    Codes are `[sample, latent]`, factors `[sample, factor]`. The first `size` of the `num_train`
    rows train; sizes that exceed them are left out. The rows from `num_train` on test. Factors that
    are constant in all rows are left out; where one is constant in the rows that train, its value
    there is the answer, and a class that they lack is never answered. Of a factor with unknown
    labels the rows that know it count, and fewer than `size` if there are no more.

    `models` are `logistic`, with the `classifier` `one_vs_rest` or `multinomial`, and `boosting`,
    whose settings `num_stages`, `updates` and `min_impurity` are those of `boosting.boost`. Where
    the sizes allow, `downstream.MODEL.efficiency_SIZE` is an accuracy divided by that of 10,000.
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    if not 2 <= num_train < len(codes):
        raise UserError(f"num_train must leave rows on either side, got {num_train} of "
                        f"{len(codes)}")
    models = [models] if isinstance(models, str) else list(models)
    for name in models:
        if name not in MODELS:
            raise unknown_name("model", name, MODELS)
    if not models:
        raise UserError(f"models must name one of {', '.join(MODELS)} at least")
    if classifier not in CLASSIFIERS:
        raise unknown_name("classifier", classifier, CLASSIFIERS)
    if updates not in UPDATES:
        raise unknown_name("updates", updates, UPDATES)
    if num_stages < 1:
        raise UserError(f"num_stages must be at least 1, got {num_stages}")
    if "boosting" in models and np.abs(codes).max() > 1e38:
        raise UserError("codes are too large for single precision: rescale them")
    used = [size for size in sizes if NUM_FOLDS <= size <= num_train]
    if not used:
        raise UserError(f"no size among {list(sizes)} is between {NUM_FOLDS} and the {num_train} "
                        "rows that train")
    sides = [(k, rows[rows < num_train], rows[rows >= num_train]) for k in varying(factors)
             if (rows := np.flatnonzero(factors[:, k] >= 0)).size]
    sides = [(k, train, test) for k, train, test in sides if len(train) >= NUM_FOLDS and len(test)]
    if not sides:
        raise UserError(f"no factor is known in {NUM_FOLDS} rows that train and one that tests")
    # Factors that are known in the same rows share their models' work.
    together: dict[bytes, tuple[np.ndarray, np.ndarray, list[int]]] = {}
    for k, train, test in sides:
        key = train.tobytes() + b"|" + test.tobytes()
        together.setdefault(key, (train, test, []))[2].append(int(k))
    scores = {}
    for model in models:
        for size in used:
            right: dict[int, float] = {}
            for train, test, columns in together.values():
                labels = factors[train[:size]][:, columns]
                if model == "logistic":
                    answers = _logistic(codes[train[:size]], labels, codes[test], classifier)
                else:
                    answers = _boosting(codes[train[:size]], labels, codes[test], num_stages,
                                        updates, min_impurity)
                for k, told in zip(columns, answers):
                    right[k] = float(np.mean(told == factors[test, k]))
            scores[f"downstream.{model}.{size}"] = float(np.mean([right[k] for k in sorted(right)]))
        best = scores.get(f"downstream.{model}.{WHOLE}", 0.0)
        for size in EFFICIENCIES:
            if size in used and best > 0:
                scores[f"downstream.{model}.efficiency_{size}"] = (
                    scores[f"downstream.{model}.{size}"] / best)
    return scores


def _logistic(codes: Codes, factors: Factors, test: np.ndarray,
              classifier: str) -> list[np.ndarray]:
    """Answers `[test row]` for each factor."""
    seen = [np.unique(column, return_inverse=True) for column in factors.T]
    tasks = [(classes, len(names)) for names, classes in seen if len(names) > 1]
    fitted = iter(CLASSIFIERS[classifier](codes, tasks, STRENGTHS, NUM_FOLDS) if tasks else [])
    answers = []
    for names, _ in seen:
        told = decisions(next(fitted), test).argmax(axis=1) if len(names) > 1 else np.zeros(
            len(test), dtype=np.int64)
        answers.append(names[told])
    return answers


def _boosting(codes: Codes, factors: Factors, test: np.ndarray, num_stages: int, updates: str,
              min_impurity: float) -> list[np.ndarray]:
    features = sort_features(codes)

    def one(k: int) -> np.ndarray:
        names, classes = np.unique(factors[:, k], return_inverse=True)
        if len(names) == 1:
            return np.full(len(test), names[0])
        fitted = boost(features, classes.astype(np.int64), test, num_stages=num_stages,
                       updates=updates, min_impurity=min_impurity, salt=k)
        return names[fitted.predicted(fitted.test)]

    # The factor with most classes takes longest: it goes first.
    order = np.argsort(-factors.max(axis=0), kind="stable").tolist()
    answers = dict(zip(order, side_by_side(one, order)))
    return [answers[k] for k in range(len(order))]


def _keys() -> dict[str, Key]:
    accuracy, ratio = Key(Range(0.0, 1.0)), Key(Range(0.0))
    return {f"downstream.{model}.{part}": accuracy if isinstance(part, int) else ratio
            for model in MODELS
            for part in (*reversed(SIZES), *(f"efficiency_{size}" for size in EFFICIENCIES))}


METRIC = Metric(
    name="downstream",
    function=downstream,
    draw=draw_split,
    keys=_keys(),
    paper="Locatello et al. 2019, section 5.6",
    version="2",
    summary="how well simple models predict factors, by the number of labelled points",
    conventions={
        # "Scikit-learn default": of the year in which it is read, a multinomial regression.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "sizes": SIZES,
                  "models": MODELS, "classifier": "multinomial", "num_stages": 100,
                  "updates": "together", "min_impurity": MIN_IMPURITY},
        # As in scikit-learn 0.20.
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000, "sizes": SIZES,
                      "models": MODELS, "classifier": "one_vs_rest", "num_stages": 100,
                      "updates": "in_turn", "min_impurity": 1e-7},
    },
    default=False,
    partial=True,
)
