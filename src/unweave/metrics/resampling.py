"""Bootstrap by brute force: resample the rows, call the metric again.

It serves every metric of points that is quick to compute; the others bring a bootstrap of their
own. Rows that train and rows that test are resampled apart, so each part keeps its size. What a
model says about a row goes with the row.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, as_labels
from unweave.metrics.encoding import ROW_INPUTS

MOST_REPLICATES = 50
LEAST_REPLICATES = 20
VALUES = 5_000_000
"""As many replicates as make about this many codes, within the two limits above."""


def bootstrap_of(function: Callable[..., dict[str, float]]) -> Callable[..., dict[str, Any]]:
    """A bootstrap with the parameters of the metric, for each of its keys.

    Classes that a resample lacks, and columns that are constant in it, are what the metric says
    they are. One without a factor that varies is drawn again.
    """

    def bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                  factors: ArrayLike, **settings: Any) -> dict[str, np.ndarray]:
        codes = as_codes(codes)
        if "factor_types" in own:  # such a function sees quantities, and no bins of them
            labels = as_labels(factors, len(codes), settings.get("factor_types"))
            factors, settings = labels.values, settings | {"factor_types": labels.types}
        else:
            factors = as_factors(factors, len(codes), unknown=True)
            if factors.min() < 0:
                factors = np.where(factors < 0, np.nan, factors)
        num_train = settings.get("num_train")
        inputs = {k: v for k, v in settings.items() if k in ROW_INPUTS and v is not None}
        parts = np.split(np.arange(len(codes)), [] if num_train is None else [num_train])
        enough = min(MOST_REPLICATES, max(LEAST_REPLICATES, VALUES // codes.size))
        replicates = []
        for _ in range(min(num_replicates, enough)):
            rows = _redrawn(rng, parts)
            while _settled(factors[rows]):
                rows = _redrawn(rng, parts)
            again = settings | {name: lines[rows] for name, lines in inputs.items()}
            replicates.append(function(codes[rows], factors[rows], **again))
        return {key: np.array([one[key] for one in replicates]) for key in replicates[0]}

    own = inspect.signature(function).parameters
    first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
             for name in ("rng", "num_replicates")]
    bootstrap.__signature__ = inspect.Signature([*first, *own.values()])  # type: ignore[attr-defined]
    return bootstrap


def _settled(factors: np.ndarray) -> bool:
    """Whether no factor varies, as far as known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns in which nothing is known
        return not (np.nanmax(factors, axis=0) > np.nanmin(factors, axis=0)).any()


def resampled_means(rng: np.random.Generator, num_replicates: int,
                    terms: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Means of the terms over resamples of what they are of, the same ones for every key."""
    num = len(next(iter(terms.values())))
    draws = [rng.integers(num, size=num) for _ in range(num_replicates)]
    return {key: np.array([values[rows].mean() for rows in draws])
            for key, values in terms.items()}


def _redrawn(rng: np.random.Generator, parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part[rng.integers(len(part), size=len(part))] for part in parts])
