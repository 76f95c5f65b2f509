"""Scores of a run on its data set: one encoding pass feeds every metric; rows beside the run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unweave.metrics import score_dataset
from unweave.metrics.encoding import Encoding
from unweave.metrics.record import Score, Scores
from unweave.studies.clusters import can_score, score_clusters
from unweave.training import Encoded, Run
from unweave.training.folder import write_atomically
from unweave.training.progress import display
from unweave.types import UserError

_KEY = ("run_id", "key", "convention", "version", "seed", "settings")


def score_run(run: Run, *, metrics: str | Sequence[str] | None = None,
              convention: str = "study2019", seed: int = 0, cells: str = "all",
              progress: bool | None = False, **overrides: Any) -> list[Score]:
    """Scores of a run on its data set, with intervals, floor and ceiling.

    A run that was trained with combinations left out is scored on `all` of them, or on those
    `seen` or `unseen` in training alone; the settings of a score then say `cells`.

    Most are scores of its mean codes; one encoding also serves those that look at the posterior.
    `progress=None` shows how encoding and the weighing of particles get on, as training does.
    `overrides` change settings of a convention (`num_train_votes`, ...) and are recorded as such.
    `clusters` is among the metrics of runs with clusters: see `studies.clusters`.
    """
    if run.status == "diverged":
        raise UserError(f"{run.run_id} diverged at step {run.info['diverged_at']}: "
                        "it has no codes to score")

    metrics = [metrics] if isinstance(metrics, str) else metrics
    space, rows = run.dataset.part(cells)
    own: list[Score] = []
    if (metrics is not None and "clusters" in metrics) or (
            metrics is None and cells == "all" and can_score(run)):
        own = score_clusters(run, convention=convention, seed=seed, rows=rows)
        metrics = metrics and [name for name in metrics if name != "clusters"]
        if metrics is not None and not metrics:
            return _marked(own, cells)

    with display(progress) as listener:

        def encode(index: np.ndarray) -> Encoding:
            encoded = Encoded(run, rows[index], seed=seed, listener=listener)
            return Encoding(**{f.name: getattr(encoded, f.name) for f in fields(Encoding)
                               if f.name not in encoded.withheld})

        found = score_dataset(encode, space, labels=run.dataset.labels, metrics=metrics,
                              convention=convention, seed=seed, num_values=run.num_values,
                              **overrides)
    return _marked([*found, *own], cells)


def _marked(scores: Sequence[Score], cells: str) -> Scores:
    """The scores, whose settings say of which combinations they are unless of all."""
    return Scores(scores if cells == "all" else [
        replace(score, settings=score.settings | {"cells": cells}) for score in scores])


def store_scores(run: Run, scores: Sequence[Score]) -> Path | None:
    """Add rows to `scores.parquet` in the run's folder; a row scored anew replaces its like."""
    if run.folder is None:
        return None
    path = run.folder / "scores.parquet"
    rows = [{"run_id": run.run_id} | flat(score) for score in scores]
    if path.exists():
        try:
            old = pq.read_table(path).to_pylist()
        except (OSError, pa.ArrowException):
            raise UserError(f"{path} is damaged: remove it and score again") from None
        new = {tuple(row[k] for k in _KEY) for row in rows}
        rows = [row for row in old if tuple(row[k] for k in _KEY) not in new] + rows
    table = pa.Table.from_pylist(rows)
    write_atomically(path, lambda p: pq.write_table(table, p))
    return path


def flat(score: Score) -> dict[str, Any]:
    """A score as a row: settings as JSON."""
    record = score.as_dict()
    return record | {k: json.dumps(record[k], sort_keys=True) for k in ("settings", "overridden")}


def read_arrays(path: str | Path) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The arrays `codes`, `factors` and, if there, `factor_types` of an npz file.

    Pickles are not loaded: names are kept as an array of strings.
    """
    found = read_npz(path, ("codes", "factors"), ("factor_types",))
    return found["codes"], found["factors"], found.get("factor_types")


def read_npz(path: str | Path, needed: Sequence[str],
             more: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Arrays of an npz file by name; those of `more` only if they are there."""
    how = (f"save {' and '.join(needed)} with "
           f"numpy.savez(file, {', '.join(f'{name}=...' for name in needed)})")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise UserError(f"{path} holds one array: {how}")
            missing = [k for k in needed if k not in archive.files]
            if missing:
                held = ", ".join(archive.files) or "nothing"
                raise UserError(f"{path} has no array {missing[0]!r} (it holds {held}): {how}")
            return {k: archive[k] for k in (*needed, *more) if k in archive.files}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except UserError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if "Object arrays" in str(error):
            raise UserError(f"{path} holds an array of Python objects, which is never opened: save "
                            "numbers, or names as strings (array.astype(str))") from None
        raise UserError(f"{path} is not a readable npz file ({error}): {how}") from None
