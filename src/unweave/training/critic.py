"""The critic of a stack's codes: the second network of FactorVAE and its kin, in the same step.

It learns to tell codes of the encoder from codes of another class (permuted ones, or those of the
prior) and has an Adam of its own. Neither network moves the other: the critic sees codes that are
cut off from the encoder, the objective sees the critic's weights as constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unweave import nn
from unweave.objectives import frozen, pick
from unweave.random import Purpose
from unweave.training.adam import Adam
from unweave.types import Terms

if TYPE_CHECKING:
    from unweave.training.stack import Stack


class CodeCritic:
    """M critics, one a run. Of the stack they use codes and random numbers."""

    def __init__(self, stack: Stack) -> None:
        first, self.stack = stack.configs[0], stack
        self._plan = stack.method.critic.plan(**pick(stack.method.critic.plan, stack.hyper))
        plan = self._plan
        stack.critic_params = nn.init_critic(first.num_latents, plan.width, plan.depth,
                                             stack.streams, first.init)
        self._weights = stack.with_gradients(stack.critic_params)
        low = self._weights is not stack.critic_params
        self.optimiser = Adam(stack.critic_params, plan.rate.tolist(), beta1=plan.beta1,
                              beta2=plan.beta2, eps=first.adam_eps,
                              copies=self._weights if low else None)

    @property
    def batches(self) -> tuple[Purpose, ...]:
        """What the critic needs images for, beside those of the step."""
        return (Purpose.CRITIC_BATCH,) if self._plan.second_batch else ()

    def logits(self, z: Tensor) -> Tensor:
        """What the objective sees: the critic's weights are constants here."""
        return nn.critic_logits(frozen(self._weights), z,
                                precision=self.stack.configs[0].precision)

    @property
    def looks_after_step(self) -> bool:
        """Whether `samples` are asked for after the step of the encoder, not before it.

        Kim & Mnih's algorithm 2 as printed. The critic then learns to tell the encoder's weights
        before the step from those after it, and an encoder that is told to look like the latter
        runs away from its own codes: so it is a convention by name, not the default.
        """
        return self._plan.after_step

    def samples(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Codes of q and of the other class; those of a second batch by the weights of now."""
        stack, other = self.stack, z
        if self._plan.second_batch:
            with torch.no_grad():  # statistics of normalisation follow the first batch alone
                other = stack.encode_batch(Purpose.CRITIC_BATCH, Purpose.CRITIC_NOISE,
                                           Purpose.CRITIC_OBSERVATION, None)[1].z
        uniform = stack.uniform(Purpose.PERMUTATION, z.shape[-1])
        return stack.method.critic.samples(z, other, uniform)

    def learn(self, real: Tensor, made: Tensor) -> Terms:
        """One update of every run's critic. Kim & Mnih 2018, algorithm 2, its second half.

        Both classes go through it as one batch: its weights, five million by default, are read
        once, and their gradients are one product each.
        """
        logits = nn.critic_logits(self._weights, torch.cat((real, made), -2),
                                  precision=self.stack.configs[0].precision)
        terms = self.stack.method.critic.loss(
            *logits.split((real.shape[-2], made.shape[-2]), -2))
        terms["critic_loss"].sum().backward()
        self.optimiser.step()
        return terms
