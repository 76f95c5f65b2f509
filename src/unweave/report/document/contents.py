"""What a report says, as plain values: runs and scores, curves, versions, commands.

The same contents come from a store or from run folders; `page` turns them into one file.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.config import RunConfig
from unweave.data import DATASETS, parse_spec
from unweave.report.document.values import column, numbers, short
from unweave.studies.answers.grid import METRICS

CURVE_NUMBERS = 300_000
"""Numbers of all curves of a report together; curves of many runs are thinned to that."""
_TERMS = ("loss", "recon", "kl")
_FEW_RUNS = 3
"""Up to this many runs come with every term of their curves."""
_MOST_COMMANDS = 3000

_FIRST = ("run_id", "method", "setting", "data", "seed", "status")
_THEN = ("source", "study", "steps", "num_latents", "architecture", "seconds")


@dataclass
class Scores:
    """Scores of runs by key, each an array over the runs; NaN where there is none."""

    value: dict[str, np.ndarray] = field(default_factory=dict)
    low: dict[str, np.ndarray] = field(default_factory=dict)
    high: dict[str, np.ndarray] = field(default_factory=dict)
    better: dict[str, str] = field(default_factory=dict)

    def add(self, num: int, run: int, row: Mapping[str, Any]) -> None:
        """A row of the table `scores`; the last of equal keys counts."""
        key = row["key"]
        for part, values in (("value", self.value), ("low", self.low), ("high", self.high)):
            if row[part] is not None:
                values.setdefault(key, np.full(num, np.nan))[run] = row[part]
        self.better[key] = {True: "higher", False: "lower", None: "neither"}[
            row["higher_is_better"]]

    def ordered(self) -> list[str]:
        """In the order of the study, then of the alphabet."""
        return sorted(self.value, key=lambda k: (METRICS.index(k) if k in METRICS else 99, k))


def run_table(runs: Sequence[Mapping[str, Any]], scores: Scores) -> dict[str, Any]:
    """A row for each run: what it is, then its scores with the ends of their intervals."""
    records = [dict(run) | {"setting": setting_of(run)} for run in runs]
    held = [name for name in (*_FIRST, *_THEN)
            if any(record.get(name) is not None for record in records)]
    columns = []
    for name in held:
        columns.append(column(name, [record.get(name) for record in records],
                              role="fact" if name in _FIRST else "more"))
    if len(runs) <= _MOST_COMMANDS:
        commands = [None if not run.get("config") else train_command(_config(run["config"]))
                    for run in runs]
        if any(commands):
            columns.append(column("command", commands, role="hidden"))
    for key in scores.ordered():
        said = {"name": key, "kind": "number", "role": "score", "better": scores.better[key],
                "values": numbers(scores.value[key])}
        if key in scores.low and key in scores.high:
            said |= {"low": numbers(scores.low[key]), "high": numbers(scores.high[key])}
        columns.append(said)
    return {"num": len(runs), "columns": columns}


def setting_of(run: Mapping[str, Any]) -> str:
    """`beta=4`, or nothing where no letter is varied."""
    strength = run.get("strength")
    return "" if strength is None or strength != strength or not run.get("letter") else (
        f"{run['letter']}={strength:g}")


def _config(text: str | RunConfig) -> RunConfig | None:
    if isinstance(text, RunConfig):
        return text
    try:
        return RunConfig.from_record(json.loads(text))
    except (TypeError, ValueError):
        return None


def train_command(config: RunConfig | None) -> str | None:
    """The command that trains a run again; None where the command line cannot say it."""
    if config is None:
        return None
    usual = RunConfig(config.method)
    if any(getattr(config, k) != getattr(usual, k) for k in
           ("adam_beta1", "adam_beta2", "adam_eps")):
        return None
    if parse_spec(config.data)[0] not in DATASETS:  # it was in memory
        return None
    words = ["unweave", "train", config.method, "--data", config.data]
    for letter, value in config.hyper:
        words += ["--set", f"{letter}={value:g}" if isinstance(value, float) and
                  float(f"{value:g}") == value else f"{letter}={value}"]
    words += ["--steps", str(config.steps), "--seeds", str(config.seed)]
    for name in ("batch_size", "num_latents", "learning_rate", "architecture", "likelihood",
                 "init"):
        if getattr(config, name) != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(config, name))]
    return shlex.join([*words, "--precision", config.precision])


def study_command(record: Mapping[str, Any], address: str) -> str:
    """The command that runs a remembered study again."""
    configs = list(record["runs"].values())
    name = record["name"]
    if record.get("source", "unweave") != "unweave":
        name = f"{record['source']}:{name}"
    data = list(dict.fromkeys(c["data"] for c in configs))
    steps = sorted({c["steps"] for c in configs})
    words = ["unweave", "study", "run", name, "--data", ",".join(data), "--seeds",
             spans(c["seed"] for c in configs)]
    if len(steps) == 1:
        words += ["--steps", str(steps[0])]
    words += ["--metrics", ",".join(record["metrics"])] if record.get("metrics") else []
    return shlex.join([*words, "--store", address])


def spans(seeds: Any) -> str:
    """`0..3,7` of whole numbers."""
    found: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if found and seed == found[-1][1] + 1:
            found[-1][1] = seed
        else:
            found.append([seed, seed])
    return ",".join(f"{a}..{b}" if b > a else str(a) for a, b in found)


def versions_of(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """What the runs were made with, each line once: [what, how many runs, versions]."""
    counts: dict[str, int] = {}
    for run in runs:
        held = run.get("versions")
        held = json.loads(held) if isinstance(held, str) and held else held or {}
        line = ", ".join(f"{k} {v}" for k, v in held.items())
        if line:
            counts[line] = counts.get(line, 0) + 1
    return [[f"{num:,} run{'' if num == 1 else 's'}", line] for line, num in
            sorted(counts.items(), key=lambda pair: -pair[1])]


def curve_values(curves: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, Any]:
    """Curves by run, thinned so that all of them together stay small."""
    terms_of = {run: [t for t in own if t != "step" and (
        len(curves) <= _FEW_RUNS or t in _TERMS)] for run, own in curves.items()}
    total = sum(len(terms) + 1 for terms in terms_of.values())
    most = int(np.clip(CURVE_NUMBERS // max(total, 1), 10, 250))
    found = {}
    for run, own in curves.items():
        kept = np.unique(np.linspace(0, len(own["step"]) - 1,
                                     min(most, len(own["step"]))).round().astype(int))
        found[run] = {"step": [int(own["step"][i]) for i in kept],
                      "terms": {t: [short(own[t][i]) for i in kept] for t in terms_of[run]}}
    return found


def about_runs(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """What was run, in a few lines: [what, value]."""
    def listed(name: str) -> str:
        values = [run.get(name) for run in runs if run.get(name) is not None]
        counts = {v: values.count(v) for v in dict.fromkeys(values)}
        return ", ".join(f"{v} ({n:,})" if len(counts) > 1 else f"{v}"
                         for v, n in counts.items())

    done = sum(run["status"] == "done" for run in runs)
    lines = [["runs", f"{len(runs):,}" + ("" if done == len(runs)
                                         else f", {len(runs) - done:,} of them diverged")]]
    for name, label in (("method", "methods"), ("data", "data sets"), ("source", "sources"),
                        ("study", "studies"), ("architecture", "architectures"),
                        ("steps", "steps"), ("device", "devices")):
        if said := listed(name):
            lines.append([label, said])
    seeds = spans(int(run["seed"]) for run in runs if run.get("seed") is not None)
    seconds = sum(run.get("seconds") or 0.0 for run in runs)
    lines.append(["seeds", seeds])
    if seconds:
        said = (f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"
                if seconds >= 100 else f"{seconds:.0f} seconds")
        lines.append(["training time", said + ("" if len(runs) == 1 else ", all runs together")])
    return lines


def safe_name(text: str) -> str:
    """Text without characters that end a file name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-") or "report"
