"""Scores of a stack of runs: one plan, the codes of many runs, all cores.

A plan depends on no code, so what it holds is made once for all runs: draws, groups, factors, and
the ceilings, which are scores of the factors themselves. Runs are scored side by side, one on each
thread; within a run the work is done in turn. The scores are those of a loop over `Plan.score`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_array
from unweave.metrics.record import Score
from unweave.metrics.scoring import Plan
from unweave.metrics.threads import side_by_side
from unweave.types import UserError


def score_stack(plan: Plan, codes: ArrayLike | Iterable[ArrayLike], *,
                num_values: ArrayLike | None = None, details: bool = True,
                num_threads: int | None = None) -> list[list[Score]]:
    """The records of each run; `codes` are `[run, row, latent]`, or a table of codes for each run.

    Rows are those of `plan.index`, and `num_values` is that of all runs: see `Plan.score`. Runs
    whose codes have other numbers of latents come as a list.
    """
    runs = list(codes) if isinstance(codes, (list, tuple)) else list(_stack(codes))
    if not runs:
        raise UserError("a stack needs the codes of one run at least")

    def one(run: ArrayLike) -> list[Score]:
        return plan.score(run, num_values=num_values, details=details)

    # The first run makes the ceilings, which the others then find.
    first = [one(runs[0])] if details else []
    return first + side_by_side(one, runs[len(first):], num_threads)


def _stack(codes: ArrayLike) -> np.ndarray:
    table = as_array(codes)
    if table.ndim != 3:
        raise UserError(f"codes of a stack must be [run, row, latent], got the shape {table.shape}")
    return table
