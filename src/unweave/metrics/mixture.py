"""Mixtures of normals in one dimension, on a grid: the aggregate posterior q(z_j) of a latent.

q(z_j) = 1/N sum_n N(z_j; mu_n, sigma_n^2) has as many parts as there are images. Each part is added
to the points of an even grid within 8.5 of its deviations, a few multiplications a point: along a
row, exp(-(t + d)^2 / 2) follows from exp(-t^2 / 2) by a factor that itself changes by a constant
one. Sums over such a grid are exact to many digits, so integrals and entropies need no samples.
"""

from __future__ import annotations

import math

import numpy as np

from unweave.metrics.compiled import compiled
from unweave.types import Float, Int

REACH = 8.5
"""Deviations; what lies beyond is less than 1e-16 of a part."""

TO_INTEGRATE, TO_READ = 2, 6
"""Points a deviation of the narrowest part: for sums over the grid, or for values between its
points."""

MOST_POINTS = 1 << 14
"""Parts narrower than a few thousandths of the range count as wide as a grid of this size can
show, which is two or three of its steps."""


class Grid:
    """An even grid for the parts of one latent."""

    def __init__(self, mu: np.ndarray, sigma: np.ndarray, per_deviation: int = TO_READ) -> None:
        low, high = (mu - REACH * sigma).min(), (mu + REACH * sigma).max()
        self.step = float(max(sigma.min() / per_deviation, (high - low) / MOST_POINTS))
        self.first, self.size = float(low), int((high - low) / self.step) + 2
        self.mu, self.sigma = mu, np.maximum(sigma, min(per_deviation, 3) * self.step)

    def densities(self, classes: Int[np.ndarray, "factor sample"]
                  ) -> list[Float[np.ndarray, "value point"]]:
        """For each factor, the joint density of its values and the latent: sums are q(z_j)."""
        sizes = classes.max(axis=1) + 1
        first = np.cumsum(sizes) - sizes
        total = np.zeros((int(sizes.sum()), self.size))
        rows = np.ascontiguousarray((classes + first[:, None]).T)
        compiled(_deposit)(self.mu, self.sigma, self.first, self.step, rows, total)
        return np.split(total, first[1:])

    def log_density(self, places: Float[np.ndarray, " place"]) -> Float[np.ndarray, " place"]:
        """Log q(z_j) at places where some part is not negligible, by splines of the logarithm."""
        from scipy.interpolate import CubicSpline

        (density,) = self.densities(np.zeros((1, len(self.mu)), dtype=np.int64))
        points = self.first + self.step * np.arange(self.size)
        spline = CubicSpline(points, np.log(np.maximum(density[0], 1e-300)))
        return spline(np.clip(places, points[0], points[-1]))


def mixture_information(mu: Float[np.ndarray, " sample"], sigma: Float[np.ndarray, " sample"],
                        classes: Int[np.ndarray, "factor sample"]
                        ) -> Float[np.ndarray, " factor"]:
    """I(z_j; v_k) of one latent and every factor, where z_j is drawn from its row's posterior.

    The divergence of the joint density of factor and latent from the product of both, in nats.
    """
    grid, found = Grid(mu, sigma, TO_INTEGRATE), []
    for joint in grid.densities(classes):
        share, density = joint.sum(axis=1, keepdims=True) * grid.step, joint.sum(axis=0)
        product = share * density
        ratio = joint / np.where(product > 0.0, product, 1.0)
        found.append((joint * np.log(np.where(ratio > 0.0, ratio, 1.0))).sum() * grid.step)
    return np.maximum(found, 0.0)


def _deposit(mu, sigma, first, step, rows, total):
    """Add the parts, each with the weight 1/N, to the rows of `total` that they belong to."""
    num_parts, num_points = len(mu), total.shape[1]
    part = np.empty(num_points)
    for n in range(num_parts):
        centre = (mu[n] - first) / step
        reach = REACH * sigma[n] / step
        begin = max(0, math.ceil(centre - reach))
        end = min(num_points, int(centre + reach) + 1)
        d = step / sigma[n]
        t = (begin - centre) * d
        value = math.exp(-0.5 * t * t) / (sigma[n] * math.sqrt(2.0 * math.pi) * num_parts)
        factor, change = math.exp(-t * d - 0.5 * d * d), math.exp(-d * d)
        for i in range(begin, end):
            part[i] = value
            value *= factor
            factor *= change
        for k in range(rows.shape[1]):
            row = total[rows[n, k]]
            for i in range(begin, end):
                row[i] += part[i]
