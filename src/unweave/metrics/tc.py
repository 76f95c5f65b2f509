"""Gaussian total correlation of codes. Locatello et al. 2019, section 5.2.

How far a Gaussian with the covariance S of the codes is from the product of its marginals, in nats:

    TC = KL( N(0, S) || N(0, diag S) ) = ( sum_j log S_jj - log det S ) / 2.

It looks at codes alone. 0 means uncorrelated latents, which need not be disentangled: any rotation
of a white code has a TC of 0. `tc.mean` is that of mean codes and `tc.sampled`, where there is a
model, that of codes drawn from q(z|x), which the objectives hold down.
"""

from __future__ import annotations

import warnings

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_codes, as_num_values, continuous_only
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.metrics.spectrum import gram_eigenvalues
from unweave.types import Range

LEAST_EIGENVALUE = 1e-12
"""Of a correlation matrix; below it rounding decides. One copied latent has a TC of about 13.5."""


def tc(codes: ArrayLike, factors: ArrayLike | None = None, *,
       sampled: ArrayLike | None = None,
       num_values: ArrayLike | None = None) -> dict[str, float]:
    """Gaussian total correlation of codes `[sample, latent]`, 0 or more; `factors` are not used.

    Constant latents are independent of everything and change nothing. One latent, or none that
    varies, has a TC of 0. Where a latent is a linear function of others the TC is infinite: it is
    bounded here, as eigenvalues of the correlation matrix count as 1e-12 at least. With as many
    latents as rows that is always so, and a warning says it. With `sampled`, a draw of the
    posterior for each row, the same of these is `tc.sampled`.

    `num_values` tells categorical latents, which are left out: they have no covariance.

    >>> tc([[0, 0], [0, 1], [1, 0], [1, 1]])
    {'tc.mean': 0.0}
    """
    codes = as_codes(codes)
    kinds = as_num_values(num_values, codes)
    values = {"tc.mean": _total_correlation(continuous_only(codes, kinds))}
    if sampled is not None:
        values["tc.sampled"] = _total_correlation(continuous_only(sampled, kinds))
    return values


def _total_correlation(codes: ArrayLike) -> float:
    codes = as_codes(codes).astype(np.float64)
    varied = codes[:, (codes != codes[:1]).any(axis=0)]
    if varied.shape[1] < 2:
        return 0.0
    if varied.shape[1] >= len(varied):
        warnings.warn(f"{len(varied)} rows cannot tell the covariance of {varied.shape[1]} latents "
                      "apart from one without full rank: their total correlation is only a bound "
                      "that grows with the number of latents", stacklevel=4)
    centred = varied - varied.mean(axis=0)
    centred /= np.abs(centred).max(axis=0)  # squares of any codes are then in range
    unit = centred / np.sqrt((centred ** 2).sum(axis=0))
    eigenvalues = np.maximum(gram_eigenvalues(unit), LEAST_EIGENVALUE)
    return float(max(0.0, -0.5 * np.log(eigenvalues).sum()))


METRIC = Metric(
    name="tc",
    function=tc,
    draw=draw_points,
    keys={"tc.mean": Key(Range(0.0), higher_is_better=False),
          "tc.sampled": Key(Range(0.0), higher_is_better=False)},
    paper="Locatello et al. 2019, section 5.2",
    version="1",
    summary="how far the codes are from uncorrelated, as a Gaussian's total correlation",
    conventions={"paper": {"num_points": 10_000}, "study2019": {"num_points": 10_000}},
    partial=True,
    bootstrap=bootstrap_of(tc),
)
