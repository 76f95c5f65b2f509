"""unweave: train, measure and compare disentangled representations.

The names below are the public interface. They are imported on first use, so that
`import unweave` and `unweave --help` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from unweave.version import __version__

if TYPE_CHECKING:
    from unweave.config import RunConfig
    from unweave.data import DATASETS, load_data, table_dataset
    from unweave.data.dataset import FactorDataset
    from unweave.export import export_run, import_checkpoint
    from unweave.factors import FactorSpace
    from unweave.metrics import METRICS, score
    from unweave.nn import ARCHITECTURES
    from unweave.objectives import METHODS
    from unweave.report.pictures import picture
    from unweave.studies.encoders import score_encoder
    from unweave.studies.scoring import score_run
    from unweave.training import Run, load, train, train_runs
    from unweave.types import UserError

_HOME = {
    "ARCHITECTURES": "unweave.nn",
    "DATASETS": "unweave.data",
    "METHODS": "unweave.objectives",
    "METRICS": "unweave.metrics",
    "FactorDataset": "unweave.data.dataset",
    "FactorSpace": "unweave.factors",
    "Run": "unweave.training",
    "RunConfig": "unweave.config",
    "UserError": "unweave.types",
    "export_run": "unweave.export",
    "import_checkpoint": "unweave.export",
    "load": "unweave.training",
    "load_data": "unweave.data",
    "picture": "unweave.report.pictures",
    "score": "unweave.metrics",
    "score_encoder": "unweave.studies.encoders",
    "score_run": "unweave.studies.scoring",
    "table_dataset": "unweave.data",
    "train": "unweave.training",
    "train_runs": "unweave.training",
}

__all__ = [
    "ARCHITECTURES", "DATASETS", "METHODS", "METRICS", "FactorDataset", "FactorSpace", "Run",
    "RunConfig", "UserError", "__version__", "export_run", "import_checkpoint", "load", "load_data",
    "picture", "score", "score_encoder", "score_run", "table_dataset", "train", "train_runs",
]


_ROOMS = ("export", "sklearn", "torch", "torchmetrics")
"""Modules that are there as soon as they are named: `unweave.sklearn.Disentangler`."""


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"unweave.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'unweave' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
