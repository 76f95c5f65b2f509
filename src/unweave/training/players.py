"""Two players in one step: a few turns of the critic and the encoder, then one of the generator.

The decoder of an architecture is the generator; the critic D shares the first layers of the
encoder Q. D and Q learn together (Chen et al. 2016), the generator apart, each with an Adam of its
own. Batches of real and of made images are normalised each by their own statistics. Running
statistics, which stand in for them after training, are those of real images in the encoder, which
is what it will be asked about, and those of the generator's own turns in the generator.

Layers take the fastest path that the device has, but for the gradient penalty, which takes one
whose operations can be differentiated twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unweave import nn
from unweave.objectives import frozen, make_codes, pick
from unweave.objectives.game import MadeCodes
from unweave.objectives.posterior import split_head
from unweave.random import Purpose
from unweave.training.adam import Adam
from unweave.types import Params, Play, Terms, UserError

if TYPE_CHECKING:
    from unweave.training.stack import Stack


class Players:
    """The networks of a stack as two players. Of the stack it uses weights, numbers and images."""

    def __init__(self, stack: Stack, rates: list[float]) -> None:
        self.stack, game, first = stack, stack.method.game, stack.configs[0]
        self.plan = game.plan(**pick(game.plan, stack.hyper))
        shared = stack.architecture.encoder[:stack.architecture.num_shared]
        if game.penalised and any(isinstance(layer, nn.Norm) for layer in shared):
            raise UserError(
                f"{first.architecture!r} has batch normalisation in the layers that the critic of "
                f"{first.method} sees, where a gradient penalty is not defined: use one without, "
                "such as infowgan-mnist or infowgan-shapes2d")
        self._sizes = stack.method.posterior.sizes(stack.hyper)
        self._num_noise = stack.method.posterior.num_noise(stack.hyper)
        stack.critic_params = nn.init_image_critic(stack.architecture, stack.image_shape,
                                                   stack.streams, first.init)
        self._critic_out = stack.with_gradients(stack.critic_params)
        settings = {"beta1": self.plan.beta1, "beta2": self.plan.beta2, "eps": first.adam_eps}
        made, seen = (self._side(s, stack.params) for s in ("decoder.", "encoder."))
        low = stack.network is not stack.params
        self.generator = Adam(made, rates, **settings,
                              copies=self._side("decoder.", stack.network) if low else None)
        self.critic = Adam(seen | stack.critic_params, self.plan.rate.tolist(), **settings,
                           copies=self._critic_weights() if low else None)
        self.optimisers = {self.generator: 1, self.critic: self.plan.critic_steps}

    @staticmethod
    def _side(prefix: str, params: Params) -> Params:
        return {k: p for k, p in params.items() if k.startswith(prefix)}

    def _critic_weights(self) -> Params:
        return self._side("encoder.", self.stack.network) | self._critic_out

    def play(self) -> Terms:
        """One step: the critic's terms of its last turn, all others of the generator's."""
        stack, turns = self.stack, self.plan.critic_steps
        batch, num_latents = stack.configs[0].batch_size, stack.configs[0].num_latents
        images = stack.real_images(Purpose.BATCH, Purpose.OBSERVATION, turns * batch)
        width, noise = num_latents + len(self._sizes), self._num_noise
        uniform = stack.draw(Purpose.CRITIC_CODE, lambda s, t: s.uniform(
            Purpose.CRITIC_CODE, t, turns, batch, width))
        normal = stack.draw(Purpose.CRITIC_GENERATOR_NOISE, lambda s, t: s.normal(
            Purpose.CRITIC_GENERATOR_NOISE, t, turns, batch, noise))
        between = stack.draw(Purpose.BETWEEN, lambda s, t: s.uniform(
            Purpose.BETWEEN, t, turns, batch))
        for turn, real in enumerate(images.unflatten(1, (turns, batch)).unbind(1)):
            codes = make_codes(uniform[:, turn], normal[:, turn], self._sizes)
            play, judged = self._critic_turn(real, codes, between[:, turn])
        codes = make_codes(
            stack.draw(Purpose.GENERATOR_CODE, lambda s, t: s.uniform(
                Purpose.GENERATOR_CODE, t, batch, width)),
            stack.draw(Purpose.GENERATOR_NOISE, lambda s, t: s.normal(
                Purpose.GENERATOR_NOISE, t, batch, noise)), self._sizes)
        made = self._generator_turn(codes, play)
        return {k: judged[k] if k.startswith("critic_") else v for k, v in made.items()}

    def _make(self, codes: MadeCodes, buffers: Params | None) -> Tensor:
        stack = self.stack
        logits = nn.decode(stack.architecture, stack.network, codes.given,
                           image_shape=stack.image_shape, buffers=buffers, train=True,
                           precision=stack.configs[0].precision)
        return torch.sigmoid(logits)

    def _judge(self, weights: Params, x: Tensor, buffers: Params | None = None,
               with_head: bool = True) -> tuple[Tensor, Tensor | None]:
        return nn.judge(self.stack.architecture, weights, x, buffers=buffers, train=True,
                        with_head=with_head, precision=self.stack.configs[0].precision)

    def _play_of(self, real: Tensor, fake: Tensor, head: Tensor, codes: MadeCodes,
                 slope: Tensor | None) -> Play:
        mu, logvar, logits = split_head(head, self._sizes)
        return Play(real, fake, codes.codes, mu, logvar, logits, codes.categories, slope)

    def _critic_turn(self, real: Tensor, codes: MadeCodes,
                     between: Tensor) -> tuple[Play, Terms]:
        """One update of D and Q, from a batch of real images and one of made ones."""
        stack, weights = self.stack, self._critic_weights()
        with torch.no_grad():
            made = self._make(codes, None)
        out_real, _ = self._judge(weights, real, stack.buffers)
        out_fake, head = self._judge(weights, made)
        slope = None
        if stack.method.game.penalised:
            slope = self._slope(weights, real, made, between)
        play = self._play_of(out_real, out_fake, head, codes, slope)
        terms = stack.method.loss(play, **stack.loss_letters)
        terms["critic_loss"].sum().backward()
        self.critic.step()
        return play, {k: v.detach() for k, v in terms.items()}

    def _slope(self, weights: Params, real: Tensor, made: Tensor, between: Tensor) -> Tensor:
        """|grad D| at points between real and made images. Kim & Mnih 2018, eq. 16."""
        share = between[..., None, None, None]
        x = (share * real + (1.0 - share) * made).requires_grad_()
        with nn.path("twice" if nn.chosen_path(x) == "triton" else "general"):
            out, _ = self._judge(weights, x, with_head=False)
            (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        # The root has no derivative at zero.
        return torch.sqrt(slope.flatten(2).square().sum(-1) + 1e-12)

    def _generator_turn(self, codes: MadeCodes, last: Play) -> Terms:
        """One update of the generator; D and Q are constants here."""
        stack = self.stack
        made = self._make(codes, stack.buffers)
        fake, head = self._judge(frozen(self._critic_weights()), made)
        slope = None if last.slope is None else last.slope.detach()
        play = self._play_of(last.real.detach(), fake, head, codes, slope)
        terms = stack.method.loss(play, **stack.loss_letters)
        terms["loss"].sum().backward()
        self.generator.step()
        return terms
