"""Perceptual path length: how much images change along a path of codes. Karras et al. 2019.

For codes z_1, z_2 of the prior, a place t in [0, 1] and a small step e,

    l = E [ d( g(slerp(z_1, z_2; t)), g(slerp(z_1, z_2; t + e)) ) / e^2 ],

with g the decoder and d a squared distance: of pixels, or of what the model's own encoder makes of
both images, which stands for the network that is trained on photographs in the paper. Kaddah et al.
2020, section 5, name it as a measure that needs no factors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.metrics.arrays import ArrayLike
from unweave.metrics.encoding import as_finite
from unweave.metrics.record import Key, Metric
from unweave.metrics.sampling import draw_nothing
from unweave.types import Range, UserError

AT_ONCE = 500
"""Paths whose images are held at once."""


def path_length(codes: ArrayLike | None = None, factors: ArrayLike | None = None, *,
                prior: Callable[[int], np.ndarray], decode: Callable[[np.ndarray], np.ndarray],
                features: Callable[[np.ndarray], np.ndarray],
                num_values: ArrayLike | None = None, num_paths: int = 10_000,
                epsilon: float = 1e-4) -> dict[str, float]:
    """Mean squared speeds of `num_paths` paths; `codes` and `factors` are not used.

    Places t are spread evenly over [0, 1], one for each path. Categorical latents (`num_values`)
    stay at the class of the first end: there is no way between classes.

    A decoder that copies its codes moves as they do, by a quarter circle from (1, 0) to (0, 1):

    >>> made = path_length(prior=lambda num: np.resize([[1.0, 0.0], [0.0, 1.0]], (num, 2)),
    ...                    decode=lambda z: z, features=lambda x: 2 * x, num_paths=5)
    >>> {key: round(value, 4) for key, value in made.items()}
    {'path_length.pixel': 2.4674, 'path_length.encoder': 9.8696}
    """
    speeds = path_speeds(prior=prior, decode=decode, features=features, num_values=num_values,
                         num_paths=num_paths, epsilon=epsilon)
    return {key: float(values.mean()) for key, values in speeds.items()}


def slerp(first: np.ndarray, second: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The way from one code to the other with an even turn; `t` is `[path, 1]`.

    As in the paper, directions are interpolated on the sphere. Lengths, which the paper sets to 1
    because its generator does not see them, are interpolated linearly.
    """
    lengths = [np.linalg.norm(end, axis=1, keepdims=True) for end in (first, second)]
    units = [end / np.maximum(length, 1e-12) for end, length in zip((first, second), lengths)]
    angle = np.arccos(np.clip((units[0] * units[1]).sum(axis=1, keepdims=True), -1.0, 1.0))
    sine = np.maximum(np.sin(angle), 1e-12)
    way = (np.sin((1.0 - t) * angle) * units[0] + np.sin(t * angle) * units[1]) / sine
    way = np.where(angle < 1e-6, units[0], way)
    return way * ((1.0 - t) * lengths[0] + t * lengths[1])


def path_speeds(codes: ArrayLike | None = None, factors: ArrayLike | None = None, *,
                prior: Callable[[int], np.ndarray], decode: Callable[[np.ndarray], np.ndarray],
                features: Callable[[np.ndarray], np.ndarray],
                num_values: ArrayLike | None = None, num_paths: int = 10_000,
                epsilon: float = 1e-4) -> dict[str, np.ndarray]:
    """The squared speed of every path, by key; see `path_length`."""
    if not isinstance(num_paths, int | np.integer) or num_paths < 1:
        raise UserError(f"num_paths must be a whole number, at least 1, got {num_paths!r}")
    if not 0.0 < epsilon <= 0.5:
        raise UserError(f"epsilon must be above 0 and at most 0.5, got {epsilon!r}")
    ends = as_finite("prior", prior(2 * num_paths), 2)
    first, second = ends[::2], ends[1::2]
    moving = np.ones(ends.shape[1], bool) if num_values is None else np.asarray(num_values) == 0
    places = ((np.arange(num_paths) + 0.5) / num_paths * (1.0 - epsilon))[:, None]
    pixel, encoder = [], []
    for start in range(0, num_paths, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        images = []
        for t in (places[some], places[some] + epsilon):
            z = first[some].copy()
            z[:, moving] = slerp(first[some][:, moving], second[some][:, moving], t)
            images.append(as_finite("decode", decode(z)))
        seen = [as_finite("features", features(image)) for image in images]
        pixel.append(_squared(images) / epsilon**2)
        encoder.append(_squared(seen) / epsilon**2)
    return {"path_length.pixel": np.concatenate(pixel),
            "path_length.encoder": np.concatenate(encoder)}


def _squared(pair: list[np.ndarray]) -> np.ndarray:
    return ((pair[1] - pair[0]) ** 2).reshape(len(pair[0]), -1).sum(axis=1)


METRIC = Metric(
    name="path_length",
    function=path_length,
    draw=draw_nothing,
    keys={"path_length.pixel": Key(Range(0.0), higher_is_better=False),
          "path_length.encoder": Key(Range(0.0), higher_is_better=False)},
    paper="Karras et al. 2019; Kaddah et al. 2020, section 5",
    version="1",
    summary="how much images change along a path between codes of the prior",
    conventions={"paper": {"num_paths": 100_000, "epsilon": 1e-4},
                 "study2019": {"num_paths": 10_000, "epsilon": 1e-4}},
    partial=True,
    terms=path_speeds,
    default=False,
)
