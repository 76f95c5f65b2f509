"""What a study takes: GPU hours, days on some GPUs, core hours for its scores, and money.

Runs are packed into stacks as the runner does it, each stack makes its updates (FactorVAE in the
study's convention one for two steps) at the rate that was measured for its size, method and
colours, and stacks are dealt to the GPUs, the longest first.
`H200` is the table that ships. A user brings a file of the same names (`read_rates`), and a store
gives the rates of its own runs (`rates_of_store`), which count before any table.
"""

from __future__ import annotations

import heapq
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from unweave.config import RunConfig
from unweave.data import parse_spec
from unweave.objectives import canonical
from unweave.studies.store import Store
from unweave.training.packing import in_pieces, pack
from unweave.training.stack import num_updates
from unweave.types import UserError

ONE_CHANNEL = ("dsprites", "smallnorb", "mnist", "fashion_mnist", "chairs3d")
"""Data sets with one channel; all others, a user's own too, are taken for colours."""


@dataclass(frozen=True)
class Rates:
    """How fast one GPU trains, and how long scores take."""

    name: str
    source: str
    steps_per_second: Mapping[str, float]
    """Model-steps a second of beta-VAE on one channel, by the number of runs of a stack. Between
    two sizes the rate is interpolated; below the smallest it is taken to fall with the size."""
    methods: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    """The rate of a method, or of `method architecture`, as a share of beta-VAE's in a stack of the
    same size, or a table like `steps_per_second`; those not named have `other`. A step of two
    players is the generator's."""
    other: float = 1.0
    colour: float = 1.0
    """The rate with three channels as a share of that with one."""
    most_runs: int = 128
    """Of a stack."""
    encode_seconds: float = 0.0
    """Of the GPU, for the codes of one run."""
    score_seconds: float = 0.0
    """Of one core, for the metrics of one run."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """Model-steps a second from runs of a store, by `method data`; these count first."""

    def of(self, config: RunConfig, num_runs: int) -> float:
        """Model-steps a second of a stack."""
        method = canonical(config.method)
        known = self.measured.get(f"{method} {config.data}")
        if known is not None:
            return known
        share = self.methods.get(f"{method} {config.architecture}", self.methods.get(
            method, 1.0 if method in ("vae", "beta_vae") else self.other))
        rate = (_by_size(share, num_runs) if isinstance(share, Mapping)
                else share * _by_size(self.steps_per_second, num_runs))
        grey = parse_spec(config.data)[0] in ONE_CHANNEL
        return rate * (1.0 if grey else self.colour)


def _by_size(table: Mapping[str, float], num_runs: int) -> float:
    points = sorted((int(size), rate) for size, rate in table.items())
    if num_runs <= points[0][0]:
        return points[0][1] * num_runs / points[0][0]
    for (low, slow), (high, fast) in pairwise(points):
        if num_runs <= high:
            return slow + (fast - slow) * (num_runs - low) / (high - low)
    return points[-1][1]


H200 = Rates(
    name="NVIDIA H200",
    source="bench/gpu.py (stacks of 128, 36 and 1 beta-VAEs: 20,478, 15,912 and 1,496 model-steps "
           "a second, 64 FactorVAEs: 5,920, colours 77 %, other methods 93 to 100 %; 737,280 "
           "images encoded by 36 models in 7.4 s), a study's 12 beta-TCVAEs (8,000), bench/gans.py "
           "(64 InfoGANs and InfoWGAN-GPs on MNIST 3,092 and 622, on dSprites 3,140 and 951, 8 of "
           "the bigger network 243 and 48), bench/vade.py (64 VaDEs 17,841), and bench/metrics.py "
           "--study (scores of a run: 35 s of a core, without intervals, floors and ceilings 10 s)",
    # 8,000 with 12 runs of beta-TCVAE (conv64-study2019, while others were scored), whose share
    # of beta-VAE's rate is 0.93.
    steps_per_second={"1": 1_496.0, "12": 8_600.0, "36": 15_912.0, "128": 20_478.0},
    # With 64 runs, where beta-VAE has 17,301.7 between the two sizes. The bigger networks of the
    # games fill the GPU with a few runs, so they have tables.
    methods={
        "factor_vae": 5_920.0 / 17_301.7,
        "infogan": 3_092.0 / 17_301.7,
        "infogan infogan-shapes2d": 3_140.0 / 17_301.7,
        "infogan infogan-shapes2d-big": {"1": 112.0, "8": 243.0},
        "infowgan_gp": 622.0 / 17_301.7,
        "infowgan_gp infowgan-shapes2d": 951.0 / 17_301.7,
        "infowgan_gp infowgan-shapes2d-big": {"1": 22.7, "8": 48.2},
        "vade jiang2017": 17_841.0 / 17_301.7,
    },
    other=0.93, colour=0.77, encode_seconds=7.4 / 36, score_seconds=35.0)
"""The papers' network, batch 64, bfloat16."""


@dataclass(frozen=True)
class Cost:
    """What a study takes; `rows` has a line for each data set and method."""

    rows: list[dict[str, Any]]
    runs: int
    gpu_hours: float
    days: float
    """On all GPUs, until the last stack is done."""
    core_hours: float
    cores_per_gpu: float
    """So many score as fast as a GPU trains."""
    money: float | None

    def total(self) -> dict[str, Any]:
        """The sums as a record."""
        return {k: v for k, v in asdict(self).items() if k != "rows"}


def cost_of(configs: Sequence[RunConfig], rates: Rates = H200, *, gpus: int = 1,
            price: float | None = None) -> Cost:
    """Hours, days and money for runs on some GPUs, at a price for a GPU hour."""
    if gpus < 1:
        raise UserError(f"--gpus must be at least 1, got {gpus}")
    if price is not None and not 0 <= price < math.inf:
        raise UserError(f"--price must be a number of at least 0, got {price:g}")
    if not configs:
        raise UserError("this study trains nothing, so it costs nothing")
    stacks, rows = [], {}
    for group in pack(configs, [0] * len(configs)):
        for piece in in_pieces(group, rates.most_runs):
            first, num = configs[piece[0]], len(piece)
            seconds = num_updates(first) * num / rates.of(first, num) + num * rates.encode_seconds
            stacks.append(seconds)
            row = rows.setdefault((first.data, first.method), {
                "data": first.data, "method": first.method, "runs": 0, "stacks": 0,
                "gpu_hours": 0.0})
            row["runs"] += num
            row["stacks"] += 1
            row["gpu_hours"] += seconds / 3600.0
    free = [0.0] * gpus
    for seconds in sorted(stacks, reverse=True):
        heapq.heapreplace(free, free[0] + seconds)
    hours = sum(stacks) / 3600.0
    cores = len(configs) * rates.score_seconds / 3600.0
    return Cost(list(rows.values()), len(configs), hours, max(free) / 86_400.0, cores,
                cores / hours, None if price is None else price * hours)


def read_rates(path: str | Path) -> Rates:
    """Rates from a JSON file with the names of `Rates`; what it leaves out is as measured by us."""
    names = [f.name for f in fields(Rates)]
    try:
        record = json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: give a JSON file of rates") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a JSON file of rates ({error})") from None
    if not isinstance(record, dict) or set(record) - set(names):
        odd = sorted(set(record) - set(names))[:1] if isinstance(record, dict) else ["no object"]
        raise UserError(f"{path} has {odd[0]!r}, which is none of {', '.join(names)}")
    held = asdict(H200) | {"name": str(path), "source": str(path)} | record
    for k in ("steps_per_second", "methods", "measured"):
        held[k] = _table(path, k, held[k], sizes=k == "steps_per_second")
    for k in ("other", "colour", "encode_seconds", "score_seconds", "most_runs"):
        held[k] = _number(path, k, held[k], zero=k.endswith("_seconds"))
    if held["most_runs"] != int(held["most_runs"]):
        raise UserError(f"{path}: most_runs is {held['most_runs']:g}, and must be a whole number "
                        "above 0")
    return Rates(**held | {"most_runs": int(held["most_runs"]), "name": str(held["name"]),
                           "source": str(held["source"])})


def _table(path: str | Path, name: str, held: Any, *, sizes: bool) -> dict[str, Any]:
    """Numbers by name, or by the size of a stack; methods may have a table of sizes each."""
    if not isinstance(held, dict) or (sizes and (
            not held or not all(size.isdecimal() and int(size) for size in held))):
        raise UserError(f"{path}: {name} must be names and numbers, as in "
                        '{"steps_per_second": {"36": 15990, "128": 20434}}')
    return {k: _table(path, f"{name} {k}", value, sizes=True)
            if name == "methods" and isinstance(value, dict)
            else _number(path, f"{name} {k}", value) for k, value in held.items()}


def _number(path: str | Path, name: str, value: Any, *, zero: bool = False) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and (
            0 < value < math.inf or (zero and value == 0)):
        return float(value)
    raise UserError(f"{path}: {name} is {value!r}, and must be a number above 0")


def rates_of_store(store: Store, rates: Rates = H200) -> Rates:
    """The rates of a store's own runs: the median over runs of a method and a data set.

    `seconds` of a run is its share of its stack, so that updates over seconds is the stack's rate.
    """
    found: dict[str, list[float]] = {}
    devices = set()
    for row in store.runs():
        if row["source"] == "unweave" and row["status"] == "done" and row["seconds"]:
            key = f"{canonical(row['method'])} {row['data']}"
            updates = row["steps"]
            if row["config"]:  # a method may update less often than it counts steps
                updates = num_updates(RunConfig.from_record(json.loads(row["config"])))
            found.setdefault(key, []).append(updates / row["seconds"])
            devices.add(row["device"])
    if not found:
        raise UserError(f"{store.address} has no finished runs to take rates from")
    measured = {key: statistics.median(values) for key, values in found.items()}
    number = sum(map(len, found.values()))
    return replace(rates, name=f"{store.address} ({', '.join(sorted(devices))})",
                   source=f"{number} runs of {store.address}; what it has no runs of: "
                          f"{rates.source}", measured=measured)
