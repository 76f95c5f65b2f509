"""Checkpoints of disentangling-vae (Dubois et al. 2019) as runs: trained there, scored here.

That library stores `model.pt`, a dictionary of weights, and `specs.json`, what was asked for. Its
Burgess network is our `burgess2018` (`burgess2018-32` for images of 32x32) with other names,
channels first, and a head in which mean and log-variance of a latent lie side by side. Weights
change their places and nothing else; files are opened without executing what is in them.

The run's `init` says where it comes from, which keeps its id apart from runs of our own.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unweave.config import FORMAT, RunConfig
from unweave.data import DATASETS, absolute_spec, checked_spec, parse_spec
from unweave.nn import ARCHITECTURES
from unweave.nn.plain import from_plain
from unweave.objectives import LIKELIHOODS, letters
from unweave.training import folder as files
from unweave.training.loop import versions
from unweave.types import Params, UserError, unknown_name

SOURCE = "disentangling-vae"

_NAMES = {
    "encoder": ("conv1", "conv2", "conv3", "conv_64", "lin1", "lin2", "mu_logvar_gen"),
    "decoder": ("lin1", "lin2", "lin3", "convT_64", "convT1", "convT2", "convT3"),
}
"""Its layers in the order in which data pass; those with 64 are there for images of 64x64 alone."""

_DATA = {"dsprites": "dsprites", "celeba": "celeba,crop=none", "mnist": "mnist,fit=resize",
         "chairs": "chairs3d,channels=1,crop=400", "fashion": "fashion_mnist,fit=resize"}
"""Its data sets, with the options by which ours are framed as there."""

_METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "VAE": ("vae", {}),
    "betaH": ("beta_vae", {"beta": "betaH_B"}),
    "betaB": ("annealed_vae", {"gamma": "betaB_G", "c_max": "betaB_finC",
                               "anneal_steps": "reg_anneal"}),
    "factor": ("factor_vae", {"gamma": "factor_G", "critic_rate": "lr_disc"}),
    "btcvae": ("beta_tcvae", {"alpha": "btcvae_A", "beta": "btcvae_B", "gamma": "btcvae_G"}),
}
"""Its losses: our method, and our letters with the names they have there."""


def import_checkpoint(file: str | Path, *, out: str | Path = "runs",
                      specs: str | Path | None = None, data: str | None = None) -> Path:
    """Write the run folder of a checkpoint into `out`, and give its path.

    `file` is a model.pt or the folder of one; `specs` its specs.json, by default the one beside
    it. `data` is the data set to score it on, by default the one that the specs name.
    """
    file = Path(file)
    file = file / "model.pt" if file.is_dir() else file
    state = _weights(file)
    said = _specs(file, specs)
    num_latents, shape = _sizes(file, state)
    architecture = ARCHITECTURES["burgess2018" if shape[0] == 64 else "burgess2018-32"]
    params = from_plain(architecture, shape, 2 * num_latents, num_latents,
                        _renamed(state, architecture.name))
    config = _config(said, data, num_latents, shape, architecture.name)
    folder = Path(out) / config.run_id
    if folder.exists():
        raise UserError(f"{folder} exists already: this checkpoint was imported before; remove it "
                        "or give another --out")
    Path(out).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{config.run_id}.", dir=out) as scratch:
        made = Path(scratch) / config.run_id
        _write(made, config, params, {"from": SOURCE, "file": file.name, "specs": said,
                                      "sha256": hashlib.sha256(file.read_bytes()).hexdigest()})
        made.replace(folder)  # it appears when all of it is there
    return folder


def _write(folder: Path, config: RunConfig, params: Params, source: dict[str, Any]) -> None:
    files.write_config(folder, config)
    files.write_tensors(folder / "weights.safetensors", params,
                        {"format": str(FORMAT), "run_id": config.run_id})
    files.write_curves(folder, config.run_id, {"step": []})
    files.write_json(folder / "run.json", {
        "format": FORMAT, "run_id": config.run_id, "status": "done", "diverged_at": None,
        "versions": versions(), "device": "unknown", "path": "imported", "trained_beside": 0,
        "seconds": 0.0, "wall_seconds_of_the_stack": 0.0, "imported": source})


def _weights(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise UserError(f"{file} does not exist: give a model.pt, or the folder of one")
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a file that is no pickle stops torch's reader in any way
        # Its first sentence: torch goes on to advise what this command cannot and must not do.
        lines = str(error).strip().splitlines()
        reason = lines[0].partition(". ")[0] if lines else type(error).__name__
        raise UserError(f"{file} is not a file of weights that can be opened safely ({reason}): "
                        "save a state_dict with torch.save") from None
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise UserError(f"{file} holds no weights by name: save model.state_dict() with torch.save")
    return {str(name).removeprefix("module."): value for name, value in found.items()}


def _sizes(file: Path, state: Mapping[str, Tensor]) -> tuple[int, tuple[int, int, int]]:
    """Latents, and height, width and channels of the images."""
    try:
        head, first = state["encoder.mu_logvar_gen.weight"], state["encoder.conv1.weight"]
        side = 64 if "encoder.conv_64.weight" in state else 32
        if head.shape[0] % 2:
            raise UserError(f"{file} is damaged: its head has {head.shape[0]} rows, and each "
                            "latent needs two")
        return head.shape[0] // 2, (side, side, first.shape[1])
    except (KeyError, IndexError):
        held = ", ".join(list(state)[:4])
        raise UserError(f"{file} is not a Burgess model of {SOURCE}, whose weights are called "
                        f"encoder.conv1.weight, encoder.mu_logvar_gen.weight, ...: it holds {held}"
                        ) from None


def _renamed(state: Mapping[str, Tensor], architecture: str) -> dict[str, Tensor]:
    """Its weights under the names of `nn.plain`, the head with all means first."""
    found = {}
    for side, names in _NAMES.items():
        there = [name for name in names if f"{side}.{name}.weight" in state]
        layers = getattr(ARCHITECTURES[architecture], side)
        if len(there) != len(layers):
            raise UserError(f"the {side} of this checkpoint has {len(there)} layers of "
                            f"{SOURCE}'s Burgess network, which has {len(layers)}: it is damaged, "
                            "or another network")
        for name, layer in zip(there, layers):
            for part in ("weight", "bias"):
                value = state.get(f"{side}.{name}.{part}")
                if value is None:
                    continue
                if name == "mu_logvar_gen":  # mu_0, logvar_0, mu_1, logvar_1, ...
                    value = value.unflatten(0, (-1, 2)).transpose(0, 1).flatten(0, 1)
                found[f"{side}.{layer.name}.{part}"] = value
    return found


def _specs(file: Path, specs: str | Path | None) -> dict[str, Any]:
    beside = file.with_name("specs.json")
    if specs is None and not beside.exists():
        return {}
    return files.read_json(Path(specs) if specs is not None else beside)


def _config(said: Mapping[str, Any], data: str | None, num_latents: int,
            shape: tuple[int, int, int], architecture: str) -> RunConfig:
    if data is None:
        if "dataset" not in said:
            raise UserError("there is no specs.json that names the data set: give --specs FILE, "
                            "or --data NAME")
        if str(said["dataset"]) not in _DATA:
            raise UserError(f"the checkpoint was trained on {said['dataset']!r}, which is not a "
                            "data set here: give images of that kind with --data")
        data = _DATA[said["dataset"]]
    else:
        checked_spec(data)
    loss, likelihood = str(said.get("loss", "VAE")), str(said.get("rec_dist", "bernoulli"))
    if likelihood not in LIKELIHOODS:
        raise unknown_name(f"rec_dist of {SOURCE}", likelihood, LIKELIHOODS)
    if loss not in _METHODS:
        raise unknown_name(f"loss of {SOURCE}", loss, _METHODS)
    method, names = _METHODS[loss]
    hyper: dict[str, Any] = {name: letter.default for name, letter in letters(method).items()}
    try:
        # Not checked against our ranges: what was trained there was trained, alpha = -5 as well.
        hyper |= {ours: float(said[theirs]) for ours, theirs in names.items() if theirs in said}
        batch, epochs = int(said.get("batch_size", 64)), int(said.get("epochs", 0))
        seed, rate = int(said.get("seed", 0)), float(said.get("lr", 5e-4))
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"the specs hold a value that is not a number: {json.dumps(dict(said))}"
                        ) from None
    if batch < 1:
        raise UserError(f"the specs hold batch_size {batch}, which must be at least 1")
    name = parse_spec(data)[0]
    space = DATASETS[name].space if name in DATASETS else None
    steps = epochs * math.ceil(len(space) / batch) if space is not None else 0
    return RunConfig(method=method, data=absolute_spec(data), seed=seed, steps=max(steps, 1),
                     batch_size=batch, num_latents=num_latents, architecture=architecture,
                     likelihood=likelihood, init=SOURCE,
                     learning_rate=rate, hyper=tuple(sorted(hyper.items())))
