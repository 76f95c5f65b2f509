"""The BetaVAE score of runs under other readings of its papers: pairs, classifiers, scales.

    python bench/pairs.py RUN [RUN ...] [--pairs 64 200 1000] [--train 3000] [--test 800]

The papers leave open how many pairs a point averages over, and whether codes are standardised.
Every image of the run's data set is encoded once; the points are drawn anew for each number of
pairs. Prints the accuracies on test points, and how many latents are in use (a standard deviation
of codes above 0.1).
"""

from __future__ import annotations

import argparse

import numpy as np

import unweave
from unweave.metrics import plan_scores

CLASSIFIERS = ("svm", "one_vs_rest", "multinomial")
USED = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--pairs", nargs="*", type=int, default=(64, 200, 1000))
    parser.add_argument("--train", type=int, default=3000, help="points that train")
    parser.add_argument("--test", type=int, default=800, help="points that test")
    options = parser.parse_args()
    print(f"| run | latents in use | pairs | codes | {' | '.join(CLASSIFIERS)} |\n"
          f"|---|---|---|---|{'---|' * len(CLASSIFIERS)}")
    for folder in options.runs:
        run = unweave.load(folder)
        codes = run.encode_at(np.arange(len(run.dataset))).astype(np.float64)
        spread = codes.std(axis=0)
        scales = {"as they are": codes,
                  "standardised": (codes - codes.mean(axis=0)) / np.maximum(spread, 1e-12)}
        for pairs in options.pairs:
            plans = [plan_scores(run.dataset.space, metrics="beta_vae", convention="paper",
                                 classifier=name, group_size=pairs, num_train_votes=options.train,
                                 num_test_votes=options.test) for name in CLASSIFIERS]
            for scale, held in scales.items():
                found = [next(score.value for score in plan.score(held[plan.index], details=False)
                              if score.key == "beta_vae") for plan in plans]
                print(f"| {run.run_id} | {(spread > USED).sum()} | {pairs} | {scale} | "
                      + " | ".join(f"{value:.3f}" for value in found) + " |", flush=True)


if __name__ == "__main__":
    main()
