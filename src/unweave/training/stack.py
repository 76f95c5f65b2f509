"""A stack: M runs with equal pack keys, advanced in lock step by one sequence of operations.

The trainer owns what a method's pure functions need: networks, optimisers, random numbers, and the
running quantities that an objective returns. `terms["loss"].sum()` below, and its like for the
critic, are the only lines that collapse the run axis.

On a GPU a whole step, the draw of the batch and the sums of the curves included, is recorded once
as a CUDA graph and replayed: launching its few hundred operations one by one would take longer
than they do. Everything that changes from step to step therefore lives on the device, the number of
the step too. The first steps run plainly, which lets libraries and compilers settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unweave import nn
from unweave.config import RunConfig, log_every
from unweave.data.dataset import FactorDataset
from unweave.data.streaming import Feed
from unweave.objectives import METHODS, Draw, context, letters, pick
from unweave.objectives.mixture import named
from unweave.objectives.vade import autoencoder_loss
from unweave.random import Purpose, Streams
from unweave.training.adam import Adam
from unweave.training.critic import CodeCritic
from unweave.training.players import Players
from unweave.training.warmup import fit_priors, settled, warmup_of
from unweave.types import Forward, Params

_DRAW_AHEAD = 32  # steps whose random numbers are made at once: a few large operations, not many
_PLAIN_STEPS = 3  # before a CUDA graph is recorded


def num_updates(config: RunConfig) -> int:
    """How often a run updates its weights: `steps`, unless its method's convention differs.

    A warm-up comes on top.
    """
    own = METHODS[config.method].num_updates(config.steps, dict(config.hyper))
    return own + warmup_of(config).steps


class Stack:
    """M runs in lock step on one device. All configs must have the same pack key."""

    def __init__(self, configs: Sequence[RunConfig], dataset: FactorDataset,
                 device: torch.device) -> None:
        self.configs = list(configs)
        first = self.configs[0]
        self.device, self.step, self.num_steps = device, 0, num_updates(first)
        self.on_gpu = device.type == "cuda"
        self.method = METHODS[first.method]
        self.architecture = nn.ARCHITECTURES[first.architecture]
        self.images, self.dataset_size = dataset.on(device), dataset.num_training
        self.draw_index = dataset.draw_on(device)
        self.sees_all = dataset.cells is None
        self.image_shape = dataset.image_shape
        self.hyper: dict[str, Any] = {
            name: torch.tensor([float(c[name]) for c in configs], device=device)
            if letter.per_run else first[name]
            for name, letter in letters(first.method).items()
        }
        self.loss_letters = pick(self.method.loss, self.hyper)
        self._asked = context(first.method)
        self.streams = Streams([c.seed for c in configs], device)
        self._ahead = Streams([c.seed for _ in range(_DRAW_AHEAD) for c in configs], device)
        self._drawn: dict[Purpose, tuple[int, Tensor]] = {}

        posterior, size = self.method.posterior, first.num_latents
        sizes = posterior.head_size(size, self.hyper), posterior.code_size(size, self.hyper)
        self._num_uniform = posterior.num_uniform(self.hyper)
        self.params = nn.init_params(self.architecture, self.image_shape, *sizes, self.streams,
                                     first.init)
        self.buffers = nn.init_buffers(self.architecture, self.image_shape, *sizes,
                                       num_runs=len(self.configs), device=device)
        self.network = self.with_gradients(self.params)
        rates, settings = [c.learning_rate for c in configs], {
            "beta1": first.adam_beta1, "beta2": first.adam_beta2, "eps": first.adam_eps}
        self.prior_params = self._init_prior()
        self.critic_params: Params = {}
        self._players: Players | None = None
        if self.method.game is not None:
            self._players = Players(self, rates)
            self.optimisers = self._players.optimisers
        else:
            self.optimiser = Adam(self.params, rates, **settings,
                                  copies=self._copies_of(self.params, self.network))
            self.optimisers = {self.optimiser: 1}
        if self.prior_params:
            self.prior_optimiser = Adam(self.prior_params, rates, **settings)
            self.optimisers[self.prior_optimiser] = 1
        self._warmup = settled(warmup_of(first), self)
        self._warmup_scale = torch.tensor([float(warmup_of(c).rate) / c.learning_rate
                                           for c in configs], device=device)
        self._critic: CodeCritic | None = None
        if self.method.critic is not None:
            self._critic = CodeCritic(self)
            self.optimisers[self._critic.optimiser] = 1
        self._feeds = self._make_feeds(dataset) if self.images.is_streamed else {}
        initial = self.method.state(size) if self.method.state is not None else {}
        self.state = {k: v.to(device).expand(len(self.configs), *v.shape).clone()
                      for k, v in initial.items()}
        self._clock = torch.zeros((), dtype=torch.int64, device=device)
        self._sums: dict[str, Tensor] = {}
        self._graph: torch.cuda.CUDAGraph | None = None
        self._num_plain = 0

    def __len__(self) -> int:
        return len(self.configs)

    def with_gradients(self, params: Params) -> Params:
        """What the layers compute with: the weights, or on a GPU their bfloat16 copies.

        A CPU run casts on the way in: there it costs nothing beside the products.
        """
        if self.on_gpu and self.configs[0].precision == "bfloat16":
            params = {k: p.detach().to(torch.bfloat16) for k, p in params.items()}
        for p in params.values():
            p.requires_grad_()
        return params

    def _init_prior(self) -> Params:
        """The prior's parameters, in float32 whatever the layers compute in."""
        if self.method.prior is None:
            return {}
        init = self.method.prior.init
        one = named(init(self.configs[0].num_latents, **pick(init, self.hyper)))
        return {k: v.to(self.device).expand(len(self.configs), *v.shape).clone().requires_grad_()
                for k, v in one.items()}

    @staticmethod
    def _copies_of(params: Params, weights: Params) -> Params | None:
        return None if weights is params else weights

    @property
    def path(self) -> str:
        """The path that the layers take here: see `nn.layers`."""
        return nn.chosen_path(next(iter(self.params.values())))

    @property
    def how(self) -> str:
        """One phrase for the log: where a stack trains, and by which path."""
        name = torch.cuda.get_device_name(self.device) if self.on_gpu else "the CPU"
        path = {"triton": "Triton kernels", "cpu": "oneDNN", "general": "plain tensor operations"}
        graph = ", a step as one CUDA graph" if self.on_gpu else ""
        fed = ", images fed from the host" if self._feeds else ""
        return f"on {name} by {path[self.path]}{graph}{fed}, {self.configs[0].precision}"

    def draw(self, purpose: Purpose, make: Callable[[Streams, Tensor], Tensor]) -> Tensor:
        """Random numbers of this step; on a CPU cut from a block that was made for several."""
        if self.on_gpu:
            return make(self.streams, self._clock)
        block, place = divmod(self.step, _DRAW_AHEAD)
        if purpose not in self._drawn or self._drawn[purpose][0] != block:
            steps = torch.arange(_DRAW_AHEAD, device=self.device) + block * _DRAW_AHEAD
            made = make(self._ahead, steps.repeat_interleave(len(self)))
            self._drawn[purpose] = block, made.unflatten(0, (_DRAW_AHEAD, len(self)))
        return self._drawn[purpose][1][place]

    def uniform(self, purpose: Purpose, size: int) -> Tensor:
        """Uniform numbers of this step, `[M, batch, size]`."""
        batch = self.configs[0].batch_size
        return self.draw(purpose, lambda s, t: s.uniform(purpose, t, batch, size))

    def real_images(self, batch: Purpose, observation: Purpose, num: int) -> Tensor:
        """`num` images for each run, from streams of the given purposes."""
        now = self._clock if self.on_gpu else self.step
        numbers = partial(self.streams.uniform, observation, now)
        if batch in self._feeds:
            return self._feeds[batch].batch(numbers)
        index = self.draw(batch, lambda s, t: self.draw_index(s, batch, t, num))
        return self.images.batch(index, numbers)

    def encode_batch(self, batch: Purpose, noise: Purpose, observation: Purpose,
                     buffers: Params | None) -> tuple[Tensor, Draw]:
        """A batch of images and a draw of its codes, from streams of the given purposes."""
        first = self.configs[0]
        eps = self.draw(
            noise, lambda s, t: s.normal(noise, t, first.batch_size, first.num_latents))
        x = self.real_images(batch, observation, first.batch_size)
        head = nn.encode_head(self.architecture, self.network, x, precision=first.precision,
                              buffers=buffers, train=True)
        uniform = self.uniform(Purpose.GUMBEL, self._num_uniform) if self._num_uniform else eps
        drawn = self.method.posterior.draw(head, eps, uniform, self.hyper)
        # An autoencoder's decoder sees the means; a variance that nothing holds may be infinite.
        return x, drawn._replace(z=drawn.mu) if self.in_warmup else drawn

    def train_step(self) -> dict[str, Tensor]:
        """One update of every run; the objective's terms, detached."""
        self._fill()
        terms = self._update()
        self.step += 1
        return terms

    def _make_feeds(self, dataset: FactorDataset) -> dict[Purpose, Feed]:
        """For images that stay on the host: batches made ready there, a feed for each purpose."""
        seeds, batch = [c.seed for c in self.configs], self.configs[0].batch_size
        if self._players is not None:
            batch *= self._players.plan.critic_steps
        draw = dataset.draw_on(torch.device("cpu"))

        def indices(purpose: Purpose, step: int, num: int) -> Tensor:
            steps = torch.arange(step, step + num).repeat_interleave(len(seeds))
            return draw(Streams(seeds * num), purpose, steps, batch).unflatten(0, (num, -1))

        purposes = [Purpose.BATCH]
        if self._critic is not None:
            purposes += self._critic.batches
        return {purpose: self.images.feed(partial(indices, purpose)) for purpose in purposes}

    @property
    def in_warmup(self) -> bool:
        """Whether the coming step belongs to the autoencoder that a method starts with."""
        return self.step < self._warmup.steps

    def begin(self) -> None:
        """The method's own phase: the prior fitted to the codes, optimisers without a past.

        Happens by itself before the first step of the phase.
        """
        fit_priors(self)
        for optimiser in self.optimisers:
            optimiser.forget()
            optimiser.refresh()
        self._graph, self._num_plain = None, 0  # another step is recorded

    def _fill(self) -> None:
        """Put the images of the coming step in place, where they do not live on the device."""
        if self.method.prior is not None and self.step == self._warmup.steps:
            self.begin()
        for feed in self._feeds.values():
            feed.fill(self.step)

    def _update(self) -> dict[str, Tensor]:
        """What happens in a step, without the host's count of them."""
        terms = self._learn() if self._players is None else self._players.play()
        for k, v in terms.items():
            if k.startswith("state."):
                self.state[k.removeprefix("state.")].copy_(v.detach())
        self._clock += 1
        return {k: v.detach() for k, v in terms.items() if not k.startswith("state.")}

    def _learn(self) -> dict[str, Tensor]:
        """One update of an encoder and a decoder, and of their critic and prior."""
        first = self.configs[0]
        x, drawn = self.encode_batch(Purpose.BATCH, Purpose.NOISE, Purpose.OBSERVATION,
                                     self.buffers)
        logits = nn.decode(self.architecture, self.network, drawn.decoder_input(),
                           image_shape=self.image_shape, precision=first.precision,
                           buffers=self.buffers, train=True)
        out = Forward(x, logits, drawn.z, drawn.mu, drawn.logvar, first.likelihood,
                      drawn.category_logits, drawn.categories,
                      nn.image_nats(logits, x, first.likelihood))
        now = self._clock if self.on_gpu else self.step
        facts: dict[str, Any] = {
            "dataset_size": self.dataset_size, "state": self.state, "step": now,
            "prior": {k.removeprefix("prior."): v for k, v in self.prior_params.items()}}
        if self._critic is not None:
            facts["critic_logits"] = self._critic.logits(drawn.z)
        asked = {k: facts[k] for k in self._asked}
        terms = self.method.loss(out, **self.loss_letters, **asked)
        if self.in_warmup:
            terms = terms | {"loss": autoencoder_loss(out._replace(nats=None), self._warmup.loss)}
        terms["loss"].sum().backward()
        critic, z = self._critic, drawn.z.detach()
        # Ahead of the encoder's step: its critic is to compare codes of one encoder.
        early = critic.samples(z) if critic is not None and not critic.looks_after_step else ()
        scale = self._rate_scale(now)
        self.optimiser.step(scale)
        if self.prior_params and not self.in_warmup:
            self.prior_optimiser.step(scale)
        if critic is not None:
            terms = terms | critic.learn(*(early or critic.samples(z)))
        return terms

    def _rate_scale(self, now: Tensor | int) -> Tensor | None:
        """What the learning rates are multiplied by at this step, `[M]`."""
        if self.in_warmup:
            return self._warmup_scale
        schedule = self.method.schedule
        if schedule is None:
            return None
        return schedule(now - self._warmup.steps, **pick(schedule, self.hyper))

    def _step_and_sum(self) -> None:
        """A step whose terms are added to the sums behind the next point of the curves."""
        for name, value in self._update().items():
            if name in self._sums:
                self._sums[name] += value
            else:
                self._sums[name] = value.clone()

    def _run(self, num: int) -> None:
        """`num` steps: on a GPU as a graph once it is recorded, else one by one."""
        for _ in range(num):
            self._fill()
            if self._graph is not None:
                self._graph.replay()
            elif self.on_gpu and self._num_plain == _PLAIN_STEPS:
                self._record()
                self._graph.replay()
            else:
                self._step_and_sum()
                self._num_plain += 1
            self.step += 1

    def run_until(self, step: int) -> None:
        """Train up to a step, without points of curves."""
        self._run(step - self.step)

    def _record(self) -> None:
        """Record a step; recording does not execute it."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.device)
        # Threads that feed images wait for events meanwhile, which a global capture forbids.
        mode = "thread_local" if self._feeds else "global"
        with torch.cuda.graph(graph, capture_error_mode=mode):
            self._step_and_sum()
        self._graph = graph

    def advance(self) -> dict[str, Tensor]:
        """Train to the next point of the curves; the mean of every term since the last, `[M]`."""
        every = log_every(self.num_steps)
        until = min(self.step - self.step % every + every, self.num_steps)
        num = until - self.step
        for total in self._sums.values():
            total.zero_()
        self._run(num)
        means = {}
        for name, total in self._sums.items():
            mean = (total / num).double().cpu()
            if mean.ndim == 1:
                means[name] = mean
            else:  # a term for each latent: kl_latent becomes kl.0, kl.1, ...
                means |= {f"{name.removesuffix('_latent')}.{j}": mean[:, j]
                          for j in range(mean.shape[1])}
        return means

    def weights(self, run: int) -> Params:
        """What a finished run keeps: its VAE, with its prior and statistics of normalisation."""
        kept = self.params | self.buffers | self.prior_params
        return {k: p.detach()[run] for k, p in kept.items()}

    def run_state(self, run: int) -> Params:
        """Everything that one run needs to go on, by name, without the run axis."""
        found = {f"weight.{k}": t for k, t in self.weights(run).items()}
        found |= {f"weight.{k}": p.detach()[run] for k, p in self.critic_params.items()}
        found |= {f"state.{k}": v[run] for k, v in self.state.items()}
        for optimiser in self.optimisers:
            found |= optimiser.state(run)
        return found

    @torch.no_grad()
    def restore(self, run: int, state: Mapping[str, Tensor], step: int) -> None:
        """Put one run back to where it was; all runs of a stack must be at the same step."""
        own = self.params | self.buffers | self.critic_params | self.prior_params
        for k, p in own.items():
            p[run].copy_(state[f"weight.{k}"])
        for k, v in self.state.items():
            v[run].copy_(state[f"state.{k}"])
        self.step = step
        self._clock.fill_(step)
        since = step - self._warmup.steps if step > self._warmup.steps else step
        for optimiser, updates in self.optimisers.items():
            optimiser.restore(run, dict(state))
            optimiser.num_steps = since * updates
            optimiser.refresh()

    @torch.no_grad()
    def start_from(self, run: int, weights: Mapping[str, Tensor]) -> None:
        """Begin with another run's encoder and decoder."""
        for k, p in (self.params | self.buffers).items():
            p[run].copy_(weights[k][0])
        for optimiser in self.optimisers:
            optimiser.refresh()
