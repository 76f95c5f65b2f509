"""Traversals for a page: for each latent of a run a strip of images and what it follows."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from unweave.report.document.values import short
from unweave.report.pictures import Latents
from unweave.report.pictures.latents import run_title
from unweave.report.pictures.picture import to_image
from unweave.training import Run

_GAP, _NUM = 2, 9


def look(run: Run, *, seed: int = 0) -> dict[str, Any]:
    """Originals with reconstructions, and traversals sorted by KL, as pictures inside addresses."""
    latents = Latents(run, seed=seed)
    start, where = latents.start("typical")
    walks = latents.walks(start, latents.order, latents.span, _NUM)
    originals = run.dataset.images(latents.index[:_NUM], seed=seed)
    return {"run_id": run.run_id, "title": run_title(run), "where": where,
            "measure": latents.measure, "extent": latents.extent(latents.span),
            "images": [{"name": "originals", "strip": strip(originals / 255.0)},
                       {"name": "reconstructions", "strip": strip(run.reconstruct(originals))}],
            "rows": [{"name": latents.name(j), "kl": short(float(latents.nats[j])),
                      "follows": latents.follows(j), "strip": strip(walk)}
                     for j, walk in zip(latents.order, walks)]}


def strip(images: np.ndarray) -> str:
    """Images `[num, h, w, c]` in [0, 1] beside each other, as an address."""
    num, height, width, channels = images.shape
    sheet = Image.new("RGB", (num * (width + _GAP) - _GAP, height), (128, 128, 128))
    for i, image in enumerate(images):
        sheet.paste(to_image(image), (i * (width + _GAP), 0))
    held = io.BytesIO()
    if channels == 1:
        sheet.convert("L").save(held, "PNG", optimize=True)
        kind = "png"
    else:  # photographs and renderings take a tenth of what a PNG takes
        sheet.save(held, "WEBP", quality=82)
        kind = "webp"
    return f"data:image/{kind};base64,{base64.b64encode(held.getvalue()).decode()}"
