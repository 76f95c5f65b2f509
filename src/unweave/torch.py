"""Every method in your own PyTorch loop: any encoder, any decoder, images, vectors or sequences.

    model = unweave.torch.VAE("beta_tcvae", encoder, decoder, num_latents=10, beta=6,
                              dataset_size=len(data))
    loss, terms = model.loss(x)
    loss.backward()

`Objective` is the same without the networks: it draws codes from an encoder's output and weighs
what a decoder made of them. `module` is a trained run as a plain module. Nothing here owns an
optimiser or a loop; random numbers come from torch, so `torch.manual_seed` decides them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unweave.nn import ARCHITECTURES
from unweave.nn.architectures import architecture as architecture_named
from unweave.nn.cpu import LEAK
from unweave.nn.plain import RunModule, plain_networks, to_plain
from unweave.objectives import LIKELIHOODS, METHODS, Draw, canonical, complete, context, pick
from unweave.types import Forward, Terms, UserError, unknown_name

if TYPE_CHECKING:
    from unweave.training import Run

__all__ = ["LINKS", "VAE", "Draw", "Objective", "RunModule", "module", "networks"]

LINKS = ("sigmoid", "identity")

Likelihood = str | Callable[[Tensor, Tensor], Tensor]
"""A name, or a function (x, what the decoder gave) -> -log p(x|z) of each sample, `[batch]`."""


class Objective(nn.Module):
    """A method's loss with what it needs between steps: its critic, its running quantities.

    `letters` are the method's (`beta=6`; see `unweave methods`). `dataset_size` is needed by
    methods that estimate densities over the data (beta_tcvae, information_dropout). `likelihood`
    is bernoulli, gaussian or laplace (unit scale), or a function of your own; `link` says how the
    decoder's output becomes the mean: `sigmoid`, for data in [0, 1], or `identity`.
    """

    def __init__(self, method: str, *, num_latents: int, dataset_size: int | None = None,
                 likelihood: Likelihood = "bernoulli", link: str = "sigmoid",
                 **letters: Any) -> None:
        super().__init__()
        self.method = canonical(method)
        self.num_latents = int(num_latents)
        if self.num_latents < 1:
            raise UserError(f"num_latents={num_latents} must be at least 1")
        if isinstance(likelihood, str) and likelihood not in LIKELIHOODS:
            raise unknown_name("likelihood", likelihood, LIKELIHOODS)
        if link not in LINKS:
            raise unknown_name("link", link, LINKS)
        if link == "identity" and likelihood == "bernoulli":
            raise UserError("a bernoulli likelihood reads the decoder's output as logits: use "
                            "link='sigmoid', or likelihood='gaussian' for data beyond [0, 1]")
        self.likelihood, self.link, self.dataset_size = likelihood, link, dataset_size
        self.letters: dict[str, Any] = dict(complete(self.method, letters))
        record = METHODS[self.method]
        self._loss, self._posterior, self._asked = record.loss, record.posterior, context(
            self.method)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self._running = tuple(record.state(self.num_latents)) if record.state else ()
        for name, value in (record.state(self.num_latents) if record.state else {}).items():
            self.register_buffer(f"running_{name}", value.clone())
        self.critic: nn.Sequential | None = None
        self._plan = None
        if record.critic is not None:
            self._plan = record.critic.plan(**pick(record.critic.plan, self.letters))
            self.critic = _critic(self.num_latents, self._plan.width, self._plan.depth)
        self._codes: Tensor | None = None

    @property
    def head_size(self) -> int:
        """Numbers that the encoder must give: means, log-variances, logits of classes."""
        return self._posterior.head_size(self.num_latents, self.letters)

    @property
    def code_size(self) -> int:
        """Numbers that the decoder gets."""
        return self._posterior.code_size(self.num_latents, self.letters)

    @property
    def num_values(self) -> tuple[int, ...]:
        """For each column of `codes`: 0 if continuous, else the number of its classes."""
        return self._posterior.num_values(self.num_latents, self.letters)

    def head(self, given: Tensor | tuple[Tensor, ...] | list[Tensor]) -> Tensor:
        """An encoder's output as one tensor: it may be (mu, logvar) or (mu, logvar, logits...)."""
        head = torch.cat(tuple(given), -1) if isinstance(given, tuple | list) else given
        if head.ndim != 2 or head.shape[-1] != self.head_size:
            raise UserError(f"{self.method} with {self.num_latents} latents reads an encoder's "
                            f"output of shape [batch, {self.head_size}], got {list(head.shape)}")
        return head

    def draw(self, given: Tensor | tuple[Tensor, ...] | list[Tensor]) -> Draw:
        """Codes of a batch: `z`, `mu`, `logvar`, and `decoder_input()` for the decoder."""
        head = self.head(given)
        noise = head.new_empty(len(head), self.num_latents).normal_()
        num = self._posterior.num_uniform(self.letters)
        uniform = head.new_empty(len(head), num).uniform_() if num else noise
        return self._posterior.draw(head, noise, uniform, self.letters)

    def codes(self, given: Tensor | tuple[Tensor, ...] | list[Tensor]) -> Tensor:
        """Codes as metrics see them: means, then the most probable class of each category."""
        return self._posterior.codes(self.head(given), self.letters)

    def embed(self, codes: Tensor) -> Tensor:
        """What the decoder gets for codes as `codes` gives them."""
        return self._posterior.embed(codes, self.letters)

    def mean(self, output: Tensor) -> Tensor:
        """The mean of p(x|z) from what the decoder gave."""
        return torch.sigmoid(output) if self.link == "sigmoid" else output

    def nats(self, x: Tensor, output: Tensor) -> Tensor:
        """-log p(x|z) of every sample, `[batch]`: sums over all axes but the first."""
        if output.shape != x.shape:
            raise UserError(f"the decoder gave the shape {list(output.shape)} for data of the "
                            f"shape {list(x.shape)}: they must be equal")
        if not isinstance(self.likelihood, str):
            nats = self.likelihood(x, output)
            if nats.shape != x.shape[:1]:
                raise UserError("a likelihood of your own must give a number for each sample, "
                                f"[{len(x)}], got {list(nats.shape)}")
            return nats
        x, output = x.flatten(1), output.flatten(1)
        if self.likelihood == "bernoulli":
            each = nn.functional.softplus(output, threshold=50.0) - x * output
        elif self.likelihood == "gaussian":
            each = 0.5 * (x - self.mean(output)) ** 2 + 0.5 * math.log(2.0 * math.pi)
        else:
            each = (x - self.mean(output)).abs() + math.log(2.0)
        return each.sum(1)

    def forward(self, x: Tensor, output: Tensor, draw: Draw, *,
                dataset_size: int | None = None) -> Terms:
        """`loss` and its parts, in nats per sample. `output` is what the decoder gave for `draw`.

        In training mode the step is counted, and running quantities move.
        """
        facts: dict[str, Any] = {"step": self.step, "state": {
            name: getattr(self, f"running_{name}") for name in self._running}}
        facts["dataset_size"] = dataset_size or self.dataset_size
        if "dataset_size" in self._asked and not facts["dataset_size"]:
            raise UserError(f"{self.method} estimates densities over the data: give dataset_size, "
                            "the number of samples that you train on")
        if self.critic is not None:  # its weights are constants here: the encoder does not move it
            fixed = {name: p.detach() for name, p in self.critic.named_parameters()}
            facts["critic_logits"] = functional_call(self.critic, fixed, (draw.z,))
            self._codes = draw.z.detach()
        out = Forward(x, output, draw.z, draw.mu, draw.logvar, "bernoulli", draw.category_logits,
                      draw.categories, self.nats(x, output))
        terms = self._loss(out, **pick(self._loss, self.letters),
                           **{name: facts[name] for name in self._asked})
        if self.training:
            for name in self._running:
                if f"state.{name}" in terms:
                    getattr(self, f"running_{name}").copy_(terms[f"state.{name}"].detach())
            self.step += 1
        return {k: v for k, v in terms.items() if not k.startswith("state.")}

    def critic_loss(self, other: Tensor | None = None) -> Terms:
        """`critic_loss` and `critic_accuracy` on the codes of the last pass. Kim & Mnih, alg. 2.

        `other` are codes of a second batch, from which the permuted ones are made; without it the
        same batch serves, as in the runs of the published study.
        """
        if self.critic is None:
            raise UserError(f"{self.method} has no critic: its loss is all there is")
        if self._codes is None:
            raise UserError("the critic learns from the codes of a pass: call loss first")
        z, other = self._codes, self._codes if other is None else other.detach()
        critic = METHODS[self.method].critic
        real, made = critic.samples(z, other, torch.rand_like(other))
        return critic.loss(self.critic(real), self.critic(made))

    def critic_optimiser(self) -> torch.optim.Adam:
        """Adam for the critic with the method's letters (`critic_rate`, ...)."""
        if self.critic is None or self._plan is None:
            raise UserError(f"{self.method} has no critic: one optimiser is enough")
        return torch.optim.Adam(self.critic.parameters(), lr=float(self._plan.rate),
                                betas=(self._plan.beta1, self._plan.beta2))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_codes": None}

    def extra_repr(self) -> str:
        """The method and its letters."""
        said = ", ".join(f"{k}={v}" for k, v in self.letters.items())
        return f"{self.method}, num_latents={self.num_latents}{', ' if said else ''}{said}"


def _critic(num_latents: int, width: int, depth: int) -> nn.Sequential:
    """Leaky ReLU between dense layers, two logits. Kim & Mnih 2018, appendix A."""
    sizes, layers = [num_latents, *[width] * depth, 2], []
    for fan_in, fan_out in pairwise(sizes):
        dense = nn.Linear(fan_in, fan_out)
        nn.init.xavier_uniform_(dense.weight)
        nn.init.zeros_(dense.bias)
        layers += [dense, nn.LeakyReLU(LEAK)]
    return nn.Sequential(*layers[:-1])


class VAE(nn.Module):
    """An encoder and a decoder of your own, trained by a method's objective.

    The encoder gives `[batch, head_size]` (for most methods means and log-variances side by side,
    2 num_latents numbers), or a tuple (mu, logvar). The decoder takes `[batch, code_size]` and
    gives something of the shape of x. Keyword arguments are those of `Objective`.
    """

    def __init__(self, method: str, encoder: nn.Module, decoder: nn.Module, *, num_latents: int,
                 **options: Any) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.objective = Objective(method, num_latents=num_latents, **options)

    def forward(self, x: Tensor) -> Tensor:
        """The mean of p(x|z) at the mean codes: a reconstruction."""
        return self.decode(self.encode(x))

    def encode(self, x: Tensor) -> Tensor:
        """Codes as metrics see them, `[batch, code]`."""
        return self.objective.codes(self.encoder(x))

    def decode(self, codes: Tensor) -> Tensor:
        """The mean of p(x|z) of codes as `encode` gives them."""
        return self.objective.mean(self.decoder(self.objective.embed(codes)))

    def loss(self, x: Tensor, *, dataset_size: int | None = None) -> tuple[Tensor, Terms]:
        """The loss of a batch, and its parts without gradients, in nats per sample."""
        draw = self.objective.draw(self.encoder(x))
        terms = self.objective(x, self.decoder(draw.decoder_input()), draw,
                               dataset_size=dataset_size)
        return terms["loss"], {k: v.detach() for k, v in terms.items()}

    def critic_loss(self, other: Tensor | None = None) -> tuple[Tensor, Terms]:
        """The critic's loss after `loss`; `other` is a second batch of data, as the paper has it.

        Call it after the step of the model's optimiser, and step the critic's own.
        """
        codes = None
        if other is not None:
            with torch.no_grad():
                codes = self.objective.draw(self.encoder(other)).z
        terms = self.objective.critic_loss(codes)
        return terms["critic_loss"], {k: v.detach() for k, v in terms.items()}

    @property
    def has_critic(self) -> bool:
        """Whether the method needs the second step."""
        return self.objective.critic is not None

    def model_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of encoder and decoder; the critic's are `critic_parameters`."""
        yield from self.encoder.parameters()
        yield from self.decoder.parameters()

    def critic_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of the critic; none for methods without one."""
        if self.objective.critic is not None:
            yield from self.objective.critic.parameters()

    def optimisers(self, learning_rate: float = 1e-4) -> list[torch.optim.Adam]:
        """Adam for the model and, for a method with a critic, the critic's own."""
        found = [torch.optim.Adam(self.model_parameters(), lr=learning_rate)]
        return [*found, self.objective.critic_optimiser()] if self.has_critic else found


def networks(name: str, image_shape: tuple[int, int, int], *, num_latents: int,
             method: str = "beta_vae", **letters: Any) -> tuple[nn.Sequential, nn.Sequential]:
    """A fresh encoder and decoder of an architecture of ours, such as `conv64`, as plain modules.

    `image_shape` is (height, width, channels); the modules see `[batch, channel, height, width]`.
    """
    shape = Objective(method, num_latents=num_latents, **letters)
    return plain_networks(architecture_named(name), image_shape, shape.head_size, shape.code_size)


def module(run: Run) -> RunModule:
    """The encoder and decoder of a run as plain modules with its weights, in evaluation mode."""
    posterior, letters = METHODS[run.config.method].posterior, dict(run.config.hyper)
    num_latents, shape = run.config.num_latents, run.dataset.image_shape
    sizes = posterior.head_size(num_latents, letters), posterior.code_size(num_latents, letters)
    architecture = ARCHITECTURES[run.config.architecture]
    made = RunModule(*plain_networks(architecture, shape, *sizes), posterior.sizes(letters),
                     num_latents)
    weights = {name: p.detach()[0].float().cpu() for name, p in run.params.items()}
    made.load_state_dict(to_plain(architecture, shape, *sizes, weights))
    return made.eval()
