"""Sheets of small images with labels: traversals and reconstructions, drawn with Pillow alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unweave.metrics.arrays import as_labels
from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.random import Purpose, numpy_generator
from unweave.training import Run
from unweave.training.folder import write_atomically

INK, PAPER, FAINT = (24, 28, 36), (255, 255, 255), (110, 118, 132)
_GAP = 3


def grid(rows: Sequence[np.ndarray], labels: Sequence[tuple[str, str]], *, title: str,
         footer: str = "", zoom: int = 1) -> Image.Image:
    """A titled grid. `rows[i]` is `[num, h, w, c]` in [0, 1]; a label is a name and a remark."""
    height, width = rows[0].shape[1] * zoom, rows[0].shape[2] * zoom
    big, small = ImageFont.load_default(size=17), ImageFont.load_default(size=13)
    left = 24 + int(max([small.getlength(remark) for _, remark in labels]
                        + [big.getlength(name) for name, _ in labels] + [80]))
    num = max(len(row) for row in rows)
    top, bottom = 52, 34 if footer else 12
    right = int(max(left + num * (width + _GAP) + 12, 24 + big.getlength(title),
                    24 + small.getlength(footer)))
    sheet = Image.new("RGB", (right, top + len(rows) * (height + _GAP) + bottom), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((12, 16), title, fill=INK, font=big)
    for r, (row, (name, remark)) in enumerate(zip(rows, labels)):
        y = top + r * (height + _GAP)
        draw.text((12, y + height // 2 - 20), name, fill=INK, font=big)
        draw.text((12, y + height // 2 + 2), remark, fill=FAINT, font=small)
        for i, image in enumerate(row):
            pixels = np.round(np.clip(image, 0.0, 1.0) * 255.0).astype(np.uint8)
            pixels = np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels
            tile = Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST)
            sheet.paste(tile, (left + i * (width + _GAP), y))
    if footer:
        draw.text((12, sheet.height - 26), footer, fill=FAINT, font=small)
    return sheet


def latent_facts(run: Run, *, num: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """KL of each code in nats `[code]`, and its mutual information with each factor as a share of
    the factor's entropy `[code, factor]`, from `num` images of the run's data set. Where it has no
    factors, labels take their place; there are no columns where it has neither.
    """
    dataset = run.dataset
    index = dataset.space.draw(num, numpy_generator(seed, Purpose.EVALUATION))
    codes, factors = run.encode_at(index, seed=seed), dataset.factors(index)
    if (labels := dataset.labels) is not None:
        factors = as_labels(labels.values[index], None, labels.types or None).classes
    bins = discretise(codes, 20, run.num_values)
    shared = np.zeros((codes.shape[1], factors.shape[1]))
    for k, column in enumerate(factors.T):
        known = column >= 0
        if known.any():
            column = column[known, None]
            shared[:, k] = (mutual_information(bins[known], column)[:, 0]
                            / np.maximum(entropy(column)[0], 1e-12))
    return run.kl_at(index, seed=seed), shared


def traversal_sheet(run: Run, *, image: np.ndarray | None = None, span: float = 2.0,
                    num: int = 11, seed: int = 0) -> Image.Image:
    """Each latent moved from -span to span, the latents with the largest KL first.

    Beside each row: the latent's KL, and the factor it shares most information with.
    """
    kl, shared = latent_facts(run, seed=seed)
    names = run.dataset.space.names if run.dataset.labels is None else run.dataset.labels.names
    order = np.argsort(-kl)
    labels = []
    for j in order:
        k = int(shared[j].argmax()) if shared.shape[1] else -1
        follows = (f"{names[k]} ({shared[j, k]:.0%})"
                   if kl[j] >= 0.1 and k >= 0 and shared[j, k] >= 0.05
                   else "unused" if kl[j] < 0.1 else "")
        kind = "c" if run.num_values[j] else "z"
        labels.append((f"{kind}{j}", f"KL {kl[j]:.2f}  {follows}".rstrip()))
    pictures = run.traverse(image, latents=order.tolist(), span=span, num=num)
    letters = ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}"
                        for k, v in run.config.hyper)
    title = f"{run.config.method}  {letters}  seed {run.config.seed}  on {run.dataset.name}"
    footer = f"each row moves one latent from {-span:g} to {span:g}, the others stay"
    if shared.shape[1]:
        footer += "; percent: information shared with the factor, of the factor's entropy"
    return grid(list(pictures), labels, title=title, footer=footer)


def reconstruction_sheet(run: Run, *, num: int = 11, seed: int = 0) -> Image.Image:
    """Images of the data set above their reconstructions."""
    index = run.dataset.space.draw(num, numpy_generator(seed, Purpose.EVALUATION, 1))
    images = run.dataset.images(index, seed=seed)
    rows = [images / 255.0, run.reconstruct(images)]
    return grid(rows, [("data", run.dataset.name), ("model", "reconstruction")],
                title=f"{run.config.method}  {run.run_id}")


def save(sheet: Image.Image, path: str | Path) -> Path:
    """Write a PNG under a temporary name and rename it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda p: sheet.save(p, format="PNG"))
    return path
