"""Objective, a method's loss with all that it keeps between steps; VAE, the same with networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unweave.nn.cpu import LEAK
from unweave.objectives import LIKELIHOODS, METHODS, Draw, context, pick
from unweave.objectives.mixture import NUM_RESTARTS
from unweave.torch.layout import Layout
from unweave.types import Forward, Terms, UserError, unknown_name

Likelihood = str | Callable[[Tensor, Tensor], Tensor]
"""A name, or a function (x, what the decoder gave) -> -log p(x|z) of each sample, `[batch]`."""


class Objective(Layout):
    """A method's loss with what it needs between steps: its critic, its running quantities.

    `letters` are the method's (`beta=6`; see `unweave methods`). `dataset_size` is needed by
    methods that estimate densities over the data (beta_tcvae, information_dropout). `likelihood`
    is bernoulli, gaussian or laplace (unit scale), or a function of your own; `link` says how the
    decoder's output becomes the mean: `sigmoid`, for data in [0, 1], or `identity`.
    """

    def __init__(self, method: str, *, num_latents: int, dataset_size: int | None = None,
                 likelihood: Likelihood = "bernoulli", link: str = "sigmoid",
                 **letters: Any) -> None:
        super().__init__(method, num_latents, link, letters)
        if METHODS[self.method].game is not None:
            raise UserError(f"{self.method} is a game of a generator and a critic of images, which "
                            "no loss of an autoencoder is: use unweave.torch.Game, or "
                            "unweave.train")
        if isinstance(likelihood, str) and likelihood not in LIKELIHOODS:
            raise unknown_name("likelihood", likelihood, LIKELIHOODS)
        if link == "identity" and likelihood == "bernoulli":
            raise UserError("a bernoulli likelihood reads the decoder's output as logits: use "
                            "link='sigmoid', or likelihood='gaussian' for data beyond [0, 1]")
        self.likelihood, self.dataset_size = likelihood, dataset_size
        record = METHODS[self.method]
        self._loss, self._asked = record.loss, context(self.method)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self._running = tuple(record.state(self.num_latents)) if record.state else ()
        for name, value in (record.state(self.num_latents) if record.state else {}).items():
            self.register_buffer(f"running_{name}", value.clone())
        self.prior: nn.ParameterDict | None = None
        if record.prior is not None:
            made = record.prior.init(self.num_latents, **pick(record.prior.init, self.letters))
            self.prior = nn.ParameterDict({k: nn.Parameter(v) for k, v in made.items()})
        self.critic: nn.Sequential | None = None
        self._plan = None
        if record.critic is not None:
            self._plan = record.critic.plan(**pick(record.critic.plan, self.letters))
            self.critic = _critic(self.num_latents, self._plan.width, self._plan.depth)
        self._codes: Tensor | None = None

    def draw(self, given: Tensor | tuple[Tensor, ...] | list[Tensor]) -> Draw:
        """Codes of a batch: `z`, `mu`, `logvar`, and `decoder_input()` for the decoder."""
        head = self.head(given)
        noise = head.new_empty(len(head), self.num_latents).normal_()
        num = self._posterior.num_uniform(self.letters)
        uniform = head.new_empty(len(head), num).uniform_() if num else noise
        return self._posterior.draw(head, noise, uniform, self.letters)

    def fit_prior(self, given: Tensor | tuple[Tensor, ...] | list[Tensor], *,
                  restarts: int = NUM_RESTARTS) -> None:
        """Fit the mixture to the means of an encoder's output for many samples, as training does.

        Until then all clusters are the same one, and learning cannot tell them apart. Jiang et al.
        2017, section 4: after an autoencoder has been trained, see `VAE.autoencoder_loss`.
        """
        if self.prior is None:
            raise UserError(f"{self.method} has no prior with parameters: its codes are N(0, 1)")
        mu, clusters = self.head(given)[:, :self.num_latents], len(self.prior["logits"])
        if len(mu) < clusters:
            raise UserError(f"{clusters} clusters cannot be fitted to {len(mu)} codes: give the "
                            "codes of all training data, or fewer clusters")
        uniform = torch.rand(restarts, clusters, device=mu.device)
        with torch.no_grad():
            for name, value in METHODS[self.method].prior.fit(mu, uniform, clusters).items():
                self.prior[name].copy_(value)

    def clusters(self, given: Tensor | tuple[Tensor, ...] | list[Tensor]) -> Tensor:
        """The most probable cluster of each sample, `[batch]`, at its mean."""
        if self.prior is None:
            raise UserError(f"{self.method} has no clusters: its prior is N(0, I)")
        mu = self.head(given)[:, :self.num_latents]
        return METHODS[self.method].prior.assign(dict(self.prior.items()), mu).argmax(-1)

    def rate(self, step: int) -> float:
        """What the method's schedule multiplies learning rates by after `step` updates, or 1."""
        schedule = METHODS[self.method].schedule
        return float(schedule(step, **pick(schedule, self.letters))) if schedule else 1.0

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
        facts["prior"] = dict(self.prior.items()) if self.prior is not None else {}
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
        same batch serves, as in the runs of the published study. They must come from the weights
        that made those of the last pass.
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

    def autoencoder_loss(self, x: Tensor) -> tuple[Tensor, Terms]:
        """The warm-up of `vade`: reconstruction from the mean codes, nothing drawn."""
        output = self.decoder(self.objective.embed(self.encode(x)))
        recon = self.objective.nats(x, output).mean()
        return recon, {"loss": recon.detach(), "recon": recon.detach()}

    def fit_prior(self, x: Tensor, *, chunk: int = 1000) -> None:
        """Fit the mixture of `vade` to the codes of data: see `Objective.fit_prior`."""
        was_training = self.training
        self.eval()
        with torch.no_grad():
            self.objective.fit_prior(torch.cat([
                self.objective.head(self.encoder(part)) for part in x.split(chunk)]))
        self.train(was_training)

    def critic_loss(self, other: Tensor | None = None) -> tuple[Tensor, Terms]:
        """The critic's loss after `loss`; `other` is a second batch of data, as the paper has it.

        With a second batch call it before the step of the model's optimiser: the critic is to
        compare codes of one encoder, not the encoder before a step with the one after it.
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
        """The weights of encoder and decoder, and a prior's; the critic's are apart."""
        yield from self.encoder.parameters()
        yield from self.decoder.parameters()
        if self.objective.prior is not None:
            yield from self.objective.prior.parameters()

    def critic_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of the critic; none for methods without one."""
        if self.objective.critic is not None:
            yield from self.objective.critic.parameters()

    def optimisers(self, learning_rate: float = 1e-4) -> list[torch.optim.Adam]:
        """Adam for the model and, for a method with a critic, the critic's own."""
        found = [torch.optim.Adam(self.model_parameters(), lr=learning_rate)]
        return [*found, self.objective.critic_optimiser()] if self.has_critic else found
