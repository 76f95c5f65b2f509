"""Scores as a torchmetrics metric: `update` with batches, `compute` at the end of an epoch.

    metric = DisentanglementScore(["mig", "dci"])
    metric.update(codes, factors)          # in validation_step
    metric.compute()["mig"]                # at the end of the epoch; then metric.reset()

Codes and factors of all batches are kept (the metrics of this field need the whole sample) and are
gathered from all processes as torchmetrics does it. Needs the extra `torchmetrics`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from unweave.metrics import METRICS, score
from unweave.types import UserError, unknown_name

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:
    raise ImportError("unweave.torchmetrics needs torchmetrics, which is not installed: "
                      "pip install 'unweave[torchmetrics]'") from error

__all__ = ["DisentanglementScore"]


class DisentanglementScore(Metric):
    """Disentanglement scores of codes against factors, collected over batches.

    `metrics` are names of `unweave metrics` that need codes and factors alone; `options` go to
    `unweave.score` (`convention`, `seed`, `num_train`, `factor_types`, settings of metrics).
    `compute` gives a dictionary of scalars by key: `mig`, `dci.disentanglement`, ...
    """

    is_differentiable = False
    full_state_update = False
    codes: list[Tensor]
    factors: list[Tensor]

    def __init__(self, metrics: str | Iterable[str] = ("mig",), *,
                 options: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = [metrics] if isinstance(metrics, str) else list(metrics)
        for name in self.names:
            if name not in METRICS:
                raise unknown_name("metric", name, METRICS)
            lacking = METRICS[name].lacking(())
            if lacking is not None:
                raise lacking
        self.options = dict(options or {})
        self.add_state("codes", default=[], dist_reduce_fx="cat")
        self.add_state("factors", default=[], dist_reduce_fx="cat")

    @property
    def higher_is_better(self) -> bool | None:
        """The direction, where all metrics share it."""
        directions = {METRICS[name].higher_is_better for name in self.names}
        return directions.pop() if len(directions) == 1 else None

    def update(self, codes: Tensor, factors: Tensor) -> None:
        """Add a batch: codes `[sample, latent]`, factors `[sample, factor]`."""
        if codes.ndim != 2 or factors.ndim not in (1, 2) or len(codes) != len(factors):
            raise UserError("codes must be [sample, latent] and factors [sample, factor] of as "
                            f"many rows, got {list(codes.shape)} and {list(factors.shape)}")
        self.codes.append(codes.detach())
        self.factors.append(factors.detach().reshape(len(factors), -1))

    def compute(self) -> dict[str, Tensor]:
        """The scores of everything since the last reset."""
        codes = dim_zero_cat(self.codes)
        found = score(codes, dim_zero_cat(self.factors), metrics=self.names, **self.options)
        return {key: torch.tensor(value, device=codes.device) for key, value in found.items()}
