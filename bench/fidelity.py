"""Do our beta-VAEs come out like the published ones? Six betas, some seeds, beside 50 seeds each.

    python bench/fidelity.py train --out fidelity [--seeds 6] [--steps 300000]
    python bench/fidelity.py compare --out fidelity --published dsprites_full.csv.gz

`train` makes the runs of Locatello et al. 2019 (`conv64-study2019`, the study's conventions) as one
stack, goes on where it was interrupted, encodes the rows that the scores need with all runs at
once, and writes `fidelity/rows.json`. `compare` reads the released scores of the study and prints,
for each beta, our median reconstruction and KL beside the published median and 5-95 % band, and
the p-values of two-sided Kolmogorov-Smirnov tests of the FactorVAE score and MIG.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
from pathlib import Path

import numpy as np

BETAS = [1.0, 2.0, 4.0, 6.0, 8.0, 16.0]
COLUMNS = {"recon": "reconstruction_loss", "kl": "kl_loss",
           "factor_vae": "factor_vae_eval_accuracy", "mig": "mig_discrete_mig"}


def train(out: Path, seeds: int, steps: int, device: str) -> None:
    """The runs, their scores, and what they took."""
    from unweave.metrics import plan_scores
    from unweave.training import plan, train_runs
    from unweave.training.encoding import encode_runs
    from unweave.training.progress import PlainLines

    began = time.perf_counter()
    configs = plan("beta_vae", "dsprites", seeds=range(seeds), steps=steps, device=device,
                   architecture="conv64-study2019", beta=BETAS)
    runs = train_runs(configs, out=out / "runs", device=device, resume=True,
                      listener=PlainLines(30.0))
    trained = time.perf_counter()
    scores = plan_scores(runs[0].dataset.space, metrics=["factor_vae", "mig"])
    codes = encode_runs(runs, scores.index)
    encoded = time.perf_counter()
    rows = []
    for run, own in zip(runs, codes):
        # The study evaluated its losses on a few thousand images after training: here they are
        # the means over the last point of the curves, 600 batches.
        row = {"beta": run.config["beta"], "seed": run.config.seed, "status": run.status,
               "recon": run.curves["recon"][-1], "kl": run.curves["kl"][-1]}
        row |= {record.key: record.value for record in scores.score(own, details=False)}
        rows.append(row)
    seconds = {"train": trained - began, "encode": encoded - trained,
               "score": time.perf_counter() - encoded,
               "of_the_runs": sum(run.info["seconds"] for run in runs)}
    (out / "rows.json").write_text(json.dumps({"seconds": seconds, "rows": rows}, indent=1))
    print({k: round(v, 1) for k, v in seconds.items()})


def published(path: Path) -> list[dict[str, float]]:
    """The released beta-VAE rows of dSprites."""
    with (gzip.open(path, "rt") if path.suffix == ".gz" else path.open()) as file:
        rows = [row for row in csv.DictReader(file) if "beta_vae" in row["model_name"]]
    return [{"beta": float(row["vae_beta"])} | {k: float(row[c]) for k, c in COLUMNS.items()}
            for row in rows]


def compare(out: Path, file: Path) -> None:
    """The table; a cell outside its band, or with a p below 0.01, is marked."""
    from scipy.stats import ks_2samp

    kept = json.loads((out / "rows.json").read_text())
    theirs = published(file)
    print(f"{len(kept['rows'])} runs beside {len(theirs)}; seconds: "
          f"{ {k: round(v) for k, v in kept['seconds'].items()} }\n")
    print("| beta | runs | reconstruction | published | KL | published | FactorVAE | published | p "
          "| MIG | published | p |\n|" + "---|" * 12)
    for beta in BETAS:
        ours = [row for row in kept["rows"] if row["beta"] == beta and row["status"] == "done"]
        those = [row for row in theirs if row["beta"] == beta]
        cells = [f"{beta:g}", str(len(ours))]
        for key in ("recon", "kl"):
            low, middle, high = np.percentile([row[key] for row in those], [5, 50, 95])
            median = float(np.median([row[key] for row in ours]))
            mark = "" if low <= median <= high else " (outside)"
            cells += [f"{median:.1f}{mark}", f"{middle:.1f} ({low:.1f} to {high:.1f})"]
        for key in ("factor_vae", "mig"):
            a, b = [row[key] for row in ours], [row[key] for row in those]
            p = ks_2samp(a, b).pvalue
            cells += [f"{np.median(a):.3f}", f"{np.median(b):.3f}",
                      f"{p:.3f}" + (" (low)" if p < 0.01 else "")]
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "compare"])
    parser.add_argument("--out", type=Path, default=Path("fidelity"))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--published", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.what == "train":
        train(options.out, options.seeds, options.steps, options.device)
    elif options.published is None:
        parser.error("compare needs --published FILE, the released scores of dSprites")
    else:
        compare(options.out, options.published)


if __name__ == "__main__":
    main()
