"""Generators and critics: InfoGAN and InfoWGAN-GP.

A generator makes images from codes c and noise; a critic D tells them from real ones; an encoder
Q, which shares the critic's first layers, reads the codes back. One pure function of a `Play` gives
what each player minimises: `loss` is the generator's, `critic_loss` that of D and Q. The trainer
owns networks, optimisers and turns, and sees to it that neither player moves the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.objectives.letter import Count, Decay, trailing
from unweave.types import PerRun, Play, Positive, Range, Strength, Terms, unknown_name

LEAST_LOGVAR, MOST_LOGVAR = -8.0, 8.0
"""Bounds of log Q's variances: a code that is read back exactly would be worth infinitely much."""

Floor = Annotated[PerRun, Range(LEAST_LOGVAR, MOST_LOGVAR)]
"""The least log-variance of Q; at 0 it stays there, for codes have a variance of 1/3."""

GameKind = Literal["non_saturating", "minimax", "printed"]
"""What discriminator and generator play for: see `infogan`."""


class GamePlan(NamedTuple):
    """What the trainer needs to let the players take turns."""

    rate: PerRun
    """Of the critic's Adam; the generator's is the run's learning rate."""
    beta1: float
    beta2: float
    critic_steps: int
    """Updates of D and Q for one of the generator."""


@dataclass(frozen=True)
class Game:
    """A method with two players: how they take turns, and whether D's slope is looked at."""

    plan: Callable[..., GamePlan]
    penalised: bool


class MadeCodes(NamedTuple):
    """What images are made from."""

    codes: Tensor
    """Continuous codes, uniform in [-1, 1]."""
    categories: tuple[Tensor, ...]
    """One-hot classes."""
    given: Tensor
    """What the generator sees: codes, classes, noise."""


def make_codes(uniform: Tensor, noise: Tensor, sizes: tuple[int, ...]) -> MadeCodes:
    """Draws of the prior. Kim & Mnih 2018, appendix H: U[-1, 1], equal classes, N(0, 1).

    `uniform` has a number in [0, 1) for each continuous code, then one for each category.
    """
    num = uniform.shape[-1] - len(sizes)
    codes = 2.0 * uniform[..., :num] - 1.0
    categories = []
    for j, size in enumerate(sizes):
        values = torch.arange(size, device=uniform.device)
        chosen = torch.floor(uniform[..., num + j, None] * size).clamp(max=size - 1)
        categories.append((chosen == values).to(uniform.dtype))
    return MadeCodes(codes, tuple(categories), torch.cat([codes, *categories, noise], -1))


def information(play: Play, least_logvar: PerRun = LEAST_LOGVAR) -> Terms:
    """Bounds on what images say of their codes, in nats. Kim & Mnih 2018, eq. 13.

    mi = H(c) + E[log Q(c|G(c, noise))], a lower bound on I(c; G(c, noise)); their L is `mi` without
    the constant H(c). `mi_latent` is each continuous code's share, `mi_category` that of classes.
    `least_logvar`: how sure of a code Q may be.
    """
    logvar = play.logvar.clamp(max=MOST_LOGVAR).clamp(min=trailing(least_logvar, 2))
    log_q = -0.5 * ((play.codes - play.mu) ** 2 * torch.exp(-logvar) + logvar
                    + math.log(2.0 * math.pi))
    latents = log_q.mean(-2) + math.log(2.0)
    classes = torch.zeros_like(latents[..., 0])
    for logits, made in zip(play.category_logits, play.categories):
        log_p = torch.log_softmax(logits, -1)
        classes = classes + (made * log_p).sum(-1).mean(-1) + math.log(logits.shape[-1])
    return {"mi": latents.sum(-1) + classes, "mi_latent": latents, "mi_category": classes}


def _judgement(play: Play, middle: Tensor | float) -> Terms:
    """How the critic does: half of each kind right is 1/2; undecided counts as real."""
    kind = play.real.dtype
    real = (play.real >= middle).to(kind).mean(-1)
    fake = (play.fake < middle).to(kind).mean(-1)
    return {"critic_accuracy": 0.5 * (real + fake), "critic_real_right": real,
            "critic_fake_right": fake}


def infogan(play: Play, *, lambda_mi: Strength = 1.0, least_logvar: Floor = LEAST_LOGVAR,
            game: GameKind = "non_saturating") -> Terms:
    """A generative adversarial net with informative codes. Kim & Mnih 2018, eq. 14 and 15.

    critic_loss = E[-log D(x)] + E[-log(1 - D(G(z)))] - lambda_mi mi,  D = sigmoid of its output
    loss        = E[-log D(G(z))] - lambda_mi mi

    The generator maximises log D instead of minimising log(1 - D), as Goodfellow et al. 2014 advise
    and Chen et al. 2016 did: `game` is non_saturating. Eq. 14 is printed as one minimax game, in
    which the generator minimises log(1 - D): `minimax`. Eq. 15 is printed with log D for made
    images, too, which the discriminator then minimises and the generator maximises: `printed`.
    Where D takes everything for real, nobody has a slope there.

    `lambda_mi`: weight of the information; `least_logvar`: of Q's variances, which Chen et al.'s
    program holds at 1 (a logarithm of 0); `game`: non_saturating, minimax or printed.
    """
    terms = information(play, least_logvar)
    # Means of -log D(x), -log D(G(z)) and -log(1 - D(G(z))).
    real, made, unmade = (F.softplus(x).mean(-1) for x in (-play.real, -play.fake, play.fake))
    games = {"non_saturating": (real + unmade, made), "minimax": (real + unmade, -unmade),
             "printed": (real - made, made)}
    if game not in games:
        raise unknown_name("game", game, tuple(games))
    critic, generator = games[game]
    gain = lambda_mi * terms["mi"]
    return {"loss": generator - gain, "generator_loss": generator, "critic_loss": critic - gain,
            "critic_value": -critic.detach()} | terms | _judgement(play, 0.0)


def infowgan_gp(play: Play, *, lambda_mi: Strength = 1.0, eta: Strength = 10.0,
                least_logvar: Floor = LEAST_LOGVAR) -> Terms:
    """InfoGAN with Wasserstein distance and gradient penalty. Kim & Mnih 2018, eq. 14 and 16.

    critic_loss = E[D(G(z))] - E[D(x)] + eta E[(|grad D(x^)| - 1)^2] - lambda_mi mi
    loss        = -E[D(G(z))] - lambda_mi mi

    x^ lies between a real image and a made one (Gulrajani et al. 2017). As eq. 16 is printed, D
    would maximise the penalty. `lambda_mi`: weight of the information; `eta`: of the penalty;
    `least_logvar`: as in `infogan`.
    Outputs of this critic have no zero, so its accuracy is taken at the middle of the batch's two
    means.
    """
    terms = information(play, least_logvar)
    generator = -play.fake.mean(-1)
    distance = play.real.mean(-1) - play.fake.mean(-1)
    penalty = ((play.slope - 1.0) ** 2).mean(-1)
    gain = lambda_mi * terms["mi"]
    middle = 0.5 * (play.real.mean(-1) + play.fake.mean(-1)).detach()[..., None]
    return {"loss": generator - gain, "generator_loss": generator,
            "critic_loss": eta * penalty - distance - gain, "critic_value": distance.detach(),
            "critic_penalty": penalty.detach()} | terms | _judgement(play, middle)


def gan_plan(*, critic_rate: Positive = 1e-4, critic_steps: Count = 1, beta1: Decay = 0.5,
             beta2: Decay = 0.999) -> GamePlan:
    """Turns of InfoGAN. Kim & Mnih 2018, appendix H, gives the defaults.

    `critic_rate`: of the Adam of D and Q, where the generator's is the learning rate of the run;
    `critic_steps`: their updates for one of the generator; `beta1`, `beta2`: of both Adams.
    """
    return GamePlan(critic_rate, beta1, beta2, critic_steps)


def wgan_plan(*, critic_rate: Positive = 1e-4, critic_steps: Count = 5, beta1: Decay = 0.5,
              beta2: Decay = 0.999) -> GamePlan:
    """As `gan_plan`, with the five critic's updates of Gulrajani et al. 2017."""
    return GamePlan(critic_rate, beta1, beta2, critic_steps)


GAN = Game(gan_plan, penalised=False)
WGAN = Game(wgan_plan, penalised=True)
