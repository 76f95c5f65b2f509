"""How much the BetaVAE score of one code depends on its classifier: Kim & Mnih 2018, figure 16.

    python bench/adagrad.py

The code is that of `metrics.py`, with more noise; 800 points test. Rows are the number of pairs a
point, columns the number of Adagrad iterations of 10 of 10,000 points, at learning rate 0.01; then
the classifiers that are solved, on 10,000 points. Mean and deviation over seeds of the draw.
"""

from __future__ import annotations

import numpy as np

from metrics import SPACE, encode
from unweave.metrics import plan_scores

ITERATIONS = (100, 1_000, 10_000)
SOLVED = ("multinomial", "one_vs_rest", "svm")
SEEDS = 3


def codes_of(index: np.ndarray) -> np.ndarray:
    """Latents that have learned the factors in part."""
    noise = np.random.default_rng(1).normal(size=(len(SPACE), 10)).astype(np.float32)
    return encode(index) + noise[index]


def score(seed: int, **settings: object) -> float:
    plan = plan_scores(SPACE, metrics="beta_vae", convention="paper", seed=seed, **settings)
    return plan.score(codes_of(plan.index), details=False)[0].value


def main() -> None:
    heads = [*(f"{n:,} iterations" for n in ITERATIONS), *(f"`{name}`" for name in SOLVED)]
    print("| pairs | " + " | ".join(heads) + " |\n|---|" + "---|" * len(heads))
    for pairs in (50, 200):
        cells = []
        for num in ITERATIONS:
            cells.append([score(seed, classifier="adagrad", group_size=pairs, num_iterations=num,
                                num_train_votes=min(10 * num, 10_000)) for seed in range(SEEDS)])
        for name in SOLVED:
            cells.append([score(seed, classifier=name, group_size=pairs) for seed in range(SEEDS)])
        print(f"| {pairs} | " + " | ".join(f"{np.mean(c):.2f} ± {np.std(c):.2f}" for c in cells)
              + " |", flush=True)


if __name__ == "__main__":
    main()
