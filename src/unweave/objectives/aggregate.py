"""The aggregate posterior q(z) = 1/N sum_n q(z|x_n), estimated from one batch.

Chen et al. 2018, appendix C, give two estimates, both sums over the batch with weights on the
pairs (z_i, x_j); Kaddah 2020, eq. 9 is the first. B: images of the batch, N: of the data.

`weighted`: 1 / (N B) on every pair. Biased: log q(z) is too low by about log N where posteriors
    overlap, so each density in a difference carries that constant. Its gradient is what is used.
`stratified`: an unbiased density. With M = B - 1: 1 / N on the image that z_i came from,
    (N - M) / (N M) on one other image, 1 / M on the rest; a row sums to 1. The logarithm of it is
    still biased (Jensen; Kim & Mnih 2018, appendix D): posteriors much narrower than the gaps
    between the batch's codes leave few images that say anything about q(z_i), and its own image
    outweighs them. Of a total correlation of 1.51 nats (10 latents, batch 64, N = 20,000) it makes
    7.0, 1.3 and 0.44 where posteriors have standard deviations of 0.2, 0.355 and 0.5.

The weight of a pair is added once to its log-density, whether that is of all latents or of one.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from unweave.types import LatentBatch, UserError, unknown_name

Sampling = Literal["weighted", "stratified"]
SAMPLINGS = ("weighted", "stratified")


class LogDensities(NamedTuple):
    """Log-densities of the sampled codes, each `[*stack, batch]`."""

    given_image: Tensor
    """log q(z|x)"""
    aggregate: Tensor
    """log q(z)"""
    marginals: Tensor
    """sum_j log q(z_j)"""
    prior: Tensor
    """log p(z)"""


def gaussian_log_density(z: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """Log N(z; mu, exp(logvar)), elementwise."""
    return -0.5 * ((z - mu) ** 2 * torch.exp(-logvar) + logvar + math.log(2.0 * math.pi))


def log_weights(sampling: str, batch: int, dataset_size: int, like: Tensor) -> Tensor:
    """Log of the weights `[batch, batch]` of images j (columns) in the estimate of q(z_i) (rows).

    The stratum of its own weight is the next image of the batch: batches are drawn at random, so
    any fixed choice serves.
    """
    shape = {"size": (batch, batch), "dtype": like.dtype, "device": like.device}
    if sampling == "weighted":
        return torch.full(fill_value=-math.log(dataset_size * batch), **shape)
    if sampling != "stratified":
        raise unknown_name("sampling", sampling, SAMPLINGS)
    if batch < 2 or dataset_size < batch:
        raise UserError(
            f"stratified sampling needs a batch of at least 2 images and a data set of at least "
            f"one batch, not {batch} of {dataset_size}: change the batch size or use weighted")
    others = batch - 1
    stratum = (dataset_size - others) / (dataset_size * others)
    row = torch.arange(batch, device=like.device)[:, None]
    column = torch.arange(batch, device=like.device)[None, :]
    weights = torch.full(fill_value=-math.log(others), **shape)
    weights = weights.masked_fill(column == (row + 1) % batch, math.log(stratum))
    return weights.masked_fill(column == row, -math.log(dataset_size))


def log_densities(z: LatentBatch, mu: LatentBatch, logvar: LatentBatch, *, dataset_size: int,
                  sampling: str) -> LogDensities:
    """The four log-densities that the decompositions of the KL are made of."""
    own = gaussian_log_density(z, mu, logvar).sum(-1)
    zero = torch.zeros_like(z)
    prior = gaussian_log_density(z, zero, zero).sum(-1)
    # [*stack, i, j, latent]: the density of code i under the posterior of image j.
    pairs = gaussian_log_density(z.unsqueeze(-2), mu.unsqueeze(-3), logvar.unsqueeze(-3))
    weights = log_weights(sampling, z.shape[-2], dataset_size, z)
    aggregate = torch.logsumexp(pairs.sum(-1) + weights, -1)
    marginals = torch.logsumexp(pairs + weights.unsqueeze(-1), -2).sum(-1)
    return LogDensities(own, aggregate, marginals, prior)
