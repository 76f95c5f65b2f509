"""Mutual information of a number and a class, by nearest neighbours. Ross 2014.

For row i of class c with N_c rows let d_i be the distance to its k-th neighbour within the class,
and m_i the number of rows of any class, itself among them, that are nearer than that. Then

    I(z; v) = psi(N) + psi(k) - <psi(N_c)> - <psi(m_i)>     in nats,

with psi the digamma function and means over rows; never below 0. Classes with one row are left
out, and k is N_c - 1 where a class has no more. It is what scikit-learn's `mutual_info_classif`
computes with trees. A latent is one number, so neighbours are next to each other once the rows are
sorted: the k-th is at the end of the best of k + 1 windows, and rows nearer than it are counted by
bisection.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from unweave.types import Codes, Factors, Float, Int

NUM_NEIGHBOURS = 10


def neighbour_information(codes: Codes, factors: Factors, *,
                          num_neighbours: int = NUM_NEIGHBOURS,
                          ) -> Float[np.ndarray, "latent factor"]:
    """I(z_j; v_k) of every latent with every factor.

    Latents are standardised, and values that are equal are told apart by noise of
    1e-10, as in scikit-learn. A row's noise is the same in every call and for every latent. A
    constant latent has no information.
    """
    noise = np.random.default_rng(0).standard_normal(len(codes))
    made = np.zeros((codes.shape[1], factors.shape[1]))
    for j in np.flatnonzero(codes.min(axis=0) < codes.max(axis=0)):
        column = codes[:, j].astype(np.float64)
        column -= column.mean()
        column /= column.std() or 1.0
        column += 1e-10 * max(1.0, float(np.abs(column).mean())) * noise
        order = np.argsort(column, kind="stable")
        for k, classes in enumerate(factors.T):
            made[j, k] = information_of_sorted(column[order], classes[order], num_neighbours)
    return made


def information_of_sorted(values: Float[np.ndarray, " sample"], classes: Int[np.ndarray, " sample"],
                          num_neighbours: int) -> float:
    """The estimate for numbers in rising order and the classes of these rows."""
    counts = np.bincount(classes)
    if counts.min() == 1 or (counts == 0).any():
        kept = counts[classes] > 1
        values, classes = values[kept], classes[kept]
        counts = np.bincount(classes)
    num = len(values)
    if num == 0:
        return 0.0
    # Rows class by class, in rising order within each.
    order = np.argsort(classes, kind="stable")
    inside, own = values[order], classes[order]
    end = np.cumsum(counts)[own]
    begin = end - counts[own]
    wanted = np.minimum(num_neighbours, counts[own] - 1)
    place, distance = np.arange(num), np.full(num, np.inf)
    for left in range(int(wanted.max()) + 1):
        first, last = place - left, place - left + wanted
        fits = (left <= wanted) & (first >= begin) & (last < end)
        first, last = np.where(fits, first, place), np.where(fits, last, place)
        reach = np.maximum(inside - inside[first], inside[last] - inside)
        distance = np.where(fits, np.minimum(distance, reach), distance)
    # Nearer, not as near: the k-th neighbour itself is not counted.
    nearer = _reach(values, inside, distance) + _reach(-values[::-1], -inside, distance) - num
    information = (digamma(num) + digamma(wanted).mean() - digamma(counts[own]).mean()
                   - digamma(nearer).mean())
    return float(max(information, 0.0))


def _reach(values: np.ndarray, start: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """How many of the sorted `values` are below `start`, or above it by less than `distance`.

    The sum of the two rounds, and bisection may end beside the place: differences decide.
    """
    padded = np.append(values, np.inf)
    found = np.searchsorted(values, start + distance)
    while True:
        more = padded[found] - start < distance
        less = (found > 0) & ~(padded[found - 1] - start < distance)
        if not (more | less).any():
            return found
        found = found + more - less
