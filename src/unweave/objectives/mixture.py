"""A mixture of Gaussians as the prior: densities, divergences, draws, and its fit to codes.

The parameters of a run are `logits` `[*stack, cluster]` of the weights, and `mean` and `logvar`
`[*stack, cluster, latent]` of the components, whose covariances are diagonal. Densities stay in
logarithms until the end (log-sum-exp), and variances have a floor, so that a component that loses
its images, or shrinks onto a few of them, makes no NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unweave.objectives.letter import Count
from unweave.types import LatentBatch, Params

LEAST_LOGVAR, MOST_LOGVAR = -10.0, 20.0
"""Bounds of the components' log-variances wherever they are used."""

_SHARE_FLOOR = 1e-5  # of a component's variances in the fit, as a share of the data's
_MOST_CORRELATED = 32  # latents whose covariances are full in the fit
_MOST_AT_START = 10_000  # codes that starts are tried on
_START_ROUNDS, _MOST_ROUNDS = 50, 100
_LEAST_GAIN = 1e-3  # nats a code in a round, below which EM has settled: scikit-learn's rule
_ROUNDING = 1e-9  # nats a code by which likelihoods of the same mixture may differ
NUM_RESTARTS = 30


@dataclass(frozen=True)
class Prior:
    """A prior with parameters of each run, by pure functions. None in a method means N(0, I)."""

    init: Callable[..., Params]
    """(num_latents, *, its letters) -> parameters before anything is known, without a run axis"""
    fit: Callable[[Tensor, Tensor, int], Params]
    """(codes `[sample, latent]`, uniform numbers `[restart, cluster]`, clusters) -> parameters"""
    log_density: Callable[[Mapping[str, Tensor], Tensor], Tensor]
    """(parameters, z) -> log p(z), `[*stack, batch]`"""
    kl: Callable[[Mapping[str, Tensor], Tensor, Tensor], Tensor]
    """(parameters, mu, logvar) -> the KL of each latent of q(z|x), `[*stack, batch, latent]`"""
    draw: Callable[[Mapping[str, Tensor], Tensor, Tensor], Tensor]
    """(parameters, normal numbers `[batch, latent]`, clusters `[batch]`) -> codes"""
    assign: Callable[[Mapping[str, Tensor], Tensor], Tensor]
    """(parameters, z) -> log p(c|z), `[*stack, batch, cluster]`"""


def _spread(prior: Mapping[str, Tensor]) -> Tensor:
    return prior["logvar"].clamp(LEAST_LOGVAR, MOST_LOGVAR)


def log_joint(prior: Mapping[str, Tensor], z: LatentBatch) -> Tensor:
    """Log p(c) + log p(z|c) for every cluster, `[*stack, batch, cluster]`."""
    logvar = _spread(prior)[..., None, :, :]
    distance = (z[..., None, :] - prior["mean"][..., None, :, :]) ** 2 * torch.exp(-logvar)
    log_normal = -0.5 * (distance + logvar + math.log(2.0 * math.pi)).sum(-1)
    return torch.log_softmax(prior["logits"], -1)[..., None, :] + log_normal


def assign(prior: Mapping[str, Tensor], z: LatentBatch) -> Tensor:
    """Log p(c|z). Jiang et al. 2017, eq. 16: what q(c|x) is, at a draw of q(z|x)."""
    return torch.log_softmax(log_joint(prior, z), -1)


def log_density(prior: Mapping[str, Tensor], z: LatentBatch) -> Tensor:
    """Log p(z) = log sum_c p(c) p(z|c)."""
    return torch.logsumexp(log_joint(prior, z), -1)


def component_kl(prior: Mapping[str, Tensor], mu: LatentBatch, logvar: LatentBatch) -> Tensor:
    """KL(q(z_j|x) || p(z_j|c)), `[*stack, batch, cluster, latent]`."""
    mean, spread = prior["mean"][..., None, :, :], _spread(prior)[..., None, :, :]
    mu, logvar = mu[..., None, :], logvar[..., None, :]
    ratio = (torch.exp(logvar) + (mu - mean) ** 2) * torch.exp(-spread)
    return 0.5 * (spread - logvar + ratio - 1.0)


def expected_kl(prior: Mapping[str, Tensor], mu: LatentBatch, logvar: LatentBatch) -> Tensor:
    """The KL of each latent to the components, weighted by p(c|z) at the mean."""
    weights = assign(prior, mu).exp()[..., None]
    return (weights * component_kl(prior, mu, logvar)).sum(-2)


def draw(prior: Mapping[str, Tensor], normal: Tensor, cluster: Tensor) -> Tensor:
    """Draws of p(z|c) of one run, from normal numbers `[batch, latent]`."""
    return prior["mean"][cluster] + torch.exp(0.5 * _spread(prior))[cluster] * normal


def mixture_init(num_latents: int, *, clusters: Count = 10) -> Params:
    """Equal weights, and all components N(0, 1), until the fit.

    `clusters`: the number of components.
    """
    return {"logits": torch.zeros(clusters), "mean": torch.zeros(clusters, num_latents),
            "logvar": torch.zeros(clusters, num_latents)}


def fit(codes: Tensor, uniform: Tensor, num_clusters: int) -> Params:
    """A mixture fitted to codes `[sample, latent]` by EM in float64, from several starts.

    Covariances are full while it is fitted, and only their diagonals are kept: the directions of an
    autoencoder's latents mean nothing, and clusters lie askew to them. Weights are equal, as they
    are where the objective begins: the likeliest mixture with free ones often has one component for
    two groups and two for another. A start is a row of `uniform`: k-means++ (Arthur &
    Vassilvitskii 2007) picks centres with its numbers, k-means settles them and EM goes on from
    there, all starts side by side on every n-th code of many. EM then goes on with all codes from
    the likeliest.
    """
    centre = codes.detach().double().mean(0)
    whole = codes.detach().double() - centre
    data = whole[::max(1, len(whole) // _MOST_AT_START)]
    floor = _SHARE_FLOOR * data.var(0, correction=0).clamp(min=1e-12)
    centres = _settled(data, _spread_out(data, uniform.double(), num_clusters))
    near = torch.cdist(data.expand(len(uniform), *data.shape), centres).argmin(-1)
    share = torch.nn.functional.one_hot(near, num_clusters).double()
    found, likelihood = _climbed(data, share, floor, _START_ROUNDS)
    likelihood = torch.nan_to_num(likelihood, nan=-torch.inf)
    # Starts that end at the same place, in another order, are equally likely but for rounding: it
    # must not choose among them, as it is not the same every time on a GPU.
    best = (likelihood >= likelihood.max() - _ROUNDING).int().argmax(0)
    found = tuple(part.index_select(0, best[None]) for part in found)
    if len(data) < len(whole):
        found, _ = _climbed(whole, _shared_out(whole, _squares(whole), found)[0], floor)
    mean, covariance = (part[0] for part in found)
    logvar = torch.log(torch.diagonal(covariance, dim1=-2, dim2=-1))
    return {"logits": mean.new_zeros(num_clusters).float(), "mean": (mean + centre).float(),
            "logvar": logvar.float()}


def _climbed(data: Tensor, share: Tensor, floor: Tensor,
             rounds: int = _MOST_ROUNDS) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """EM from shares `[start, sample, cluster]`: components and log-likelihoods `[start]`."""
    squares = _squares(data)
    before = torch.full_like(share[:, 0, 0], -torch.inf)
    for _ in range(rounds):
        found = _maximised(data, squares, share, floor)
        share, likelihood = _shared_out(data, squares, found)
        if not bool((likelihood - before > _LEAST_GAIN).any()):
            break
        before = likelihood
    return found, likelihood


def _squares(data: Tensor) -> Tensor:
    """Products of every two latents, `[sample, latent * latent]`; of many latents squares alone."""
    if data.shape[1] > _MOST_CORRELATED:
        return data**2
    return (data[:, :, None] * data[:, None, :]).flatten(1)


def _maximised(data: Tensor, squares: Tensor, share: Tensor,
               floor: Tensor) -> tuple[Tensor, Tensor]:
    """The M step: means `[start, cluster, latent]` and covariances of the components."""
    size = share.sum(-2).clamp(min=1e-9)
    mean = share.mT @ data / size[..., None]
    second = share.mT @ squares / size[..., None]
    if squares.shape == data.shape:
        covariance = torch.diag_embed((second - mean**2).clamp(min=0.0))
    else:
        second = second.unflatten(-1, (data.shape[1], data.shape[1]))
        covariance = second - mean[..., :, None] * mean[..., None, :]
    return mean, covariance + torch.diag(floor)


def _shared_out(data: Tensor, squares: Tensor,
                found: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The E step: p(c|z) `[start, sample, cluster]`, and the mean log-likelihood `[start]`."""
    mean, covariance = found
    precision = torch.linalg.inv_ex(covariance).inverse
    across = (precision @ mean[..., None])[..., 0]
    form = torch.diagonal(precision, dim1=-2, dim2=-1) if squares.shape == data.shape else (
        precision.flatten(-2))
    distance = (squares @ form.mT - 2.0 * data @ across.mT
                + (mean * across).sum(-1)[..., None, :])
    constant = torch.linalg.slogdet(covariance).logabsdet + data.shape[1] * math.log(2.0 * math.pi)
    joint = -0.5 * (constant[..., None, :] + distance)
    likelihood = torch.logsumexp(joint, -1).mean(-1) - math.log(mean.shape[-2])
    return torch.softmax(joint, -1), likelihood


def _spread_out(data: Tensor, uniform: Tensor, num: int) -> Tensor:
    """Centres `[start, cluster, latent]`: each next one drawn by its squared distance."""
    starts, count = len(uniform), len(data)
    first = (uniform[:, 0] * count).long().clamp(max=count - 1)
    centres = [data[first]]
    nearest = torch.full((starts, count), torch.inf, dtype=data.dtype, device=data.device)
    for k in range(1, num):
        distance = (torch.cdist(centres[-1], data)) ** 2
        nearest = torch.minimum(nearest, distance)
        ladder = nearest.cumsum(-1)
        goal = uniform[:, k:k + 1] * ladder[:, -1:]
        place = torch.searchsorted(ladder, goal, right=True)[:, 0].clamp(max=count - 1)
        centres.append(data[place])
    return torch.stack(centres, 1)


def _settled(data: Tensor, centres: Tensor) -> Tensor:
    for _ in range(_START_ROUNDS):
        near = torch.cdist(data.expand(len(centres), *data.shape), centres).argmin(-1)
        share = torch.nn.functional.one_hot(near, centres.shape[1]).to(data.dtype)
        size = share.sum(-2)[..., None]
        centres = torch.where(size > 0, share.mT @ data / size.clamp(min=1.0), centres)
    return centres


MIXTURE = Prior(mixture_init, fit, log_density, expected_kl, draw, assign)


def named(prior: Mapping[str, Tensor]) -> dict[str, Any]:
    """Parameters as a run stores them: `prior.mean` for `mean`."""
    return {f"prior.{k}": v for k, v in prior.items()}


def of_weights(weights: Mapping[str, Tensor]) -> Params:
    """The prior's parameters among a run's weights; empty where the prior is N(0, I)."""
    return {k.removeprefix("prior."): v for k, v in weights.items() if k.startswith("prior.")}
