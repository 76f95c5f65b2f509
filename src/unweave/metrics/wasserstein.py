"""Gaussian Wasserstein correlation of codes, computed for the runs of Locatello et al. 2019.

The squared 2-Wasserstein distance between a Gaussian with the covariance S of the codes and the
product of its marginals, with D = diag S:

    W = 2 tr S - 2 tr (D^1/2 S D^1/2)^1/2.

It looks at codes alone. Unlike total correlation it is finite for copied latents and gives latents
with little variance little weight. `wasserstein.normalised` is W / tr S, which has no scale.
Where there is a model, the same of codes drawn from q(z|x) are the keys with `sampled`.
"""

from __future__ import annotations

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_num_values, continuous_only
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.metrics.spectrum import gram_eigenvalues
from unweave.types import Range, UserError


def wasserstein(codes: ArrayLike, factors: ArrayLike | None = None, *,
                sampled: ArrayLike | None = None,
                num_values: ArrayLike | None = None) -> dict[str, float]:
    """Wasserstein correlation of codes `[sample, latent]`, 0 or more; `factors` are not used.

    Covariances are those of n - 1. Constant latents change nothing; if none varies both are 0.
    `sampled` is a draw of the posterior for each row.

    `num_values` tells categorical latents, which are left out: they have no covariance.

    >>> wasserstein([[0, 0], [0, 1], [1, 0], [1, 1]])
    {'wasserstein.mean': 0.0, 'wasserstein.normalised': 0.0}
    """
    codes = as_codes(codes)
    kinds = as_num_values(num_values, codes)
    distance, total = _distance(continuous_only(codes, kinds))
    values = {"wasserstein.mean": distance, "wasserstein.normalised": distance / total}
    if sampled is not None:
        distance, total = _distance(continuous_only(sampled, kinds))
        values |= {"wasserstein.sampled": distance,
                   "wasserstein.sampled_normalised": distance / total}
    return values


def _distance(codes: ArrayLike) -> tuple[float, float]:
    """The squared distance, and the trace of the covariance: 1 where nothing can be divided."""
    codes = as_codes(codes).astype(np.float64)
    varied = codes[:, (codes != codes[:1]).any(axis=0)]
    if varied.shape[1] < 2:
        return 0.0, 1.0
    centred = varied - varied.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        root = np.sqrt((centred ** 2).sum(axis=0) / (len(codes) - 1))
        # D^1/2 S D^1/2 is the Gram matrix of this table.
        scaled = centred * (root / np.sqrt(len(codes) - 1))
        size = np.abs(scaled).max() ** 2 * len(codes)
    if not np.isfinite(size):
        raise UserError("codes are too large for their covariance: rescale them")
    total = float(root @ root)
    # The matrix is positive semi-definite: the trace of its root is that of its eigenvalues'.
    roots = np.sqrt(gram_eigenvalues(scaled)).sum()
    return float(max(2.0 * total - 2.0 * roots, 0.0)), total or 1.0


METRIC = Metric(
    name="wasserstein",
    function=wasserstein,
    draw=draw_points,
    keys={"wasserstein.mean": Key(Range(0.0), higher_is_better=False),
          "wasserstein.normalised": Key(Range(0.0, 2.0), higher_is_better=False),
          "wasserstein.sampled": Key(Range(0.0), higher_is_better=False),
          "wasserstein.sampled_normalised": Key(Range(0.0, 2.0), higher_is_better=False)},
    paper="computed for the runs of Locatello et al. 2019",
    version="1",
    summary="how far the codes are from uncorrelated, as a distance between Gaussians",
    conventions={"paper": {"num_points": 10_000}, "study2019": {"num_points": 10_000}},
    partial=True,
    bootstrap=bootstrap_of(wasserstein),
)
