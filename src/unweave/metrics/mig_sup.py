"""MIG-sup: the gap seen from the latents. Li et al. 2020, "Progressive learning and disentanglement
of hierarchical representations".

MIG asks whether a factor is in one latent, MIG-sup whether a latent has one factor. With
normalised information R_jk = I(z_j; v_k) / H(v_k), and k_j the factor of which z_j knows most,

    MIG-sup = 1/J sum_j ( R_{j k_j} - max_{k != k_j} R_jk ).

Division is by the entropy of the factor, as in MIG. Some implementations divide by that of the code
instead: `normalise="code"`, the share of a latent's own information that the gap makes up.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, varying
from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.types import Range, unknown_name

NORMALISERS = ("factor", "code")


def mig_sup(codes: ArrayLike, factors: ArrayLike, *, num_bins: int = 20,
            normalise: str = "factor", num_values: ArrayLike | None = None) -> dict[str, float]:
    """Mean over latents of the gap between the two factors they know best, 0 to 1.

    Latents that are constant in these rows count in the mean, with a gap of 0: by this score a
    latent out of use is a fault. Factors with one value are left out; a single factor is compared
    with zero information. `num_values` tells categorical latents, whose bins are their classes.

    >>> mig_sup([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    {'mig_sup': 1.0}
    """
    if not isinstance(normalise, str) or normalise not in NORMALISERS:
        raise unknown_name("normaliser", str(normalise), NORMALISERS)
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    classes = factors[:, varying(factors)]
    bins = discretise(codes, num_bins, num_values)
    information = mutual_information(bins, classes)
    information[(bins == bins[:1]).all(axis=0)] = 0.0  # exactly, whatever rounding says
    whole = entropy(classes) if normalise == "factor" else entropy(bins)[:, None]
    known = information / np.where(whole > 0, whole, 1.0)
    if known.shape[1] == 1:
        gap = known[:, 0]
    else:
        ordered = np.partition(known, -2, axis=1)
        gap = ordered[:, -1] - ordered[:, -2]
    return {"mig_sup": float(np.clip(gap, 0.0, 1.0).mean())}


METRIC = Metric(
    name="mig_sup",
    function=mig_sup,
    draw=draw_points,
    keys={"mig_sup": Key(Range(0.0, 1.0))},
    paper="Li et al. 2020",
    version="2",
    summary="how much more a latent knows about one factor than about any other",
    conventions={
        "paper": {"num_points": None, "num_bins": 20, "normalise": "factor"},
        # Not among the study's scores: its sample and its bins, with the paper's formula.
        "study2019": {"num_points": 10_000, "num_bins": 20, "normalise": "factor"},
    },
    partial=True,
    bootstrap=bootstrap_of(mig_sup),
)
