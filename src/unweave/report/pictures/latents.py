"""What pictures say about latents: KL, the factor each follows, codes of a sample of images.

One pass of the encoder over a sample feeds every picture of a run that is asked for together.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.nn.functional import one_hot

from unweave.data import shown_name
from unweave.metrics.arrays import as_labels
from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.objectives import letters
from unweave.objectives.game import LEAST_LOGVAR, information
from unweave.objectives.posterior import split_head
from unweave.random import Purpose, numpy_generator
from unweave.report.pictures.picture import NoPicture
from unweave.studies.catalog import STRENGTHS
from unweave.training import Encoded, Run
from unweave.types import Play

NUM_IMAGES = 4000
"""Of a sample; enough for KL and shares of information to within a percent or two."""
NUM_BINS = 20
_NUM_MADE = 1000  # images that a generator makes to say how much they tell of their codes
UNUSED = 0.1
"""Nats below which a latent says nothing."""


class Latents:
    """Facts about the latents of a run from a sample of its data set."""

    def __init__(self, run: Run, *, num: int = NUM_IMAGES, seed: int = 0) -> None:
        if run.status == "diverged":
            raise NoPicture(f"{run.run_id} diverged at step {run.info['diverged_at']}: there is no "
                            "model to look at, only its curves (losses, kl)")
        self.run, self.seed, self.num = run, seed, num

    @cached_property
    def index(self) -> np.ndarray:
        """Which images are looked at."""
        generator = numpy_generator(self.seed, Purpose.EVALUATION)
        return self.run.dataset.space.draw(self.num, generator)

    @cached_property
    def encoded(self) -> Encoded:
        """The pass of the encoder."""
        data = self.run.dataset
        # Images of a few rows: a rendered data set need not be rendered whole for a picture.
        heads = None if data.is_random else self.run.heads(data.images(self.index))
        return Encoded(self.run, self.index, seed=self.seed, heads=heads)

    @cached_property
    def codes(self) -> np.ndarray:
        """Means, then classes, `[sample, code]`."""
        return self.encoded.codes

    @cached_property
    def kl(self) -> np.ndarray:
        """Mean KL to the prior of each code, in nats."""
        if self.run.is_generator:
            raise NoPicture(f"{self.run.config.method} is a generator against a critic: its codes "
                            "are uniform, and there is no KL to them")
        if self.has_own_prior:
            return self.run.kl_at(self.index, seed=self.seed)
        mu, logvar = self.encoded.mu.astype(float), self.encoded.logvar.astype(float)
        parts = [(0.5 * (mu**2 + np.exp(logvar) - 1.0 - logvar)).mean(0)]
        for chances in self.chances:
            logs = np.log(np.maximum(chances, 1e-300))
            parts.append(np.array([(chances * logs).sum(1).mean() + np.log(chances.shape[1])]))
        return np.concatenate(parts)

    @property
    def measure(self) -> str:
        """What `nats` are: `KL`, or for a generator, whose codes have none, `MI`."""
        return "MI" if self.run.is_generator else "KL"

    @cached_property
    def nats(self) -> np.ndarray:
        """How much each code says, in nats: its KL, or what made images tell of it."""
        return self._told if self.run.is_generator else self.kl

    @cached_property
    def _told(self) -> np.ndarray:
        """A bound on I(c; G(c, noise)) of each code of a generator. Kim & Mnih 2018, eq. 13.

        Of a continuous code by the variance that the run was trained with, or by the one that its
        errors have if that tells more: held at 1 it would tell of nothing, however well codes are
        read.
        """
        run, num = self.run, min(self.num, _NUM_MADE)
        codes, size = run.prior_codes(num, seed=self.seed), run.config.num_latents
        images = run.decode(codes, noise=run.generator_noise(num, seed=self.seed))
        sizes = tuple(v for v in run.num_values if v)
        mu, logvar, logits = split_head(run.heads(images), sizes)
        classes = torch.from_numpy(codes[:, size:]).long()
        made = tuple(one_hot(classes[:, j], values).float() for j, values in enumerate(sizes))
        whole = Play(torch.zeros(num), torch.zeros(num), torch.from_numpy(codes[:, :size]), mu,
                     logvar)
        # Runs made before the letter have the bound that is its default.
        least = dict(run.config.hyper).get("least_logvar", LEAST_LOGVAR)
        errors = (whole.codes - mu).square().mean(0).clamp(min=1e-12)
        fitted = whole._replace(logvar=errors.log().expand(num, size))
        shares = [torch.maximum(information(whole, least)["mi_latent"],
                                information(fitted, LEAST_LOGVAR)["mi_latent"])]
        for j in range(len(sizes)):
            one = whole._replace(category_logits=logits[j:j + 1], categories=made[j:j + 1])
            shares.append(information(one)["mi_category"][None])
        return torch.cat(shares).double().numpy()

    @property
    def span(self) -> float:
        """How far traversals go unless told: 2; 1 for the codes of generators, U[-1, 1]."""
        return 1.0 if self.run.is_generator else 2.0

    @cached_property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and unit of traversals, `[latent]` each: 0 and 1.

        Under a mixture, whose codes may lie anywhere, mean and standard deviation of the codes.
        """
        size = self.run.config.num_latents
        if not self.has_own_prior:
            return np.zeros(size), np.ones(size)
        mu, logvar = self.encoded.mu.astype(float), self.encoded.logvar.astype(float)
        return mu.mean(0), np.sqrt(mu.var(0) + np.exp(logvar).mean(0))

    def extent(self, span: float) -> str:
        """How traversals go, in words."""
        return (f"from {span:g} standard deviations of the codes below their mean to {span:g} above"
                if self.has_own_prior else f"from {-span:g} to {span:g}")

    def walks(self, start: np.ndarray | None, chosen: list[int], span: float,
              num: int) -> np.ndarray:
        """Traversals `[latent, num, h, w, c]` around an image, or around the centre without one."""
        if not self.has_own_prior:
            return self.run.traverse(start, latents=chosen, span=span, num=num)
        centre, unit = self.scale
        base = centre if start is None else self.run.encode(start[None])[0]
        codes = np.tile(base, (len(chosen), num, 1)).astype(np.float32)
        for row, j in enumerate(chosen):
            codes[row, :, j] = centre[j] + unit[j] * np.linspace(-span, span, num)
        return self.run.decode(codes.reshape(-1, len(base))).reshape(
            len(chosen), num, *self.run.dataset.image_shape)

    def at_classes(self, start: np.ndarray | None, j: int, classes: np.ndarray) -> np.ndarray:
        """Images `[class, h, w, c]` of classes of a categorical latent, all else as in `walks`."""
        size = len(self.run.num_values)
        base = (np.zeros(size, np.float32) if start is None else self.run.encode(start[None])[0])
        codes = np.tile(base, (len(classes), 1))
        codes[:, j] = classes
        return self.run.decode(codes)

    @property
    def has_own_prior(self) -> bool:
        """Whether the prior has parameters, as a mixture has: it is not N(0, I) then."""
        return self.run.prior is not None

    @cached_property
    def chances(self) -> list[np.ndarray]:
        """For each categorical latent the probabilities `[sample, class]`."""
        logits, found, start = self.encoded.category_logits, [], 0
        for size in (v for v in self.run.num_values if v):
            own = logits[:, start:start + size].astype(float)
            own = np.exp(own - own.max(1, keepdims=True))
            found.append(own / own.sum(1, keepdims=True))
            start += size
        return found

    @cached_property
    def order(self) -> list[int]:
        """Numbers of the codes, those that say most first."""
        return np.argsort(-self.nats, kind="stable").tolist()

    @cached_property
    def typical(self) -> int:
        """The index of the image of the sample whose code is nearest to the centre."""
        centre, unit = self.scale
        used = ((self.encoded.mu - centre) / unit)[
            :, self.nats[:self.run.config.num_latents] >= UNUSED]
        return int(self.index[(used**2).sum(1).argmin()])

    def start(self, image: int | str) -> tuple[np.ndarray | None, str]:
        """Where traversals start, and how to say so: `typical`, `zero` or an image's index."""
        if image == "zero":
            return None, "the mean code" if self.has_own_prior else "zero"
        index = self.typical if image == "typical" else int(image)
        said = f"the code of image {index:,}"
        if image == "typical":
            said += ", the nearest to " + ("the mean" if self.has_own_prior else "zero")
        return self.run.dataset.images([index], seed=self.seed)[0], said

    @cached_property
    def bins(self) -> np.ndarray:
        """Codes in bins, as MIG takes them."""
        return discretise(self.codes, NUM_BINS, self.run.num_values)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the factors, or of the labels of images without factors."""
        labels = self.run.dataset.labels
        return self.run.dataset.space.names if labels is None else labels.names

    @cached_property
    def factors(self) -> np.ndarray:
        """Classes `[sample, factor]`, -1 where a label is unknown."""
        labels = self.run.dataset.labels
        if labels is None:
            return self.run.dataset.factors(self.index)
        return as_labels(labels.values[self.index], None, labels.types or None).classes

    @cached_property
    def information(self) -> np.ndarray:
        """I(z_j; v_k) as a share of H(v_k), `[code, factor]`."""
        shared = np.zeros((self.codes.shape[1], self.factors.shape[1]))
        for k, column in enumerate(self.factors.T):
            known = column >= 0
            if known.any():
                own = column[known, None]
                shared[:, k] = (mutual_information(self.bins[known], own)[:, 0]
                                / np.maximum(entropy(own)[0], 1e-12))
        return shared

    def name(self, j: int) -> str:
        """`z3`, or `c10` for a categorical latent."""
        return f"{'c' if self.run.num_values[j] else 'z'}{j}"

    def follows(self, j: int) -> str:
        """`scale 71 %`: the factor that a latent shares most information with; `unused` or empty.

        The share is of the factor's entropy.
        """
        if self.nats[j] < UNUSED:
            return "unused"
        if not self.information.shape[1]:
            return ""
        k = int(self.information[j].argmax())
        share = self.information[j, k]
        return f"{self.factor_names[k]} {100 * share:.0f} %" if share >= 0.05 else ""

    def remark(self, j: int) -> str:
        """The KL of a latent, or its MI, and what it follows."""
        return "  ".join(filter(None, (f"{self.measure} {self.nats[j]:.2f}", self.follows(j))))

    def needs_factors(self, what: str) -> None:
        """NoPicture where nothing is known of the images."""
        if not self.factor_names:
            raise NoPicture(f"{self.run.config.data} has no factors and no labels, and {what} is "
                            "about these: choose another picture")


def run_title(run: Run) -> str:
    """`beta_vae beta=4, seed 0, on dsprites`: the strength, and letters other than the default."""
    known, strength = letters(run.config.method), STRENGTHS.get(run.config.method)
    said = [letter_text(k, v) for k, v in run.config.hyper
            if k == strength or v != known[k].default]
    return (" ".join([run.config.method, *said])
            + f", seed {run.config.seed}, on {shown_name(run.dataset.name)}")


def letter_text(name: str, value: Any) -> str:
    """`beta=4`."""
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
