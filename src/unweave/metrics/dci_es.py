"""DCI-ES: how weak a probe may be, and how long the code is. Eastwood et al. 2023.

Disentanglement, completeness and informativeness do not ask how hard it is to read a factor from a
code, nor how long the code is. The paper adds both. A factor k is read by probes of rising capacity
c_0 < ... < c_n; l_k(c) is the least loss of any probe up to c, b_k that of a probe that sees
nothing. With the area under the loss-capacity curve, above its lowest point,

    E_k = 1 - (integral of l_k(c) - l_k(c_n) dc) / ( (c_n - c_0) b_k / 2 ),

explicitness is the mean of E_k over K factors: 1 if the weakest probe does as well as the
strongest, 0 if the loss falls in a straight line from b_k to 0, and down to -1 if it falls late.
Size is S = K / J for J latents, and informativeness is read off the end of the curve: the mean of
1 - l_k(c_n) / b_k.

The paper's probes are networks, random features and forests, and their capacity is a number of
parameters, of features, or a depth. Ours are boosted trees (see `boosting`) of 1, 2, 4, ... stages:
one fit passes through all of them. The capacity is the logarithm of the number of stages, the loss
the share of wrong answers on the rows that test. Both are our choice, and explicitness depends on
it, as on every choice of probes.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.boosting import boost_path, sort_features
from unweave.metrics.dci import BLOCK_ROWS, NUM_BLOCKS
from unweave.metrics.importances import latent_columns
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_split
from unweave.metrics.threads import side_by_side
from unweave.types import Float, Range, UserError


def dci_es(codes: ArrayLike, factors: ArrayLike, *, num_train: int | None = None,
           num_stages: int = 32, num_values: ArrayLike | None = None,
           num_threads: int | None = None) -> dict[str, float]:
    """Explicitness, informativeness, size; codes `[sample, latent]`, factors `[sample, factor]`.

    The first `num_train` rows train (two thirds if None), the rest test. Probes have 1, 2, 4, ...
    stages, up to `num_stages`. Factors that are constant in the rows that train are left out.

    A code that knows nothing has the explicitness 1, as no capacity would help, and so has a factor
    that is always the most frequent class in the rows that test. Read it beside the
    informativeness. `num_values` tells categorical latents: a column for each class takes their
    place, while the size counts them as one.
    """
    wrong, stages = _wrong(codes, factors, num_train, num_stages, num_values, num_threads)
    explicit, informed = _both(wrong.mean(axis=1), stages)
    return {"dci_es.explicitness": explicit, "dci_es.informativeness": informed,
            "dci_es.size": wrong.shape[2] / as_codes(codes).shape[1]}


def dci_es_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                     factors: ArrayLike, *, num_train: int | None = None, num_stages: int = 32,
                     num_values: ArrayLike | None = None,
                     num_threads: int | None = None) -> dict[str, np.ndarray]:
    """Explicitness and informativeness of other rows; with fewer than 100 to train, none.

    Rows that test are resampled, the probes staying what they are. What other rows to train would
    change is added as a normal: its variance is that of a mean of ten blocks, in which these rows
    are fitted once more, as for `dci`.
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes))
    num_train = 2 * len(codes) // 3 if num_train is None else num_train
    settings = {"num_stages": num_stages, "num_values": num_values, "num_threads": num_threads}
    wrong, stages = _wrong(codes, factors, num_train, **settings)
    num = wrong.shape[1]
    flat = np.moveaxis(wrong, 1, 0).reshape(num, -1).astype(np.float64)
    weights = np.stack([np.bincount(rng.integers(num, size=num), minlength=num)
                        for _ in range(num_replicates)])
    losses = (weights @ flat / num).reshape(num_replicates, len(wrong), -1)
    made = np.array([_both(one, stages) for one in losses])
    # Blocks are compared on the same rows: a thousand of them are enough.
    judges, blocks = num_train + np.arange(0, num, max(1, num // 1000)), []
    for rows in np.array_split(rng.permutation(num_train),
                               max(1, min(NUM_BLOCKS, num_train // BLOCK_ROWS))):
        if (factors[rows] != factors[rows[:1]]).any():
            rows = np.append(rows, judges)
            part, _ = _wrong(codes[rows], factors[rows], len(rows) - len(judges), **settings)
            blocks.append(_both(part.mean(axis=1), stages))
    if len(blocks) < 2:
        return {}
    deviation = np.std(blocks, axis=0, ddof=1) / np.sqrt(len(blocks))
    made += deviation * rng.normal(size=made.shape)
    return {"dci_es.explicitness": made[:, 0], "dci_es.informativeness": made[:, 1]}


def _both(loss: Float[np.ndarray, "probe factor"], stages: list[int]) -> tuple[float, float]:
    return _explicitness(loss, stages), _informativeness(loss)


def _explicitness(loss: Float[np.ndarray, "probe factor"], stages: list[int]) -> float:
    """Mean over factors of 1 less the share of the triangle that lies under the curve.

    Probe 0 sees nothing, and is not on the curve. Here one stage does nothing, two do half and four
    all that can be done, which is a straight line:

    >>> _explicitness(np.array([[0.5], [0.5], [0.25], [0.0]]), [1, 2, 4])
    0.0
    """
    reached = np.minimum.accumulate(loss, axis=0)[1:]
    width = np.diff(np.log2(stages))[:, None]
    above = reached - reached[-1]
    area = (width * (above[:-1] + above[1:]) / 2).sum(axis=0)
    triangle = width.sum() * loss[0] / 2
    return float(np.clip(1.0 - area / np.where(triangle > 0, triangle, 1.0), -1.0, 1.0).mean())


def _informativeness(loss: Float[np.ndarray, "probe factor"]) -> float:
    least = loss.min(axis=0)
    return float((1.0 - least / np.where(loss[0] > 0, loss[0], 1.0)).mean())


def _wrong(codes: ArrayLike, factors: ArrayLike, num_train: int | None, num_stages: int,
           num_values: ArrayLike | None = None,
           num_threads: int | None = None) -> tuple[np.ndarray, list[int]]:
    """Whether each probe is wrong about each row, `[probe, test row, factor]`, and their stages.

    Probe 0 always says the most frequent class.
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes))
    num_train = 2 * len(codes) // 3 if num_train is None else num_train
    if not 2 <= num_train < len(codes):
        raise UserError("DCI-ES needs at least 2 rows that train and one that tests, got num_train "
                        f"{num_train} of {len(codes)} rows")
    if num_stages < 2:
        raise UserError(f"num_stages must be at least 2: a curve has two ends, got {num_stages}")
    if float(np.abs(codes).max()) > 1e38:
        raise UserError("codes are too large for single precision: rescale them")
    stages = [2**i for i in range(int(np.log2(num_stages)) + 1)]
    stages += [] if stages[-1] == num_stages else [num_stages]
    factors = factors[:, varying(factors[:num_train])]
    table, _ = latent_columns(codes, num_values)
    features, held_out = sort_features(table[:num_train]), table[num_train:]

    def one(k: int) -> np.ndarray:
        names, classes = np.unique(factors[:num_train, k], return_inverse=True)
        path = boost_path(features, classes.astype(np.int64), held_out, stages, salt=k)
        said = [np.full(len(held_out), np.bincount(classes).argmax())]
        said += [fitted.predicted(fitted.test) for fitted in path]
        return names[np.stack(said)] != factors[num_train:, k]

    order = np.argsort(-factors.max(axis=0), kind="stable").tolist()
    results = dict(zip(order, side_by_side(one, order, num_threads)))
    return np.stack([results[k] for k in range(factors.shape[1])], axis=2), stages


METRIC = Metric(
    name="dci_es",
    function=dci_es,
    draw=draw_split,
    keys={"dci_es.explicitness": Key(Range(-1.0, 1.0)),
          "dci_es.informativeness": Key(Range(0.0, 1.0)),
          "dci_es.size": Key(Range(0.0, float("inf")), None)},
    paper="Eastwood et al. 2023",
    version="1",
    summary="how weak a probe may be to read the factors, and how many latents there are to one",
    conventions={
        # Probes are ours in both; the numbers of rows are the study's.
        "paper": {"num_train_points": 10_000, "num_test_points": 5_000, "num_stages": 32},
        "study2019": {"num_train_points": 10_000, "num_test_points": 5_000, "num_stages": 32},
    },
    bootstrap=dci_es_bootstrap,
    default=False,
)
