"""Sheets of images that a run makes: traversals, samples, noise, seeds, classes, clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from unweave.config import RunConfig
from unweave.data import shown_name
from unweave.random import Purpose, numpy_generator
from unweave.report.pictures.latents import UNUSED, Latents, letter_text, run_title
from unweave.report.pictures.picture import NoPicture, Sheet
from unweave.training import Run

_SHARE = "percent: information shared with the factor, of the factor's entropy"
_OF_GENERATORS = (" A generator's codes have no KL: MI is how much made images tell of a code, at "
                  "least. One draw of noise makes all images.")
_MOST_CLUSTERS = 20


def traversals(latents: Latents, *, image: int | str = "typical", span: float | None = None,
               num: int = 11) -> Sheet:
    """Each latent moved from -span to span, the largest KL first, with KL and factor beside it.

    Of a generator, MI takes the place of KL.

    The others stay at the code of `image`: an index, `typical` (the one nearest to zero among
    those looked at), or `zero` for no image.
    """
    start, where = latents.start(image)
    span = latents.span if span is None else span
    rows, labels = _walks(latents, start, latents.order, span, num)
    footer = f"Each row moves one latent {latents.extent(span)}; the others stay at {where}."
    if any(latents.run.num_values):
        footer += " Categorical latents (c) walk through their classes."
    if latents.factor_names:
        footer += f" {latents.measure} in nats; {_SHARE}."
    if latents.run.is_generator:
        footer += _OF_GENERATORS
    return Sheet("traversals", f"traversals of the latents, sorted by {latents.measure}",
                 run_title(latents.run), rows, labels, footer)


def _walks(latents: Latents, start: np.ndarray | None, chosen: list[int], span: float, num: int,
           which: str = "") -> tuple[list[np.ndarray], list[tuple[str, str]]]:
    """Rows of images and their labels. Of a categorical latent each class is there once, in as many
    rows as that takes.
    """
    rows, labels = [], []
    moved = [j for j in chosen if not latents.run.num_values[j]]
    walked = dict(zip(moved, latents.walks(start, moved, span, num) if moved else ()))
    for j in chosen:
        classes = np.arange(latents.run.num_values[j])
        parts = [classes[i:i + num] for i in range(0, len(classes), num)]
        rows += [walked[j]] if j in walked else [latents.at_classes(start, j, p) for p in parts]
        labels += [(f"{latents.name(j)}  {which}".rstrip(), latents.remark(j)),
                   *((latents.name(j), f"classes from {p[0]}") for p in parts[1:])]
    return rows, labels


def reconstructions(latents: Latents, *, image: int | str = "typical", span: float | None = None,
                    num: int = 11) -> Sheet:
    """Originals, their reconstructions, and traversals around the first. Kim & Mnih 2018, fig. 6.

    `image` is the first original, as for `traversals`; the others are drawn.
    """
    run, span = latents.run, latents.span if span is None else span
    index = run.dataset.space.draw(num, numpy_generator(latents.seed, Purpose.EVALUATION, 1))
    index[0] = (latents.typical if image in ("typical", "zero")
                else run.dataset.space.checked(int(image))[0])
    images = run.dataset.images(index, seed=latents.seed)
    walks, names = _walks(latents, images[0], latents.order, span, num)
    labels = [("original", shown_name(run.dataset.name)), ("reconstruction", "from the mean code"),
              *names]
    footer = (f"Below: traversals around the first original, each latent {latents.extent(span)}, "
              f"sorted by {latents.measure} in nats.")
    if latents.factor_names:
        footer += f" {_SHARE.capitalize()}."
    if run.is_generator:
        footer += _OF_GENERATORS
    return Sheet("reconstructions", "originals, reconstructions and traversals around the first",
                 run_title(run), [images / 255.0, run.reconstruct(images), *walks], labels,
                 footer, breaks=(2,))


def noise(latents: Latents, *, num_images: int = 8, num: int = 10) -> Sheet:
    """Images, and what their codes give with other noise. Kim & Mnih 2018, figures 26, 30, 31.

    Each row begins with an image of the data set; its code is fixed and the noise drawn anew.
    """
    run = latents.run
    if not run.is_generator:
        raise NoPicture(f"{run.config.method} has no noise beside its codes: infogan and "
                        "infowgan_gp have it")
    index = run.dataset.space.draw(num_images, numpy_generator(latents.seed, Purpose.EVALUATION, 1))
    images = run.dataset.images(index, seed=latents.seed)
    drawn = run.generator_noise(num, seed=latents.seed)
    rows = [np.concatenate([image[None] / 255.0, run.decode(np.repeat(code[None], num, axis=0),
                                                            noise=drawn)])
            for image, code in zip(images, run.encode(images))]
    return Sheet("noise", "images, and what their codes give with other noise", run_title(run),
                 rows, [(f"image {i}", "then its code, noise drawn anew") for i in index],
                 "First in each row: an image of the data set. Its code is fixed, the noise of a "
                 "column is the same in all rows.")


def seeds(latents: Latents, *, beside: Sequence[Run] = (), span: float | None = None,
          num: int = 11) -> Sheet:
    """Traversals of several runs below each other. Kim & Mnih 2018, figures 25, 27 to 29, 35, 36.

    Of each run the latents in use; all of them of a generator. A categorical one walks through
    its classes.
    """
    if not beside:
        raise NoPicture("there is one run only: name others, or a folder of runs, with --beside "
                        "(in Python beside=[run, ...])")
    rows, labels, breaks = [], [], []
    apart = told_apart([run.config for run in (latents.run, *beside)])
    others = (Latents(run, num=latents.num, seed=latents.seed) for run in beside)
    for own, which in zip((latents, *others), apart):
        shape = own.run.dataset.image_shape
        if shape != latents.run.dataset.image_shape:
            raise NoPicture(f"{own.run.run_id} has images of another shape than "
                            f"{latents.run.run_id}: choose runs of one data set")
        breaks.append(len(rows))
        used = [j for j in own.order if own.run.is_generator or own.nats[j] >= UNUSED]
        used = used or own.order[:1]
        made, names = _walks(own, own.start("typical")[0], used,
                             own.span if span is None else span, num, which)
        rows, labels = rows + made, labels + names
    return Sheet("seeds", "traversals of several runs below each other",
                 f"{len(beside) + 1} runs on {shown_name(latents.run.dataset.name)}", rows, labels,
                 "Each row moves one latent of one run; categorical latents (c) walk through their "
                 f"classes. Sorted by {latents.measure} within a run.",
                 breaks=tuple(breaks[1:]))


def told_apart(configs: Sequence[RunConfig]) -> list[str]:
    """For each run what others of its method have otherwise: options, letters, seed.

    The seed also where nothing differs; the method where there are several.
    """
    several = len({config.method for config in configs}) > 1
    seeds = {config.seed for config in configs}
    values: dict[tuple[str, str], set[Any]] = {}
    for config in configs:
        for name, value in _choices(config):
            values.setdefault((config.method, name), set()).add(value)
    found = []
    for config in configs:
        words = [letter_text(name, value) for name, value in _choices(config)
                 if len(values[config.method, name]) > 1 and value != ""]
        if len(seeds) > 1 or not words:
            words.append(f"seed {config.seed}")
        found.append(" ".join([config.method, *words] if several else words))
    return found


def _choices(config: RunConfig) -> list[tuple[str, Any]]:
    """Options and letters of a run, but for its method and its seed."""
    options = [(field.name, getattr(config, field.name)) for field in fields(config)
               if field.name not in ("method", "seed", "hyper", "data")]
    return [("data", shown_name(config.data)), *options, *config.hyper]


def samples(latents: Latents, *, num: int = 66, columns: int = 11) -> Sheet:
    """Images decoded from draws of the prior."""
    images = latents.run.sample(num, seed=latents.seed)
    rows = [images[i:i + columns] for i in range(0, num, columns)]
    return Sheet("samples", "images decoded from draws of the prior",
                 f"{run_title(latents.run)}: draws of the prior", rows)


def categories(latents: Latents, *, num: int = 10) -> Sheet:
    """For each class of each categorical latent: what it decodes to, and images that it is given.

    The first image of a row is decoded from the class with all other latents at zero; the others
    are images of the data set that the encoder puts there, the most certain first.
    """
    run = latents.run
    sizes = [(j, size) for j, size in enumerate(run.num_values) if size]
    if not sizes:
        raise NoPicture(f"{run.config.method} has no categorical latents: joint_vae and infogan "
                        "have some")
    rows, labels, breaks = [], [], []
    for (j, size), chances in zip(sizes, latents.chances):
        breaks.append(len(rows))
        given = chances.argmax(1)
        decoded = run.decode(_at_class(run.num_values, j, np.arange(size)))
        for value in range(size):
            own = np.flatnonzero(given == value)
            best = own[np.argsort(-chances[own, value], kind="stable")][:num]
            row = run.dataset.images(latents.index[best], seed=latents.seed) / 255.0
            rows.append(np.concatenate([decoded[value:value + 1], row.astype(np.float32)]))
            labels.append((f"{latents.name(j)} = {value}", f"{len(own) / len(given):.0%} of images"
                           + _mostly(latents, own)))
    return Sheet("categories", "classes of the categorical latents", run_title(run), rows, labels,
                 "First in each row: the class decoded, all else at zero. Then images of the data "
                 "set that the encoder puts into the class, the most certain first.",
                 breaks=tuple(breaks[1:]))


def _at_class(num_values: tuple[int, ...], j: int, classes: np.ndarray) -> np.ndarray:
    codes = np.zeros((len(classes), len(num_values)), np.float32)
    codes[:, j] = classes
    return codes


def _mostly(latents: Latents, rows: np.ndarray) -> str:
    """The categorical factor's value that most images of a class have."""
    space = latents.run.dataset.space
    named = [k for k, kind in enumerate(space.types) if kind.name == "categorical"]
    if not named or not len(rows):
        return ""
    counts = np.bincount(latents.factors[rows, named[0]], minlength=space.sizes[named[0]])
    value = space.values[named[0]][int(counts.argmax())]
    return f", {space.names[named[0]]} {value}: {counts.max() / counts.sum():.0%}"


@runtime_checkable
class Clustered(Protocol):
    """What a run of a method with clusters, such as VaDE, can do beside the rest."""

    @property
    def num_clusters(self) -> int:
        """How many there are; 0 if none."""

    def clusters(self, images: np.ndarray) -> np.ndarray:
        """The cluster of each image, `[sample]`."""

    def sample_cluster(self, k: int, num: int = 16, *, seed: int = 0) -> np.ndarray:
        """Images decoded from draws of one cluster."""


def clusters(latents: Latents, *, num: int = 6) -> Sheet:
    """For each cluster: draws of it decoded, then images that belong to it. Jiang et al. 2017."""
    run = latents.run
    if not isinstance(run, Clustered) or not run.num_clusters:
        raise NoPicture(f"{run.config.method} has no clusters in its latents: this picture is for "
                        "methods with a mixture for a prior")
    images = run.dataset.images(latents.index, seed=latents.seed)
    given = run.clusters(images)
    sizes = np.bincount(given, minlength=run.num_clusters)
    rows, labels = [], []
    for cluster in np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS]:
        own = np.flatnonzero(given == cluster)
        made = run.sample_cluster(int(cluster), num, seed=latents.seed)
        rows.append(np.concatenate([made, (images[own[:num]] / 255.0).astype(np.float32)]))
        labels.append((f"cluster {cluster}", f"{sizes[cluster] / len(given):.0%} of images"
                       + _mostly(latents, own)))
    footer = (f"First {num}: draws of the cluster, decoded. Then images of the data set that "
              "belong to it. The largest clusters come first.")
    if run.num_clusters > _MOST_CLUSTERS:
        footer += f" The {_MOST_CLUSTERS} largest of {run.num_clusters} clusters."
    return Sheet("clusters", "draws and members of each cluster", run_title(run), rows, labels,
                 footer)
