"""DCIMIG, or 3CharM: a gap that asks for all of DCI at once. Sepliarskaia et al. 2019.

Each latent z_j is given to the factor k_j of which it knows most, with the gap to the next factor,

    R_j = I(z_j; v_{k_j}) - max_{k != k_j} I(z_j; v_k),

and a factor keeps the best of its latents. Summed over factors and divided by all there is to know,

    DCIMIG = sum_k max_{j : k_j = k} R_j / sum_k H(v_k).

A factor without a latent adds nothing, so the score is low if one of disentanglement, completeness
and informativeness is; a copy of a latent costs nothing.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Range


def dcimig(codes: ArrayLike, factors: ArrayLike, *, num_bins: int = 20,
           num_values: ArrayLike | None = None) -> dict[str, float]:
    """The score of codes `[sample, latent]` and factors `[sample, factor]`, 0 to 1.

    Constant latents have no gap and change nothing. Factors with one value are left out; a single
    factor is compared with zero information. `num_values` tells categorical latents, whose bins are
    their classes.

    >>> dcimig([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    {'dcimig': 1.0}
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    classes = factors[:, varying(factors)]
    bins = discretise(codes, num_bins, num_values)
    information = mutual_information(bins, classes)
    information[(bins == bins[:1]).all(axis=0)] = 0.0  # exactly, whatever rounding says
    ordered = np.sort(information, axis=1)
    second = ordered[:, -2] if classes.shape[1] > 1 else 0.0
    kept = np.zeros(classes.shape[1])
    np.maximum.at(kept, information.argmax(axis=1), ordered[:, -1] - second)
    return {"dcimig": float(min(kept.sum() / entropy(classes).sum(), 1.0))}


METRIC = Metric(
    name="dcimig",
    function=dcimig,
    draw=draw_points,
    keys={"dcimig": Key(Range(0.0, 1.0))},
    paper="Sepliarskaia et al. 2019",
    version="2",
    summary="how much of all factors is in latents of their own",
    conventions={
        "paper": {"num_points": None, "num_bins": 20},
        # Not among the study's scores: its sample and its bins.
        "study2019": {"num_points": 10_000, "num_bins": 20},
    },
    partial=True,
    bootstrap=bootstrap_of(dcimig),
)
