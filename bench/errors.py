"""What a run's reconstructions miss, in the units that papers use: nats, and squares of pixels.

    python bench/errors.py RUN [RUN ...] [--images 10000]

Papers print reconstruction errors in nats per image (the negative log-likelihood, at a drawn code)
or as squared differences of pixels, and do not always say which. Prints for each run, over images
drawn at random: nats per image and per pixel, squared errors per pixel of the drawn code's picture
and of the mean code's, what a picture that knows nothing would miss (the mean image), the share of
that which the drawn code explains, and the KL.
"""

from __future__ import annotations

import argparse

import numpy as np

import unweave
from unweave.training.encoded import Encoded

_ROWS = 1000  # images decoded at once
COLUMNS = ("run", "letters", "nats", "nats a pixel", "squares a pixel", "from means", "mean image",
           "explained", "KL")


def errors(run: unweave.Run, index: np.ndarray) -> dict[str, float]:
    """Means over the images at `index`."""
    encoded, data = Encoded(run, index), run.dataset
    total = np.zeros(data.image_shape)
    drawn = means = squares = 0.0
    for start in range(0, len(index), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(index)))
        x = data.images(index[rows]) / 255.0
        total += x.sum(0)
        squares += float((x**2).sum())
        drawn += float(((x - run.decode(encoded.sampled(rows))) ** 2).sum())
        means += float(((x - run.decode(encoded.codes[rows])) ** 2).sum())
    pixels = total.size * len(index)
    idle = squares / pixels - float(((total / len(index)) ** 2).mean())
    nats = float(encoded.reconstruction(np.arange(len(index))).mean())
    mu, logvar = encoded.mu.astype(np.float64), encoded.logvar.astype(np.float64)
    return {"nats": nats, "nats a pixel": nats / total.size, "squares a pixel": drawn / pixels,
            "from means": means / pixels, "mean image": idle,
            "explained": 1.0 - drawn / pixels / idle,
            "KL": float(0.5 * (mu**2 + np.exp(logvar) - 1.0 - logvar).sum(1).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--images", type=int, default=10_000)
    options = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for folder in options.runs:
        run = unweave.load(folder)
        index = np.random.default_rng(0).integers(len(run.dataset), size=options.images)
        found = errors(run, index)
        letters = " ".join(f"{k}={v:g}" for k, v in run.config.hyper if isinstance(v, float))
        print(f"| {run.run_id} | {letters} | {found['nats']:.1f} | {found['nats a pixel']:.4f} | "
              f"{found['squares a pixel']:.4f} | {found['from means']:.4f} | "
              f"{found['mean image']:.4f} | {found['explained']:.2f} | {found['KL']:.1f} |",
              flush=True)


if __name__ == "__main__":
    from sentences import told

    told(main)
