"""UDR, unsupervised disentanglement ranking: whether runs agree. Duan et al. 2020, section 4.

No factor is needed: runs that disentangle find the same latents up to order, sign and scale,
and each entangled run is so in its own way. R is a similarity of the latents a of run i and b of
run j: the absolute weights of a lasso that predicts the latents of j from those of i, both
standardised (`udr`), or the absolute rank correlations (`udr.spearman`). It is best when each
latent has one partner. With r_b = max_a R(a, b) and r_a = max_b R(a, b),

    UDR_ij = 1 / (d_i + d_j) ( sum_b r_b^2 / sum_a R(a, b) + sum_a r_a^2 / sum_b R(a, b) ),

over the d_i and d_j latents that carry information: those whose mean KL to the prior is above
0.01 nats, whatever their codes look like. The score of a run is the median over all other runs.

The published code differs in two places, and has its own names for them here: it averages the two
sums apart (`pooled`), and where a latent is constant, and so has no rank correlation, whole rows
and columns of R count as 0 (`undefined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_array, as_codes
from unweave.metrics.lasso import lasso
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_points
from unweave.types import Float, Range, UserError

UNDEFINED = ("void", "zero")


class _Runs(NamedTuple):
    """The latents of all runs that carry information, side by side, and whose they are."""

    codes: np.ndarray
    """`[sample, column]`, of mean 0 and deviation 1; constant columns are 0."""
    constant: np.ndarray
    starts: np.ndarray
    """`[run]`: where the columns of each run that has some begin."""
    who: np.ndarray
    """The numbers of those runs."""
    counts: np.ndarray
    """`[run]`, of all runs: over how many latents means are taken."""
    idle: np.ndarray
    """`[run]`, of all runs: whether latents without information are counted among them."""


def udr(codes_per_run: ArrayLike | Sequence[ArrayLike],
        kl_per_run: ArrayLike | Sequence[ArrayLike] | None = None, *, alpha: float = 0.1,
        kl_threshold: float = 0.01, drop: bool = True, pooled: bool = False,
        undefined: str = "void") -> dict[str, Float[np.ndarray, " run"]]:
    """A score for each run, 0 or more: `udr` by lasso, `udr.spearman` by ranks.

    Codes are `[run, sample, latent]`, or a list of `[sample, latent]`; their rows are the same
    images. `kl_per_run` is `[run, latent]`, the mean KL of each latent in nats: latents at or below
    `kl_threshold` are left out, and without it none is. With `drop=False` they count, as 0. A run
    without any latent left scores 0. `pooled` is the formula of the paper. A constant latent has no
    rank correlation: `undefined="zero"` takes 0 for it, `"void"` counts as 0 each latent that it
    was to be compared with, as the published code does.

    >>> rows = np.random.default_rng(0).normal(size=(100, 2))
    >>> udr([rows, -2 * rows[:, ::-1] + 3], kl_threshold=0.0)["udr.spearman"].round(1).tolist()
    [0.9, 0.9]
    """
    pairs = udr_pairs(codes_per_run, kl_per_run, alpha=alpha, kl_threshold=kl_threshold, drop=drop,
                      pooled=pooled, undefined=undefined)
    return {key: medians(matrix) for key, matrix in pairs.items()}


def udr_pairs(codes_per_run: ArrayLike | Sequence[ArrayLike],
              kl_per_run: ArrayLike | Sequence[ArrayLike] | None = None, *, alpha: float = 0.1,
              kl_threshold: float = 0.01, drop: bool = True, pooled: bool = False,
              undefined: str = "void") -> dict[str, Float[np.ndarray, "run run"]]:
    """UDR_ij for all pairs: run i predicts run j. On the diagonal a run meets itself."""
    from scipy.stats import rankdata

    if not alpha >= 0:
        raise UserError(f"alpha must be at least 0, got {alpha}")
    if undefined not in UNDEFINED:
        raise UserError(f"undefined must be one of {', '.join(UNDEFINED)}, got {undefined!r}")
    kept, counts, idle = _informative(codes_per_run, kl_per_run, kl_threshold, drop)
    num_runs = len(counts)
    who = np.flatnonzero([one.shape[1] for one in kept])
    if len(who) == 0:
        return {key: np.zeros((num_runs, num_runs)) for key in METRIC.keys}
    columns = np.concatenate([kept[i] for i in who], axis=1)
    starts = np.cumsum([0] + [kept[i].shape[1] for i in who[:-1]])
    constant = (columns == columns[:1]).all(axis=0)
    runs = _Runs(_standard(columns, constant), constant, starts, who, counts, idle)
    ranks = _standard(rankdata(columns, axis=0), constant)
    return {"udr": _relative_strength(_lasso_weights(runs, alpha), runs, pooled, void=False),
            "udr.spearman": _relative_strength(np.abs(ranks.T @ ranks) / len(ranks), runs, pooled,
                                               void=undefined == "void")}


def medians(pairs: Float[np.ndarray, "run run"]) -> Float[np.ndarray, " run"]:
    """The score of each run: the median over the others, which predict it."""
    return np.median(partners(pairs), axis=0)


def partners(pairs: Float[np.ndarray, "run run"]) -> Float[np.ndarray, "partner run"]:
    """The pairs of each run, `[other run, run]`: the matrix without its diagonal."""
    num = len(pairs)
    return pairs.T[~np.eye(num, dtype=bool)].reshape(num, num - 1).T


def _informative(codes_per_run: ArrayLike, kl_per_run: ArrayLike | None, kl_threshold: float,
                 drop: bool) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Per run: the columns above the threshold, the number that means are over, any idle ones."""
    given = [as_codes(one).astype(np.float64) for one in codes_per_run]
    if len(given) < 2:
        raise UserError(f"UDR compares runs: at least 2 are needed, got {len(given)}")
    for number, one in enumerate(given):
        if len(one) != len(given[0]):
            raise UserError(f"the codes of all runs must be of the same rows: run 0 has "
                            f"{len(given[0])} and run {number} has {len(one)}")
        if np.abs(one).max() > 1e100:
            raise UserError(f"codes of run {number} are too large to be standardised: rescale them")
    if kl_per_run is None:
        return given, np.array([one.shape[1] for one in given]), np.zeros(len(given), dtype=bool)
    divergences = [as_array(one) for one in kl_per_run]
    if len(divergences) != len(given):
        raise UserError(f"kl_per_run must have an entry for each of the {len(given)} runs, got "
                        f"{len(divergences)}")
    kept = []
    for number, (one, kl) in enumerate(zip(given, divergences)):
        if kl.shape != (one.shape[1],) or not np.isfinite(kl).all():
            raise UserError(f"kl_per_run of run {number} must be {one.shape[1]} finite numbers, "
                            f"one for each latent, got {kl.tolist()}")
        kept.append(one[:, kl > kl_threshold])
    some = np.array([one.shape[1] for one in kept])
    every = np.array([one.shape[1] for one in given])
    return kept, some if drop else every, np.zeros(len(some), bool) if drop else some < every


def _standard(columns: np.ndarray, constant: np.ndarray) -> np.ndarray:
    centred = np.where(constant, 0.0, columns - columns.mean(axis=0))
    deviation = centred.std(axis=0)
    return centred / np.where(deviation > 0, deviation, 1.0)


def _lasso_weights(runs: _Runs, alpha: float) -> Float[np.ndarray, "column column"]:
    """Absolute weights: a row for each latent that predicts, a column for each that is predicted.

    One product of all codes serves every pair, and a run predicts all others in one descent.
    """
    products = runs.codes.T @ runs.codes / len(runs.codes)
    own = [slice(a, b) for a, b in zip(runs.starts, [*runs.starts[1:], len(products)])]
    return np.concatenate([np.abs(lasso(products[s, s], products[s], alpha)) for s in own])


def _relative_strength(similarity: np.ndarray, runs: _Runs, pooled: bool,
                       void: bool) -> Float[np.ndarray, "run run"]:
    """UDR_ij of the blocks of a matrix of similarities of all latents."""
    starts, who = runs.starts, runs.who
    by_column = _ratios(similarity, starts)  # [run i, latent b]
    by_row = _ratios(similarity.T, starts).T  # [latent a, run j]
    if void:
        broken = np.logical_or.reduceat(runs.constant, starts) | runs.idle[who]
        by_column[broken] = 0.0
        by_column[:, runs.constant] = 0.0
        by_row[:, broken] = 0.0
        by_row[runs.constant] = 0.0
    columns = np.add.reduceat(by_column, starts, axis=1)
    rows = np.add.reduceat(by_row, starts, axis=0)
    first, second = runs.counts[who][:, None], runs.counts[who][None, :]
    if pooled:
        found = (columns + rows) / (first + second)
    else:
        found = (columns / second + rows / first) / 2
    pairs = np.zeros((len(runs.counts), len(runs.counts)))
    pairs[np.ix_(who, who)] = found
    return pairs


def _ratios(similarity: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """max^2 / sum over the rows of each run, `[run, column]`; 0 where there is no similarity."""
    best = np.maximum.reduceat(similarity, starts, axis=0)
    total = np.add.reduceat(similarity, starts, axis=0)
    return np.divide(best ** 2, total, out=np.zeros_like(best), where=total > 0)


METRIC = Metric(
    name="udr",
    function=udr,
    draw=draw_points,
    # A latent that is the difference of two that are nearly equal has weights above 1.
    keys={"udr": Key(Range(0.0)), "udr.spearman": Key(Range(0.0, 1.0))},
    paper="Duan et al. 2020, section 4",
    version="1",
    summary="how well the latents of a run and of other runs can be paired one to one",
    conventions={
        "paper": {"num_points": 1_000, "alpha": 0.1, "kl_threshold": 0.01, "drop": True,
                  "pooled": True, "undefined": "zero"},
        # The code that its authors published, in the study's library.
        "study2019": {"num_points": 1_000, "alpha": 0.1, "kl_threshold": 0.01, "drop": True,
                      "pooled": False, "undefined": "void"},
    },
    default=False,
)
