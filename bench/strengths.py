"""The six methods of Locatello et al. 2019 at their six strengths: does each do what it says?

    python bench/strengths.py --steps 20000 --out strengths [--processes 6]

Trains one run for each cell of the study's grid on dSprites (`study2019` architecture and
conventions, seed 0), each method as a stack of six in a process of its own, and prints for each the
reconstruction and the penalised term over the last tenth of training, by strength. Reconstruction
must grow and the term must fall. An interrupted run goes on where it was. A GPU is advisable.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

# method: (term, letter, six strengths, other letters). Locatello et al. 2019, table 3.
# DIP-VAE's penalty is dip_od + (lambda_d / lambda_od) dip_d: what its two letters weigh together.
GRID: dict[str, tuple[str, str, list[float], dict[str, Any]]] = {
    "beta_vae": ("kl", "beta", [1, 2, 4, 6, 8, 16], {}),
    "annealed_vae": ("kl", "c_max", [5, 10, 25, 50, 75, 100], {"gamma": 1000.0}),
    "factor_vae": ("tc", "gamma", [10, 20, 30, 40, 50, 100], {"convention": "study2019"}),
    "dip_vae_i": ("penalty", "lambda_od", [1, 2, 5, 10, 20, 50], {}),
    "dip_vae_ii": ("penalty", "lambda_od", [1, 2, 5, 10, 20, 50], {}),
    "beta_tcvae": ("tc", "beta", [1, 2, 4, 6, 8, 10], {}),
}


def configs(method: str, steps: int, device: str) -> list[Any]:
    """The six runs of a method."""
    from unweave.training import plan

    _, letter, strengths, other = GRID[method]
    found = []
    for strength in strengths:
        given = {letter: float(strength), **other}
        if method == "dip_vae_i":
            given["lambda_d"] = 10.0 * strength
        if method == "dip_vae_ii":
            given["lambda_d"] = float(strength)
        if method == "annealed_vae":  # the study anneals over a third of its 300,000 steps
            given["anneal_steps"] = steps / 3
        # FactorVAE's steps count both of its networks there: twice as many for equal updates.
        total = 2 * steps if method == "factor_vae" else steps
        found += plan(method, "dsprites", seeds=0, steps=total, device=device,
                      architecture="conv64-study2019", **given)
    return found


def run_method(method: str, steps: int, out: Path, device: str) -> None:
    """Train the six runs of a method and write their rows."""
    from unweave.training import train_runs
    from unweave.training.progress import PlainLines

    term, letter, _, _ = GRID[method]
    rows = []
    for run in train_runs(configs(method, steps, device), out=out / method, device=device,
                          resume=True, listener=PlainLines(60.0)):
        tail = max(1, len(run.curves["step"]) // 10)
        last = {k: float(np.mean(v[-tail:])) for k, v in run.curves.items()}
        if term == "penalty":
            ratio = run.config["lambda_d"] / run.config["lambda_od"]
            last["penalty"] = last["dip_od"] + ratio * last["dip_d"]
        rows.append({"method": method, "strength": run.config[letter], "term": term,
                     "recon": last["recon"], "kl": last["kl"], "value": last[term], "terms": last,
                     "seconds": run.info["seconds"], "status": run.status})
    (out / f"{method}.json").write_text(json.dumps(rows, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("strengths"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--methods", nargs="*", default=list(GRID))
    parser.add_argument("--one", help="train this method alone, in this process")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.one:
        run_method(options.one, options.steps, options.out, options.device)
        return
    workers = [subprocess.Popen([sys.executable, __file__, "--one", method, "--steps",
                                 str(options.steps), "--out", str(options.out), "--device",
                                 options.device]) for method in options.methods]
    failed = [m for m, worker in zip(options.methods, workers) if worker.wait() != 0]
    print_table(options.out, [m for m in options.methods if m not in failed])
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def print_table(out: Path, methods: list[str]) -> None:
    print("| method | letter | what | " + " | ".join(f"strength {i + 1}" for i in range(6)) + " |")
    print("|---|---|---|" + "---|" * 6)
    for method in methods:
        rows = json.loads((out / f"{method}.json").read_text())
        term, letter, _, _ = GRID[method]
        for what, key in ((letter, "strength"), ("recon", "recon"), (term, "value"), ("kl", "kl")):
            if what == "kl" and term == "kl" and key == "kl":
                continue
            cells = " | ".join(f"{row[key]:.4g}" for row in rows)
            print(f"| `{method}` | {letter} | {what} | {cells} |")


if __name__ == "__main__":
    main()
