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
from unweave.objectives import METHODS, Draw, context, frozen, letters, pick
from unweave.random import Purpose, Streams
from unweave.training.adam import Adam
from unweave.types import Forward, Params

_DRAW_AHEAD = 32  # steps whose random numbers are made at once: a few large operations, not many
_PLAIN_STEPS = 3  # before a CUDA graph is recorded


def num_updates(config: RunConfig) -> int:
    """How often a run updates its weights: `steps`, unless its method's convention differs."""
    return METHODS[config.method].num_updates(config.steps, dict(config.hyper))


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
        self._draw_index = dataset.draw_on(device)
        self.image_shape = dataset.image_shape
        self.hyper: dict[str, Any] = {
            name: torch.tensor([float(c[name]) for c in configs], device=device)
            if letter.per_run else first[name]
            for name, letter in letters(first.method).items()
        }
        self._loss_letters = pick(self.method.loss, self.hyper)
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
        self._weights = self._with_gradients(self.params)
        self.optimiser = Adam(self.params, [c.learning_rate for c in configs],
                              beta1=first.adam_beta1, beta2=first.adam_beta2, eps=first.adam_eps,
                              copies=self._copies_of(self.params, self._weights))
        self.critic_params: Params = {}
        if self.method.critic is not None:
            plan = self.method.critic.plan(**pick(self.method.critic.plan, self.hyper))
            self._second_batch = plan.second_batch
            self.critic_params = nn.init_critic(size, plan.width, plan.depth, self.streams,
                                                first.init)
            self._critic_weights = self._with_gradients(self.critic_params)
            self.critic_optimiser = Adam(
                self.critic_params, plan.rate.tolist(), beta1=plan.beta1, beta2=plan.beta2,
                eps=first.adam_eps,
                copies=self._copies_of(self.critic_params, self._critic_weights))
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

    def _with_gradients(self, params: Params) -> Params:
        """What the layers compute with: the weights, or on a GPU their bfloat16 copies.

        A CPU run casts on the way in: there it costs nothing beside the products.
        """
        if self.on_gpu and self.configs[0].precision == "bfloat16":
            params = {k: p.detach().to(torch.bfloat16) for k, p in params.items()}
        for p in params.values():
            p.requires_grad_()
        return params

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

    def _draw(self, purpose: Purpose, make: Callable[[Streams, Tensor], Tensor]) -> Tensor:
        """Random numbers of this step; on a CPU cut from a block that was made for several."""
        if self.on_gpu:
            return make(self.streams, self._clock)
        block, place = divmod(self.step, _DRAW_AHEAD)
        if purpose not in self._drawn or self._drawn[purpose][0] != block:
            steps = torch.arange(_DRAW_AHEAD, device=self.device) + block * _DRAW_AHEAD
            made = make(self._ahead, steps.repeat_interleave(len(self)))
            self._drawn[purpose] = block, made.unflatten(0, (_DRAW_AHEAD, len(self)))
        return self._drawn[purpose][1][place]

    def _uniform(self, purpose: Purpose, size: int) -> Tensor:
        batch = self.configs[0].batch_size
        return self._draw(purpose, lambda s, t: s.uniform(purpose, t, batch, size))

    def _encode(self, batch: Purpose, noise: Purpose, observation: Purpose,
                buffers: Params | None) -> tuple[Tensor, Draw]:
        """A batch of images and a draw of its codes, from streams of the given purposes."""
        first = self.configs[0]
        eps = self._draw(
            noise, lambda s, t: s.normal(noise, t, first.batch_size, first.num_latents))
        now = self._clock if self.on_gpu else self.step
        numbers = partial(self.streams.uniform, observation, now)
        if batch in self._feeds:
            x = self._feeds[batch].batch(numbers)
        else:
            index = self._draw(
                batch, lambda s, t: self._draw_index(s, batch, t, first.batch_size))
            x = self.images.batch(index, numbers)
        head = nn.encode_head(self.architecture, self._weights, x, precision=first.precision,
                              buffers=buffers, train=True)
        uniform = self._uniform(Purpose.GUMBEL, self._num_uniform) if self._num_uniform else eps
        return x, self.method.posterior.draw(head, eps, uniform, self.hyper)

    def train_step(self) -> dict[str, Tensor]:
        """One update of every run; the objective's terms, detached."""
        self._fill()
        terms = self._update()
        self.step += 1
        return terms

    def _make_feeds(self, dataset: FactorDataset) -> dict[Purpose, Feed]:
        """For images that stay on the host: batches made ready there, a feed for each purpose."""
        seeds, batch = [c.seed for c in self.configs], self.configs[0].batch_size
        draw = dataset.draw_on(torch.device("cpu"))

        def indices(purpose: Purpose, step: int, num: int) -> Tensor:
            steps = torch.arange(step, step + num).repeat_interleave(len(seeds))
            return draw(Streams(seeds * num), purpose, steps, batch).unflatten(0, (num, -1))

        purposes = [Purpose.BATCH]
        if self.critic_params and self._second_batch:
            purposes.append(Purpose.CRITIC_BATCH)
        return {purpose: self.images.feed(partial(indices, purpose)) for purpose in purposes}

    def _fill(self) -> None:
        """Put the images of the coming step in place, where they do not live on the device."""
        for feed in self._feeds.values():
            feed.fill(self.step)

    def _update(self) -> dict[str, Tensor]:
        """What happens in a step, without the host's count of them."""
        first = self.configs[0]
        x, drawn = self._encode(Purpose.BATCH, Purpose.NOISE, Purpose.OBSERVATION, self.buffers)
        logits = nn.decode(self.architecture, self._weights, drawn.decoder_input(),
                           image_shape=self.image_shape, precision=first.precision,
                           buffers=self.buffers, train=True)
        out = Forward(x, logits, drawn.z, drawn.mu, drawn.logvar, first.likelihood,
                      drawn.category_logits, drawn.categories,
                      nn.image_nats(logits, x, first.likelihood))
        facts: dict[str, Any] = {"dataset_size": self.dataset_size, "state": self.state,
                                 "step": self._clock if self.on_gpu else self.step}
        if self.critic_params:  # its weights are constants here: the encoder does not move it
            facts["critic_logits"] = nn.critic_logits(frozen(self._critic_weights), drawn.z,
                                                      precision=first.precision)
        asked = {k: facts[k] for k in self._asked}
        terms = self.method.loss(out, **self._loss_letters, **asked)
        terms["loss"].sum().backward()
        self.optimiser.step()
        if self.critic_params:
            terms = terms | self._critic_step(drawn.z.detach())
        for k, v in terms.items():
            if k.startswith("state."):
                self.state[k.removeprefix("state.")].copy_(v.detach())
        self._clock += 1
        return {k: v.detach() for k, v in terms.items() if not k.startswith("state.")}

    def _critic_step(self, z: Tensor) -> dict[str, Tensor]:
        """One update of every run's critic. Kim & Mnih 2018, algorithm 2, its second half."""
        critic, precision = self.method.critic, self.configs[0].precision
        other = z
        if self._second_batch:
            with torch.no_grad():  # statistics of normalisation follow the first batch alone
                other = self._encode(Purpose.CRITIC_BATCH, Purpose.CRITIC_NOISE,
                                     Purpose.CRITIC_OBSERVATION, None)[1].z
        real, made = critic.samples(z, other, self._uniform(Purpose.PERMUTATION, z.shape[-1]))
        weights = self._critic_weights
        terms = critic.loss(nn.critic_logits(weights, real, precision=precision),
                            nn.critic_logits(weights, made, precision=precision))
        terms["critic_loss"].sum().backward()
        self.critic_optimiser.step()
        return terms

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
        """What a finished run keeps: its VAE, with the statistics of normalisation."""
        return {k: p.detach()[run] for k, p in (self.params | self.buffers).items()}

    def run_state(self, run: int) -> Params:
        """Everything that one run needs to go on, by name, without the run axis."""
        found = {f"weight.{k}": t for k, t in self.weights(run).items()}
        found |= {f"weight.{k}": p.detach()[run] for k, p in self.critic_params.items()}
        found |= {f"state.{k}": v[run] for k, v in self.state.items()}
        found |= self.optimiser.state(run)
        return found | self.critic_optimiser.state(run) if self.critic_params else found

    @torch.no_grad()
    def restore(self, run: int, state: Mapping[str, Tensor], step: int) -> None:
        """Put one run back to where it was; all runs of a stack must be at the same step."""
        for k, p in (self.params | self.buffers | self.critic_params).items():
            p[run].copy_(state[f"weight.{k}"])
        for k, v in self.state.items():
            v[run].copy_(state[f"state.{k}"])
        self.step = step
        self._clock.fill_(step)
        optimisers = [self.optimiser, *([self.critic_optimiser] if self.critic_params else [])]
        for optimiser in optimisers:
            optimiser.restore(run, dict(state))
            optimiser.num_steps = step
            optimiser.refresh()
