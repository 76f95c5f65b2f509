"""Exporting a run: files for other programs, checked against the run before any is written.

    README.md                      the model card
    encoder.onnx, decoder.onnx     --to onnx: images [batch, height, width, channel]
    model.safetensors, model.py    --to safetensors: images [batch, channel, height, width]
    model.pt, model.py             --to torch: the same weights as a PyTorch file
    export.json                    which run, which formats, how far they are from the run

The files are loaded back the way a user would, from the bytes to be written, and must give the
run's codes and images within 1e-5 (of values beyond 1: relative to the largest).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from unweave.export.card import model_card
from unweave.export.source import model_source
from unweave.torch import module
from unweave.training import Run
from unweave.training.folder import read_json, write_atomically, write_json
from unweave.types import UserError, unknown_name
from unweave.version import __version__

FORMATS = ("onnx", "safetensors", "torch")

TOLERANCE = 1e-5
_NUM_IMAGES = 32

Encode = Callable[[np.ndarray], np.ndarray]


@dataclass
class Exported:
    """What was written, and how far each format is from the run."""

    folder: Path
    formats: tuple[str, ...]
    files: tuple[str, ...]
    differences: dict[str, float] = field(default_factory=dict)


def export_run(run: Run, folder: str | Path, *, to: str | Sequence[str] = "onnx",
               licence: str = "unknown") -> Exported:
    """Write a run for other programs into `folder`, with a model card; see the module.

    A folder may be exported to again in other formats; one that holds something else is refused.
    """
    formats = _formats(to)
    if run.status == "diverged":
        raise UserError(f"{run.run_id} diverged at step {run.info['diverged_at']}: there is no "
                        "model to export")
    folder = Path(folder)
    held = _held(folder, run)
    files: dict[str, bytes] = {}
    differences = dict(held.get("differences", {}))
    for name in formats:
        made, encode, decode = _WRITERS[name](run)
        differences[name] = checked(run, name, encode, decode)
        files |= made
    every = tuple(name for name in FORMATS if name in differences)
    files["README.md"] = model_card(run, every, differences, licence=licence).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, payload in files.items():
        write_atomically(folder / name, lambda path, data=payload: path.write_bytes(data))
    write_json(folder / "export.json", {
        "unweave": __version__, "run_id": run.run_id, "formats": list(every),
        "differences": differences, "licence": licence})
    return Exported(folder, every, (*sorted(files), "export.json"), differences)


def _formats(to: str | Sequence[str]) -> list[str]:
    names = [name.strip() for name in (to.split(",") if isinstance(to, str) else to)]
    names = list(FORMATS) if "all" in names else names
    for name in names:
        if name not in FORMATS:
            raise unknown_name("format", name, (*FORMATS, "all"))
    if not names:
        raise UserError(f"no format was named; known are {', '.join(FORMATS)}")
    return names


def _held(folder: Path, run: Run) -> dict[str, Any]:
    """What an earlier export of the same run left in the folder."""
    if not folder.exists():
        return {}
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: give a folder for the export")
    if not (folder / "export.json").exists():
        if os.listdir(folder):
            raise UserError(f"{folder} holds other files: give a new or empty folder")
        return {}
    held = read_json(folder / "export.json")
    if held.get("run_id") != run.run_id:
        raise UserError(f"{folder} holds the export of {held.get('run_id')}, not of {run.run_id}: "
                        "give another folder")
    return held


def in_float32(run: Run) -> Run:
    """The same run, computed on the CPU in float32, as exported files are."""
    params = {name: p.detach().float().cpu() for name, p in run.params.items()}
    return replace(run, config=run.config.replace(precision="float32"), params=params,
                   device=torch.device("cpu"))


def checked(run: Run, name: str, encode: Encode, decode: Encode) -> float:
    """The largest difference between an export and its run; a UserError if it is too large.

    `encode` and `decode` see images `[sample, height, width, channel]` and codes.
    """
    exact = in_float32(run)
    rng = np.random.default_rng(0)
    images = run.dataset.images(rng.integers(len(run.dataset), size=_NUM_IMAGES))
    images = images.astype(np.float32) / 255
    codes = np.concatenate([exact.encode(images), exact.prior_codes(_NUM_IMAGES, seed=1)])
    worst = 0.0
    for what, found, expected in (("codes", encode(images), exact.encode(images)),
                                  ("images", decode(codes), exact.decode(codes))):
        if found.shape != expected.shape or not np.isfinite(found).all():
            raise UserError(f"the {name} export of {run.run_id} gives {what} of the shape "
                            f"{list(found.shape)}, or not finite ones: nothing was written")
        distance = np.abs(found - expected).max() / max(1.0, np.abs(expected).max())
        if distance > TOLERANCE:
            raise UserError(f"the {name} export of {run.run_id} differs from the run by "
                            f"{distance:.1e} in its {what}, more than {TOLERANCE:g}: nothing was "
                            "written; please report this")
        worst = max(worst, float(distance))
    return worst


def _onnx(run: Run) -> tuple[dict[str, bytes], Encode, Encode]:
    from unweave.training.onnx_graph import decoder_onnx, encoder_onnx

    metadata = {"unweave": __version__, "method": run.config.method}
    made = {"encoder.onnx": encoder_onnx(run, metadata=metadata),
            "decoder.onnx": decoder_onnx(run, metadata=metadata)}
    try:
        import onnxruntime
    except ImportError:
        raise UserError("an ONNX export is checked with onnxruntime, which is not installed: "
                        "pip install 'unweave[onnx]'") from None

    def session(name: str) -> Any:
        return onnxruntime.InferenceSession(made[name], providers=["CPUExecutionProvider"])

    encoder, decoder = session("encoder.onnx"), session("decoder.onnx")
    return (made, lambda images: encoder.run(["codes"], {"images": images})[0],
            lambda codes: decoder.run(["images"], {"codes": codes})[0])


def _safetensors(run: Run) -> tuple[dict[str, bytes], Encode, Encode]:
    state = module(run).state_dict()
    payload = save_safetensors({k: t.contiguous() for k, t in state.items()},
                               metadata={"format": "pt", "run_id": run.run_id})
    return _with_source(run, "model.safetensors", payload, load_safetensors(payload))


def _torch(run: Run) -> tuple[dict[str, bytes], Encode, Encode]:
    buffer = io.BytesIO()
    torch.save(module(run).state_dict(), buffer)
    payload = buffer.getvalue()
    return _with_source(run, "model.pt", payload,
                        torch.load(io.BytesIO(payload), weights_only=True))


def _with_source(run: Run, name: str, payload: bytes,
                 state: dict[str, Any]) -> tuple[dict[str, bytes], Encode, Encode]:
    source = model_source(run)
    space: dict[str, Any] = {"__name__": "model"}
    exec(compile(source, "model.py", "exec"), space)
    model = space["Model"]().eval()
    model.load_state_dict(state)

    def encode(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.encode(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()

    def decode(codes: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.decode(torch.from_numpy(codes)).permute(0, 2, 3, 1).numpy()

    return {name: payload, "model.py": source.encode()}, encode, decode


_WRITERS = {"onnx": _onnx, "safetensors": _safetensors, "torch": _torch}
