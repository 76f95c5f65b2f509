"""Every method for some hundred steps on a small dSprites: does it do what it is meant to do?

    python bench/methods.py [--steps 400]

Prints one row for each method, trained twice: at a weak and at a strong setting of its main letter,
three seeds each, on 6,144 sprites (three shapes, two scales, four orientations, 16 x 16 positions).
The term that the letter penalises, averaged over the last tenth of training and over seeds, must be
smaller at the strong setting. `docs/methods/index.md` shows the table of the 400 steps.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from unweave.data import load_data, table_dataset
from unweave.training import train
from unweave.training.run import Run

# method: (term, weak setting, strong setting). The term is what the strong setting pushes down.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "vae": ("kl", {}, {}),  # no letter: its row shows the loss alone
    "beta_vae": ("kl", {"beta": 0.5}, {"beta": 8.0}),
    "annealed_vae": ("distance to capacity", {"gamma": 0.0, "c_max": 20.0},
                     {"gamma": 100.0, "c_max": 20.0}),
    "factor_vae": ("tc", {"gamma": 0.0}, {"gamma": 30.0}),
    "factor_vae_prior": ("kl_qz", {"gamma": 0.0}, {"gamma": 30.0}),
    "beta_tcvae": ("tc", {"beta": 0.5}, {"beta": 10.0}),
    "dip_vae_i": ("dip_od", {"lambda_od": 0.0, "lambda_d": 0.0},
                  {"lambda_od": 50.0, "lambda_d": 50.0}),
    "dip_vae_ii": ("dip_od", {"lambda_od": 0.0, "lambda_d": 0.0},
                   {"lambda_od": 50.0, "lambda_d": 50.0}),
    "aae": ("kl_qz", {"gamma": 0.0}, {"gamma": 30.0}),
    "information_dropout": ("mi", {"beta": 0.05}, {"beta": 8.0}),
    "joint_vae": ("distance to capacity", {"gamma_z": 0.0, "c_max_z": 10.0},
                  {"gamma_z": 100.0, "c_max_z": 10.0}),
}
ANNEALED = {"annealed_vae": ("kl", "capacity"), "joint_vae": ("kl", "capacity_z")}


def small_dsprites():
    """6,144 sprites as a data set of their own."""
    whole, sizes = load_data("dsprites"), (3, 2, 4, 16, 16)
    rows = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=-1)
    picked = rows * np.array([1, 5, 10, 2, 2])
    return table_dataset(whole.images(whole.index(picked)), rows, whole.space.names,
                         name="small-dsprites")


def last(run: Run, method: str, term: str) -> float:
    """The term over the last tenth of a run."""
    if term == "distance to capacity":
        kl, capacity = (np.asarray(run.curves[k]) for k in ANNEALED[method])
        values = np.abs(kl - capacity)
    else:
        values = np.asarray(run.curves[term])
    return float(np.mean(values[-max(1, len(values) // 10):]))


def run_case(method: str, steps: int, dataset) -> dict[str, Any]:
    """Train a method weakly and strongly; what happened to its loss and to its term."""
    term, weak, strong = CASES[method]
    common: dict[str, Any] = {"seeds": [0, 1, 2], "steps": steps, "out": None, "progress": False,
                              "batch_size": 32, "learning_rate": 1e-3, "num_latents": 6,
                              "architecture": "conv64-small"}
    if method in ANNEALED:
        common["anneal_steps"] = steps / 2
    if method in ("factor_vae", "factor_vae_prior", "aae"):  # a critic that suits the small task
        common |= {"critic_width": 100, "critic_depth": 3, "critic_rate": 1e-3}
    runs = {name: train(method, dataset, **common, **letters)
            for name, letters in (("weak", weak), ("strong", strong))
            if letters or name == "strong"}
    strong_runs = runs["strong"]
    first = float(np.mean([run.curves["loss"][0] for run in strong_runs]))
    final = float(np.mean([run.curves["loss"][-1] for run in strong_runs]))
    means = {name: float(np.mean([last(r, method, term) for r in group]))
             for name, group in runs.items()}
    return {"method": method, "loss_first": first, "loss_last": final, "term": term,
            "weak": means.get("weak", float("nan")), "strong": means["strong"],
            "settings": f"{_said(weak)} / {_said(strong)}" if weak else "-"}


def _said(letters: dict[str, Any]) -> str:
    return " ".join(f"{k}={v:g}" for k, v in letters.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--methods", nargs="*", default=list(CASES))
    options = parser.parse_args()
    dataset = small_dsprites()
    print("| method | settings (weak / strong) | loss, first -> last | term | weak | strong |")
    print("|---|---|---|---|---|---|")
    for method in options.methods:
        row = run_case(method, options.steps, dataset)
        weak = "-" if np.isnan(row["weak"]) else f"{row['weak']:.3g}"
        print(f"| `{method}` | {row['settings']} | {row['loss_first']:.0f} -> "
              f"{row['loss_last']:.0f} | {row['term']} | {weak} | {row['strong']:.3g} |",
              flush=True)


if __name__ == "__main__":
    main()
