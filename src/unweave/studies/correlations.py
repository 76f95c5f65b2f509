"""Correlations of a run's latents, or of given codes, with the factors and with each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unweave.metrics.correlation import Correlations, correlations
from unweave.metrics.sampling import SpaceSource
from unweave.studies.scoring import read_arrays
from unweave.training import Run
from unweave.training.folder import write_atomically
from unweave.types import UserError


def correlations_of_run(run: Run, *, num_points: int = 10_000,
                        seed: int = 0) -> tuple[Correlations, list[str]]:
    """The matrices of a run's mean codes on its data set, and the names of the factors.

    Points are drawn as for the metric `correlation`. Categorical latents are refused: the order of
    their classes means nothing.
    """
    if run.status == "diverged":
        raise UserError(f"{run.run_id} diverged at step {run.info['diverged_at']}: "
                        "it has no codes to correlate")
    if any(run.num_values):
        raise UserError(f"{run.run_id} has categorical latents, whose classes have no order: "
                        "correlations are those of continuous latents")
    space, labels = run.dataset.space, run.dataset.labels
    if labels is None and not space.has_factors:
        raise UserError(f"{run.config.data} has no factors and no labels: there is nothing to "
                        "correlate the latents with")
    index = SpaceSource(space, seed).points(num_points)
    codes = run.encode_at(index, seed=seed)
    if labels is None:
        return correlations(codes, space.factors(index)), list(space.names)
    found = correlations(codes, labels.values[index], factor_types=labels.types or None)
    return found, list(labels.names)


def correlations_of_file(path: str | Path) -> tuple[Correlations, list[str]]:
    """The matrices of the arrays `codes` and `factors` of an npz file; factors are numbered."""
    codes, factors, types = read_arrays(path)
    found = correlations(codes, factors, factor_types=types)
    return found, [f"factor {k}" for k in range(found.factors.shape[1])]


def save(path: str | Path, table: Correlations, names: list[str]) -> None:
    """An npz file with `latents` `[latent, latent]`, `factors` `[latent, factor]` and `names`."""
    path = Path(path)
    if path.suffix != ".npz":
        raise UserError(f"{path} must end in .npz")
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as handle:
            np.savez(handle, latents=table.latents, factors=table.factors, names=np.array(names))

    write_atomically(path, write)
