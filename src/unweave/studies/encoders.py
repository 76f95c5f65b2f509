"""Encoders of any kind as functions from images to codes, and their scores on a data set.

    model.onnx            through onnxruntime; layout and channels are read from its input
    model.pt, model.pt2   TorchScript, an exported program (`torch.export.save`)
    package.module:name   a Python function of an array, or a torch module
    hf:NAME, a folder     a vision model of transformers: its pooled output, or the mean token
    runs/ID               a run of ours, on images that it was not trained on

Codes are the output called codes, mu, mean, z_mean, latent or embedding if there is one, else the
first that has a row for each image; `output` names another.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unweave.data.dataset import FactorDataset
from unweave.data.fetch import written_path
from unweave.metrics import score_dataset
from unweave.metrics.arrays import as_array
from unweave.metrics.record import Score
from unweave.studies.preparing import Preparation, from_shape
from unweave.training import load
from unweave.types import UserError

NAMES = ("codes", "mu", "mean", "z_mean", "latent", "latents", "embedding", "embeddings",
         "pooler_output", "image_embeds", "z")
BATCH = 256

Apply = Callable[[np.ndarray], Any]
"""From prepared images to whatever the encoder gives: an array, several, or some by name."""


class Encoder:
    """`encoder(images)`: codes `[sample, latent]` of bytes `[sample, height, width, channel]`."""

    def __init__(self, apply: Apply, preparation: Preparation, *, output: str | None = None,
                 batch: int = BATCH, fixed: bool = False) -> None:
        self.apply, self.preparation, self.output = apply, preparation, output
        self.batch, self.fixed = batch, fixed

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Codes of images, some at a time."""
        parts = []
        for start in range(0, len(images), self.batch):
            part = images[start:start + self.batch]
            given = part
            if self.fixed and len(part) < self.batch:  # an encoder for batches of one size
                given = np.concatenate([part, np.repeat(part[-1:], self.batch - len(part), 0)])
            parts.append(self._codes(self.apply(self.preparation(given)), len(given))[:len(part)])
        return np.concatenate(parts)

    def _codes(self, found: Any, num: int) -> np.ndarray:
        codes = as_array(chosen_output(found, self.output))
        codes = codes.reshape(num, -1) if codes.ndim > 2 and codes.size == num * codes.shape[1] \
            else codes
        if codes.ndim != 2 or len(codes) != num:
            raise UserError(f"the encoder gave the shape {list(codes.shape)} for {num} images: "
                            "codes are [sample, latent]; choose another output with --output")
        return codes


def chosen_output(found: Any, wanted: str | None) -> Any:
    """One array among what an encoder gave; `wanted` is a name, or the number of one."""
    if isinstance(found, Mapping) or hasattr(found, "keys"):
        held = {str(k): found[k] for k in found.keys() if found[k] is not None}  # noqa: SIM118
    elif isinstance(found, Sequence) and not isinstance(found, str):
        fields = getattr(found, "_fields", None)
        held = dict(zip(fields or map(str, range(len(found))), found))
    else:
        if wanted not in (None, "0"):
            raise UserError(f"the encoder gives one output, not {wanted!r}: leave --output out")
        return found
    if wanted is not None:
        if wanted not in held and not (wanted.isdigit() and int(wanted) < len(held)):
            raise UserError(f"the encoder has no output {wanted!r}: it gives {', '.join(held)}")
        return held[wanted] if wanted in held else list(held.values())[int(wanted)]
    known = [name for name in NAMES if name in held]
    if not held:
        raise UserError("the encoder gave nothing")
    return held[known[0]] if known else next(iter(held.values()))


def open_encoder(spec: str, image_shape: tuple[int, int, int], *,
                 preparation: Preparation | None = None, output: str | None = None,
                 device: str = "cpu") -> Encoder:
    """The encoder that `spec` names; see the module. UserError if it cannot be opened."""
    said, path = preparation or Preparation(), written_path(spec)
    if (path / "run.json").exists():
        run = load(path, device=device)
        return Encoder(run.encode, said.otherwise(Preparation("nhwc", dtype="uint8")),
                       output=output)
    if spec.startswith("hf:") or (path.is_dir() and (path / "config.json").exists()):
        return _transformers(spec.removeprefix("hf:"), said, output, device)
    suffix = path.suffix.lower()
    if suffix in (".onnx", ".pt", ".pth", ".ts", ".pt2"):
        if not path.is_file():
            raise UserError(f"{path} does not exist: give the file of an encoder")
        if suffix == ".onnx":
            return _onnx(path, image_shape, said, output)
        return _torch(path, said, output, device)
    if ":" in spec:
        return _python(spec, said, output, device)
    raise UserError(f"{spec!r} is no encoder: give a file (.onnx, .pt, .pt2), "
                    "package.module:function, hf:NAME or the folder of a transformers model")


def score_encoder(encoder: Callable[[np.ndarray], np.ndarray], dataset: FactorDataset, *,
                  metrics: Sequence[str] | None = None, convention: str = "study2019",
                  seed: int = 0, cells: str = "all", **overrides: Any) -> list[Score]:
    """Scores of any function from images (bytes) to codes, on a data set of ours."""
    space, rows = dataset.part(cells)

    def encode(index: np.ndarray) -> np.ndarray:
        index = rows[index]
        if not len(index):  # a metric that draws no image asks a model, and says what it lacks
            return np.zeros((0, 1))
        return np.concatenate([as_array(encoder(dataset.images(index[i:i + 4096], seed=seed)))
                               for i in range(0, len(index), 4096)])

    if metrics is None:  # metrics of a model need a decoder or a posterior, which is not here
        from unweave.metrics import METRICS

        metrics = [name for name, metric in METRICS.items() if metric.default and not metric.needs
                   and (space.has_factors or not metric.supervised or (
                       dataset.labels is not None and not metric.interventional))]
    return score_dataset(encode, space, labels=dataset.labels, metrics=metrics,
                         convention=convention, seed=seed, **overrides)


def _onnx(path: Path, image_shape: tuple[int, int, int], said: Preparation,
          output: str | None) -> Encoder:
    try:
        import onnxruntime
    except ImportError:
        raise UserError("an ONNX encoder needs onnxruntime, which is not installed: "
                        "pip install 'unweave[onnx]'") from None
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class of their own
        raise UserError(f"{path} cannot be opened by onnxruntime "
                        f"({str(error).splitlines()[0]})") from None
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise UserError(f"{path} has {len(inputs)} inputs "
                        f"({', '.join(entry.name for entry in inputs)}): an encoder has one")
    types = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64",
             "tensor(uint8)": "uint8"}
    if inputs[0].type not in types:
        raise UserError(f"the input of {path} is {inputs[0].type}: images are floats or bytes")
    found = from_shape(inputs[0].shape, image_shape, types[inputs[0].type])
    if found.size not in (None, image_shape[:2]) and said.size is None:
        height, width = found.size
        raise UserError(f"{path} wants images of {height}x{width}, the data have "
                        f"{image_shape[0]}x{image_shape[1]}: add --size {height}x{width} to "
                        "resize them")
    names = [entry.name for entry in session.get_outputs()]
    wanted = names if output is None or output not in names else [output]

    def apply(images: np.ndarray) -> dict[str, np.ndarray]:
        try:
            return dict(zip(wanted, session.run(wanted, {inputs[0].name: images})))
        except Exception as error:
            raise UserError(f"{path} failed on images of the shape {list(images.shape)} "
                            f"({str(error).splitlines()[0]}): try --layout and --channels"
                            ) from None

    batch = inputs[0].shape[0]
    fixed = isinstance(batch, int) and batch > 0
    return Encoder(apply, said.otherwise(found), output=output, batch=batch if fixed else BATCH,
                   fixed=fixed)


def _torch(path: Path, said: Preparation, output: str | None, device: str) -> Encoder:
    try:
        with warnings.catch_warnings():  # TorchScript is deprecated, and users still have it
            warnings.simplefilter("ignore")
            if path.suffix == ".pt2":
                model = torch.export.load(path).module()
            else:
                model = torch.jit.load(str(path), map_location=device).eval()
    except Exception as error:
        raise UserError(f"{path} is neither TorchScript nor an exported program "
                        f"({_first_sentence(error)}): a file of weights alone has no "
                        "network; use package.module:function, or `unweave import-checkpoint`"
                        ) from None
    return Encoder(_tensor_function(model, device, str(path)), said.otherwise(Preparation("nchw")),
                   output=output)


def _first_sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].partition(". ")[0] if lines else type(error).__name__


def _tensor_function(model: Callable[..., Any], device: str, name: str) -> Apply:
    def apply(images: np.ndarray) -> Any:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return model(torch.from_numpy(images).to(device))
            except (RuntimeError, AssertionError, TypeError) as error:
                lines = str(error).strip().splitlines()
                reason = lines[-1] if lines else type(error).__name__
                raise UserError(f"{name} failed on images of the shape {list(images.shape)} "
                                f"({reason}): try --layout, --channels and --size") from None

    return apply


def _python(spec: str, said: Preparation, output: str | None, device: str) -> Encoder:
    module_name, _, name = spec.partition(":")
    try:
        with _importing_from_here():
            found: Any = importlib.import_module(module_name)
            for part in name.split("."):
                found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{spec!r} cannot be imported ({error}): write package.module:function, "
                        "as you would import it here") from None
    if isinstance(found, torch.nn.Module):
        return Encoder(_tensor_function(found.to(device).eval(), device, spec),
                       said.otherwise(Preparation("nchw")), output=output)
    if isinstance(found, type) or not callable(found):
        raise UserError(f"{spec} is no function of images: name a function, or a module that "
                        "has been made")

    def apply(images: np.ndarray) -> Any:
        with _importing_from_here():  # a function may import what it needs when it is called
            return found(images)

    return Encoder(apply, said.otherwise(Preparation("nhwc")), output=output)


@contextmanager
def _importing_from_here() -> Iterator[None]:
    """Modules of the current folder can be imported, as in `python -m`."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _transformers(name: str, said: Preparation, output: str | None, device: str) -> Encoder:
    try:
        import transformers
    except ImportError:
        raise UserError("a model of the Hub needs transformers, which is not installed: "
                        "pip install 'unweave[hf]'") from None
    try:
        model = transformers.AutoModel.from_pretrained(name).to(device).eval()
        settings = _processor(name)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"{name} is no model that transformers can load "
                        f"({str(error).strip().splitlines()[0]})") from None
    found = Preparation("nchw", None, int(getattr(model.config, "num_channels", 3)),
                        settings.get("size") or _size(getattr(model.config, "image_size", None)),
                        mean=settings.get("mean"), std=settings.get("std"))

    def apply(pixels: torch.Tensor) -> Any:
        given = {k: v for k, v in model(pixel_values=pixels).items() if v is not None}
        if output is None and not any(k in given for k in NAMES) and "last_hidden_state" in given:
            hidden = given["last_hidden_state"]  # tokens, or a map of channels
            return hidden.mean(1) if hidden.ndim == 3 else hidden.flatten(2).mean(2)
        return {k: v.flatten(1) if v.ndim == 4 and v.shape[2:] == (1, 1) else v
                for k, v in given.items() if isinstance(v, torch.Tensor)}

    return Encoder(_tensor_function(apply, device, name), said.otherwise(found), output=output,
                   batch=64)


def _processor(name: str) -> dict[str, Any]:
    """Size, mean and deviation that a model was trained with, from its preprocessor's file."""
    path = Path(name) / "preprocessor_config.json"
    if not Path(name).is_dir():
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError

        try:
            path = Path(hf_hub_download(name, "preprocessor_config.json"))
        except EntryNotFoundError:
            return {}
    if not path.exists():
        return {}
    record = json.loads(path.read_text())
    normalised = record.get("do_normalize", True) and record.get("image_mean")
    return {"size": _size(record.get("size")),
            "mean": tuple(record["image_mean"]) if normalised else None,
            "std": tuple(record["image_std"]) if normalised else None}


def _size(said: Any) -> tuple[int, int] | None:
    if isinstance(said, Mapping):
        if "height" in said:
            return int(said["height"]), int(said["width"])
        said = said.get("shortest_edge")
    if isinstance(said, list | tuple):
        return int(said[0]), int(said[-1])
    return None if said is None else (int(said), int(said))
