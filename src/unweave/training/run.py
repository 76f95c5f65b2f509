"""Run: a trained model with its config, curves and status. `load` reads one from its folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave import nn
from unweave.config import FORMAT, RunConfig
from unweave.data import DATASETS, load_data, parse_spec
from unweave.data.dataset import FactorDataset, ResidentImages
from unweave.data.streaming import StreamedImages
from unweave.markup import card, curve, strip
from unweave.objectives import METHODS, Posterior, Prior, pick
from unweave.objectives.mixture import named, of_weights
from unweave.objectives.posterior import split_head
from unweave.random import Purpose, Streams
from unweave.training import folder as files
from unweave.training.progress import Listener, Report, clock
from unweave.training.stack import num_updates
from unweave.types import Params, UserError, unknown_name

_CHUNK = 1024  # images encoded at once: bounds memory, large enough to keep a device busy


def choose_device(name: str = "auto") -> torch.device:
    """`auto` is the GPU when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise unknown_name("device", name, ["auto", "cpu", "cuda"]) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device {name!r} is not available: torch sees no GPU; use --device cpu")
    return device


@dataclass
class Run:
    """One trained model. Arrays go in and come out; images are `[sample, height, width, channel]`.

    `status` is `done` or `diverged`. Images may be uint8, or floats in [0, 1].
    """

    config: RunConfig
    params: Params = field(repr=False)
    curves: files.Curves = field(repr=False)
    info: dict[str, Any] = field(repr=False)
    dataset: FactorDataset = field(repr=False)
    folder: Path | None = None
    device: torch.device = field(default_factory=choose_device)

    @property
    def run_id(self) -> str:
        """The hash that names the run."""
        return self.config.run_id

    @property
    def status(self) -> str:
        """`done` or `diverged`."""
        return self.info["status"]

    @property
    def architecture(self) -> nn.Architecture:
        """The encoder and decoder."""
        return nn.ARCHITECTURES[self.config.architecture]

    def _repr_html_(self) -> str:
        """What a notebook shows: what was trained, how it went, eight reconstructions."""
        config = self.config
        facts = {"method": config.method, "letters": self._letters, "data": self.dataset.name,
                 "seed": config.seed, "steps": config.steps, "latents": config.num_latents,
                 "architecture": config.architecture, "status": self.status,
                 "folder": None if self.folder is None else str(self.folder)}
        facts |= {name: self.curves[name][-1] for name in ("recon", "kl") if self.curves.get(name)}
        parts = [curve(self.curves.get("loss", []), caption="loss")]
        if self.status == "done":
            images = self.dataset.images(np.linspace(0, len(self.dataset) - 1, 8).astype(np.int64))
            rows, said = [images], "images"
            try:
                rows.append(self.reconstruct(images))
                said = "images above, their reconstructions below"
            except UserError:  # a method whose codes are not made to give images again
                pass
            parts.append(strip(rows, caption=said))
        return card(self.run_id, facts, *parts)

    def _chunks(self, images: np.ndarray) -> Iterator[Tensor]:
        images = np.asarray(images)
        shape = self.dataset.image_shape
        if images.shape[1:] != shape:
            raise UserError(f"expected images of shape [sample, {', '.join(map(str, shape))}], "
                            f"got {list(images.shape)}")
        for start in range(0, len(images), _CHUNK):
            chunk = torch.from_numpy(np.ascontiguousarray(images[start:start + _CHUNK]))
            scale = 255.0 if chunk.dtype == torch.uint8 else 1.0
            yield chunk.to(self.device, torch.float32)[None] / scale

    @property
    def _letters(self) -> dict[str, Any]:
        return dict(self.config.hyper)

    @property
    def _posterior(self) -> Posterior:
        return METHODS[self.config.method].posterior

    @property
    def prior(self) -> Prior | None:
        """The prior where it has parameters, `prior_params`; None is N(0, I) or uniform codes."""
        return METHODS[self.config.method].prior

    @property
    def prior_params(self) -> Params:
        """Parameters of the prior by name, without a run axis, on the CPU."""
        return {k: v[0].float().cpu() for k, v in of_weights(self.params).items()}

    @property
    def is_generator(self) -> bool:
        """Whether images are made from codes and noise by a generator: then there is no bound."""
        return METHODS[self.config.method].game is not None

    @property
    def num_clusters(self) -> int:
        """Clusters that `clusters` tells apart; 0 if the run has none."""
        if self.prior is not None:
            return self.prior_params["logits"].shape[-1]
        return next((values for values in self.num_values if values > 1), 0)

    @property
    def num_values(self) -> tuple[int, ...]:
        """For each column of the codes: 0 if continuous, else the number of its classes."""
        return self._posterior.num_values(self.config.num_latents, self._letters)

    def _heads(self, chunks: Iterator[Tensor]) -> Tensor:
        """The encoder's raw output for images, `[sample, head]`, on the CPU."""
        with torch.inference_mode():
            parts = [nn.encode_head(self.architecture, self.params, x, buffers=self.params,
                                    precision=self.config.precision)[0].float().cpu()
                     for x in chunks]
            size = self._posterior.head_size(self.config.num_latents, self._letters)
            return torch.cat(parts) if parts else torch.zeros(0, size)

    def heads(self, images: np.ndarray) -> Tensor:
        """The encoder's raw output for images, `[sample, head]`."""
        return self._heads(self._chunks(images))

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Codes `[sample, code]`, float32: means, then the class of each categorical latent."""
        return self._posterior.codes(self._heads(self._chunks(images)), self._letters).numpy()

    def encode_at(self, index: Sequence[int] | np.ndarray, *, seed: int = 0,
                  listener: Listener | None = None) -> np.ndarray:
        """As `encode`, for images of the run's data set: see `posterior_at`."""
        heads = self.heads_at(index, seed, listener)
        return self._posterior.codes(heads, self._letters).numpy()

    def clusters(self, images: np.ndarray) -> np.ndarray:
        """The cluster of each image, `[sample]`: the most probable component of the prior.

        Of a run with categorical latents instead, the class of the first.
        """
        return self.clusters_of(self._heads(self._chunks(images)))

    def clusters_of(self, heads: Tensor) -> np.ndarray:
        """As `clusters`, from the encoder's raw output."""
        if not self.num_clusters:
            raise UserError(f"{self.run_id} has no clusters: {self.config.method} has neither a "
                            "mixture as its prior nor a categorical latent")
        mu, _, logits = split_head(heads, self._posterior.sizes(self._letters))
        if self.prior is not None:
            return self.prior.assign(self.prior_params, mu).argmax(-1).numpy()
        return next(c for c in logits if c.shape[-1] > 1).argmax(-1).numpy()

    def sample_cluster(self, k: int, num: int = 16, *, seed: int = 0) -> np.ndarray:
        """Images decoded from draws of one cluster of the prior."""
        if not 0 <= k < self.num_clusters:
            raise UserError(f"clusters of {self.run_id} are 0..{self.num_clusters - 1}, got {k}"
                            if self.num_clusters else f"{self.run_id} has no clusters")
        codes = self.prior_codes(num, seed=seed)
        if self.prior is not None:
            normal = Streams([seed]).normal(Purpose.PRIOR, 0, num, self.config.num_latents)[0]
            codes = self.prior.draw(self.prior_params, normal,
                                    torch.full((num,), k)).numpy()
        else:
            codes[:, next(j for j, values in enumerate(self.num_values) if values > 1)] = k
        return self._decoded_draws(codes, seed)

    def posterior(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and log-variances of q(z|x) of the continuous latents, each `[sample, latent]`."""
        return self._moments(self._heads(self._chunks(images)))

    def _moments(self, heads: Tensor) -> tuple[np.ndarray, np.ndarray]:
        size = self.config.num_latents
        return heads[:, :size].numpy(), heads[:, size:2 * size].numpy()

    def posterior_at(self, index: Sequence[int] | np.ndarray, *,
                     seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """As `posterior`, for images of the run's data set, gathered on the device.

        In data sets with random images (colour, noise, ...) an image is a function of its index
        and of `seed`, whichever others are asked for with it.
        """
        return self._moments(self.heads_at(index, seed))

    def kl_at(self, index: Sequence[int] | np.ndarray, *, seed: int = 0) -> np.ndarray:
        """Mean KL to the prior of each code, in nats, `[code]`: N(0, 1), or the uniform class.

        Under a mixture, the KL to the components, weighted by how probable each is. A generator's
        codes are uniform: a normal Q(c|x) has no KL to them.
        """
        if self.is_generator:
            raise UserError(f"{self.config.method} is a generator against a critic: its codes are "
                            "uniform, and there is no KL to them")
        mu, logvar, logits = split_head(self.heads_at(index, seed).double(),
                                        self._posterior.sizes(self._letters))
        parts = [(0.5 * (mu**2 + logvar.exp() - 1.0 - logvar)).mean(0)]
        if self.prior is not None:
            exact = {k: v.double() for k, v in self.prior_params.items()}
            parts = [self.prior.kl(exact, mu, logvar).mean(0)]
        for category in logits:
            log_p = torch.log_softmax(category, -1)
            kl = (log_p.exp() * log_p).sum(-1).mean() + np.log(category.shape[-1])
            parts.append(kl[None])
        return torch.cat(parts).numpy()

    def heads_at(self, index: Sequence[int] | np.ndarray, seed: int,
                 listener: Listener | None = None) -> Tensor:
        """The encoder's raw output for images of the run's data set, `[sample, head]`."""
        index = np.asarray(index, dtype=np.int64)
        resident = self.dataset.on(self.device)

        def chunks() -> Iterator[Tensor]:
            began = time.monotonic()
            for start in range(0, len(index), _CHUNK):
                if listener is not None:
                    pace = (time.monotonic() - began) / max(start, 1)
                    listener(Report(f"encoding {self.run_id}", start, len(index),
                                    f"images  {clock(pace * (len(index) - start))} left"))
                yield self.images_at(index[start:start + _CHUNK], seed, resident)[None]
            if listener is not None:
                listener(Report(f"encoding {self.run_id}", len(index), len(index), "images"))

        return self._heads(chunks())

    def images_at(self, index: np.ndarray, seed: int,
                  resident: ResidentImages | StreamedImages) -> Tensor:
        """Images `[sample, h, w, c]` of the run's data set on its device; see `posterior_at`."""
        rows = torch.from_numpy(index).to(self.device)
        if not self.dataset.is_random:
            return resident.batch(rows)
        # A stack of one image each, told apart by the step: own numbers for every index.
        streams = Streams([seed] * len(rows), self.device)
        return resident.batch(rows[:, None],
                              partial(streams.uniform, Purpose.EVALUATION, rows))[:, 0]

    def generator_noise(self, num: int = 1, *, seed: int = 0) -> np.ndarray:
        """Draws of the noise that a generator gets beside its codes, `[num, noise]`."""
        size = self._posterior.num_noise(self._letters)
        if not size:
            return np.zeros((num, 0), np.float32)
        return Streams([seed]).normal(Purpose.EVALUATION_GENERATOR_NOISE, 0, num, size)[0].numpy()

    def decode(self, codes: np.ndarray, *, noise: np.ndarray | None = None) -> np.ndarray:
        """Mean images in [0, 1] of codes as `encode` gives them, float32.

        A generator also needs noise: one draw for all images, unless `noise` `[sample, noise]`,
        such as `generator_noise` gives, has one for each.
        """
        codes, width = np.ascontiguousarray(codes, dtype=np.float32), len(self.num_values)
        if codes.ndim != 2 or codes.shape[1] != width:
            raise UserError(f"expected codes of shape [sample, {width}], got {list(codes.shape)}")
        size = self._posterior.num_noise(self._letters)
        given = None
        if size:
            given = self.generator_noise() if noise is None else np.asarray(noise, np.float32)
            if given.ndim != 2 or given.shape[1] != size or len(given) not in (1, len(codes)):
                raise UserError(f"expected noise of shape [{len(codes)}, {size}], got "
                                f"{list(given.shape)}")
            given = torch.from_numpy(given).expand(len(codes), size)
        elif noise is not None:
            raise UserError(f"{self.config.method} decodes codes alone: it takes no noise")
        parts = [np.zeros((0, *self.dataset.image_shape), np.float32)]
        with torch.inference_mode():
            for start in range(0, len(codes), _CHUNK):
                z = torch.from_numpy(codes[start:start + _CHUNK]).to(self.device)[None]
                own = None if given is None else given[None, start:start + _CHUNK].to(self.device)
                logits = nn.decode(self.architecture, self.params,
                                   self._posterior.embed(z, self._letters, own),
                                   buffers=self.params,
                                   image_shape=self.dataset.image_shape,
                                   precision=self.config.precision)
                parts.append(torch.sigmoid(logits.float())[0].cpu().numpy())
        return np.concatenate(parts)

    def reconstruct(self, images: np.ndarray) -> np.ndarray:
        """Images decoded from their mean codes."""
        return self.decode(self.encode(images))

    def sample(self, num: int = 16, *, seed: int = 0) -> np.ndarray:
        """Images decoded from draws of the prior: normal latents, uniform classes.

        A generator's images have noise of their own each.
        """
        return self._decoded_draws(self.prior_codes(num, seed=seed), seed)

    def _decoded_draws(self, codes: np.ndarray, seed: int) -> np.ndarray:
        noise = self.generator_noise(len(codes), seed=seed) if self.is_generator else None
        return self.decode(codes, noise=noise)

    def prior_codes(self, num: int, *, seed: int = 0) -> np.ndarray:
        """Draws of the prior as codes `[num, code]`, columns as in `encode`."""
        streams, size = Streams([seed]), self.config.num_latents
        if self.is_generator:
            z = 2.0 * streams.uniform(Purpose.PRIOR, 0, num, size)[0] - 1.0
        else:
            z = streams.normal(Purpose.PRIOR, 0, num, size)[0]
        if self.prior is not None:
            weights = torch.softmax(self.prior_params["logits"], -1)
            place = torch.searchsorted(weights.cumsum(-1),
                                       streams.uniform(Purpose.PRIOR, 1, num)[0])
            z = self.prior.draw(self.prior_params, z, place.clamp(max=len(weights) - 1))
        columns = [z, *[streams.integers(Purpose.PRIOR, 1 + j, values, num, 1)[0].float()
                        for j, values in enumerate(v for v in self.num_values if v)]]
        return torch.cat(columns, 1).numpy()

    def traverse(self, image: np.ndarray | None = None, *, latents: Sequence[int] | None = None,
                 span: float = 2.0, num: int = 9) -> np.ndarray:
        """Images `[latent, num, h, w, c]`: each latent in turn moved from -span to span.

        A categorical latent walks through its classes instead. The other latents stay at the code
        of `image` (`[h, w, c]`), or at zero without one.
        """
        values = self.num_values
        base = (np.zeros(len(values), np.float32) if image is None
                else self.encode(np.asarray(image)[None])[0])
        chosen = list(range(len(values))) if latents is None else list(latents)
        if any(not 0 <= j < len(values) for j in chosen):
            raise UserError(f"latents are 0..{len(values) - 1}, got {chosen}")
        codes = np.tile(base, (len(chosen), num, 1))
        for row, j in enumerate(chosen):
            codes[row, :, j] = (np.linspace(0, values[j] - 1, num).round() if values[j]
                                else np.linspace(-span, span, num))
        return self.decode(codes.reshape(-1, len(base))).reshape(
            len(chosen), num, *self.dataset.image_shape)


def finished(folder: Path) -> tuple[RunConfig, dict[str, Any]]:
    """Config and info of a run folder, which needs neither data nor weights; as `load`, or not."""
    config = files.read_config(folder)
    if not (folder / "run.json").exists():
        if (folder / "checkpoint.safetensors").exists():
            _, step, _, _ = files.read_checkpoint(folder)
            raise UserError(f"{folder} is unfinished at step {step} of {num_updates(config)}: "
                            "train it again with resume to go on")
        raise UserError(f"{folder} holds no trained run yet: train it again with resume")
    info = files.read_json(folder / "run.json")
    if info.get("format", FORMAT) > FORMAT or "status" not in info:
        raise UserError(f"{folder / 'run.json'} was not written by this version of unweave")
    return config, info


def load(folder: str | Path, *, device: str = "auto", data: FactorDataset | None = None) -> Run:
    """The run in a folder that training wrote. UserError if it is foreign, newer or damaged.

    `data` is the data set of a run that was trained on one in memory; others are found by name.
    """
    folder = Path(folder)
    config, info = finished(folder)
    where = choose_device(device)
    weights, _ = files.read_tensors(folder / "weights.safetensors", str(where))
    if data is None and parse_spec(config.data)[0] not in DATASETS:
        raise UserError(f"{folder} was trained on {config.data!r}, which is not among the known "
                        "data sets: give the one in memory again, load(folder, data=...)")
    dataset = load_data(config.data) if data is None else data
    if config.architecture not in nn.ARCHITECTURES:
        raise unknown_name("architecture", config.architecture, nn.ARCHITECTURES)
    if config.method not in METHODS:
        raise unknown_name("method", config.method, METHODS)
    posterior, letters = METHODS[config.method].posterior, dict(config.hyper)
    sizes = (posterior.head_size(config.num_latents, letters),
             posterior.code_size(config.num_latents, letters))
    architecture = nn.ARCHITECTURES[config.architecture]
    expected = {**architecture.parameters(dataset.image_shape, *sizes),
                **architecture.buffers(dataset.image_shape, *sizes)}
    prior = METHODS[config.method].prior
    if prior is not None:
        expected |= named(prior.init(config.num_latents, **pick(prior.init, letters)))
    if ({k: tuple(spec.shape) for k, spec in expected.items()}
            != {k: tuple(t.shape) for k, t in weights.items()}):
        size = "x".join(map(str, dataset.image_shape))
        raise UserError(f"{folder / 'weights.safetensors'} does not hold the weights of a "
                        f"{config.architecture} with {config.num_latents} latents for images of "
                        f"{size}, those of {dataset.name}")
    params = {k: t[None] for k, t in weights.items()}
    return Run(config, params, files.read_curves(folder), info, dataset, folder, where)
