"""The mutual information gap, MIG. Chen et al. 2018, section 4.1; Locatello et al. 2019, app. B.

For K factors v_k and latents z_j, with j_k the latent that knows most about v_k,

    MIG = 1/K sum_k ( I(z_{j_k}; v_k) - max_{j != j_k} I(z_j; v_k) ) / H(v_k).

The gap is divided by the entropy of the factor (not of the code). Mutual information is that of
binned codes, so a factor with more values than bins cannot reach 1: with 20 bins the factors of
dSprites themselves score 0.902 on the whole data set. Plug-in estimates of absent information are
above zero, which takes away a little more: 0.895 on 10,000 points. A categorical latent needs no
bins: its classes are counted as they are.

`mig.posterior`, where there is a model, is the score as Chen et al. have it: z_j is drawn from
q(z_j|x), whose mixtures over images are integrated on a grid instead of sampled (`mixture`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from unweave.metrics.arrays import ArrayLike, as_array, as_codes, as_factors, varying
from unweave.metrics.encoding import as_moments, log_probabilities
from unweave.metrics.information import (
    discretise,
    entropy,
    information_of_counts,
    mutual_information,
)
from unweave.metrics.mixture import mixture_information
from unweave.metrics.record import Key, Metric
from unweave.metrics.resampling import bootstrap_of
from unweave.metrics.sampling import draw_points
from unweave.metrics.threads import side_by_side
from unweave.types import Range

RIVALS = 4
"""The bootstrap follows this many latents a factor: the two of the gap and those next to them."""

DRAWS_AT_ONCE = 1 << 21
COUNTS_AT_ONCE = 1 << 24


def mig(codes: ArrayLike, factors: ArrayLike, *, num_bins: int = 20,
        num_values: ArrayLike | None = None, mu: ArrayLike | None = None,
        logvar: ArrayLike | None = None,
        category_logits: ArrayLike | None = None) -> dict[str, float]:
    """The mutual information gap of codes `[sample, latent]` and factors `[sample, factor]`.

    Factors with one value in these rows have no entropy and are left out of the mean. A single
    latent is compared with zero information, which is what an absent latent has. `num_values` tells
    categorical latents, whose bins are their classes whatever `num_bins` says. With the moments of
    q(z|x), `mu` and `logvar`, there is also `mig.posterior`, which knows no bins.

    With two binary factors and codes that are the factors themselves, both gaps are log 2 - 0:

    >>> mig([[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    {'mig': 1.0}
    """
    bins, classes = _discrete(codes, factors, num_bins, num_values)
    information = mutual_information(bins, classes)
    values = {"mig": float(_gap(information.T, entropy(classes)))}
    if mu is not None and logvar is not None:
        information = posterior_information(classes, mu, logvar, category_logits, num_values)
        values["mig.posterior"] = float(_gap(information.T, entropy(classes)))
    return values


def posterior_information(classes: np.ndarray, mu: ArrayLike, logvar: ArrayLike,
                          category_logits: ArrayLike | None = None,
                          num_values: ArrayLike | None = None) -> np.ndarray:
    """I(z_j; v_k) of draws of q(z|x), `[latent, factor]`. Chen et al. 2018, section 4.1.

    Rows are all images there are: x is uniform over them, and so is x given a factor.
    """
    mu, logvar = as_moments(mu, logvar)
    if classes.min() < 0:  # each factor has rows of its own
        logits = None if category_logits is None else as_array(category_logits)
        known = [np.flatnonzero(column >= 0) for column in classes.T]
        return np.concatenate([posterior_information(
            classes[rows, k:k + 1], mu[rows], logvar[rows],
            None if logits is None else logits[rows], num_values)
            for k, rows in enumerate(known)], axis=1)
    labels = np.ascontiguousarray(classes.T)
    rows = side_by_side(
        lambda j: mixture_information(mu[:, j], np.exp(0.5 * logvar[:, j]), labels),
        range(mu.shape[1]))
    for log_p in log_probabilities(category_logits, num_values):
        rows.append([float(information_of_counts(np.stack(
            [np.bincount(column, weights=p) for p in np.exp(log_p).T])[None])[0])
            for column in labels])
    return np.array(rows)


def mig_bootstrap(rng: np.random.Generator, num_replicates: int, codes: ArrayLike,
                  factors: ArrayLike, *, num_bins: int = 20,
                  num_values: ArrayLike | None = None) -> dict[str, np.ndarray]:
    """MIG of `num_replicates` resamples of the rows; bin edges stay those of the sample.

    A resample is a weight for each row. Joint counts of the `RIVALS` most informed latents of
    each factor are one sparse product of weights and rows. For samples above 20,000 rows
    fewer replicates are made (25 at least).
    """
    bins, classes = _discrete(codes, factors, num_bins, num_values)
    if classes.min() < 0:  # each factor has rows of its own: no table serves all
        return bootstrap_of(mig)(rng, num_replicates, codes, factors, num_bins=num_bins,
                                 num_values=num_values)
    num_bins = int(bins.max()) + 1
    information = mutual_information(bins, classes)
    num_rows, num_factors = classes.shape
    rivals = np.argsort(-information, axis=0, kind="stable")[:RIVALS]
    num_classes = classes.max(axis=0) + 1
    # Cell numbers of every (factor, rival) table, one after the other.
    cells = [bins[:, rivals[:, k]] * num_classes[k] + classes[:, k:k + 1]
             for k in range(num_factors)]
    sizes = np.repeat(num_bins * num_classes, len(rivals))
    first = np.cumsum(sizes) - sizes
    columns = np.concatenate(cells, axis=1) + first
    table = csr_matrix((np.ones(columns.size), columns.ravel(),
                        np.arange(num_rows + 1) * columns.shape[1]),
                       shape=(num_rows, int(sizes.sum()))).T.tocsr()
    num_replicates = min(num_replicates, max(25, 4_000_000 // num_rows))
    at_once = max(1, min(DRAWS_AT_ONCE // num_rows, COUNTS_AT_ONCE // int(sizes.sum())))
    values = []
    for start in range(0, num_replicates, at_once):
        num = min(at_once, num_replicates - start)
        rows = rng.integers(num_rows, size=(num, num_rows)) + num_rows * np.arange(num)[:, None]
        weights = np.bincount(rows.ravel(), minlength=num * num_rows).reshape(num, num_rows)
        counts = (table @ weights.T.astype(np.float64)).T
        per_factor, entropies = [], []
        for k in range(num_factors):
            begin, width = first[k * len(rivals)], num_bins * num_classes[k]
            tables = counts[:, begin:begin + len(rivals) * width]
            tables = tables.reshape(num, len(rivals), num_bins, num_classes[k])
            per_factor.append(information_of_counts(tables))
            # The information a variable has about itself is its entropy.
            margin = tables[:, 0].sum(axis=1)
            entropies.append(information_of_counts(margin[:, :, None] * np.eye(num_classes[k])))
        values.append(_gap(np.stack(per_factor, axis=1), np.stack(entropies, axis=1)))
    return {"mig": np.concatenate(values)}


def _discrete(codes: ArrayLike, factors: ArrayLike, num_bins: int,
              num_values: ArrayLike | None) -> tuple[Any, Any]:
    codes = as_codes(codes)
    factors = as_factors(factors, len(codes), unknown=True)
    return discretise(codes, num_bins, num_values), factors[:, varying(factors)]


def _gap(information: np.ndarray, entropies: np.ndarray) -> np.ndarray | np.floating:
    """Mean over factors of the gap; `information` is `[..., factor, latent]`."""
    if information.shape[-1] == 1:
        gap = information[..., 0]
    else:
        ordered = np.partition(information, -2, axis=-1)
        gap = ordered[..., -1] - ordered[..., -2]
    # A resample may miss all but one value of a rare factor: its gap is then 0, not 0 / 0.
    return np.minimum(gap / np.where(entropies > 0, entropies, 1.0), 1.0).mean(axis=-1)


METRIC = Metric(
    name="mig",
    function=mig,
    draw=draw_points,
    keys={"mig": Key(Range(0.0, 1.0)), "mig.posterior": Key(Range(0.0, 1.0))},
    paper="Chen et al. 2018, section 4.1",
    version="2",
    summary="how much more one latent knows about a factor than any other latent does",
    conventions={
        # Chen et al. use the whole data set. Their score needs the posteriors q(z|x) and is
        # `mig.posterior`; from codes alone the binned one is what can be had.
        "paper": {"num_points": None, "num_bins": 20},
        "study2019": {"num_points": 10_000, "num_bins": 20},
    },
    partial=True,
    bootstrap=mig_bootstrap,
)
