"""A model in which everything is known: a linear Gaussian VAE with its exact posterior.

z ~ N(0, I), x = W z + e with e ~ N(0, I). Columns of W are orthogonal, so the posterior has
independent latents: N(S W'x, S) with S = 1 / (1 + |w_j|^2). log p(x) is that of N(0, I + W W').
"""

import numpy as np
from scipy.stats import multivariate_normal

from unweave.metrics import Encoding

RNG = np.random.default_rng(0)
SCALES = np.array([3.0, 1.0, 0.0])
"""Lengths of the columns of W: a latent that is used, one used a little, one not at all."""
W = np.linalg.qr(RNG.normal(size=(6, 3)))[0] * SCALES
VARIANCE = 1.0 / (1.0 + SCALES**2)
X = RNG.normal(size=(400, 3)) @ W.T + RNG.normal(size=(400, 6))
LOG_EVIDENCE = multivariate_normal(cov=np.eye(6) + W @ W.T).logpdf(X)


def nats(x, z):
    """-log p(x|z)."""
    return 0.5 * ((x - z @ W.T) ** 2 + np.log(2 * np.pi)).sum(axis=-1)


def encoding(x=X, *, widen=1.0, shift=0.0):
    """The model's encoding; a posterior that is wider than the exact one, or beside it, if told."""
    mu, variance = x @ W * VARIANCE + shift, widen**2 * VARIANCE

    def sampled(rows, number=0):
        noise = np.random.default_rng(number).normal(size=mu.shape)
        return (mu + np.sqrt(variance) * noise)[rows]

    def log_weights(rows, num_particles):
        z = np.stack([sampled(rows, number) for number in range(num_particles)], axis=1)
        own = 0.5 * ((z - mu[rows, None]) ** 2 / variance + np.log(variance)).sum(axis=-1)
        return own - 0.5 * (z**2).sum(axis=-1) - nats(x[rows, None], z)

    return Encoding(
        mu, sampled=sampled, mu=mu, logvar=np.log(np.broadcast_to(variance, mu.shape)),
        reconstruction=lambda rows: nats(x[rows], sampled(rows)), log_weights=log_weights,
        prior=lambda num: np.random.default_rng(num).normal(size=(num, 3)),
        decode=lambda z: z @ W.T, features=lambda images: images @ W * VARIANCE)
