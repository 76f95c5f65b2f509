"""What a study costs: GPU hours, core hours and days, from measured rates.

A rate is model-steps a second of a full stack: updates of single models, all models of the stack
together. `H200` was measured by `bench/gpu.py`; `measured_rates` takes those of a store's own runs;
a user's own go into a JSON file. Scoring runs on the cores beside the GPU, so days are those of
whichever takes longer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unweave.config import RunConfig
from unweave.studies.store import Store
from unweave.training.stack import num_updates
from unweave.types import UserError

GREY = ("dsprites", "smallnorb", "smallnorb_instances", "mnist", "fashion_mnist")
"""Data sets with one channel; all others have three."""


@dataclass(frozen=True)
class Rates:
    """How fast a GPU trains and a core scores."""

    source: str
    steps: Mapping[str, float]
    """Model-steps a second of a full stack on images of one channel, by method; `other` is for
    methods that are not named."""
    colour: float = 0.77
    """Share of that rate on images of three channels."""
    score_seconds: float = 29.0
    """Seconds of one core for the study's scores of a run."""
    encode_seconds: float = 0.2
    """Seconds of the GPU to encode what these scores look at, a run."""


H200 = Rates("one NVIDIA H200, bench/gpu.py: stacks of 128 runs, FactorVAE 64",
             {"beta_vae": 20_434.0, "vae": 20_434.0, "factor_vae": 5_947.0,
              "factor_vae_prior": 5_947.0,
              # Measured between 93 and 100 % of beta_vae: the lower end.
              "other": 19_000.0})


def read_rates(path: str | Path) -> Rates:
    """Rates of another machine, from JSON: {"beta_vae": 9000, "other": 8000, "colour": 0.8}."""
    try:
        given = json.loads(Path(path).read_text())
        numbers = {str(k): float(v) for k, v in given.items()}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: give a JSON file of rates") from None
    except (OSError, ValueError, AttributeError, TypeError):
        raise UserError(f"{path} is not a JSON object of numbers: write model-steps a second by "
                        'method, such as {"beta_vae": 9000, "other": 8000}') from None
    if not numbers or any(not v > 0 for v in numbers.values()):
        raise UserError(f"{path} must hold rates above zero, by method")
    own = {k: numbers.pop(k) for k in ("colour", "score_seconds", "encode_seconds")
           if k in numbers}
    if "other" not in numbers:
        numbers["other"] = min(numbers.values(), default=0.0)
    if not numbers["other"]:
        raise UserError(f"{path} names no method: write at least {{\"other\": 8000}}")
    return Rates(str(path), numbers, **own)


def measured_rates(store: Store) -> Rates:
    """Rates of the runs in a store, whose seconds are their shares of a stack's time."""
    done = [row for row in store.runs() if row["source"] == "unweave" and row["status"] == "done"
            and row["seconds"]]
    if not done:
        raise UserError(f"{store.address} has no finished runs whose time is known: run a study "
                        "into it first")
    grey: dict[str, list[float]] = {}
    for row in done:
        config = RunConfig.from_record(json.loads(row["config"]))
        factor = 1.0 if is_grey(row["data"]) else 1.0 / H200.colour
        seconds = row["seconds"] / num_updates(config)
        grey.setdefault(row["method"], []).append(seconds / factor)
    rates = {method: len(found) / sum(found) for method, found in grey.items()}
    devices = ", ".join(sorted({row["device"] for row in done if row["device"]}))
    return Rates(f"{len(done)} runs of {store.address} on {devices}",
                 rates | {"other": min(rates.values())})


def is_grey(data: str) -> bool:
    """Whether the images of a data set have one channel, as far as its name tells."""
    return data.partition(":")[0].partition(",")[0] in GREY


def cost(configs: Sequence[RunConfig], rates: Rates = H200, *, num_gpus: int = 1,
         num_cores: int = 16, price: float | None = None) -> list[dict[str, Any]]:
    """A record for each data set and one for all: runs, GPU hours, core hours, days, money.

    `num_cores` are those that score beside each GPU, `price` is that of an hour of a GPU with them.
    """
    if num_gpus < 1 or num_cores < 1 or (price is not None and price < 0):
        raise UserError("GPUs and cores are at least 1, and a price is not negative")
    records = []
    for name in [*dict.fromkeys(config.data for config in configs), "all"]:
        own = [c for c in configs if name in ("all", c.data)]
        seconds = sum(_training(c, rates) + rates.encode_seconds for c in own)
        cores = len(own) * rates.score_seconds
        days = max(seconds / num_gpus, cores / (num_gpus * num_cores)) / 86_400
        record = {"data": name, "runs": len(own), "gpu_hours": seconds / 3600,
                  "core_hours": cores / 3600, "gpus": num_gpus, "days": days}
        if price is not None:
            record["money"] = days * 24 * num_gpus * price
        records.append(record)
    return records if len(records) > 2 else records[:1]


def _training(config: RunConfig, rates: Rates) -> float:
    rate = rates.steps.get(config.method, rates.steps["other"])
    # Rates are of batches of 64; larger ones take proportionally longer on a full GPU.
    share = (1.0 if is_grey(config.data) else rates.colour) * 64.0 / config.batch_size
    return num_updates(config) / (rate * share)
