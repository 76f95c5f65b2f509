"""Scores of several runs of one data set: all encode the same rows, and are compared in pairs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unweave.metrics.across import ACROSS_RUNS, udr_records
from unweave.metrics.record import CONVENTIONS, Score
from unweave.metrics.sampling import SpaceSource
from unweave.studies.scoring import read_npz
from unweave.training import Run
from unweave.training.progress import display
from unweave.types import UserError, unknown_name


def udr_of_runs(runs: Sequence[Run], *, convention: str = "study2019", seed: int = 0,
                progress: bool | None = False, **overrides: Any) -> list[list[Score]]:
    """UDR of each run beside the others, in their order: see `metrics.across.udr_records`.

    Latents without information are told by their mean KL over the same rows. Runs that diverged are
    refused, and so are runs of different data sets, runs that are given twice and runs with
    categorical latents.
    """
    _comparable(runs)
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
    settings = ACROSS_RUNS["udr"].settings(convention, overrides)
    index = SpaceSource(runs[0].dataset.space, seed).points(settings["num_points"])
    codes, divergences = [], []
    with display(progress) as listener:
        for run in runs:
            codes.append(run.encode_at(index, seed=seed, listener=listener))
            divergences.append(run.kl_at(index, seed=seed))
    return udr_records(codes, divergences, names=[run.run_id for run in runs],
                       convention=convention, seed=seed, **overrides)


def udr_of_file(path: str | Path, *, convention: str = "study2019", seed: int = 0,
                **overrides: Any) -> list[list[Score]]:
    """UDR of the arrays `codes` `[run, sample, latent]` and `kl` `[run, latent]` of an npz file.

    Without `kl` every latent counts.
    """
    found = read_npz(path, ("codes",), ("kl",))
    if found["codes"].ndim != 3:
        raise UserError(f"{path}: codes of several runs must be [run, sample, latent], got the "
                        f"shape {found['codes'].shape}")
    return udr_records(found["codes"], found.get("kl"), convention=convention, seed=seed,
                       **overrides)


def without_diverged(runs: Sequence[Run]) -> list[Run]:
    """The runs that have codes to compare, with a warning that names the others."""
    gone = [run.run_id for run in runs if run.status == "diverged"]
    if gone:
        warnings.warn(f"{', '.join(gone)} diverged and {'is' if len(gone) == 1 else 'are'} left "
                      "out", stacklevel=2)
    return [run for run in runs if run.status != "diverged"]


def _comparable(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise UserError(f"UDR compares runs: at least 2 are needed, got {len(runs)}")
    first = runs[0]
    seen: set[str] = set()
    for run in runs:
        if run.status == "diverged":
            raise UserError(f"{run.run_id} diverged at step {run.info['diverged_at']}: it has no "
                            "codes to compare, leave it out")
        if run.config.data != first.config.data:
            raise UserError(f"UDR needs runs of one data set: {first.run_id} was trained on "
                            f"{first.config.data} and {run.run_id} on {run.config.data}")
        if any(run.num_values):
            raise UserError(f"{run.run_id} has categorical latents, whose classes have no order: "
                            "UDR compares continuous latents only")
        if run.run_id in seen:
            raise UserError(f"{run.run_id} is given twice: a run agrees with itself, leave one out")
        seen.add(run.run_id)
