"""Methods with two players in your own loop: a generator against a critic of images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unweave.objectives import METHODS, canonical, make_codes, pick
from unweave.objectives.game import GamePlan, MadeCodes
from unweave.objectives.posterior import split_head
from unweave.torch.layout import Layout
from unweave.types import Play, Terms, UserError


class Game(Layout):
    """InfoGAN or InfoWGAN-GP with networks of your own. Chen et al. 2016; Kim & Mnih 2018.

    The generator takes `[batch, code_size]` (codes, classes, noise) and gives something of the
    shape of x, whose `link` is `sigmoid` for data in [0, 1] or `identity`. The critic gives a
    number for each sample, the encoder `[batch, head_size]`. They may share layers: one optimiser
    moves both. `letters` are the method's (`lambda_mi`, `num_noise`, `categories`, ...).
    """

    def __init__(self, method: str, encoder: nn.Module, generator: nn.Module, critic: nn.Module, *,
                 num_latents: int, link: str = "sigmoid", **letters: Any) -> None:
        game = METHODS[canonical(method)].game
        if game is None:
            games = ", ".join(name for name, record in METHODS.items() if record.game)
            raise UserError(f"{method} has no generator and critic of images: use "
                            f"unweave.torch.VAE, or one of {games}")
        super().__init__(method, num_latents, link, letters)
        if game.penalised and any(isinstance(part, nn.modules.batchnorm._BatchNorm)
                                  for part in critic.modules()):
            raise UserError(f"the critic of {self.method} has batch normalisation, where a "
                            "gradient penalty is not defined: use layer normalisation, or none")
        self.encoder, self.generator, self.critic = encoder, generator, critic
        self.plan: GamePlan = game.plan(**pick(game.plan, self.letters))
        self._sizes = self._posterior.sizes(self.letters)
        noise = torch.randn(1, self._posterior.num_noise(self.letters))
        self.register_buffer("noise", noise)
        self._last: tuple[Tensor, Tensor | None] | None = None

    @property
    def critic_steps(self) -> int:
        """Updates of critic and encoder for one of the generator."""
        return self.plan.critic_steps

    def forward(self, x: Tensor) -> Tensor:
        """What the generator makes of the codes that the encoder reads."""
        return self.decode(self.encode(x))

    def encode(self, x: Tensor) -> Tensor:
        """Codes as metrics see them, `[batch, code]`."""
        return self.codes(self.encoder(x))

    def decode(self, codes: Tensor, noise: Tensor | None = None) -> Tensor:
        """Data of codes as `encode` gives them; one draw of noise, `self.noise`, for all.

        `noise` `[batch, noise]` gives each its own.
        """
        return self.mean(self.generator(self.embed(codes, noise)))

    def embed(self, codes: Tensor, noise: Tensor | None = None) -> Tensor:
        """What the generator gets for codes: classes as one-hot vectors, and noise."""
        noise = self.noise if noise is None else noise
        return self._posterior.embed(codes, self.letters, noise.to(codes.device))

    def critic_loss(self, x: Tensor) -> tuple[Tensor, Terms]:
        """What critic and encoder minimise, on data and as many made samples."""
        codes = self._made_codes(x)
        with torch.no_grad():
            made = self.mean(_apart(self.generator, codes.given))
            if made.shape != x.shape:
                raise UserError(f"the generator gave the shape {list(made.shape)} for data of the "
                                f"shape {list(x.shape)}: they must be equal")
            # Running statistics of normalisations are those of real data, once for shared layers.
            _apart(self.encoder, x, but={id(b) for b in self.critic.buffers()})
        real, fake = self._judged(self.critic(x)), self._judged(_apart(self.critic, made))
        slope = self._slope(x, made) if METHODS[self.method].game.penalised else None
        play = self._play(real, fake, _apart(self.encoder, made), codes, slope)
        terms = self._terms(play)
        self._last = real.detach(), None if slope is None else slope.detach()
        return terms["critic_loss"], {k: v.detach() for k, v in terms.items()
                                      if k.startswith(("critic_", "mi"))}

    def generator_loss(self) -> tuple[Tensor, Terms]:
        """What the generator minimises; critic and encoder are constants here."""
        if self._last is None:
            raise UserError("the critic plays first: call critic_loss before generator_loss")
        real, slope = self._last
        codes = self._made_codes(real)
        made = self.mean(self.generator(codes.given))
        fake = self._judged(_apart(self.critic, made, fixed=True))
        head = _apart(self.encoder, made, fixed=True)
        terms = self._terms(self._play(real, fake, head, codes, slope))
        return terms["loss"], {k: v.detach() for k, v in terms.items()
                               if not k.startswith("critic_")}

    def generator_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of the generator."""
        return self.generator.parameters()

    def critic_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of critic and encoder, those that they share once."""
        return nn.ModuleList([self.critic, self.encoder]).parameters()

    def optimisers(self, learning_rate: float = 1e-4) -> list[torch.optim.Adam]:
        """Adam for the generator and for critic and encoder, with the method's letters."""
        betas = self.plan.beta1, self.plan.beta2
        return [torch.optim.Adam(self.generator_parameters(), lr=learning_rate, betas=betas),
                torch.optim.Adam(self.critic_parameters(), lr=float(self.plan.rate), betas=betas)]

    def _terms(self, play: Play) -> Terms:
        loss = METHODS[self.method].loss
        return loss(play, **pick(loss, self.letters))

    def _made_codes(self, like: Tensor) -> MadeCodes:
        """Codes to make as many samples from as `like` has rows."""
        size, device = len(like), next(self.generator.parameters()).device
        return make_codes(
            torch.rand(size, self.num_latents + len(self._sizes), device=device),
            torch.randn(size, self.noise.shape[1], device=device), self._sizes)

    def _judged(self, out: Tensor) -> Tensor:
        if out.shape not in ((len(out),), (len(out), 1)):
            raise UserError("a critic must give a number for each sample, [batch] or [batch, 1], "
                            f"got {list(out.shape)}")
        return out.reshape(-1)

    def _play(self, real: Tensor, fake: Tensor, given: Tensor, codes: MadeCodes,
              slope: Tensor | None) -> Play:
        mu, logvar, logits = split_head(self.head(given), self._sizes)
        return Play(real, fake, codes.codes, mu, logvar, logits, codes.categories, slope)

    def _slope(self, x: Tensor, made: Tensor) -> Tensor:
        """|grad D| at points between data and made samples. Kim & Mnih 2018, eq. 16."""
        share = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device)
        between = (share * x + (1.0 - share) * made).requires_grad_()
        out = self._judged(_apart(self.critic, between))
        (slope,) = torch.autograd.grad(out.sum(), between, create_graph=True)
        # The root has no derivative at zero.
        return torch.sqrt(slope.flatten(1).square().sum(-1) + 1e-12)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}


def _apart(network: nn.Module, x: Tensor, *, fixed: bool = False,
           but: set[int] | None = None) -> Any:
    """A pass that leaves running statistics alone; with `fixed`, weights are constants.

    With `but`, only the buffers of these ids are left alone.
    """
    tensors = {name: buffer.clone() for name, buffer in network.named_buffers()
               if but is None or id(buffer) in but}
    if fixed:
        tensors |= {name: weight.detach() for name, weight in network.named_parameters()}
    return functional_call(network, tensors, (x,))
