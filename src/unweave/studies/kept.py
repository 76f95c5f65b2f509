"""Runs of a store whose weights were kept: which they are, each as a `Run`, or as a folder."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from safetensors import SafetensorError
from safetensors.torch import load as read_weights

from unweave.config import FORMAT, RunConfig
from unweave.data import load_data
from unweave.objectives import aliases
from unweave.studies.store import Store
from unweave.training import folder as files
from unweave.training.run import Run, choose_device
from unweave.types import Params, UserError, unknown_name


def kept(store: Store) -> set[str]:
    """Ids of the runs whose weights are in the store."""
    return {name.removesuffix(".safetensors") for name in store.files("weights")
            if name.endswith(".safetensors")}


def load_kept(store: Store, row: dict[str, Any], *, device: str = "auto",
              curves: files.Curves | None = None) -> Run:
    """A run from its row of the table `runs` and its weights; it has no folder.

    `curves`: its own, of `kept_curves`, which reads those of many runs at once.
    """
    where = choose_device(device)
    config, weights = _config_and_weights(store, row)
    params = {name: tensor[None].to(where) for name, tensor in weights.items()}
    return Run(config, params, curves or {}, _info(row), load_data(config.data), None, where)


def kept_curves(store: Store, run_ids: Collection[str]) -> dict[str, files.Curves]:
    """Curves of runs, as thin as the store has them, by the id of the run."""
    table = store.read("curves")
    table = table.filter(pc.is_in(table["run_id"], pc.cast(list(run_ids), "string")))
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in table.to_pylist():  # a point that was stored twice counts once
        found.setdefault(row["run_id"], {}).setdefault(row["term"], {})[row["step"]] = row["value"]
    return {run_id: {"step": sorted(next(iter(terms.values())))} | {
        term: [points[step] for step in sorted(points)] for term, points in terms.items()}
        for run_id, terms in found.items()}


def unpack(store: Store, out: str | Path, *, methods: Collection[str] | None = None,
           run_ids: Collection[str] | None = None) -> list[Path]:
    """Write runs whose weights were kept as folders, as `unweave train` leaves them.

    All of them, or those of some methods or ids; what is there already stays as it is. Curves have
    the points that the store kept.
    """
    rows = {row["run_id"]: row for row in store.runs()}
    held = sorted(kept(store) & set(rows))
    if not held:
        raise UserError(f"{store.address} kept no weights: run the study with --weights all, or "
                        "best")
    for run_id in run_ids or ():
        if run_id not in held:
            raise unknown_name(f"run with weights in {store.address}", run_id, held)
    known = sorted({rows[run_id]["method"] for run_id in held})
    for method in methods or ():
        if aliases().get(method, method) not in known:
            raise unknown_name(f"method with weights in {store.address}", method, known)
    wanted = None if methods is None else {aliases().get(method, method) for method in methods}
    chosen = [run_id for run_id in held if (run_ids is None or run_id in run_ids)
              and (wanted is None or rows[run_id]["method"] in wanted)]
    chosen.sort(key=lambda r: (rows[r]["method"], rows[r]["data"], rows[r]["strength"] or 0.0,
                               rows[r]["seed"]))
    folders = [Path(out) / run_id for run_id in chosen]
    todo = [run_id for run_id, folder in zip(chosen, folders)
            if not (folder / "run.json").exists()]
    curves = kept_curves(store, todo) if todo else {}
    for run_id in todo:
        config, weights = _config_and_weights(store, rows[run_id])
        folder = Path(out) / run_id
        try:
            files.write_config(folder, config)
        except (FileExistsError, NotADirectoryError):
            raise UserError(f"{out} is a file: give --out a folder") from None
        files.write_tensors(folder / "weights.safetensors", weights,
                            {"format": str(FORMAT), "run_id": run_id})
        files.write_curves(folder, run_id, curves.get(run_id, {"step": []}))
        files.write_json(folder / "run.json",  # last: its presence means that all is there
                         {"format": FORMAT, "run_id": run_id} | _info(rows[run_id]))
        files.sweep(folder)
    return folders


def _config_and_weights(store: Store, row: dict[str, Any]) -> tuple[RunConfig, Params]:
    path = f"weights/{row['run_id']}.safetensors"
    payload = store.read_file(path)
    if payload is None:
        raise UserError(f"{store.address} did not keep the weights of {row['run_id']}: run the "
                        "study with --weights all")
    try:
        return RunConfig.from_record(json.loads(row["config"])), read_weights(payload)
    except (SafetensorError, TypeError, ValueError) as error:
        raise UserError(f"{store.address}/{path} is damaged ({error}): remove it") from None


def _info(row: dict[str, Any]) -> dict[str, Any]:
    """What `run.json` says of a run and its row too."""
    return {"status": row["status"], "diverged_at": row["diverged_at"],
            "seconds": row["seconds"], "device": row["device"],
            "versions": json.loads(row["versions"] or "{}")}
