"""The BetaVAE score of runs under other readings of its papers: pairs, classifiers, scales.

    python bench/pairs.py RUN [RUN ...] [--pairs 64 200 1000] [--train 3000] [--test 800]
        [--leave-out shape]

The papers leave open how many pairs a point averages over, whether codes are standardised, and
whether a class, such as the shape of dSprites, is among the factors that are told apart. Every
image of the run's data set is encoded once; the points are drawn anew for each number of pairs.
Prints the accuracies on test points, and how many latents are in use (a standard deviation of codes
above 0.1). With --leave-out also the accuracies where no pair shares that factor.
"""

from __future__ import annotations

import argparse

import numpy as np

import unweave
from unweave.metrics import Plan, plan_scores
from unweave.metrics.beta_vae import beta_vae

CLASSIFIERS = ("svm", "one_vs_rest", "multinomial")
USED = 0.1


def accuracy(plan: Plan, codes: np.ndarray, classifier: str, left_out: int | None) -> float:
    """The score, with points of all factors or of all but one."""
    draw = plan.draws[0]
    kept = np.flatnonzero(draw.fixed != left_out)
    fixed = np.unique(draw.fixed[kept], return_inverse=True)[1]  # classes without a gap
    return beta_vae(codes, draw.groups[kept], fixed, classifier=classifier,
                    num_train=int((kept < draw.num_train).sum()))["beta_vae"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--pairs", nargs="*", type=int, default=(64, 200, 1000))
    parser.add_argument("--train", type=int, default=3000, help="points that train")
    parser.add_argument("--test", type=int, default=800, help="points that test")
    parser.add_argument("--leave-out", metavar="FACTOR", help="one that no pair is to share")
    options = parser.parse_args()
    print(f"| run | latents in use | factors | pairs | codes | {' | '.join(CLASSIFIERS)} |\n"
          f"|---|---|---|---|---|{'---|' * len(CLASSIFIERS)}")
    for folder in options.runs:
        run = unweave.load(folder)
        names = run.dataset.space.names
        if options.leave_out not in (None, *names):
            parser.error(f"--leave-out must be one of {', '.join(names)}")
        readings: dict[str, int | None] = {"all": None}
        if options.leave_out:
            readings[f"without {options.leave_out}"] = names.index(options.leave_out)
        codes = run.encode_at(np.arange(len(run.dataset))).astype(np.float64)
        spread = codes.std(axis=0)
        scales = {"as they are": codes,
                  "standardised": (codes - codes.mean(axis=0)) / np.maximum(spread, 1e-12)}
        for factors, left_out in readings.items():
            for pairs in options.pairs:
                plan = plan_scores(run.dataset.space, metrics="beta_vae", convention="paper",
                                   group_size=pairs, num_train_votes=options.train,
                                   num_test_votes=options.test)
                for scale, held in scales.items():
                    found = [accuracy(plan, held[plan.index], name, left_out)
                             for name in CLASSIFIERS]
                    print(f"| {run.run_id} | {(spread > USED).sum()} | {factors} | {pairs} | "
                          f"{scale} | " + " | ".join(f"{value:.3f}" for value in found) + " |",
                          flush=True)


if __name__ == "__main__":
    from sentences import told

    told(main)
