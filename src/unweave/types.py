"""The vocabulary: what passes between rooms. No logic.

Shapes are jaxtyping strings. They are documentation at run time and are checked under pytest,
where the import hook in `tests/conftest.py` turns them into assertions; jaxtyping is therefore a
development dependency, and without it the aliases below are plain tensors and arrays.
`*stack` stands for any number of leading run axes, none included.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from torch import Tensor

try:
    from jaxtyping import Float, Int, Shaped, UInt8
except ImportError:  # pragma: no cover - users without the dev extra

    class _Unchecked:
        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Float = Int = Shaped = UInt8 = _Unchecked  # type: ignore[assignment,misc]

ImageBatch = Float[Tensor, "*stack batch height width channel"]
LatentBatch = Float[Tensor, "*stack batch latent"]
ImageNats = Float[Tensor, "*stack batch"]
PerRunTensor = Float[Tensor, "*stack"]
IndexBatch = Int[Tensor, "*stack batch"]

ImageArray = UInt8[np.ndarray, "sample height width channel"]
Codes = Shaped[np.ndarray, "sample latent"]
Factors = Int[np.ndarray, "sample factor"]
IndexArray = Int[np.ndarray, " sample"]

Params = dict[str, Tensor]
"""Named weights, each `[run, ...]`."""

Terms = dict[str, Tensor]
"""What an objective returns: `loss` and its parts, each `[*stack]`, in nats per image."""


@dataclass(frozen=True)
class Range:
    """The values a number may take; `open_low` excludes the lower end."""

    low: float = float("-inf")
    high: float = float("inf")
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and value <= self.high

    def __str__(self) -> str:
        if self.high == float("inf"):
            return f"{'more than' if self.open_low else 'at least'} {self.low:g}"
        return f"{'(' if self.open_low else '['}{self.low:g}, {self.high:g}]"


PerRun = float | Tensor
"""A hyper-parameter with a value for each run: a number, or a tensor `[*stack]`."""

Strength = Annotated[PerRun, Range(0.0)]
"""A weight in an objective: any number that is not negative."""

Positive = Annotated[PerRun, Range(0.0, open_low=True)]
"""A scale or temperature: any number above zero."""


class Forward(NamedTuple):
    """One pass of a VAE over a batch: everything an objective may look at."""

    x: ImageBatch
    """Targets in [0, 1]."""
    logits: ImageBatch
    """Decoder output before the likelihood's link."""
    z: LatentBatch
    mu: LatentBatch
    logvar: LatentBatch
    likelihood: str = "bernoulli"
    category_logits: tuple[LatentBatch, ...] = ()
    """For methods with categorical latents: log-probabilities up to a constant, one entry each."""
    categories: tuple[LatentBatch, ...] = ()
    """Their relaxed one-hot samples, which the decoder sees beside `z`."""
    nats: ImageNats | None = None
    """-log p(x|z) of every image, where the trainer has it from a kernel of its own already."""


class Play(NamedTuple):
    """One turn of a generator and a critic: everything their objective may look at."""

    real: ImageNats
    """The critic's output for real images."""
    fake: ImageNats
    """And for made ones."""
    codes: LatentBatch
    """Continuous codes that images were made from."""
    mu: LatentBatch
    logvar: LatentBatch
    """What the encoder reads from the made images."""
    category_logits: tuple[LatentBatch, ...] = ()
    categories: tuple[LatentBatch, ...] = ()
    """One-hot classes that images were made from."""
    slope: ImageNats | None = None
    """Length of the gradient of the critic's output between real and made images."""


class UserError(ValueError):
    """Bad input, told in one sentence: what was wrong, what is allowed, what to do.

    The command line prints it without a traceback and exits with code 2.
    """


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a dictionary: all known names, near misses first."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    rest = [k for k in known if k not in near]
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"unknown {kind} {str(name)!r}: {hint}known are {', '.join(near + rest)}")
