"""InfoMEC: modularity, explicitness and compactness in one unit. Hsu et al. 2023.

With the information that latent j and factor k share as a part of the factor's entropy,

    R_jk = I(z_j; v_k) / H(v_k),

over J latents in use and K factors,

    InfoM = ( 1/J sum_j max_k R_jk / sum_k R_jk - 1/K ) / (1 - 1/K),
    InfoC = ( 1/K sum_k max_j R_jk / sum_j R_jk - 1/J ) / (1 - 1/J),
    InfoE = 1/K sum_k ( 1 - H_lin(v_k | z) / H(v_k) ):

a latent should know one factor, a factor be in one latent, and a linear model know all. H_lin is
the mean log loss of a logistic regression on all latents, fitted and judged on the same rows: the
predictive information of Xu et al. 2020 with linear models, in which H(v_k) is the loss of a model
that sees nothing.

The paper's information is that of nearest neighbours (see `neighbours`) for continuous latents, and
counts for quantised ones: to us, latents declared categorical. `binned` counts bins instead.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from unweave.metrics.arrays import ArrayLike, as_codes, as_factors, as_num_values, varying
from unweave.metrics.explicitness import standardised
from unweave.metrics.importances import latent_columns
from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.metrics.logistic import decisions
from unweave.metrics.neighbours import NUM_NEIGHBOURS, neighbour_information
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_points
from unweave.metrics.softmax import fit_multinomial
from unweave.types import Codes, Factors, Float, Range, UserError, unknown_name

INFORMATION = ("neighbours", "binned")

NUM_HALVES = 24
"""Of the interval of InfoM and InfoC."""

TOLERANCE = 1e-4
"""Of the regression: its loss is flat at the end, a closer one moves the fourth digit."""


def infomec(codes: ArrayLike, factors: ArrayLike, *, information: str = "neighbours",
            num_neighbours: int = NUM_NEIGHBOURS, num_bins: int = 20, least_range: float = 0.05,
            strength: float = 1e4, num_values: ArrayLike | None = None) -> dict[str, float]:
    """InfoM, InfoE and InfoC of codes `[sample, latent]` and factors `[sample, factor]`, 0 to 1.

    `information` is estimated by `neighbours` or `binned`. Latents whose range is not above
    `least_range` of the widest latent's are out of use: neither InfoM nor InfoC looks at them.
    `strength` is the regression's C: next to no penalty. `num_values` tells categorical latents,
    which are counted, are in use if they vary, and are a column a class to the regression.

    A latent that shares nothing with any factor counts as 0 in InfoM, and so does a factor that no
    latent knows in InfoC. With no latent in use all three are 0. Where there is one factor, every
    latent that knows it is modular; where there is one latent in use, it is compact.
    """
    codes, factors = _checked(codes, factors, information, num_neighbours, least_range, num_values)
    used = _in_use(codes, least_range, num_values)
    if not used.any():
        return dict.fromkeys(METRIC.keys, 0.0)
    shares = _shares(codes, factors, information, num_neighbours, num_bins, num_values)
    loss = _losses(codes, factors, strength, num_values).mean(axis=0)
    return {"infomec.m": _concentration(shares[used]),
            "infomec.e": _known(loss, entropy(factors)),
            "infomec.c": _concentration(shares[used].T)}


def infomec_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                      factors: ArrayLike, *, information: str = "neighbours",
                      num_neighbours: int = NUM_NEIGHBOURS, num_bins: int = 20,
                      least_range: float = 0.05, strength: float = 1e4,
                      num_values: ArrayLike | None = None) -> dict[str, np.ndarray]:
    """The three of other rows.

    Rows drawn twice are neighbours at no distance, so InfoM and InfoC see random halves of the rows
    instead: drawn without replacement, they spread as much as samples of the full size do. InfoE
    resamples rows with the regressions as they are: they are at an optimum, so what a new fit would
    change is small.
    """
    codes, factors = _checked(codes, factors, information, num_neighbours, least_range, num_values)
    used, num = _in_use(codes, least_range, num_values), len(codes)
    halves = []
    for _ in range(min(num_replicates, NUM_HALVES)):
        rows = rng.permutation(num)[:max(2, num // 2)]
        classes = factors[rows]
        classes = as_factors(classes[:, (classes != classes[:1]).any(axis=0)]
                             if (classes != classes[:1]).any() else np.arange(len(rows)) % 2)
        shares = _shares(codes[rows], classes, information, num_neighbours, num_bins, num_values)
        halves.append((_concentration(shares[used]), _concentration(shares[used].T)))
    losses, known = _losses(codes, factors, strength, num_values), []
    for _ in range(num_replicates):
        rows = rng.integers(num, size=num)
        known.append(_known(losses[rows].mean(axis=0), entropy(factors[rows])))
    modular, compact = np.array(halves).T
    return {"infomec.m": modular, "infomec.e": np.array(known), "infomec.c": compact}


def _concentration(shares: Float[np.ndarray, "row column"]) -> float:
    """Mean over rows of the largest share, from 0 where all are alike to 1 where there is one.

    >>> _concentration(np.array([[0.8, 0.0], [0.3, 0.3]]))
    0.5
    """
    if shares.size == 0:
        return 0.0
    total, least = shares.sum(axis=1), 1.0 / shares.shape[1]
    known = total > 0
    if shares.shape[1] == 1:
        return float(known.mean())
    largest = np.where(known, shares.max(axis=1) / np.where(known, total, 1.0), least)
    return float(np.clip((largest.mean() - least) / (1.0 - least), 0.0, 1.0))


def _known(loss: np.ndarray, entropies: np.ndarray) -> float:
    """Mean over factors of the part of the entropy that a model's loss does not leave."""
    left = np.where(entropies > 0, loss / np.where(entropies > 0, entropies, 1.0), 1.0)
    return float(np.clip(1.0 - left, 0.0, 1.0).mean())


def _shares(codes: Codes, factors: Factors, information: str, num_neighbours: int, num_bins: int,
            num_values: ArrayLike | None) -> Float[np.ndarray, "latent factor"]:
    counted = as_num_values(num_values, codes) > 0
    if information == "binned":
        counted[:] = True
    made = np.zeros((codes.shape[1], factors.shape[1]))
    if counted.any():
        made = mutual_information(discretise(codes, num_bins, num_values), factors)
    if not counted.all():
        made[~counted] = neighbour_information(codes[:, ~counted], factors,
                                               num_neighbours=num_neighbours)
    return made / entropy(factors)


def _in_use(codes: Codes, least_range: float, num_values: ArrayLike | None) -> np.ndarray:
    kinds = as_num_values(num_values, codes)
    width = codes.max(axis=0).astype(np.float64) - codes.min(axis=0)
    widest = width[kinds == 0].max(initial=0.0)
    return (width > 0) & ((kinds > 0) | (width > least_range * widest))


def _losses(codes: Codes, factors: Factors, strength: float,
            num_values: ArrayLike | None) -> Float[np.ndarray, "sample factor"]:
    """The log loss of each row's own class, for each factor."""
    features = standardised(latent_columns(codes, num_values)[0], slice(None), None)
    made = np.empty(factors.shape)
    for k, classes in enumerate(factors.T):
        number = int(classes.max()) + 1
        weights = fit_multinomial(features, classes, number, strength=strength,
                                  tolerance=TOLERANCE)
        values = decisions(weights, features)
        made[:, k] = logsumexp(values, axis=1) - values[np.arange(len(values)), classes]
    return made


def _checked(codes: ArrayLike, factors: ArrayLike, information: str, num_neighbours: int,
             least_range: float, num_values: ArrayLike | None) -> tuple[Codes, Factors]:
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes))
    as_num_values(num_values, codes)
    if information not in INFORMATION:
        raise unknown_name("information", information, INFORMATION)
    if num_neighbours < 1:
        raise UserError(f"num_neighbours must be at least 1, got {num_neighbours}")
    if not 0 <= least_range < 1:
        raise UserError(f"least_range must be from 0 to below 1, got {least_range}")
    if float(np.abs(codes).max()) > 1e100:
        raise UserError("codes are too large to be standardised: rescale them")
    return codes, factors[:, varying(factors)]


SHARE = Key(Range(0.0, 1.0))

METRIC = Metric(
    name="infomec",
    function=infomec,
    draw=draw_points,
    keys={"infomec.m": SHARE, "infomec.e": SHARE, "infomec.c": SHARE},
    paper="Hsu et al. 2023",
    version="2",
    summary="whether a latent knows one factor, a linear model all, and a factor is in one latent",
    conventions={
        # Nearest neighbours. The paper's number of rows is left open: the study's.
        "paper": {"num_points": 10_000, "information": "neighbours",
                  "num_neighbours": NUM_NEIGHBOURS, "num_bins": 20, "least_range": 0.05,
                  "strength": 1e4},
        # The study did not have it: its sample and its bins.
        "study2019": {"num_points": 10_000, "information": "binned",
                      "num_neighbours": NUM_NEIGHBOURS, "num_bins": 20, "least_range": 0.05,
                      "strength": 1e4},
    },
    bootstrap=infomec_bootstrap,
    default=False,
)
