"""Do our beta-VAEs come out like the published ones? Six betas, some seeds, beside 50 seeds each.

    unweave study run locatello2019 --data dsprites --methods beta_vae --seeds 0..5 --store S
    python bench/fidelity.py S --published dsprites_full.csv.gz

The first makes the runs as one stack on a GPU and scores them (`study2019`). This reads the store
and the released scores of the study, and prints for each beta our median reconstruction and KL
beside the published median and 5-95 % band, and the p-values of two-sided Kolmogorov-Smirnov tests
of the FactorVAE score and MIG. `--method` shows another of the study's methods.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from unweave.studies.reproduction import agreement
from unweave.studies.store import open_store

LOSSES, SCORES = ("elbo.reconstruction", "elbo.kl"), ("factor_vae", "mig")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--method", default="beta_vae")
    options = parser.parse_args()
    found = {(record["strength"], record["score"]): record
             for record in agreement(open_store(options.store), [options.published])
             if record["method"] == options.method and record["data"] == "dsprites"}
    strengths = sorted({strength for strength, _ in found})
    print("| strength | runs | reconstruction | published | KL | published | FactorVAE | published "
          "| p | MIG | published | p |\n|" + "---|" * 12)
    low = outside = 0
    for strength in strengths:
        cells = [f"{strength:g}", str(found[strength, LOSSES[0]]["runs"])]
        for key in LOSSES:
            record = found[strength, key]
            outside += not record["inside"]
            cells += [f"{record['median']:.1f}" + ("" if record["inside"] else " (outside)"),
                      f"{record['published_median']:.1f} ({record['published_5']:.1f} to "
                      f"{record['published_95']:.1f})"]
        for key in SCORES:
            record = found[strength, key]
            low += record["p"] < 0.01
            cells += [f"{record['median']:.3f}", f"{record['published_median']:.3f}",
                      f"{record['p']:.3f}" + (" (low)" if record["p"] < 0.01 else "")]
        print("| " + " | ".join(cells) + " |")
    print(f"\n{outside} of {2 * len(strengths)} medians outside their band; "
          f"{low} of {2 * len(strengths)} tests below 0.01")


if __name__ == "__main__":
    from sentences import told

    told(main)
