"""What the page needs to know of a run and of its data set, as plain values and PNG sheets."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from unweave.data import shown_name
from unweave.data.dataset import FactorDataset
from unweave.metrics.arrays import as_labels
from unweave.random import Purpose, numpy_generator
from unweave.report.explorer.listing import data_key, letters_of
from unweave.report.pictures.latents import Latents
from unweave.report.sheets import latent_facts
from unweave.training import Run
from unweave.types import UserError

NUM_SAMPLE = 240
"""Images of a data set that travel with the page."""

_NUM_KL, _NUM_INFORMATION = 256, 4000  # images behind the order of latents, and behind the table
_NUM_PRIOR = 64  # draws that the page chooses from: what the prior is, the run knows
_MOST_CLASSES = 64  # a label with more is not offered as a filter
_LEAST_REACH = 3.0


def run_record(run: Run) -> dict[str, Any]:
    """A run as its panel shows it: sizes, latents with their KL and range, names of the factors.

    A slider reaches as far as the codes of images do, and at least to 3: not every method keeps
    codes near the standard normal. A generator's codes are drawn from [-1, 1], and instead of a KL
    they have the information that made images hold about them.
    """
    index = run.dataset.space.draw(_NUM_KL, numpy_generator(0, Purpose.EVALUATION, 2))
    codes = np.abs(run.encode_at(index))
    kl = Latents(run, num=_NUM_KL).nats if run.is_generator else run.kl_at(index)
    config = run.config
    latents = []
    for j, values in enumerate(run.num_values):
        least = 1.0 if run.is_generator else _LEAST_REACH
        reach = max(least, math.ceil(2.0 * float(codes[:, j].max())) / 2.0)
        latents.append({"name": f"{'c' if values else 'z'}{j}", "values": values,
                        "kl": round(float(kl[j]), 4), "reach": reach})
    return {
        "id": run.run_id, "method": config.method, "data": shown_name(config.data),
        "dataset": data_key(config.data), "seed": config.seed, "steps": config.steps,
        "architecture": config.architecture, "letters": letters_of(config),
        "shape": list(run.dataset.image_shape), "latents": latents,
        "measure": "MI" if run.is_generator else "KL",
        "factors": list(Album(run.dataset).names),
        "prior": np.round(run.prior_codes(_NUM_PRIOR), 4).tolist()}


def information_record(run: Run) -> list[list[float]]:
    """`[latent][factor]`: mutual information as a share of the factor's entropy.

    Thousands of images are behind it, so it is asked for after a run is on show.
    """
    _, shared = latent_facts(run, num=min(_NUM_INFORMATION, 4 * len(run.dataset)))
    return np.round(shared, 4).tolist()


@dataclass(frozen=True)
class Album:
    """Images of a data set, to be picked by their factors, or by their labels."""

    dataset: FactorDataset

    @property
    def names(self) -> tuple[str, ...]:
        """Of the factors, or of the labels where there are no factors."""
        labels = self.dataset.labels
        return self.dataset.space.names if labels is None else labels.names

    @cached_property
    def _label_classes(self) -> np.ndarray:
        labels = self.dataset.labels
        assert labels is not None
        return as_labels(labels.values, None, labels.types or None).classes

    def classes(self, index: np.ndarray) -> np.ndarray:
        """Classes `[sample, factor]`; -1 where a label is not known."""
        if self.dataset.labels is not None:
            return self._label_classes[index]
        return self.dataset.factors(index)

    @cached_property
    def values(self) -> list[list[str]]:
        """What the classes of each factor mean; empty where there is nothing to choose from."""
        space, labels = self.dataset.space, self.dataset.labels
        if labels is None:
            return [[_said(v) for v in values] if len(values) <= _MOST_CLASSES else []
                    for values in space.values]
        found = []
        for k, name in enumerate(labels.names):
            column, classes = labels.column(name), self._label_classes[:, k]
            num = int(classes.max()) + 1
            members = [column[classes == c] for c in range(min(num, _MOST_CLASSES + 1))]
            plain = len(members) <= _MOST_CLASSES and all(
                len(m) and (m == m[0]).all() for m in members)
            found.append([_said(m[0]) for m in members] if plain else [])
        return found

    def sample(self, num: int = NUM_SAMPLE) -> np.ndarray:
        """Indices of different images, the middle of all factors first where it exists."""
        space, rng = self.dataset.space, numpy_generator(0, Purpose.EVALUATION, 3)
        first = []
        if space.has_factors:
            middle = np.array([size // 2 for size in space.sizes])
            first = space.index(middle[None]).tolist() if space.has(middle) else []
        drawn = [*first, *space.draw(4 * num, rng).tolist(), *range(min(num, len(space)))]
        return np.array(list(dict.fromkeys(drawn))[:num], dtype=np.int64)

    def pick(self, wanted: Mapping[int, int], num: int = 24, seed: int = 0) -> np.ndarray:
        """Indices of images in which some factors (by position) have given classes."""
        space, rng = self.dataset.space, numpy_generator(seed, Purpose.EVALUATION, 4)
        for k, value in wanted.items():
            if not 0 <= k < len(self.names) or not 0 <= value < max(len(self.values[k]), 1):
                raise UserError(f"there is no factor {k} with the class {value} in this data set")
        if self.dataset.labels is None:
            drawn = (space.draw_fixed(4 * num, dict(wanted), rng) if wanted
                     else space.draw(4 * num, rng))
        else:
            fits = np.ones(len(space), dtype=bool)
            for k, value in wanted.items():
                fits &= self._label_classes[:, k] == value
            drawn = rng.permutation(np.flatnonzero(fits))
        return np.array(list(dict.fromkeys(drawn.tolist()))[:num], dtype=np.int64)

    def record(self, index: np.ndarray) -> dict[str, Any]:
        """What the page is told of some images; `sheet` is the PNG that belongs to it."""
        return {"shape": list(self.dataset.image_shape), "columns": _columns(len(index)),
                "index": index.tolist(), "rows": self.classes(index).tolist(),
                "factors": list(self.names), "values": self.values, "total": len(self.dataset)}

    def sheet(self, index: np.ndarray) -> bytes:
        """The images as the tiles of one PNG, row by row."""
        images = self.dataset.images(index)
        height, width, channels = self.dataset.image_shape
        columns = _columns(len(index))
        rows = max(1, math.ceil(len(index) / columns))
        sheet = np.zeros((rows * height, columns * width, channels), np.uint8)
        for i, image in enumerate(images):
            top, left = i // columns * height, i % columns * width
            sheet[top:top + height, left:left + width] = image
        out = io.BytesIO()
        Image.fromarray(sheet[..., 0] if channels == 1 else sheet).save(out, format="PNG")
        return out.getvalue()


def _columns(num: int) -> int:
    return max(1, math.isqrt(max(num - 1, 0)) + 1)


def _said(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{float(value):.3g}"
    return str(value)
