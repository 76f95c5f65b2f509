"""The FactorVAE score: a majority vote on the latent that varies least. Kim & Mnih 2018, section 4.

Fix a factor k, encode L images that share its value, and divide the variance of each latent by its
variance over the data. The latent with the least, a = argmin_j Var_j(group) / Var_j(data), votes
for k. From votes (a_i, b_i) that train, V_jk = sum_i [a_i = j, b_i = k] gives the classifier

    C(j) = argmax_k V_jk,    score = accuracy of C on votes that test   (appendix B).

Collapsed latents are dropped first: a latent that never varies would win every vote. Where a latent
is categorical, Gini's variance takes the place of both variances (appendix B, equation 4): half the
share of pairs that differ,

    Var(x) = 1 / 2N(N - 1) sum_ij [x_i != x_j],

which for classes 0 and 1 is the variance of n - 1, and does not change if classes are renamed.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_array, as_codes, as_num_values, class_numbers
from unweave.metrics.compiled import compiled
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_votes
from unweave.metrics.threads import available_threads, side_by_side
from unweave.types import Codes, Float, Int, Range, UserError

RATIOS_AT_ONCE = 1 << 23
"""Of (vote, latent) pairs: 64 megabytes."""

LARGEST = 1e150
"""Codes beyond this cannot be squared."""

MANY_LATENTS, MANY_VALUES = 64, 1 << 20
"""Beyond these a compiled loop pays: of latents, or of (vote, member, latent) triples."""

VALUES_AT_ONCE = 1 << 18
"""Votes are counted in pieces of about this many (vote, latent) pairs, which fit the cache."""


def factor_vae(codes: ArrayLike, groups: ArrayLike, fixed: ArrayLike, *, num_train: int,
               points: ArrayLike | None = None, std_threshold: float = 0.05,
               active: ArrayLike | None = None,
               num_values: ArrayLike | None = None) -> dict[str, float]:
    """Accuracy of the majority vote: `factor_vae` on test votes, `factor_vae.train` on the others.

    `codes` are the encoded rows, `groups` `[vote, member]` and `points` (all rows if None) numbers
    of rows, `fixed` `[vote]` the factor that a group shares; the first `num_train` votes train.
    Variances are those of n - 1. Latents whose standard deviation over the points is below
    `std_threshold` are dropped, or those where `active` is False if it is given: who has the
    posteriors can tell collapsed latents by their KL, as the paper does. `factor_vae.num_active`
    counts the latents that remain; if none does, the accuracies are 0. Ties go to the first latent
    and to the first factor. A latent that won no training vote stands for the first factor.

    `num_values` tells categorical latents, whose variances are Gini's. The threshold means the same
    for them: one is dropped if its variance is below `std_threshold` squared. With 0.05 that is a
    latent in which fewer than 1 pair of rows in 200 differs: one class has all but 0.25 % of rows.
    """
    train, test, num_active = _votes(codes, groups, fixed, num_train, points, std_threshold, active,
                                     num_values)
    scores = {"factor_vae": 0.0, "factor_vae.train": 0.0}
    if num_active:
        guess, latents = train.argmax(axis=1), np.arange(num_active)
        scores = {"factor_vae": float(test[latents, guess].sum() / test.sum()),
                  "factor_vae.train": float(train[latents, guess].sum() / train.sum())}
    return scores | {"factor_vae.num_active": float(num_active)}


def factor_vae_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                         groups: ArrayLike, fixed: ArrayLike, *, num_train: int,
                         points: ArrayLike | None = None, std_threshold: float = 0.05,
                         active: ArrayLike | None = None,
                         num_values: ArrayLike | None = None) -> dict[str, np.ndarray]:
    """Accuracies when the votes, of which a table of counts is enough, are resampled."""
    train, test, num_active = _votes(codes, groups, fixed, num_train, points, std_threshold, active,
                                     num_values)
    if not num_active:
        return {key: np.zeros(num_replicates) for key in ("factor_vae", "factor_vae.train")}
    shape = (num_replicates, *train.shape)
    trains, tests = (rng.multinomial(v.sum(), v.ravel() / v.sum(), size=num_replicates)
                     .reshape(shape) for v in (train, test))
    guess = trains.argmax(axis=2)[:, :, None]
    right = np.take_along_axis(tests, guess, axis=2).sum(axis=(1, 2))
    right_train = np.take_along_axis(trains, guess, axis=2).sum(axis=(1, 2))
    return {"factor_vae": right / test.sum(), "factor_vae.train": right_train / train.sum()}


def group_variances(codes: Codes, groups: Int[np.ndarray, "group member"],
                    ) -> Float[np.ndarray, "group latent"]:
    """Variance (n - 1) of each latent in each group of rows.

    Sums run over members, relative to the first one: a latent that is constant in a group has
    variance 0 exactly, and no array of [group, member, latent] is ever made.
    """
    num_groups, size = groups.shape
    variances = np.empty((num_groups, codes.shape[1]))
    if codes.shape[1] > MANY_LATENTS or groups.size * codes.shape[1] > MANY_VALUES:
        whole, loop = np.ascontiguousarray(codes), compiled(_spread)
        pieces = np.array_split(np.arange(num_groups), available_threads())
        side_by_side(lambda p: loop(whole, groups[p[0]:p[-1] + 1], variances[p[0]:p[-1] + 1]),
                     [piece for piece in pieces if len(piece)])
        return variances
    piece = max(1, VALUES_AT_ONCE // codes.shape[1])
    for start in range(0, num_groups, piece):
        rows = np.ascontiguousarray(groups[start:start + piece].T)
        origin = codes[rows[0]].astype(np.float64)
        total, squares = np.zeros_like(origin), np.zeros_like(origin)
        for member in rows[1:]:
            offset = codes[member] - origin
            total += offset
            offset *= offset
            squares += offset
        variances[start:start + piece] = (squares - total * total / size) / (size - 1)
    return np.maximum(variances, 0.0)


def _spread(codes, groups, variances):
    """The same as below, without waiting for memory: many latents at a time fit no cache."""
    num_latents, size = codes.shape[1], groups.shape[1]
    total, squares = np.empty(num_latents), np.empty(num_latents)
    for g in range(len(groups)):
        origin = codes[groups[g, 0]]
        total[:], squares[:] = 0.0, 0.0
        for m in range(1, size):
            row = codes[groups[g, m]]
            for j in range(num_latents):
                offset = np.float64(row[j]) - np.float64(origin[j])
                total[j] += offset
                squares[j] += offset * offset
        for j in range(num_latents):
            spread = (squares[j] - total[j] * total[j] / size) / (size - 1)
            variances[g, j] = max(spread, 0.0)


def winners(codes: Codes, groups: Int[np.ndarray, "group member"], scale: np.ndarray,
            categorical: dict[int, np.ndarray]) -> Int[np.ndarray, " group"]:
    """The latent that varies least in each group, compared with its `scale`.

    Groups are taken in pieces, so that no array of [group, latent] is ever made of all of them.
    `categorical` has the codes of categorical latents by column.
    """
    winner = np.empty(len(groups), dtype=np.int64)
    piece = max(1, RATIOS_AT_ONCE // codes.shape[1])
    for start in range(0, len(groups), piece):
        some = groups[start:start + piece]
        variances = group_variances(codes, some)
        for j, column in categorical.items():
            variances[:, j] = gini_variances(column, some)
        ratio = variances / np.where(scale > 0, scale, 1.0)
        # A latent without variance that was not dropped (threshold 0) wins, as 0 / 0 did in 2019.
        ratio[:, scale == 0] = -1.0
        winner[start:start + piece] = np.argmin(ratio, axis=1)
    return winner


def gini_variances(column: np.ndarray, groups: Int[np.ndarray, "group member"],
                   ) -> Float[np.ndarray, " group"]:
    """Gini's variance of one categorical latent in each group of rows.

    With n_c members of class c, the pairs that differ are n^2 - sum_c n_c^2.
    """
    num_groups, size = groups.shape
    classes = class_numbers(column)
    num_classes = int(classes.max()) + 1
    alike = np.empty(num_groups)
    piece = max(1, VALUES_AT_ONCE // max(num_classes, size))
    for start in range(0, num_groups, piece):
        members = classes[groups[start:start + piece]]
        keys = np.arange(len(members))[:, None] * num_classes + members
        counts = np.bincount(keys.ravel(), minlength=len(members) * num_classes)
        alike[start:start + piece] = (counts * counts).reshape(-1, num_classes).sum(axis=1)
    return (size * size - alike) / (2 * size * (size - 1))


def _votes(codes: ArrayLike, groups: ArrayLike, fixed: ArrayLike, num_train: int,
           points: ArrayLike | None, std_threshold: float, active: ArrayLike | None,
           num_values: ArrayLike | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Votes `[active latent, factor]` of the training and of the test groups."""
    codes, groups, fixed = as_codes(codes), as_array(groups), as_array(fixed)
    categorical = np.flatnonzero(as_num_values(num_values, codes))
    if (groups.ndim != 2 or groups.shape[1] < 2 or not groups.size
            or groups.dtype.kind not in "iu"):
        raise UserError("groups must be row numbers [vote, member] with two members at least, got "
                        f"{groups.dtype} {groups.shape}")
    if fixed.shape != groups.shape[:1] or fixed.dtype.kind not in "iu" or fixed.min() < 0:
        raise UserError(f"fixed must be a factor's number for each of the {len(groups)} groups")
    if groups.min() < 0 or groups.max() >= len(codes):
        raise UserError(f"groups name rows up to {groups.max()}, codes have {len(codes)} rows")
    if not 0 < num_train < len(groups):
        raise UserError(f"num_train must leave votes to test, got {num_train} of {len(groups)}")
    if not std_threshold >= 0:
        raise UserError(f"std_threshold must be at least 0, got {std_threshold}")
    if float(np.abs(codes).max()) > LARGEST:
        raise UserError(f"codes beyond {LARGEST:.0e} have no variances: rescale them")
    points = np.arange(len(codes)) if points is None else as_array(points)
    scale = np.var(codes[points], axis=0, ddof=1, dtype=np.float64)
    for j in categorical:
        scale[j] = gini_variances(codes[:, j], points[None])[0]
    keep = np.sqrt(scale) >= std_threshold if active is None else as_array(active).astype(bool)
    if keep.shape != scale.shape:
        raise UserError(f"active must have one entry for each of the {len(scale)} latents")
    num_factors, num_active = int(fixed.max()) + 1, int(keep.sum())
    if num_active == 0:
        empty = np.zeros((0, num_factors), dtype=np.int64)
        return empty, empty, 0
    kept = codes if keep.all() else np.ascontiguousarray(codes[:, keep])
    scale = scale[keep]
    winner = winners(kept, groups, scale, {int(keep[:j].sum()): codes[:, j]
                                           for j in categorical[keep[categorical]]})
    votes = winner * num_factors + fixed
    train, test = (np.bincount(part, minlength=num_active * num_factors)
                   .reshape(num_active, num_factors) for part in np.split(votes, [num_train]))
    return train, test, num_active


METRIC = Metric(
    name="factor_vae",
    function=factor_vae,
    draw=draw_votes,
    keys={"factor_vae": Key(Range(0.0, 1.0)), "factor_vae.train": Key(Range(0.0, 1.0)),
          "factor_vae.num_active": Key(Range(0.0), higher_is_better=None)},
    paper="Kim & Mnih 2018, section 4 and appendix B",
    version="1",
    summary="how well the latent that varies least tells which factor was held fixed",
    conventions={
        # "L = 100 and ... the majority vote classifier from 800 votes", normalised "over the full
        # data (or a large enough random subset)". The text names no votes to test on: as many
        # fresh ones, so that the accuracy of a random classifier is 1/K as it says. It drops
        # latents with q(z|x) = p(z): constant means, hence the same threshold as the study's.
        "paper": {"num_points": 10_000, "group_size": 100, "num_train_votes": 800,
                  "num_test_votes": 800, "std_threshold": 0.05},
        # The study's text says "variance smaller than 0.05"; its code compares deviations.
        "study2019": {"num_points": 10_000, "group_size": 64, "num_train_votes": 10_000,
                      "num_test_votes": 5_000, "std_threshold": 0.05},
    },
    bootstrap=factor_vae_bootstrap,
)
