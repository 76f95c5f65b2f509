"""The mutual-information score: what latents know about each other. Locatello et al. 2019, 5.2.

For J latents, binned,

    score = 1 / (J^2 - J) sum_{i != j} I(z_i; z_j),

in nats. It looks at codes alone, and other than total correlation it sees dependence that is not
linear. Plug-in information is above zero for independent latents too: about (B - 1)^2 / 2n.
"""

from __future__ import annotations

from unweave.metrics.arrays import ArrayLike, as_codes
from unweave.metrics.information import discretise, information_of_counts, joint_counts
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Range


def mutual_info_score(codes: ArrayLike, factors: ArrayLike | None = None, *, num_bins: int = 20,
                      num_values: ArrayLike | None = None) -> dict[str, float]:
    """Mean information between two latents, 0 or more, in nats; `factors` are not used.

    Constant latents know nothing and count in the mean. A single latent has a score of 0.
    `num_values` tells categorical latents, whose bins are their classes.

    A copy of a latent with two equally frequent values knows log 2 of it:

    >>> mutual_info_score([[0, 0], [1, 1]])["mutual_info_score"].__round__(4)
    0.6931
    """
    codes = as_codes(codes)
    bins = discretise(codes, num_bins, num_values)
    num_latents = bins.shape[1]
    varied = bins[:, (bins != bins[:1]).any(axis=0)]
    total = 0.0
    for j in range(1, varied.shape[1]):
        total += 2.0 * information_of_counts(joint_counts(varied[:, :j], varied[:, j])).sum()
    return {"mutual_info_score": float(total / max(num_latents ** 2 - num_latents, 1))}


METRIC = Metric(
    name="mutual_info_score",
    function=mutual_info_score,
    draw=draw_points,
    keys={"mutual_info_score": Key(Range(0.0), higher_is_better=False)},
    paper="computed for the runs of Locatello et al. 2019",
    version="1",
    summary="how much latents know about each other",
    conventions={"paper": {"num_points": 10_000, "num_bins": 20},
                 "study2019": {"num_points": 10_000, "num_bins": 20}},
    partial=True,
    bootstrap=bootstrap_of(mutual_info_score),
)
