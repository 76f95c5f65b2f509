"""Sheets of generators: seeds side by side, and noise varied while the code is fixed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.random import Purpose, numpy_generator
from unweave.report.pictures.picture import Sheet
from unweave.training import Run
from unweave.types import UserError


def noise_sheet(run: Run, *, num_images: int = 8, num: int = 10, seed: int = 0) -> Sheet:
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
    return Sheet("noise", "Images, and what their codes give with other noise",
                 f"{run.config.method}  {run.run_id}", rows,
                 [(f"image {i}", "then noise varied") for i in index],
                 "the code of the first image is fixed, the noise is drawn anew")


def seeds_sheet(runs: Sequence[Run], *, span: float = 1.0, num: int = 10) -> Sheet:
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
    return Sheet("seeds", "Traversals of every code of several runs",
                 f"{runs[0].config.method} on {runs[0].dataset.name}", rows, labels,
                 f"each row moves one code from {-span:g} to {span:g}, or through classes")
