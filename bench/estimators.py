"""Are the scores of a run those that the usual program gives? The same rows, both ways.

    python bench/estimators.py RUN [RUN ...] [--draws 3] [--metrics sap factor_vae beta_vae ...]
    python bench/estimators.py RUN [RUN ...] --precisions

Every image of the run's data set is encoded once. For each draw of points, votes or pairs, as many
as the published study had, the score is ours and that of `usual.py`, loops around scikit-learn.
Prints their means over the draws, the largest difference of a draw, and the standard deviation
between draws: how far a score moves if nothing but its rows is drawn anew. DCI's reference takes
some minutes a draw.

With --precisions the weights encode the same rows in float32 and in bfloat16, and our scores of
both stand side by side.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from usual import IN_PROCESSES, REFERENCES

import unweave
from unweave.metrics import METRICS, plan_scores

NAMES = ("mig", "sap", "factor_vae", "beta_vae", "modularity", "explicitness")
KEYS = {"explicitness": ("explicitness.test",),
        "dci": ("dci.disentanglement", "dci.completeness")}


def both_ways(name: str, codes: np.ndarray, space: unweave.FactorSpace,
              seed: int) -> tuple[float, float]:
    """Our score and the usual one, on one draw."""
    plan = plan_scores(space, metrics=name, seed=seed)
    own = codes[plan.index]
    key = next(iter(METRICS[name].keys))
    ours = {score.key: score.value for score in plan.score(own, details=False)}[key]
    more: dict[str, object] = {"jobs": 1} if name in IN_PROCESSES else {}
    if name == "dci":
        more["stages"] = plan.settings[0]["num_stages"]
    return ours, REFERENCES[name](own, plan.factors, plan.draws[0], **more)


def by_precision(run: unweave.Run, names: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Scores of codes that were computed in float32 and in bfloat16, on the same rows."""
    plan = plan_scores(run.dataset.space, metrics=list(names))
    found = []
    for precision in ("float32", "bfloat16"):
        same = replace(run, config=replace(run.config, precision=precision))
        scores = plan.score(same.encode_at(plan.index), details=False)
        found.append({score.key: score.value for score in scores})
    for name in names:
        for key in KEYS.get(name, (name,)):
            yield key, found[0][key], found[1][key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--draws", type=int, default=3, help="two at least, to say how they differ")
    parser.add_argument("--metrics", nargs="*", default=NAMES, choices=(*NAMES, "dci"))
    parser.add_argument("--precisions", action="store_true")
    options = parser.parse_args()
    if options.draws < 2:
        parser.error("--draws must be 2 or more")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    warnings.simplefilter("ignore")
    if options.precisions:
        print("| run | score | float32 | bfloat16 | difference |\n|---|---|---|---|---|")
        for folder in options.runs:
            run = unweave.load(folder)
            for key, one, other in by_precision(run, options.metrics):
                print(f"| {run.run_id} | {key} | {one:.4f} | {other:.4f} | {other - one:+.4f} |",
                      flush=True)
        return
    print("| run | metric | ours | usual | largest difference | between draws |\n"
          "|---|---|---|---|---|---|")
    for folder in options.runs:
        run = unweave.load(folder)
        codes = run.encode_at(np.arange(len(run.dataset)))
        for name in options.metrics:
            found = np.array([both_ways(name, codes, run.dataset.space, seed)
                              for seed in range(options.draws)])
            ours, usual = found.T
            print(f"| {run.run_id} | {name} | {ours.mean():.4f} | {usual.mean():.4f} | "
                  f"{np.abs(ours - usual).max():.4f} | {ours.std(ddof=1):.4f} |", flush=True)


if __name__ == "__main__":
    from sentences import told

    told(main)
