"""The model card: what a model is, what it was trained on, how it scores, how to load it.

A README.md as the Hugging Face Hub shows it: a few fields between dashes for machines, then text.
Every number in it is the run's own; a run that was not scored says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unweave.data import DATASETS, parse_spec
from unweave.objectives import METHODS
from unweave.training import Run
from unweave.types import UserError
from unweave.version import __version__

_LINES = {
    "torch": '''import torch
from model import Model  # the file model.py beside this card

model = Model().eval()
model.load_state_dict(torch.load("model.pt", weights_only=True))
codes = model.encode(torch.rand(1, {channels}, {height}, {width}))  # images in [0, 1]
''',
    "safetensors": '''import torch
from model import Model  # the file model.py beside this card
from safetensors.torch import load_file

model = Model().eval()
model.load_state_dict(load_file("model.safetensors"))
codes = model.encode(torch.rand(1, {channels}, {height}, {width}))  # images in [0, 1]
''',
    "onnx": '''import numpy
import onnxruntime

encoder = onnxruntime.InferenceSession("encoder.onnx", providers=["CPUExecutionProvider"])
images = numpy.random.rand(1, {height}, {width}, {channels}).astype("float32")  # in [0, 1]
codes = encoder.run(["codes"], {{"images": images}})[0]
''',
}
_TITLES = {"torch": "PyTorch", "safetensors": "PyTorch, weights as safetensors",
           "onnx": "onnxruntime"}


def model_card(run: Run, formats: Sequence[str], differences: Mapping[str, float], *,
               licence: str) -> str:
    """The text of README.md."""
    height, width, channels = run.dataset.image_shape
    method, config = METHODS[run.config.method], run.config
    letters = ", ".join(f"{k} = {_plain(v)}" for k, v in config.hyper) or "no letters"
    name, licence_of_data, source = _data(config.data)
    parts = [_front(licence, config.method, name), f"# {run.run_id}\n", (
        f"A disentangled representation of {name}: {config.num_latents} latents learnt by "
        f"`{config.method}` ({method.paper}: {method.summary}). Written by unweave "
        f"{__version__}.\n"), _table((
            ("data", f"{name} ({source}), {height}x{width}x{channels}" if source else
             f"{name}, {height}x{width}x{channels}"),
            ("licence of the data", licence_of_data), ("licence of this model", licence),
            ("method", f"{config.method}: {letters}"), ("architecture", config.architecture),
            ("training", f"{config.steps:,} steps of {config.batch_size} images, Adam at "
             f"{config.learning_rate:g}, seed {config.seed}, {config.precision}"),
            ("loss at the end", _last(run)), *_imported(run))),
        "## Scores\n", _scores(run), "## How to load it\n", (
            "Codes are the means of q(z|x)" + (", then the class of each categorical latent"
                                               if any(run.num_values) else "")
            + ". Images are floats in [0, 1]; ONNX wants channels last, PyTorch first.\n")]
    for kind in formats:
        text = _LINES[kind].format(height=height, width=width, channels=channels)
        parts += [f"### {_TITLES[kind]}\n", f"```python\n{text}```\n"]
    parts += ["## Checked\n", (
        "Each file was loaded back and compared with the run in float32 on "
        "32 images and 64 codes; the largest difference: "
        + ", ".join(f"{kind} {differences[kind]:.1e}" for kind in formats) + ".\n")]
    if config.precision != "float32":
        parts.append(f"The run was trained with {config.precision} inside its layers, and its own "
                     "codes carry that rounding; these files compute in float32.\n")
    parts += ["## What it is not\n", (
        "Scores are of one run on one data set. Without supervision disentanglement is not "
        "identifiable (Locatello et al. 2019, theorem 1): another seed may order, mix or flip "
        "latents differently.\n")]
    return "\n".join(parts)


def _front(licence: str, method: str, data: str) -> str:
    tags = ["unweave", "disentanglement", "variational-autoencoder", method, data]
    lines = ["---", f"license: {json.dumps(licence)}", "library_name: unweave", "tags:",
             *[f"- {json.dumps(tag)}" for tag in tags], "---", ""]
    return "\n".join(lines)


def _data(spec: str) -> tuple[str, str, str]:
    """A data set's name without the user's paths, its licence and its source."""
    name, file, _ = parse_spec(spec)
    entry = DATASETS.get(name)
    if entry is None:
        return name, "not known", ""
    own = file is not None and name in ("images", "npz", "npy")
    shown = f"{name}:{Path(file).name}" if own and file else name
    return shown, "the owner's" if own else entry.licence, "" if own else entry.source


def _table(rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *[f"| {k} | {v} |" for k, v in rows], ""])


def _last(run: Run) -> str:
    return ", ".join(f"{k} {run.curves[k][-1]:.2f}" for k in ("loss", "recon", "kl")
                     if run.curves.get(k)) + " nats per image" if run.curves.get("loss") else "-"


def _imported(run: Run) -> list[tuple[str, str]]:
    held = run.info.get("imported")
    return [("imported from", f"{held['from']}, {held['file']}")] if held else []


def _scores(run: Run) -> str:
    rows = stored_scores(run)
    if not rows:
        return "This run has not been scored: `unweave score RUN` does it.\n"
    lines = ["| score | value | 95 % interval | better | convention |", "|---|---|---|---|---|"]
    for row in rows:
        interval = ("-" if row["low"] is None or row["high"] is None
                    else f"{row['low']:.3f} to {row['high']:.3f}")
        better = {True: "higher", False: "lower", None: "neither"}[row["higher_is_better"]]
        lines.append(f"| {row['key']} | {row['value']:.3f} | {interval} | {better} | "
                     f"{row['convention']} |")
    return "\n".join([*lines, "", "Intervals are bootstrap intervals of the evaluation's sample, "
                      "not of training.\n"])


def stored_scores(run: Run) -> list[dict[str, Any]]:
    """The rows of `scores.parquet` in a run's folder; none if it was not scored."""
    if run.folder is None or not (run.folder / "scores.parquet").exists():
        return []
    try:
        return pq.read_table(run.folder / "scores.parquet").to_pylist()
    except (OSError, pa.ArrowException):
        raise UserError(f"{run.folder / 'scores.parquet'} is damaged: remove it and score "
                        "again") from None


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
