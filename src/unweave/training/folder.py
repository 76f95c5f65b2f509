"""The run folder: what is in it, how it is written, and what is said when it cannot be read.

    config.json             the RunConfig and the folder's format number
    weights.safetensors     the trained weights, one model
    curves.parquet          run_id, step, term, value
    run.json                status, versions, timings; written last, so its presence means "done"
    checkpoint.safetensors  only while training: weights, Adam's moments, curves so far
    scores.parquet          only after scoring

Every file is written under a temporary name and renamed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from unweave.config import FORMAT, RunConfig
from unweave.types import Params, UserError

Curves = dict[str, list[float] | list[int]]
"""`step`, whole numbers, and one column of floats for each term."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write under a temporary name in the same folder, flush to disk, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing but what a killed process had half written."""
    return folder.is_dir() and all(_is_half_written(path) for path in folder.iterdir())


def sweep(folder: Path) -> None:
    """Remove what killed processes had half written: checkpoints can be large."""
    for path in filter(_is_half_written, list(folder.iterdir())):
        path.unlink(missing_ok=True)


def _is_half_written(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def write_json(path: Path, record: dict[str, Any]) -> None:
    """A JSON file, indented for people."""
    write_atomically(path, lambda p: p.write_text(json.dumps(record, indent=2) + "\n"))


def write_config(folder: Path, config: RunConfig) -> None:
    """Make the run folder and put the config into it."""
    folder.mkdir(parents=True, exist_ok=True)
    record = json.loads(config.to_json())
    write_json(folder / "config.json", {"format": FORMAT, "config": record})


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or a UserError that names the file."""
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path} is missing: {path.parent} is not a run folder") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); restore it or train again") from None
    if not isinstance(record, dict):
        raise UserError(f"{path} does not hold a JSON object: it was not written by unweave")
    return record


def read_config(folder: Path) -> RunConfig:
    """The config of a run folder; foreign folders and later formats are refused."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: give the folder of a run, such as runs/ID")
    record = read_json(folder / "config.json")
    number = record.get("format")
    if isinstance(number, int) and number > FORMAT:
        raise UserError(f"{folder} was written by a newer unweave (folder format {number}, this "
                        f"version reads up to {FORMAT}): upgrade unweave to read it")
    try:
        return RunConfig.from_record(record["config"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{folder / 'config.json'} is not a run's config: "
                        "it was not written by unweave") from None


def write_tensors(path: Path, tensors: Params, metadata: dict[str, str]) -> None:
    """A safetensors file of contiguous CPU copies."""
    plain = {k: t.detach().to("cpu", copy=True).contiguous() for k, t in tensors.items()}
    payload = save(plain, metadata=metadata)
    # Written by us and not by safetensors, whose error for a full disk is not an OSError.
    write_atomically(path, lambda p: p.write_bytes(payload))


def read_tensors(path: Path, device: str = "cpu") -> tuple[Params, dict[str, str]]:
    """Tensors and metadata of a safetensors file, or a UserError that names the file."""
    try:
        with safe_open(path, framework="pt", device=device) as handle:
            return {k: handle.get_tensor(k) for k in handle.keys()}, handle.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} is missing: the run cannot be loaded without it") from None
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{path} is damaged or not a safetensors file ({error}): "
                        "restore it or train again") from None


def write_checkpoint(folder: Path, state: Params, step: int, seconds: float,
                     curves: Curves) -> None:
    """One file holds all, so that a checkpoint is either whole or the one before."""
    columns = {f"curve.{k}": torch.tensor(v, dtype=torch.float64) for k, v in curves.items()}
    metadata = {"format": str(FORMAT), "step": str(step), "seconds": repr(seconds)}
    write_tensors(folder / "checkpoint.safetensors", state | columns, metadata)


def read_checkpoint(folder: Path) -> tuple[Params, int, float, Curves]:
    """State, step, seconds of training so far and curves of an unfinished run."""
    path = folder / "checkpoint.safetensors"
    tensors, metadata = read_tensors(path)
    try:
        step, seconds = int(metadata["step"]), float(metadata["seconds"])
    except (KeyError, ValueError):
        raise UserError(f"{path} is not a checkpoint of unweave: remove it to start "
                        "again") from None
    state = {k: t for k, t in tensors.items() if not k.startswith("curve.")}
    curves = {k.removeprefix("curve."): t.tolist() for k, t in tensors.items()
              if k.startswith("curve.")}
    curves["step"] = [int(s) for s in curves["step"]]
    return state, step, seconds, curves


def write_curves(folder: Path, run_id: str, curves: Curves) -> None:
    """Curves as a long table: run_id, step, term, value."""
    steps = np.asarray(curves["step"], dtype=np.int64)
    terms = [k for k in curves if k != "step"]
    table = pa.table({
        "run_id": pa.array([run_id] * len(steps) * len(terms)).dictionary_encode(),
        "step": np.tile(steps, len(terms)),
        "term": pa.array(np.repeat(np.array(terms, dtype=str), len(steps))).dictionary_encode(),
        "value": np.concatenate([np.zeros(0), *[np.asarray(curves[k], dtype=np.float64)
                                                for k in terms]]),
    })
    write_atomically(folder / "curves.parquet", lambda p: pq.write_table(table, p))


def read_curves(folder: Path) -> Curves:
    """Curves of a finished run, one column a term."""
    path = folder / "curves.parquet"
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: the curves of this run are gone") from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}): train again") from None
    terms = np.asarray(table["term"].to_pylist())
    steps, values = table["step"].to_numpy(), table["value"].to_numpy()
    names = list(dict.fromkeys(terms.tolist()))
    if not names:  # a checkpoint of somebody else, whose training nobody watched
        return {"step": []}
    return {"step": steps[terms == names[0]].tolist()} | {
        name: values[terms == name].tolist() for name in names}
