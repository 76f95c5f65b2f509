"""Sheets of generators and clusters: seeds side by side, noise varied, samples of each cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from unweave.random import Purpose, numpy_generator
from unweave.report.sheets import grid
from unweave.training import Run
from unweave.types import UserError


def noise_sheet(run: Run, *, num_images: int = 8, num: int = 10, seed: int = 0) -> Image.Image:
    """Images, and what their codes give with other noise. Kim & Mnih 2018, figures 26, 30, 31.

    Each row begins with an image of the data set; its code is fixed and the noise drawn anew.
    """
    if not run.is_generator:
        raise UserError(f"{run.config.method} has no noise beside its codes: give a run of "
                        "infogan or infowgan_gp")
    index = run.dataset.space.draw(num_images, numpy_generator(seed, Purpose.EVALUATION, 1))
    images = run.dataset.images(index, seed=seed)
    noise = run.generator_noise(num, seed=seed)
    rows = [np.concatenate([image[None] / 255.0, run.decode(np.repeat(code[None], num, axis=0),
                                                            noise=noise)])
            for image, code in zip(images, run.encode(images))]
    return grid(rows, [(f"image {i}", "then noise varied") for i in index],
                title=f"{run.config.method}  {run.run_id}",
                footer="the code of the first image is fixed, the noise is drawn anew")


def seeds_sheet(runs: Sequence[Run], *, span: float = 1.0, num: int = 10) -> Image.Image:
    """Traversals of every code of several runs. Kim & Mnih 2018, figures 25, 27, 28, 29, 35, 36.

    A categorical code walks through its classes.
    """
    if not runs:
        raise UserError("there is no run to draw")
    rows, labels = [], []
    for run in runs:
        for j, pictures in enumerate(run.traverse(span=span, num=num)):
            kind = "c" if run.num_values[j] else "z"
            rows.append(pictures)
            labels.append((f"{kind}{j}", f"seed {run.config.seed}"))
    return grid(rows, labels, title=f"{runs[0].config.method} on {runs[0].dataset.name}",
                footer=f"each row moves one code from {-span:g} to {span:g}, or through classes")


def cluster_sheet(run: Run, *, num: int = 10, seed: int = 0) -> Image.Image:
    """Samples of each cluster, a row each, with its share of the images."""
    index = run.dataset.space.draw(min(4000, len(run.dataset)),
                                   numpy_generator(seed, Purpose.EVALUATION))
    found = run.clusters_of(run.heads_at(index, seed))
    shares = np.bincount(found, minlength=run.num_clusters) / len(found)
    rows = [run.sample_cluster(k, num, seed=seed) for k in range(run.num_clusters)]
    return grid(rows, [(f"cluster {k}", f"{share:.1%} of images")
                       for k, share in enumerate(shares)],
                title=f"{run.config.method}  {run.run_id}  on {run.dataset.name}")
