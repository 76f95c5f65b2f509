"""Objectives: pure functions of a forward pass. METHODS maps names to records.

A method's letters are the keyword-only parameters of its `loss`, of its posterior and of its
critic's plan (`letter.py`). What the trainer supplies to `loss` by name is in CONTEXT:
`dataset_size`; `step`, the updates done so far; `critic_logits`, `[*stack, batch, 2]`, of the codes
`out.z`; `state`, the method's running quantities, each `[*stack, ...]`. New values of these come
back among the terms as `state.<name>`; a quantity that does not come back keeps its value; `prior`,
the parameters of the prior where it has some, each `[*stack, ...]`.

A method with a `game` has two players: its objective is a function of a `Play`, not of a `Forward`,
and gives a `loss` and a `critic_loss`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unweave.objectives.aggregate import SAMPLINGS
from unweave.objectives.annealed import annealed_vae
from unweave.objectives.density_ratio import (
    PERMUTATION_CRITIC,
    PRIOR_CRITIC,
    Critic,
    CriticPlan,
    aae,
    factor_updates,
    factor_vae,
    factor_vae_prior,
    frozen,
)
from unweave.objectives.dip import dip_state, dip_vae_i, dip_vae_ii
from unweave.objectives.elbo import LIKELIHOODS, beta_vae, vae
from unweave.objectives.game import GAN, WGAN, Game, GamePlan, infogan, infowgan_gp, make_codes
from unweave.objectives.information_dropout import information_dropout
from unweave.objectives.joint import joint_vae
from unweave.objectives.letter import CONTEXT, Letter, declared, pick
from unweave.objectives.mixture import MIXTURE, Prior
from unweave.objectives.posterior import CODES, GAUSSIAN, JOINT, Draw, Posterior
from unweave.objectives.tcvae import beta_tcvae
from unweave.objectives.vade import Warmup, vade, vade_schedule, vade_warmup
from unweave.plugins import Entries
from unweave.types import PerRun, Terms, UserError, unknown_name


def every_step(steps: int, hyper: Mapping[str, Any]) -> int:
    """A run of `steps` makes as many updates."""
    return steps


@dataclass(frozen=True)
class Method:
    """A method: its objective, where it comes from, a line on what it does, and its parts."""

    loss: Callable[..., Terms]
    paper: str
    summary: str
    posterior: Posterior = GAUSSIAN
    critic: Critic | None = None
    state: Callable[[int], dict[str, Tensor]] | None = None
    """(num_latents) -> running quantities before the first update, without a run axis."""
    num_updates: Callable[[int, Mapping[str, Any]], int] = every_step
    """(steps, letters) -> updates of each network in a run of that many steps."""
    prior: Prior | None = None
    """A prior with parameters, which are learnt; None is N(0, I)."""
    warmup: Callable[..., Warmup] | None = None
    """(*, its letters) -> an autoencoder to start with, after which the prior is fitted."""
    schedule: Callable[..., PerRun] | None = None
    """(updates since the warm-up, *, its letters) -> what the learning rates are multiplied by."""
    game: Game | None = None
    """A generator against a critic that sees images."""
    aliases: tuple[str, ...] = ()

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions that declare letters."""
        parts = (self.critic and self.critic.plan, self.game and self.game.plan,
                 self.prior and self.prior.init, self.warmup, self.schedule)
        return (self.loss, self.posterior.function, self.posterior.noise,
                *(part for part in parts if part is not None))


_OURS: dict[str, Method] = {
    "vae": Method(vae, "Kingma & Welling 2014", "the evidence lower bound"),
    "beta_vae": Method(beta_vae, "Higgins et al. 2017", "KL term weighted by beta"),
    "annealed_vae": Method(
        annealed_vae, "Burgess et al. 2018", "KL term held at a growing capacity",
        aliases=("cc_vae",)),
    "factor_vae": Method(
        factor_vae, "Kim & Mnih 2018", "total correlation penalised, by a discriminator",
        critic=PERMUTATION_CRITIC, num_updates=factor_updates),
    "factor_vae_prior": Method(
        factor_vae_prior, "Kim & Mnih 2018, eq. 12",
        "KL of all codes to the prior added, by a discriminator", critic=PRIOR_CRITIC),
    "beta_tcvae": Method(
        beta_tcvae, "Chen et al. 2018", "total correlation penalised, from the batch's densities"),
    "dip_vae_i": Method(
        dip_vae_i, "Kumar et al. 2018", "covariance of the means held at the identity",
        state=dip_state),
    "dip_vae_ii": Method(
        dip_vae_ii, "Kumar et al. 2018", "covariance of the codes held at the identity",
        state=dip_state),
    "aae": Method(
        aae, "Makhzani et al. 2015", "KL of all codes to the prior alone, by a discriminator",
        critic=PRIOR_CRITIC),
    "information_dropout": Method(
        information_dropout, "Achille & Soatto 2018", "information in the codes weighted by beta"),
    "joint_vae": Method(
        joint_vae, "Dupont 2018", "continuous and categorical codes, each held at a capacity",
        posterior=JOINT),
    "vade": Method(
        vade, "Jiang et al. 2017", "the prior is a mixture of Gaussians: clusters",
        prior=MIXTURE, warmup=vade_warmup, schedule=vade_schedule),
    "infogan": Method(
        infogan, "Chen et al. 2016", "a generator against a discriminator, with informative codes",
        posterior=CODES, game=GAN),
    "infowgan_gp": Method(
        infowgan_gp, "Kim & Mnih 2018, appendix G",
        "infogan with Wasserstein distance and gradient penalty", posterior=CODES, game=WGAN),
}

def _letters_of(method: Method) -> Mapping[str, Letter]:
    """The letters of a record; errors if its functions do not declare them as they should."""
    return {name: letter for function in method.functions
            for name, letter in declared(function).items()}


METHODS: Entries[Method] = Entries("unweave.methods", Method, _OURS, check=_letters_of)
"""Methods by name: ours, and those of installed plugins."""


def aliases() -> dict[str, str]:
    """Other names of methods, and the names they stand for."""
    return {alias: name for name, method in METHODS.items() for alias in method.aliases}


def canonical(method: str) -> str:
    """The name under which a method's runs are stored; an alias becomes the name it stands for."""
    if method in METHODS:
        return method
    if method not in aliases():
        raise unknown_name("method", method, [*METHODS, *aliases()])
    return aliases()[method]


def letters(method: str) -> Mapping[str, Letter]:
    """The letters of a method: of its objective, its posterior and its other parts, in order."""
    return _letters_of(METHODS[canonical(method)])


def complete(method: str, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """All letters of a method, checked, defaults filled in, sorted: RunConfig's `hyper`."""
    known = letters(method)
    for name in given:
        if name not in known:
            if not known:
                raise UserError(f"{method} has no letters, so {name!r} cannot be set")
            raise unknown_name(f"letter of {method}", name, known)
    return tuple(sorted(
        (name, letter.check(method, given[name]) if name in given else letter.default)
        for name, letter in known.items()
    ))


def context(method: str) -> frozenset[str]:
    """Which of CONTEXT a method's objective asks for."""
    return CONTEXT & set(inspect.signature(METHODS[canonical(method)].loss).parameters)


__all__ = [
    "CONTEXT", "LIKELIHOODS", "METHODS", "SAMPLINGS", "Critic", "CriticPlan", "Draw", "Game",
    "GamePlan", "Letter", "Method", "Posterior", "Prior", "Warmup", "aliases", "canonical",
    "complete", "context", "declared", "frozen", "letters", "make_codes", "pick",
]
