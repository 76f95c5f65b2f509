"""Runs of a store whose weights were kept: which they are, and each as a `Run`."""

from __future__ import annotations

import json
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as read_weights

from unweave.config import RunConfig
from unweave.data import load_data
from unweave.studies.store import Store
from unweave.training.run import Run, choose_device
from unweave.types import UserError


def kept(store: Store) -> set[str]:
    """Ids of the runs whose weights are in the store."""
    return {name.removesuffix(".safetensors") for name in store.files("weights")
            if name.endswith(".safetensors")}


def load_kept(store: Store, row: dict[str, Any], *, device: str = "auto") -> Run:
    """A run from its row of the table `runs` and its weights; it has no curves and no folder."""
    path = f"weights/{row['run_id']}.safetensors"
    payload = store.read_file(path)
    if payload is None:
        raise UserError(f"{store.address} did not keep the weights of {row['run_id']}: run the "
                        "study with --weights all")
    where = choose_device(device)
    try:
        weights = read_weights(payload)
        config = RunConfig.from_record(json.loads(row["config"]))
    except (SafetensorError, TypeError, ValueError) as error:
        raise UserError(f"{store.address}/{path} is damaged ({error}): remove it") from None
    info = {"status": row["status"], "diverged_at": row["diverged_at"],
            "seconds": row["seconds"], "device": row["device"],
            "versions": json.loads(row["versions"] or "{}")}
    params = {name: tensor[None].to(where) for name, tensor in weights.items()}
    return Run(config, params, {}, info, load_data(config.data), None, where)
