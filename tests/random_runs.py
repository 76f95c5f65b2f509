"""Runs that nobody trained: random weights, biases and running statistics, none of them zero.

Every latent does something to their pictures, which a few steps of training would not give.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from unweave.config import RunConfig
from unweave.data import table_dataset
from unweave.nn import ARCHITECTURES
from unweave.objectives import METHODS, complete, pick
from unweave.objectives.mixture import named
from unweave.training import folder as files
from unweave.training.run import Run


def noise(shape, seed=0):
    """Eight images of noise with one factor."""
    images = np.random.default_rng(seed).integers(0, 256, (8, *shape), dtype=np.uint8)
    return table_dataset(images, np.arange(8)[:, None], ("place",), name="noise")


def random_run(architecture="conv64-small", *, method="beta_vae", data=None, shape=(64, 64, 1),
               seed=0, precision="float32", num_latents=5, **letters):
    """A run in memory, on images of noise if no data set is given."""
    draw, data = np.random.default_rng(seed), data or noise(shape)
    config = RunConfig(method, data.name, architecture=architecture, num_latents=num_latents,
                       precision=precision, seed=seed, hyper=complete(method, letters))
    posterior, given = METHODS[method].posterior, dict(config.hyper)
    sizes = posterior.head_size(num_latents, given), posterior.code_size(num_latents, given)
    network = ARCHITECTURES[architecture]
    tensors = {}
    for name, entry in network.parameters(data.image_shape, *sizes).items():
        scale = 0.3 if entry.is_bias or entry.fill is not None else 1.5 * entry.fan_in**-0.5
        tensors[name] = (entry.fill or 0.0) + scale * draw.standard_normal(entry.shape)
    for name, entry in network.buffers(data.image_shape, *sizes).items():
        tensors[name] = entry.fill + 0.5 * draw.random(entry.shape)
    prior = METHODS[method].prior
    if prior is not None:
        for name, entry in named(prior.init(num_latents, **pick(prior.init, given))).items():
            tensors[name] = draw.standard_normal(entry.shape)
    params = {k: torch.tensor(v, dtype=torch.float32)[None] for k, v in tensors.items()}
    return Run(config, params, {"step": [0], "loss": [1.0]}, {"status": "done"}, data,
               device=torch.device("cpu"))


def write_run(run, parent, scores=()):
    """A run folder of a run in memory, with scores as (key, value); the folder."""
    folder = parent / run.run_id
    files.write_config(folder, run.config)
    files.write_tensors(folder / "weights.safetensors", {k: t[0] for k, t in run.params.items()},
                        {})
    files.write_curves(folder, run.run_id, run.curves)
    if scores:
        rows = [score_row(run, key, value) for key, value in scores]
        pq.write_table(pa.Table.from_pylist(rows), folder / "scores.parquet")
    files.write_json(folder / "run.json", {"format": 1, "status": run.status})
    return folder


def score_row(run, key, value):
    """A row of scores with what a list of runs looks at."""
    return {"run_id": run.run_id, "key": key, "value": value, "metric": key.split(".")[0],
            "convention": "study2019", "version": "1", "seed": 0, "settings": "{}",
            "higher_is_better": key != "irs_gap"}
