"""What a model says about rows beside its codes, for the metrics that look at more than codes.

A metric names what it needs as parameters: one of the names below without a default is needed, one
with the default None is used where it is there. `Plan.score` takes an `Encoding` in place of codes
and hands each metric what it names, for the rows of its draw; metrics remain functions of arrays.

    sampled          a draw of q(z|x) for each row, `[sample, latent]`, columns as in codes
    mu, logvar       moments of the Gaussian q(z|x), `[sample, latent]`: continuous latents alone
    category_logits  of the categorical latents side by side, `[sample, class]`; log-probabilities
                     up to a constant for each latent. None if there is no categorical latent
    reconstruction   -log p(x|z) at the sampled z, `[sample]`, in nats per image
    log_weights      log p(x, z) - log q(z|x) of draws of q(z|x), `[sample, particle]`
    prior            `prior(num)`: codes drawn from the prior
    decode           `decode(codes)`: their mean images, float64
    features         `features(images)`: the encoder's means, float64, `[sample, feature]`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.metrics.arrays import ArrayLike, as_array
from unweave.types import UserError

ROW_INPUTS = ("sampled", "mu", "logvar", "category_logits", "reconstruction", "log_weights")
"""Inputs with a line for each row; `resampling` resamples them with the rows."""

MODEL_INPUTS = ("prior", "decode", "features")
"""Inputs that are functions."""

INPUTS = (*ROW_INPUTS, *MODEL_INPUTS)

RowInput = Any
"""An array with a line for each row of codes, or a function from row numbers to those lines."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """Codes of rows and, as far as there is a model, what it says about them.

    A row input may be a function, which is then called with the rows that a metric looks at:
    what costs a decoding is paid for these alone. `log_weights` as a function also gets
    `num_particles`.
    """

    codes: ArrayLike
    sampled: RowInput | None = None
    mu: RowInput | None = None
    logvar: RowInput | None = None
    category_logits: RowInput | None = None
    reconstruction: RowInput | None = None
    log_weights: RowInput | None = None
    prior: Callable[[int], np.ndarray] | None = None
    decode: Callable[[np.ndarray], np.ndarray] | None = None
    features: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def given(self) -> frozenset[str]:
        """The names of the inputs that are there."""
        return frozenset(name for name in INPUTS if getattr(self, name) is not None)

    def inputs(self, names: Iterable[str], rows: np.ndarray,
               settings: Mapping[str, Any]) -> dict[str, Any]:
        """Those inputs that are there, for these rows."""
        found = {name: getattr(self, name) for name in names if name in self.given}
        for name in found.keys() & set(ROW_INPUTS):
            found[name] = self._lines(name, rows, settings)
        return found

    def _lines(self, name: str, rows: np.ndarray, settings: Mapping[str, Any]) -> np.ndarray:
        held = getattr(self, name)
        if not callable(held):
            held = as_array(held)
            if len(held) != len(self.codes):
                raise UserError(f"{name} needs a line for each of the {len(self.codes)} rows of "
                                f"codes, got {len(held)}")
            return as_finite(name, held[rows])
        more = {"num_particles": settings["num_particles"]} if name == "log_weights" else {}
        return as_finite(name, held(rows, **more))


def as_encoding(codes: ArrayLike | Encoding) -> Encoding:
    """Plain codes as an encoding with nothing else in it."""
    return codes if isinstance(codes, Encoding) else Encoding(codes)


def as_finite(name: str, values: ArrayLike, ndim: int | None = None) -> np.ndarray:
    """Finite numbers as float64, refused in a sentence that names them."""
    try:
        array = as_array(values).astype(np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be real numbers") from None
    if ndim is not None and array.ndim != ndim:
        raise UserError(f"{name} must have {ndim} axes, got the shape {array.shape}")
    if not np.isfinite(array).all():
        raise UserError(f"{name} must be finite: {int((~np.isfinite(array)).sum())} values are "
                        "not; the model may have diverged")
    return array


def as_moments(mu: ArrayLike, logvar: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Means and log-variances of Gaussian posteriors, `[sample, latent]` each."""
    mu, logvar = as_finite("mu", mu, 2), as_finite("logvar", logvar, 2)
    if mu.shape != logvar.shape:
        raise UserError(f"mu and logvar need the same shape, got {mu.shape} and {logvar.shape}")
    return mu, logvar


def log_probabilities(category_logits: ArrayLike | None,
                      num_values: ArrayLike | None) -> list[np.ndarray]:
    """Of each categorical latent in turn, `[sample, class]`; `num_values` says how they lie."""
    if category_logits is None:
        return []
    logits = as_finite("category_logits", category_logits, 2)
    sizes = [] if num_values is None else [int(size) for size in num_values if size]
    if sum(sizes) != logits.shape[1]:
        raise UserError(f"category_logits have {logits.shape[1]} columns, but the categorical "
                        f"latents of num_values have {sum(sizes)} classes")
    parts = np.split(logits, np.cumsum(sizes)[:-1], axis=1)
    shifted = [part - part.max(axis=1, keepdims=True) for part in parts]
    return [part - np.log(np.exp(part).sum(axis=1, keepdims=True)) for part in shifted]
