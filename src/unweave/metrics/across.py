"""Scores of several runs at once, from the codes of the same rows: what one run cannot be told.

`ACROSS_RUNS` holds their records. They are those of other metrics, except that the function takes
the codes and the KL of every run and gives a score for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes
from unweave.metrics.record import CONVENTIONS, Metric, Score, accepted
from unweave.metrics.sampling import BOOTSTRAP, SHUFFLE
from unweave.metrics.udr import METRIC as UDR
from unweave.metrics.udr import medians, partners, udr_pairs
from unweave.random import Purpose, numpy_generator
from unweave.types import unknown_name

ACROSS_RUNS: dict[str, Metric] = {UDR.name: UDR}

NUM_REPLICATES = 200
FEWEST_PAIRS = 3
"""Of a run: fewer of them say nothing about their spread."""


def udr_records(codes_per_run: ArrayLike | Sequence[ArrayLike],
                kl_per_run: ArrayLike | Sequence[ArrayLike] | None = None, *,
                names: Sequence[str] | None = None, convention: str = "study2019", seed: int = 0,
                **overrides: Any) -> list[list[Score]]:
    """For each run its UDR scores, with what is needed to judge them.

    The interval is over pairs: the other runs are resampled. Chance is the score when the rows of
    every run are shuffled apart. The ceiling is the score of a run beside its own copy, which is
    below 1: the lasso shrinks, and latents that are correlated share their weight. `names` says
    which runs these are, and is kept among the settings: with other partners it is another score.
    """
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
    for name in overrides:
        if name not in UDR.conventions[convention]:
            raise unknown_name("setting", name, UDR.conventions[convention])
    codes = [as_codes(one) for one in codes_per_run]
    settings = UDR.settings(convention, overrides)
    own = accepted(udr_pairs, settings)
    pairs = udr_pairs(codes, kl_per_run, **own)
    rng = numpy_generator(seed, Purpose.EVALUATION, SHUFFLE)
    mixed = [one[rng.permutation(len(one))] for one in codes]
    chance = {key: medians(found) for key, found in udr_pairs(mixed, kl_per_run, **own).items()}
    kept = settings | {"num_points": len(codes[0])}
    if names is not None:
        kept["runs"] = sorted(names)
    records: list[list[Score]] = [[] for _ in codes]
    for key, found in pairs.items():
        said, values = UDR.keys[key], medians(found)
        low, high = _intervals(partners(found), seed)
        for i, one in enumerate(codes):
            value = float(values[i])
            records[i].append(Score(
                key=key, value=value, low=None if low is None else min(float(low[i]), value),
                high=None if high is None else max(float(high[i]), value),
                chance=float(chance[key][i]), ceiling=float(found[i, i]),
                range_low=said.range.low, range_high=said.range.high,
                higher_is_better=said.higher_is_better, metric=UDR.name, convention=convention,
                version=UDR.version, paper=UDR.paper, seed=seed, num_points=len(one),
                num_groups=0, group_size=0, num_rows=len(one), num_latents=one.shape[1],
                overridden=tuple(overrides), settings=kept))
    return records


def _intervals(pairs: np.ndarray, seed: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """95 % of the medians of resampled partners, `[run]` each; None where there are too few."""
    num = len(pairs)
    if num < FEWEST_PAIRS:
        return None, None
    rng = numpy_generator(seed, Purpose.EVALUATION, BOOTSTRAP)
    drawn = rng.integers(num, size=(NUM_REPLICATES, num))
    low, high = np.percentile(np.median(pairs[drawn], axis=1), [2.5, 97.5], axis=0)
    return low, high
