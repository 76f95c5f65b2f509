"""Run: a trained model with its config, curves and status. `load` reads one from its folder."""

from __future__ import annotations

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
from unweave.data import load_data
from unweave.data.dataset import FactorDataset
from unweave.random import Purpose, Streams
from unweave.training import folder as files
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
    def _architecture(self) -> nn.Architecture:
        return nn.ARCHITECTURES[self.config.architecture]

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

    def _encode(self, chunks: Iterator[Tensor]) -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            parts = [nn.encode(self._architecture, self.params, x, precision=self.config.precision)
                     for x in chunks]
        if not parts:
            empty = np.zeros((0, self.config.num_latents), dtype=np.float32)
            return empty, empty
        return tuple(torch.cat([p[i][0] for p in parts]).float().cpu().numpy() for i in (0, 1))

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Mean codes `[sample, latent]`, float32."""
        return self.posterior(images)[0]

    def posterior(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and log-variances of q(z|x), each `[sample, latent]`."""
        return self._encode(self._chunks(images))

    def posterior_at(self, index: Sequence[int] | np.ndarray, *,
                     seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """As `posterior`, for images of the run's data set, gathered on the device.

        In data sets with random images (colour, noise, ...) an image is a function of its index
        and of `seed`, whichever others are asked for with it.
        """
        index = np.asarray(index, dtype=np.int64)
        resident = self.dataset.on(self.device)

        def chunks() -> Iterator[Tensor]:
            for start in range(0, len(index), _CHUNK):
                rows = torch.from_numpy(index[start:start + _CHUNK]).to(self.device)
                if not self.dataset.is_random:
                    yield resident.batch(rows[None])
                    continue
                # A stack of one image each, told apart by the step: own numbers for every index.
                streams = Streams([seed] * len(rows), self.device)
                yield resident.batch(rows[:, None], partial(
                    streams.uniform, Purpose.EVALUATION, rows)).transpose(0, 1)

        return self._encode(chunks())

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Mean images in [0, 1] of codes `[sample, latent]`, float32."""
        codes = np.asarray(codes, dtype=np.float32)
        if codes.ndim != 2 or codes.shape[1] != self.config.num_latents:
            raise UserError(f"expected codes of shape [sample, {self.config.num_latents}], "
                            f"got {list(codes.shape)}")
        parts = []
        with torch.inference_mode():
            for start in range(0, len(codes), _CHUNK):
                z = torch.from_numpy(codes[start:start + _CHUNK]).to(self.device)[None]
                logits = nn.decode(self._architecture, self.params, z,
                                   precision=self.config.precision)
                parts.append(torch.sigmoid(logits.float())[0].cpu().numpy())
        return np.concatenate(parts) if parts else np.zeros((0, *self.dataset.image_shape), "f4")

    def reconstruct(self, images: np.ndarray) -> np.ndarray:
        """Images decoded from their mean codes."""
        return self.decode(self.encode(images))

    def sample(self, num: int = 16, *, seed: int = 0) -> np.ndarray:
        """Images decoded from draws of the prior."""
        z = Streams([seed]).normal(Purpose.PRIOR, 0, num, self.config.num_latents)[0]
        return self.decode(z.numpy())

    def traverse(self, image: np.ndarray | None = None, *, latents: Sequence[int] | None = None,
                 span: float = 2.0, num: int = 9) -> np.ndarray:
        """Images `[latent, num, h, w, c]`: each latent in turn moved from -span to span.

        The other latents stay at the code of `image` (`[h, w, c]`), or at zero without one.
        """
        base = (np.zeros(self.config.num_latents, np.float32) if image is None
                else self.encode(np.asarray(image)[None])[0])
        chosen = list(range(self.config.num_latents)) if latents is None else list(latents)
        if any(not 0 <= j < self.config.num_latents for j in chosen):
            raise UserError(f"latents are 0..{self.config.num_latents - 1}, got {chosen}")
        codes = np.tile(base, (len(chosen), num, 1))
        for row, j in enumerate(chosen):
            codes[row, :, j] = np.linspace(-span, span, num)
        return self.decode(codes.reshape(-1, len(base))).reshape(
            len(chosen), num, *self.dataset.image_shape)


def load(folder: str | Path, *, device: str = "auto", data: FactorDataset | None = None) -> Run:
    """The run in a folder that training wrote. UserError if it is foreign, newer or damaged.

    `data` is the data set of a run that was trained on one in memory; others are found by name.
    """
    folder = Path(folder)
    config = files.read_config(folder)
    if not (folder / "run.json").exists():
        if (folder / "checkpoint.safetensors").exists():
            _, step, _, _ = files.read_checkpoint(folder)
            raise UserError(f"{folder} is unfinished at step {step} of {config.steps}: "
                            "train it again with resume to go on")
        raise UserError(f"{folder} holds no trained run yet: train it again with resume")
    info = files.read_json(folder / "run.json")
    if info.get("format", FORMAT) > FORMAT or "status" not in info:
        raise UserError(f"{folder / 'run.json'} was not written by this version of unweave")
    where = choose_device(device)
    weights, _ = files.read_tensors(folder / "weights.safetensors", str(where))
    dataset = load_data(config.data) if data is None else data
    if config.architecture not in nn.ARCHITECTURES:
        raise unknown_name("architecture", config.architecture, nn.ARCHITECTURES)
    expected = nn.ARCHITECTURES[config.architecture].parameters(
        dataset.image_shape, config.num_latents)
    if set(expected) != set(weights):
        raise UserError(f"{folder / 'weights.safetensors'} does not hold the weights of a "
                        f"{config.architecture} with {config.num_latents} latents")
    params = {k: t[None] for k, t in weights.items()}
    return Run(config, params, files.read_curves(folder), info, dataset, folder, where)
