"""JEMMIG, joint entropy minus mutual information gap. Do & Tran 2020.

With j_k the latent that knows most about factor v_k and j'_k the next, the paper adds to the gap of
MIG the joint entropy, which is least if latent and factor determine each other:

    JEMMIG_k = H(z_{j_k}, v_k) - I(z_{j_k}; v_k) + I(z_{j'_k}; v_k).

It lies between 0, which is best, and H(v_k) + log B for B bins. The score here is

    1 - 1/K sum_k JEMMIG_k / ( H(v_k) + log B ),

so 1 is best. A latent that also knows other factors, or noise, pays for it: MIG does not see that.
The least is reached by noise that fills all bins; noise in few bins scores above 0.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, as_num_values, varying
from unweave.metrics.information import Bins, discretise, entropy, mutual_information
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Factors, Float, Range


def jemmig(codes: ArrayLike, factors: ArrayLike, *, num_bins: int = 20,
           num_values: ArrayLike | None = None) -> dict[str, float]:
    """The normalised score of codes `[sample, latent]` and factors `[sample, factor]`, 0 to 1.

    Latents that are constant in these rows are left out; if none is left the score is 0 (by the
    formula, a code that says nothing would be rewarded for its low entropy). A single latent is
    compared with zero information. Factors with one value are left out. `num_values` tells
    categorical latents: their bins are their classes, and B is the number of these.

    >>> jemmig([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    {'jemmig': 1.0}
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    classes = factors[:, varying(factors)]
    bins = discretise(codes, num_bins, num_values)
    most_bins = as_num_values(num_values, codes)
    most_bins = np.where(most_bins > 0, most_bins, num_bins)
    keep = (bins != bins[:1]).any(axis=0)
    if not keep.any():
        return {"jemmig": 0.0}
    bins, most_bins = bins[:, keep], most_bins[keep]
    information = mutual_information(bins, classes)
    best = information.argmax(axis=0)
    ordered = np.sort(information, axis=0)
    second = ordered[-2] if len(ordered) > 1 else np.zeros(classes.shape[1])
    of_factor = entropy(classes)
    joint = _entropies(bins, best, classes) + of_factor - ordered[-1]
    worst = of_factor + np.log(most_bins[best])
    return {"jemmig": float(np.clip(1.0 - (joint - ordered[-1] + second) / worst, 0.0, 1.0)
                            .mean())}


def _entropies(bins: Bins, best: np.ndarray, classes: Factors) -> Float[np.ndarray, " factor"]:
    """H of the best latent of each factor, over the rows where the factor is known."""
    if classes.min() >= 0:
        return entropy(bins)[best]
    return np.array([entropy(bins[column >= 0][:, j:j + 1])[0]
                     for j, column in zip(best, classes.T)])


METRIC = Metric(
    name="jemmig",
    function=jemmig,
    draw=draw_points,
    keys={"jemmig": Key(Range(0.0, 1.0))},
    paper="Do & Tran 2020",
    version="2",
    summary="how nearly one latent and a factor determine each other, and no other latent knows it",
    conventions={
        "paper": {"num_points": None, "num_bins": 20},
        # Not among the study's scores: its sample and its bins.
        "study2019": {"num_points": 10_000, "num_bins": 20},
    },
    partial=True,
    bootstrap=bootstrap_of(jemmig),
)
