"""What a run says about images of its data set: draws of q(z|x), likelihoods, importance weights.

Images are encoded once, when an `Encoded` is made. Random numbers are a function of the evaluation
seed, the image's index and the number of the draw, so a draw is the same whichever others are asked
for with it, in whatever chunks. Draw 0 is the sampled code of an image and the first particle of
its importance weights. Everything else happens on the run's device, in chunks of bounded memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unweave import nn
from unweave.objectives import METHODS
from unweave.objectives.elbo import reconstruction
from unweave.objectives.posterior import Draw, split_head
from unweave.random import Purpose, Streams
from unweave.training.progress import Listener, Report, clock
from unweave.training.run import Run
from unweave.types import Float, Forward

_CHUNK = 1024  # codes decoded at once: bounds memory, large enough to keep a device busy

Rows = Sequence[int] | np.ndarray


class Encoded:
    """One encoding of the images at `index`; rows below count among these images."""

    def __init__(self, run: Run, index: Rows, *, seed: int = 0, listener: Listener | None = None,
                 heads: Tensor | None = None) -> None:
        """`heads` are the encoder's raw output for these images, if they are known already."""
        self.run, self.index, self.seed = run, np.asarray(index, dtype=np.int64), seed
        self._listener = listener
        self._heads = run.heads_at(self.index, seed, listener) if heads is None else heads
        self._architecture = nn.ARCHITECTURES[run.config.architecture]
        self._posterior = METHODS[run.config.method].posterior
        self._letters = dict(run.config.hyper)
        self._exact: dict[str, Tensor] = {}

    @property
    def codes(self) -> np.ndarray:
        """As `Run.encode` gives them: means, then the most probable classes."""
        return self._posterior.codes(self._heads, self._letters).numpy()

    @property
    def mu(self) -> np.ndarray:
        """Means of the continuous latents, `[sample, latent]`."""
        return self._split(self._heads)[0].numpy()

    @property
    def logvar(self) -> np.ndarray:
        """Log-variances of the continuous latents, `[sample, latent]`."""
        return self._split(self._heads)[1].numpy()

    @property
    def category_logits(self) -> np.ndarray | None:
        """Of the categorical latents side by side, `[sample, class]`; None if there are none."""
        logits = self._split(self._heads)[2]
        return torch.cat(logits, -1).numpy() if logits else None

    def sampled(self, rows: Rows) -> np.ndarray:
        """Draw 0 of q(z|x), `[sample, code]`, columns as in `codes`: classes are drawn too."""
        rows = np.asarray(rows, dtype=np.int64)
        drawn = self._draw(rows, 0)
        # The largest relaxed class is an exact draw: the largest of logits plus Gumbel numbers.
        classes = [c.argmax(-1, keepdim=True).to(drawn.z.dtype) for c in drawn.categories]
        return torch.cat([drawn.z, *classes], -1).numpy()

    @property
    def withheld(self) -> tuple[str, ...]:
        """Inputs of metrics that this run must not give.

        A generator has no likelihood. The metric of the bound compares moments with N(0, I), which
        is not the prior of a mixture; importance weights know which prior it is.
        """
        if self.run.is_generator:
            return ("reconstruction", "log_weights")
        return () if self.run.prior is None else ("reconstruction",)

    def reconstruction(self, rows: Rows) -> Float[np.ndarray, " sample"]:
        """-log p(x|z) at draw 0, in nats per image; categories are relaxed as in training."""
        rows, place = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        resident, parts = self.run.dataset.on(self.run.device), [np.zeros(0)]
        for part in _chunks(rows):
            x = self.run.images_at(self.index[part], self.seed, resident)
            parts.append(self._nats(x, self._draw(part, 0).decoder_input()))
        return np.concatenate(parts)[place]

    def log_weights(self, rows: Rows, num_particles: int) -> Float[np.ndarray, "sample particle"]:
        """Importance weights, log p(x, z) - log q(z|x), of draws. Burda et al. 2016.

        Classes of categorical latents are drawn, not relaxed: the model with discrete latents.
        """
        rows, place = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        resident = self.run.dataset.on(self.run.device)
        weights = np.empty((len(rows), num_particles))
        began = time.monotonic()
        for i, row in enumerate(rows):
            self._tell("weighing particles of", i, len(rows), began)
            x = self.run.images_at(self.index[row:row + 1], self.seed, resident)
            for particles in _chunks(np.arange(num_particles)):
                drawn = self._draw(np.full(len(particles), row), particles)
                hard = [F.one_hot(c.argmax(-1), c.shape[-1]).to(c.dtype) for c in drawn.categories]
                nats = self._nats(x.expand(len(particles), *x.shape[1:]),
                                  torch.cat([drawn.z, *hard], -1))
                ratio = _log_ratio(drawn, hard)
                if self.run.prior is not None:
                    ratio = ratio + self._beyond_normal(drawn.z.double())
                weights[i, particles] = ratio.numpy() - nats
        self._tell("weighing particles of", len(rows), len(rows), began)
        return weights[place]

    def _tell(self, doing: str, done: int, num: int, began: float) -> None:
        """Report work that can take minutes: 2.5 million decodings are some on a CPU."""
        if self._listener is not None:
            left = (time.monotonic() - began) / max(done, 1) * (num - done)
            self._listener(Report(f"{doing} {self.run.run_id}", done, num,
                                  f"images  {clock(left)} left" if done else "images"))

    def _beyond_normal(self, z: Tensor) -> Tensor:
        """Log p(z) - log N(z; 0, I), in float64, for priors with parameters."""
        exact = {k: v.double() for k, v in self.run.prior_params.items()}
        normal = -0.5 * (z**2 + math.log(2.0 * math.pi)).sum(-1)
        return self.run.prior.log_density(exact, z) - normal

    def prior(self, num: int) -> np.ndarray:
        """Draws of the prior, `[num, code]`."""
        return self.run.prior_codes(num, seed=self.seed)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Mean images of codes as `Run.decode` gives them, computed in float64."""
        parts = [np.zeros((0, *self.run.dataset.image_shape))]
        with torch.inference_mode():
            for part in _chunks(np.arange(len(codes))):
                z = torch.from_numpy(codes[part].astype(np.float64)).to(self.run.device)
                noise = torch.from_numpy(self.run.generator_noise()).to(z)
                given = self._posterior.embed(z[None], self._letters,
                                              noise if noise.shape[-1] else None)
                logits = nn.decode(self._architecture, self._weights(), given,
                                   buffers=self._weights(),
                                   image_shape=self.run.dataset.image_shape)
                parts.append(torch.sigmoid(logits)[0].cpu().numpy())
        return np.concatenate(parts)

    def features(self, images: np.ndarray) -> np.ndarray:
        """Means of q(z|x) of images in [0, 1], computed in float64: of latents, then of classes."""
        parts = [np.zeros((0, len(self.run.num_values)))] if len(images) == 0 else []
        with torch.inference_mode():
            for part in _chunks(np.arange(len(images))):
                x = torch.from_numpy(images[part].astype(np.float64)).to(self.run.device)[None]
                head = nn.encode_head(self._architecture, self._weights(), x,
                                      buffers=self._weights())[0]
                mu, _, logits = self._split(head)
                parts.append(torch.cat([mu, *[torch.softmax(c, -1) for c in logits]], -1)
                             .cpu().numpy())
        return np.concatenate(parts)

    def _weights(self) -> dict[str, Tensor]:
        if not self._exact:
            self._exact = {name: value.double() for name, value in self.run.params.items()}
        return self._exact

    def _split(self, heads: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        return split_head(heads, self._posterior.sizes(self._letters))

    def _draw(self, rows: np.ndarray, number: int | np.ndarray) -> Draw:
        """Draws of q(z|x) of rows, on the CPU; `number` is that of the draw, or of each."""
        streams = Streams([self.seed] * len(rows))
        # The counter of a stream has 64 bits: the index below, the number of the draw above.
        step = torch.from_numpy(self.index[rows] + (np.asarray(number, dtype=np.int64) << 32))
        noise = streams.normal(Purpose.EVALUATION_NOISE, step, self.run.config.num_latents)
        num = self._posterior.num_uniform(self._letters)
        uniform = streams.uniform(Purpose.EVALUATION_GUMBEL, step, num) if num else noise
        return self._posterior.draw(self._heads[rows], noise, uniform, self._letters)

    def _nats(self, x: Tensor, code: Tensor) -> np.ndarray:
        """-log p(x|z) of every image, as training computes it."""
        with torch.inference_mode():
            logits = nn.decode(self._architecture, self.run.params,
                               code.to(self.run.device)[None], buffers=self.run.params,
                               image_shape=self.run.dataset.image_shape,
                               precision=self.run.config.precision)[0].float()
            code = code[:, None]
            # A stack of batches of one image: the objective's mean over a batch is the image's.
            out = Forward(x[:, None], logits[:, None], code, code, code,
                          self.run.config.likelihood)
            return reconstruction(out).double().cpu().numpy()


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start:start + _CHUNK]


def _log_ratio(drawn: Draw, hard: list[Tensor]) -> Tensor:
    """Prior over posterior, log p(z) - log q(z|x), in float64; the normals' constants cancel."""
    z, mu, logvar = drawn.z.double(), drawn.mu.double(), drawn.logvar.double()
    ratio = 0.5 * ((z - mu) ** 2 * torch.exp(-logvar) + logvar - z**2).sum(-1)
    for logits, classes in zip(drawn.category_logits, hard):
        log_q = (torch.log_softmax(logits.double(), -1) * classes).sum(-1)
        ratio = ratio - math.log(logits.shape[-1]) - log_q
    return ratio
