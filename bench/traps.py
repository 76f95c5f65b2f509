"""What fools each metric: codes whose worth is known by construction, and their scores.

    python bench/traps.py [--metrics mig,sap] [--convention paper]
                          [--pictures docs/pictures/metrics] [--cost]

Four factors of 4, 5, 6 and 8 values are drawn freely 6,000 times; the first 4,000 rows train and
the others test. A dozen codes of these rows go through every metric, in the convention `study2019`
unless told, with 2,000 and 1,000 votes. Prints a markdown table; `--pictures` also draws a bar
chart for each metric, with its noise floor. UDR, which compares runs, sees five of each code: every
one starts from the perfect latents in another order, with other signs and other noise. Metrics that
look at a model see codes as the means of posteriors with the best decoder there is (`model`).
`--cost` prints instead the seconds that one scoring takes at study size, alone and with interval,
floor and ceiling. `docs/metrics/` shows all of it.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.factors import FactorSpace
from unweave.metrics import (
    ACROSS_RUNS,
    CONVENTIONS,
    METRICS,
    Encoding,
    plan_scores,
    score,
    udr_records,
)
from unweave.metrics.entangle import entangle

DECLARED = {**METRICS, **ACROSS_RUNS}
SIZES = (4, 5, 6, 8)
NUM_RUNS = 5
NUM_ROWS, NUM_TRAIN = 6_000, 4_000
QUICK = {"num_train_votes": 2_000, "num_test_votes": 1_000, "num_particles": 10,
         "num_paths": 2_000}
DSPRITES = FactorSpace(("shape", "scale", "orientation", "x", "y"), (3, 6, 40, 32, 32))
FLOOR = "shuffled rows"
PIXELS = 16  # that show a factor in the images of models
MARKED = {"perfect": "#0072B2", "entangled": "#D55E00"}  # told apart by colour-blind eyes too
PLAIN = "#9A9A9A"


def world() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Factors `[sample, factor]`, and codes `[sample, latent]` by name.

    A perfect code is a standardised factor in each latent, spread over a tenth of a step so that
    its distribution is continuous, as Theorem 1 has it.
    """
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=NUM_ROWS) for size in SIZES], axis=1)
    perfect = standard(factors + 0.1 * rng.random(factors.shape))
    return factors, variants(factors, perfect, rng)


def variants(factors: np.ndarray, perfect: np.ndarray,
             rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A dozen codes made from a perfect one, whose latents are the factors in order."""
    noise = rng.normal(size=perfect.shape)
    turn = np.sqrt(0.5) * np.array([[1.0, -1.0], [1.0, 1.0]])
    high, low = factors[:, :1], factors[:, 1:2]
    both = standard(high * (low.max() + 1) + low + 0.1 * rng.random((NUM_ROWS, 1)))
    return {
        "perfect": perfect,
        "permuted, rescaled": perfect[:, [2, 0, 3, 1]] * [3.0, -0.5, 2.0, -1.0] + [5.0, 0, -9.0, 1],
        "entangled": entangle(perfect),
        "rotated in pairs": np.hstack([perfect[:, :2] @ turn, perfect[:, 2:] @ turn]),
        "every latent twice": np.hstack([perfect, -perfect]),
        "noise added": perfect + 0.5 * noise,
        "a factor missing": np.hstack([perfect[:, :3], noise[:, :1]]),
        "two factors in one": np.hstack([both, perfect[:, 2:]]),
        "with dead latents": np.hstack([perfect, 0.01 * noise]),
        "pure noise": noise,
        "all constant": np.zeros_like(perfect),
        FLOOR: perfect[rng.permutation(NUM_ROWS)],
    }


def across_runs(convention: str) -> dict[str, dict[str, float]]:
    """UDR by key, then by code: the median of five runs. Posteriors have a variance of 1."""
    factors, codes = world()
    runs = []
    for number in range(NUM_RUNS):
        rng = np.random.default_rng(number + 1)
        order, signs = rng.permutation(len(SIZES)), rng.choice([-1.0, 1.0], size=len(SIZES))
        runs.append(variants(factors[:, order], codes["perfect"][:, order] * signs, rng))
    table: dict[str, dict[str, float]] = {}
    for code in codes:
        same = [run[code] for run in runs]
        records = udr_records(same, [(one ** 2).mean(axis=0) / 2 for one in same],
                              convention=convention)
        for found in zip(*records):
            table.setdefault(found[0].key, {})[code] = float(np.median([r.value for r in found]))
    return table


def standard(codes: np.ndarray) -> np.ndarray:
    return (codes - codes.mean(axis=0)) / codes.std(axis=0)


def model(codes: np.ndarray, images: np.ndarray) -> Encoding:
    """A model whose mean codes are the given ones; images are `[sample, pixel]`.

    Posteriors are a tenth as wide as their latent's distribution; latents that do not vary are the
    prior. p(x|z) is a normal of unit scale around the mean of the images that z may have come from,
    which is the best decoder there is, and the encoder reads images off the nearest ones.
    """
    spread = codes.std(axis=0)
    scale = np.where(spread > 0.1, 0.1 * spread, 1.0)

    def draws(rows: np.ndarray, number: int = 0) -> np.ndarray:
        noise = np.random.default_rng(1 + number).normal(size=codes.shape)
        return (codes + scale * noise)[rows]

    def decode(z: np.ndarray) -> np.ndarray:
        return mixed(z / scale, codes / scale, images)

    def nats(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 0.5 * ((x - decode(z)) ** 2 + np.log(2.0 * np.pi)).sum(axis=1)

    def log_weights(rows: np.ndarray, num_particles: int) -> np.ndarray:
        columns = []
        for number in range(num_particles):
            z, away = draws(rows, number), (draws(rows, number) - codes[rows]) / scale
            ratio = 0.5 * (away**2 + 2.0 * np.log(scale) - z**2).sum(axis=1)
            columns.append(ratio - nats(images[rows], z))
        return np.stack(columns, axis=1)

    return Encoding(
        codes, sampled=draws, mu=codes, logvar=np.broadcast_to(2.0 * np.log(scale), codes.shape),
        reconstruction=lambda rows: nats(images[rows], draws(rows)), log_weights=log_weights,
        prior=lambda num: np.random.default_rng(0).normal(size=(num, codes.shape[1])),
        decode=decode, features=lambda x: mixed(2.5 * x, 2.5 * images, codes))


def mixed(places: np.ndarray, centres: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Means of `values` weighted by unit normals around `centres`, at `places`."""
    parts = []
    for some in np.array_split(places, max(1, len(places) // 500)):
        closeness = some @ centres.T - 0.5 * (centres**2).sum(axis=1)
        weights = np.exp(closeness - closeness.max(axis=1, keepdims=True))
        parts.append(weights @ values / weights.sum(axis=1, keepdims=True))
    return np.concatenate(parts)


def shown(name: str) -> list[str]:
    """The keys worth a row: those with a direction, on rows that test; all if none has one."""
    keys = DECLARED[name].keys
    judged = [key for key, said in keys.items()
              if said.higher_is_better is not None and not key.endswith("train")]
    return judged or list(keys)


def scores_of(names: list[str], convention: str) -> dict[str, dict[str, float]]:
    """The scores by key, then by code; keys that need more rows than there are have none."""
    factors, codes = world()
    images = np.repeat(codes["perfect"], PIXELS, axis=1)
    table: dict[str, dict[str, float]] = {}
    for name in names:
        if name in ACROSS_RUNS:
            table |= across_runs(convention)
            continue
        own = {k: v for k, v in QUICK.items() if k in METRICS[name].conventions[convention]}
        for code, values in codes.items():
            given = model(values, images) if METRICS[name].wants else values
            found = score(given, factors, metrics=name, convention=convention,
                          num_train=NUM_TRAIN, **own)
            for key in shown(name):
                if key in found:
                    table.setdefault(key, {})[code] = found[key]
    return table


def markdown(table: dict[str, dict[str, float]]) -> str:
    """A row for each key, a column for each code."""
    codes = list(next(iter(table.values())))
    lines = ["| key | " + " | ".join(codes) + " |", "|---|" + "---|" * len(codes)]
    lines += ["| " + " | ".join([f"`{key}`", *(f"{row[code]:.2f}" for code in codes)]) + " |"
              for key, row in table.items()]
    return "\n".join(lines).replace("-0.00", "0.00")


def draw(name: str, table: dict[str, dict[str, float]], folder: Path) -> None:
    """A bar for each code, a panel for each key, and the noise floor as a dashed line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    keys = [key for key in shown(name) if key in table]
    figure, panels = plt.subplots(1, len(keys), figsize=(7, 3), dpi=100, sharey=True,
                                  squeeze=False, layout="constrained")
    for key, panel in zip(keys, panels[0]):
        floor, said = table[key][FLOOR], DECLARED[name].keys[key]
        codes = [code for code in table[key] if code != FLOOR][::-1]
        values = [table[key][code] for code in codes]
        bars = panel.barh(codes, values, color=[MARKED.get(code, PLAIN) for code in codes])
        panel.bar_label(bars, fmt="%.2f", fontsize=7, padding=2)
        panel.axvline(floor, color="black", linestyle="--", linewidth=1)
        most = said.range.high if np.isfinite(said.range.high) else max([*values, floor, 1e-9])
        least = said.range.low if np.isfinite(said.range.low) else min([*values, floor, 0.0])
        left = 0.3 * (most - least) if least < 0 and not np.isfinite(said.range.low) else 0.0
        panel.set_xlim(least - left, least + (most - least) * (1.13 if len(keys) == 1 else 1.3))
        if np.isfinite([said.range.low, said.range.high]).all():
            panel.set_xticks(np.linspace(least, most, 6 if len(keys) == 1 else 3))
        many = len(keys) > 4
        panel.set_title(key.removeprefix(f"{name}.") if many else key, fontsize=8)
        panel.set_xlabel(f"{'floor' if many else 'dashed: noise floor,'} {floor:.2f}", fontsize=8)
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    plt.close(figure)
    picture = Image.open(drawn).convert("RGB").quantize(32, dither=Image.Dither.NONE)
    picture.save(folder / f"{name}.png", optimize=True)


def cost(names: list[str]) -> None:
    """Seconds of one scoring at study size: noisy codes of ten latents, dSprites' factors."""
    rng = np.random.default_rng(0)
    print("| metric | draw, s | score, s | with interval, floor, ceiling, s |\n|---|---|---|---|")
    for name in names:
        if name in ACROSS_RUNS:
            latents = rng.normal(size=(1_000, 5))
            runs = [latents @ rng.normal(size=(5, 10)) + 0.3 * rng.normal(size=(1_000, 10))
                    for _ in range(50)]
            ACROSS_RUNS[name].function(runs)
            alone, whole = (seconds(partial(way, runs)) for way in (ACROSS_RUNS[name].function,
                                                                    udr_records))
            print(f"| `{name}` (50 runs) | - | {alone:.3f} | {whole:.2f} |", flush=True)
            continue
        drawn = seconds(partial(plan_scores, DSPRITES, metrics=name))
        plan = plan_scores(DSPRITES, metrics=name)
        mixed = standard(plan.factors.astype(float)) @ rng.normal(size=(5, 10))
        codes = mixed + 0.3 * rng.normal(size=mixed.shape)
        if METRICS[name].wants:
            spread = np.exp(rng.normal(np.log(0.2), 0.2, size=codes.shape))
            codes = Encoding(codes, mu=codes, logvar=2.0 * np.log(spread),
                             sampled=codes + spread * rng.normal(size=codes.shape),
                             reconstruction=np.zeros(len(codes)),
                             log_weights=np.zeros((len(codes), 100)))
        if METRICS[name].lacking(codes.given if METRICS[name].wants else ()):
            print(f"| `{name}` | {drawn:.2f} | - | - |  (decodings, nothing else)")
            continue
        plan.score(codes, details=False)  # the first call may compile
        alone, whole = (seconds(partial(plan.score, codes, details=details))
                        for details in (False, True))
        print(f"| `{name}` | {drawn:.2f} | {alone:.3f} | {whole:.2f} |", flush=True)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metrics", help="names with commas between them; all if not given")
    parser.add_argument("--convention", choices=CONVENTIONS, default="study2019")
    parser.add_argument("--pictures", type=Path, help="a folder for a bar chart of each metric")
    parser.add_argument("--cost", action="store_true", help="seconds at study size instead")
    given = parser.parse_args()
    names = given.metrics.split(",") if given.metrics else list(DECLARED)
    if given.cost:
        return cost(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = scores_of(names, given.convention)
    print(markdown(table))
    if given.pictures:
        for name in names:
            draw(name, table, given.pictures)


if __name__ == "__main__":
    main()
