"""Training cells: which combinations of factors a run sees, and how often.

A data set with factors can be trained on with two of them correlated, or with some combinations
left out, as the open questions of the field ask: what becomes of a representation when factors are
not independent, and of combinations that it never saw? The data set itself stays whole, so a run
can be scored on all of it, on what it saw, or on what it did not.

`correlate=A:B:STRENGTH` weights each combination by exp(-(a - b)^2 / (2 STRENGTH^2)), where a and b
are the classes divided by the largest: the distribution of Traeuble et al. 2021, "On Disentangled
Representations Learned from Correlated Data" (ICML), in the form in which Roth et al. 2023,
"Disentanglement of Correlated Factors via Hausdorff Factorized Support" (ICLR), compute it, with
factors brought to [0, 1]. STRENGTH is their sigma: 0.2 is strong, 0.7 weak. A circular factor is
cut open at its first class, as there.
`leave_out=A:1+B:2-5/C:0` leaves out what has class 1 of A and one of the classes 2 to 5 of B, and
besides what has class 0 of C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from unweave.factors import FactorSpace
from unweave.random import Purpose, Streams
from unweave.types import Float, UserError

OPTIONS = {
    "correlate": "FACTOR:FACTOR:STRENGTH, several with /: combinations with unlike classes of the "
                 "two become rare in training; 0.2 is strong, 0.7 weak",
    "leave_out": "FACTOR:CLASSES+FACTOR:CLASSES, several with /: combinations that training never "
                 "sees; CLASSES is a number, a range 2-5 or a name",
}
"""Of every data set with factors."""

DrawIndex = Callable[[Streams, Purpose, "int | Tensor", int], Tensor]
"""`draw(streams, purpose, step, batch)` gives an index `[M, batch]` for each run."""

_WORDS = 1 << 32


class TrainingCells:
    """A weight for each index of a data set, and draws by them.

    Draws compare 32 random bits with whole-number thresholds: every device gives the same index,
    and a recorded step can hold it. Weights are exact to one part in 2^32 of their sum.
    """

    def __init__(self, weights: Float[np.ndarray, " index"]) -> None:
        total = np.cumsum(weights, dtype=np.float64)
        if not total[-1] > 0 or not np.isfinite(total[-1]) or (weights < 0).any():
            raise UserError("no combination of factors is left to train on: leave fewer out")
        self._thresholds = np.round(total / total[-1] * _WORDS).astype(np.int64)
        self.seen = weights > 0

    def __len__(self) -> int:
        """How many combinations training may see."""
        return int(self.seen.sum())

    def draw_on(self, device: torch.device) -> DrawIndex:
        """Draws on a device."""
        thresholds = torch.from_numpy(self._thresholds).to(device)

        def draw(streams: Streams, purpose: Purpose, step: int | Tensor, batch: int) -> Tensor:
            words = streams.bits(purpose, step, batch).contiguous()
            return torch.searchsorted(thresholds, words, right=True)

        return draw


def uniform_draw(size: int) -> DrawIndex:
    """Draws in which every index is as likely as every other."""

    def draw(streams: Streams, purpose: Purpose, step: int | Tensor, batch: int) -> Tensor:
        return streams.integers(purpose, step, size, batch)

    return draw


def training_cells(space: FactorSpace, options: Mapping[str, str]) -> TrainingCells | None:
    """What the options `correlate` and `leave_out` of a data name ask for; None if nothing."""
    if not any(options.get(name) for name in OPTIONS):
        return None
    if not space.has_factors:
        said = next(name for name in OPTIONS if options.get(name))
        raise UserError(f"{said}={options[said]} needs factors, and this data set has none")
    factors = space.factors(np.arange(len(space)))
    weights = np.ones(len(space))
    for said in filter(None, options.get("correlate", "").split("/")):
        one, other, strength = _correlated(space, said)
        apart = factors[:, one] / (space.sizes[one] - 1) - factors[:, other] / (
            space.sizes[other] - 1)
        weights *= np.exp(-(apart**2) / (2.0 * strength**2))
    for said in filter(None, options.get("leave_out", "").split("/")):
        inside = np.ones(len(space), dtype=bool)
        for part in said.split("+"):
            factor, classes = _classes(space, part)
            inside &= np.isin(factors[:, factor], classes)
        if not inside.any():
            raise UserError(f"leave_out={said} leaves nothing out: no image has these factors")
        weights[inside] = 0.0
    return TrainingCells(weights)


def _correlated(space: FactorSpace, said: str) -> tuple[int, int, float]:
    parts = said.split(":")
    try:
        strength = float(parts[2]) if len(parts) == 3 else 0.0
    except ValueError:
        strength = 0.0
    if not 1e-3 <= strength <= 1e3:
        raise UserError(f"correlate={said} is not understood: write FACTOR:FACTOR:STRENGTH with a "
                        "strength above 0, such as scale:position_x:0.2")
    one, other = space.position(parts[0]), space.position(parts[1])
    if one == other:
        raise UserError(f"correlate={said} names one factor twice: name two")
    for k in (one, other):
        if space.sizes[k] < 2:
            raise UserError(f"{space.names[k]} has one class and cannot be correlated")
    return one, other, strength


def _classes(space: FactorSpace, said: str) -> tuple[int, np.ndarray]:
    """The factor and the classes in `FACTOR:3`, `FACTOR:2-5` or `FACTOR:NAME`."""
    name, colon, which = said.partition(":")
    if not colon or not which:
        raise UserError(f"leave_out={said} is not understood: write FACTOR:CLASSES, joined by +, "
                        "such as shape:0+scale:3-5")
    factor = space.position(name)
    values = [str(value) for value in space.values[factor]]
    size = space.sizes[factor]
    if space.values[factor].dtype.kind in "US" and which in values:
        return factor, np.array([values.index(which)])
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", which)
    if not found or not int(found[1]) <= int(found[2] or found[1]) < size:
        raise UserError(f"leave_out={said} is not understood: {name} has the classes 0..{size - 1}"
                        + (f" ({', '.join(values[:8])})" if size <= 8 else ""))
    return factor, np.arange(int(found[1]), int(found[2] or found[1]) + 1)
