"""Every method for 2,000 steps on the CPU and on a GPU: are the curves the same, within noise?

    python bench/curves.py train --device cpu --out curves
    python bench/curves.py train --device cuda --out curves
    python bench/curves.py compare --out curves

Both train the same runs (dSprites, half-width network, batch 64, three seeds; discriminators of 200
units, one turn of InfoWGAN-GP's critic), the CPU in float32, the GPU in float32 and in bfloat16.
The same seed has the same weights, batches and noise everywhere, so curves differ by rounding
alone, which training then amplifies.
Compared are means over the last quarter: how far GPU and CPU are apart for the same seeds, beside
how far seeds are apart, and a t-test over seeds. The two may run on different machines, in any
order and in pieces (`--part 0/4` is the first of four, to run side by side); `compare` takes what
is there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from unweave.objectives import METHODS, letters

STEPS, SEEDS = 2_000, (0, 1, 2)
TERMS = ("loss", "recon", "kl", "tc", "mi", "kl_qz", "dip_od", "critic_value")
COMPARED = {True: ("mi", "critic_value"), False: ("recon", "kl")}  # of games, and of the others
LETTERS = {"vade": {"pretrain_steps": 500}, "infogan": {"num_noise": 10},
           "infowgan_gp": {"num_noise": 10, "critic_steps": 1}}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in METHODS),
    ("factor_vae", {"convention": "study2019"}), ("beta_tcvae", {"sampling": "stratified"}),
    ("dip_vae_i", {"estimate": "running"})]


def train(device: str, out: Path, part: str, methods: list[str] | None) -> None:
    from unweave.training import plan, train_runs

    precisions = ["float32"] if device == "cpu" else ["float32", "bfloat16"]
    first, parts = map(int, part.split("/"))
    for method, given in VARIANTS[first::parts]:
        if methods and method not in methods:
            continue
        small = {"critic_width": 200} if "critic_width" in letters(method) else {}
        small |= LETTERS.get(method, {})
        for precision in precisions:
            path = out / f"{_name(method, given)}.{device}.{precision}.json"
            if path.exists():
                continue
            steps = 2 * STEPS if given.get("convention") == "study2019" else STEPS
            runs = train_runs(plan(method, "dsprites", seeds=SEEDS, steps=steps, device=device,
                                   precision=precision, architecture="conv64-small",
                                   learning_rate=5e-4, **given, **small),
                              out=None, device=device)
            last = len(runs[0].curves["step"]) // 4
            path.write_text(json.dumps([
                {k: float(np.mean(v[-last:])) for k, v in run.curves.items()
                 if k in TERMS} for run in runs]))
            print(path.name, flush=True)


def _name(method: str, given: dict[str, Any]) -> str:
    return "-".join([method, *map(str, given.values())])


def compare(out: Path) -> None:
    """A row for each method, precision and term: could the GPU's runs be other seeds of the CPU's?

    Welch's t-test over seeds, two-sided; with so many rows one of p = 0.01 is expected, so what
    counts is the smallest p times the number of rows (Bonferroni).
    """
    from scipy.stats import ttest_ind

    print("| method | GPU | term | CPU | GPU | apart, same seed | apart, seeds | p |")
    print("|---|---|---|---|---|---|---|---|")
    found, missing = [], []
    for method, given in VARIANTS:
        name = _name(method, given)
        for precision in ("float32", "bfloat16"):
            paths = [out / f"{name}.cpu.float32.json", out / f"{name}.cuda.{precision}.json"]
            if not all(path.exists() for path in paths):
                missing.append(f"{name} ({precision})")
                continue
            cpu, gpu = (json.loads(path.read_text()) for path in paths)
            for term in COMPARED[METHODS[method].game is not None]:
                a, b = (np.array([run[term] for run in runs]) for runs in (cpu, gpu))
                p = float(ttest_ind(a, b, equal_var=False).pvalue)
                found.append(p if np.isfinite(p) else 0.0)  # a run that diverged agrees with none
                print(f"| `{name}` | {precision} | {term} | {a.mean():.2f} | {b.mean():.2f} | "
                      f"{np.abs(a - b).mean():.3f} | {np.abs(a - np.roll(a, 1)).mean():.3f} | "
                      f"{p:.3f} |")
    if found:
        corrected = min(1.0, min(found) * len(found))
        print(f"\n{len(found)} rows; the smallest p is {min(found):.3g}, {corrected:.3g} when "
              f"corrected for their number: {'within noise' if corrected > 0.05 else 'NOT noise'}")
    if missing:
        print(f"not trained yet: {', '.join(missing)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "compare"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path("curves"))
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="of train; else all")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.what == "train":
        train(options.device, options.out, options.part, options.methods)
    else:
        compare(options.out)


if __name__ == "__main__":
    main()
