"""Modularity: each latent should know about one factor. Ridgeway & Mozer 2018, section 3.

With m_jk = I(z_j; v_k), and k_j the factor of which z_j knows most, an ideal latent has m_jk = 0
for every other factor. What the others have is compared with what they could have,

    delta_j = sum_{k != k_j} m_jk^2 / ( m_{j k_j}^2 (K - 1) ),    modularity = mean_j (1 - delta_j).

Information is that of binned codes (Locatello et al. 2019, appendix B). The score does not ask
whether every factor is in the code, and a latent of pure noise still scores the ratio of its
sampling errors: well above 0, higher the more the sizes of factors differ. Read it beside the noise
floor, or drop dead latents first.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.information import discretise, mutual_information
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Range, UserError


def modularity(codes: ArrayLike, factors: ArrayLike, *, num_bins: int = 20,
               std_threshold: float = 0.0,
               num_values: ArrayLike | None = None) -> dict[str, float]:
    """Mean over latents of one minus their share of stray information, 0 to 1.

    Latents that are constant in these rows, and those whose standard deviation is below
    `std_threshold`, are left out; if none is left the score is 0. A latent without any information
    scores 0. Factors with one value are left out; where one factor is left, a latent that knows it
    scores 1. `num_values` tells categorical latents: their bins are their classes, and the
    threshold does not apply to them.

    >>> modularity([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    {'modularity': 1.0}
    """
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    classes = factors[:, varying(factors)]
    if not std_threshold >= 0:
        raise UserError(f"std_threshold must be at least 0, got {std_threshold}")
    bins = discretise(codes, num_bins, num_values)
    with np.errstate(over="ignore"):  # what is too large to be squared is surely alive
        alive = codes.std(axis=0, dtype=np.float64) >= std_threshold
    if num_values is not None:
        alive |= np.asarray(num_values) > 0
    keep = (bins != bins[:1]).any(axis=0) & alive
    if not keep.any():
        return {"modularity": 0.0}
    squares = mutual_information(bins[:, keep], classes) ** 2
    most = squares.max(axis=1)
    others = squares.sum(axis=1) - most
    possible = most * max(classes.shape[1] - 1, 1)
    stray = np.divide(others, possible, out=np.ones_like(most), where=possible > 0)
    return {"modularity": float(np.clip(1.0 - stray, 0.0, 1.0).mean())}


METRIC = Metric(
    name="modularity",
    function=modularity,
    draw=draw_points,
    keys={"modularity": Key(Range(0.0, 1.0))},
    paper="Ridgeway & Mozer 2018, section 3",
    version="2",
    summary="how much of what a latent knows is about one factor",
    conventions={
        # Ridgeway & Mozer bin latents too, without saying how many bins. They score codes whose
        # latents are all in use; of collapsed ones they say nothing: drop them.
        "paper": {"num_points": None, "num_bins": 20, "std_threshold": 0.05},
        "study2019": {"num_points": 10_000, "num_bins": 20, "std_threshold": 0.0},
    },
    partial=True,
    bootstrap=bootstrap_of(modularity),
)
