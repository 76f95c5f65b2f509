"""How close `shapes3d-render` comes to pictures of the published 3D Shapes; the fit of its room.

    python bench/shapes3d.py FOLDER [--fit STEPS] [--sheet FILE.png]

FOLDER holds `gif53_labelled_64x64.npz` (`images`, `labels`) and `notebook50_64x64.npz` (`images`),
frames of the animation and samples of the notebook that were published with the data set. Neither
is part of this project. Prints for each set

- silhouettes: the share of pixels that show another material than the rendered ones. The material
  of a published pixel is told by its colour: the nearest among the sky and three hues of any
  brightness, then the majority of the 3 x 3 pixels around it, as the animation is dithered.
  Materials of one hue are not told apart. Without the majority: `single pixels`.
- colour: the mean absolute difference of channels, of 1.

The labels of the 50 are those under which the rendered image is closest in colour. Their notebook
drew them by nearest neighbours at another size, and they were shrunk in the same way: some rows and
columns occur twice, others not at all. `drawn` says which row each row shows, and rendered images
are compared after the same is done to them; the numbers were found from which rows occur twice.

`--fit` starts
from the present `Room` and prints a better one. It looks at the 53 and at every second of the 50:
Gauss-Newton steps on the colours, a minute each, then 40 times as many random steps on silhouettes
and colours, as an edge that runs along a row of pixels matters to the one and hardly to the other.
`--sheet` writes published and rendered images side by side, for a look.
"""

from __future__ import annotations

import argparse
from dataclasses import astuple, fields, replace
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import uniform_filter

from unweave.data import save_png
from unweave.data.picture import tile
from unweave.data.shapes3d import NUM_SCENES, SPACE, hue, rendered_pixels
from unweave.data.shapes3d_scene import ROOM, SKY, Room, empty_room, take_pictures

HUES = np.array([hue(number) for number in range(10)]) / 5.0
STEPS = dict(zip((f.name for f in fields(Room)), (
    0.02, 0.01, 0.3, 0.3, 0.03, 0.03, 0.02, 0.006, 0.006, 0.006, 0.006, 0.006, 0.006, 0.03, 0.03,
    0.03, 0.1, 0.1, 0.5, 0.03, 0.03, 0.02)))
"""What is a small change of each number of a room."""


def labelled(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The 53 images, and their factor classes."""
    with np.load(folder / "gif53_labelled_64x64.npz", allow_pickle=False) as file:
        images, labels = file["images"], file["labels"]
    values = [np.arange(4) if v.dtype.kind == "U" else v for v in SPACE.values]
    return images, np.stack([np.abs(labels[:, [k]] - v).argmin(axis=1)
                             for k, v in enumerate(values)], axis=1)


def unlabelled(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 50 images, the factor classes of the closest rendered images, and what they show."""
    with np.load(folder / "notebook50_64x64.npz", allow_pickle=False) as file:
        images = file["images"]
    shown = np.stack([drawn(image) for image in images])
    return images, np.stack([closest(*pair) for pair in zip(images, shown)]), shown


def drawn(image: np.ndarray) -> np.ndarray:
    """Rows and columns `[2, 64]` of the published image that a picture of the notebook shows.

    A figure was drawn `size` pixels high by nearest neighbours, cut `cut` pixels high and shrunk.
    """
    at = np.arange(64) + 0.5

    def map_of(cut: int, size: float, shift: float) -> np.ndarray:
        pixel = np.floor(at * cut / 64) + 0.5 + shift
        return np.floor(pixel * 64 / size).astype(int).clip(0, 63)

    odd = (image[14] == image[15]).all() and (image[18] == image[19]).all()
    rows = map_of(144, 145.95, -0.3) if odd else map_of(80, 81.25, -0.2)
    return np.stack([(rows + 1).clip(max=63), map_of(81, 80.2, -0.4)])


def as_drawn(images: np.ndarray, shown: np.ndarray | None) -> np.ndarray:
    """Rendered images with the rows and columns that published pictures show."""
    if shown is None:
        return images
    return np.stack([image[rows][:, columns] for image, (rows, columns) in zip(images, shown)])


def closest(image: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Classes of the rendered image nearest to one, hue by hue in turn and then every scene."""
    scenes = np.arange(NUM_SCENES)
    hues, best = np.array([0, 0, 0]), None
    # Hues of floor and walls are those that are most common low and halfway up at the sides.
    pixels = image.reshape(64, 64, 3) / 255.0
    for k, part in enumerate((pixels[56:], np.concatenate([pixels[24:36, :12], pixels[24:36, 52:]],
                                                          axis=1))):
        hues[k] = int(_distances(part.reshape(-1, 3), range(10))[:, :10].sum(axis=0).argmin())
    for colour in range(10):
        hues[2] = colour
        index = SPACE.index([[*hues, 0, 0, 0]])[0] + scenes
        made = rendered_pixels().rows(index)[:, shown[0]][:, :, shown[1]]
        error = np.abs(made.astype(np.int16) - image).mean(axis=(1, 2, 3))
        at = int(error.argmin())
        if best is None or error[at] < best[0]:
            best = float(error[at]), int(index[at])
    return SPACE.factors(best[1])[0]


def _distances(colours: np.ndarray, hues: object) -> np.ndarray:
    """Of colours `[n, 3]` from each hue at its best brightness, and from the sky."""
    found = []
    for number in hues:
        full = HUES[number]
        bright = (colours @ full / (full @ full)).clip(0.0, 1.3)
        found.append(np.linalg.norm(colours - np.minimum(bright[:, None] * full, 1.0), axis=-1))
    return np.stack([*found, np.linalg.norm(colours - np.array(SKY) / 255.0, axis=-1)], axis=-1)


def pictures(rows: np.ndarray, room: Room = ROOM) -> tuple[np.ndarray, np.ndarray]:
    """Shares of four materials and colours of scenes with hues, `[image, 64, 64, 4 and 3]`."""
    scene = rows[:, 3:]
    shares, weights = np.empty((len(rows), 4096, 4)), np.empty((len(rows), 4096, 5))
    for turn in np.unique(scene[:, 2]):
        empty = empty_room(float(SPACE.values[5][turn]), 64, room)
        for shape in np.unique(scene[scene[:, 2] == turn, 1]):
            where = np.flatnonzero((scene[:, 2] == turn) & (scene[:, 1] == shape))
            scales, which = np.unique(scene[where, 0], return_inverse=True)
            seen = take_pictures(int(shape), torch.from_numpy(SPACE.values[3][scales]), empty)
            weights[where] = torch.stack(seen[:5], dim=-1).numpy()[which]
            shares[where] = torch.stack(seen.shares, dim=-1).numpy()[which]
    colours = weights[..., :3] @ HUES[rows[:, :3]] + weights[..., 3:4] * np.array(SKY) / 255.0
    colours = (colours + weights[..., 4:]).clip(0.0, 1.0)
    return shares.reshape(-1, 64, 64, 4), colours.reshape(-1, 64, 64, 3)


def silhouettes(images: np.ndarray, rows: np.ndarray, shown: np.ndarray | None = None, *,
                majority: bool = True, shares: np.ndarray | None = None) -> np.ndarray:
    """For each image the share of pixels with another material than the rendered one."""
    wrong = []
    shares = as_drawn(pictures(rows)[0] if shares is None else shares, shown)
    for image, row, share in zip(images, rows, shares):
        # Materials of one hue count as the first of them.
        same = np.array([int(np.flatnonzero(row[:3] == h)[0]) for h in row[:3]] + [3])
        seen = same[_distances(image.reshape(-1, 3) / 255.0, row[:3]).argmin(axis=-1)]
        seen = seen.reshape(64, 64)
        if majority:
            votes = [uniform_filter((seen == k).astype(float), 3, mode="nearest")
                     for k in range(4)]
            seen = np.argmax(votes, axis=0)
        wrong.append((seen != same[share.argmax(axis=-1)]).mean())
    return np.array(wrong)


def colour_errors(images: np.ndarray, rows: np.ndarray,
                  shown: np.ndarray | None = None) -> np.ndarray:
    """For each image the mean absolute difference of channels, of 1."""
    made = as_drawn(rendered_pixels().rows(SPACE.index(rows)), shown).astype(np.int16)
    return np.abs(made - images).mean(axis=(1, 2, 3)) / 255.0


def fit(images: np.ndarray, rows: np.ndarray, shown: np.ndarray, num_steps: int) -> Room:
    """Damped Gauss-Newton steps on the differences of colours, cut off at 0.3."""
    names, sizes = list(STEPS), np.array(list(STEPS.values()))
    start, real = np.array(astuple(ROOM)), images / 255.0

    def room(change: np.ndarray) -> Room:
        return replace(ROOM, **dict(zip(names, (start + sizes * change).tolist())))

    def residuals(change: np.ndarray) -> np.ndarray:
        made = as_drawn(pictures(rows, room(change))[1], shown)
        rest = (made - real).clip(-0.3, 0.3).ravel()
        return np.concatenate([rest, 0.3 * change])  # a weak pull to where it started

    change, damping = np.zeros(len(names)), 20.0
    now = residuals(change)
    for step in range(num_steps):
        slopes = np.stack([(residuals(change + 0.4 * e) - residuals(change - 0.4 * e)) / 0.8
                           for e in np.eye(len(names))], axis=1)
        for _ in range(6):
            solved = np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(names)),
                                     slopes.T @ now)
            tried = residuals(change - solved)
            if tried @ tried < now @ now:
                break
            damping *= 6.0
        else:
            break
        change, now, damping = change - solved, tried, damping / 3.0
        print(f"step {step}: squares {now @ now:.1f}", flush=True)
    return room(change)


def polish(images: np.ndarray, rows: np.ndarray, shown: np.ndarray, start: Room,
           num_steps: int) -> Room:
    """Small random steps of the geometry, kept where silhouettes and colours together gain."""
    rng = np.random.Generator(np.random.Philox(0))
    names = list(STEPS)[:13]

    def badness(room: Room) -> float:
        shares, colours = pictures(rows, room)
        wrong = silhouettes(images, rows, shown, shares=shares)
        return (wrong.mean() + 0.25 * np.sort(wrong)[-4:].mean()
                + np.abs(as_drawn(colours, shown) - images / 255.0).mean())

    best, least = start, badness(start)
    for _ in range(num_steps):
        change = 0.3 * rng.normal(size=len(names)) * (rng.random(len(names)) < 0.35)
        tried = replace(best, **{name: getattr(best, name) + STEPS[name] * float(step)
                                 for name, step in zip(names, change)})
        if (found := badness(tried)) < least:
            best, least = tried, found
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", type=int, default=0, metavar="STEPS")
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    plain = np.broadcast_to(np.arange(64), (53, 2, 64))
    with_labels, without = (*labelled(options.folder), plain), unlabelled(options.folder)
    half = {"fitted too": slice(0, None, 2), "not fitted": slice(1, None, 2)}
    print("| pictures | | silhouettes | worst | single pixels | colour | worst |")
    print("|---|---|---|---|---|---|---|")
    for name, some in {"53 labelled": with_labels, **{
            f"25 of the 50, {k}": tuple(x[v] for x in without) for k, v in half.items()}}.items():
        shapes, single = silhouettes(*some), silhouettes(*some, majority=False)
        colours = colour_errors(*some)
        print(f"| {name} | {len(some[0])} | {shapes.mean():.2%} | {shapes.max():.2%} | "
              f"{single.mean():.2%} | {colours.mean():.4f} | {colours.max():.4f} |")
    images, rows, shown = (np.concatenate([a, b[::2]]) for a, b in zip(with_labels, without))
    if options.sheet:
        made = as_drawn(rendered_pixels().rows(SPACE.index(rows)), shown)
        save_png(tile(np.stack([images, made], 1).reshape(-1, 64, 64, 3), 16), options.sheet)
    if options.fit:
        start = fit(images, rows, shown, options.fit)
        print(polish(images, rows, shown, start, 40 * options.fit))


if __name__ == "__main__":
    main()
