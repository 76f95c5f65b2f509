"""InfoGAN's category over seeds: how often it is the digit, as training goes on.

    python bench/categories.py --data mnist:FOLDER,size=28 --seeds 0..5 --lambda-mi 0.1 1
    python bench/categories.py --data mnist:FOLDER,size=28 --least-logvar 0 --critic-rate 1e-4 3e-4

Trains `infowgan_gp` (or `--method infogan`) as Kim & Mnih 2018 (appendix H, table 4) have it, for
every weight of the information, least log-variance and rate of the critic that are given, side by
side in one stack on a GPU. At every mark it scores the class that Q reads in the real training
images against their labels (best matching). Prints for each mark these, what Q knows of the classes
of made images (log 10 is all) and the critic's distance, run by run; then a table.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np
import torch
from clusters import summary

from unweave.data import load_data
from unweave.metrics.clusters import cluster_scores
from unweave.training import parse_seeds, plan
from unweave.training.run import choose_device
from unweave.training.stack import Stack
from unweave.training.warmup import heads_of_stack


def scores(stack: Stack, labels: np.ndarray) -> list[dict[str, float]]:
    """Of every run of a stack as it stands: its first categorical code against the labels."""
    with torch.no_grad():
        heads, index = heads_of_stack(stack)
        config = stack.configs[0]
        codes = stack.method.posterior.codes(heads.float().cpu(), dict(config.hyper))
    found = []
    for m in range(len(stack)):
        if not torch.isfinite(heads[m]).all():
            found.append(dict.fromkeys(cluster_scores([0], [0]), float("nan")))
            continue
        category = codes[m, :, config.num_latents].numpy().astype(int)
        found.append(cluster_scores(category, labels[index[m].cpu().numpy()]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="mnist,size=28")
    parser.add_argument("--method", default="infowgan_gp")
    parser.add_argument("--seeds", default="0..4")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--marks", type=int, default=10)
    parser.add_argument("--lambda-mi", type=float, nargs="+", default=[1.0])
    parser.add_argument("--least-logvar", type=float, nargs="+", default=[-8.0])
    parser.add_argument("--critic-steps", type=int)
    parser.add_argument("--critic-rate", type=float, nargs="+", default=[1e-4])
    parser.add_argument("--num-latents", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device, dataset = choose_device(options.device), load_data(options.data)
    labels = np.asarray(dataset.labels.values)[:, 0].astype(str)
    more = {} if options.critic_steps is None else {"critic_steps": options.critic_steps}
    configs = plan(
        options.method, options.data, seeds=parse_seeds(options.seeds), device=str(device),
        steps=options.steps, architecture=f"{options.method.split('_')[0]}-mnist",
        num_latents=options.num_latents, learning_rate=options.learning_rate,
        lambda_mi=options.lambda_mi, least_logvar=options.least_logvar,
        critic_rate=options.critic_rate, **more)
    stack, rows = Stack(configs, dataset, device), {}
    began = time.perf_counter()
    for mark in np.unique(np.linspace(0, options.steps, options.marks + 1).round())[1:]:
        stack.run_until(int(mark) - 1)
        terms = stack.train_step()
        rows[int(mark)] = made = scores(stack, labels)
        print(f"step {mark:.0f}, {time.perf_counter() - began:.0f} s:",
              " ".join(f"{s['clusters.accuracy']:.3f}" for s in made))
        for name in ("mi_category", "critic_value"):
            values = terms[name].float().cpu().tolist()
            print(f"  {name}:", " ".join(f"{value:.2f}" for value in values), flush=True)
        if options.json:
            options.json.write_text(json.dumps(
                {"configs": [json.loads(config.to_json()) for config in configs],
                 "scores": rows}, indent=1))
    names = "lambda_mi", "least_logvar", "critic_rate"
    print("\n| lambda | least log-variance | critic's rate | step | median | least | most | NMI | "
          "ARI | NaN |\n|" + 10 * "---|")
    for setting in product(*(getattr(options, name) for name in names)):
        for mark, made in rows.items():
            own = [score for score, config in zip(made, configs)
                   if tuple(config[name] for name in names) == setting]
            print(f"| {' | '.join(f'{value:g}' for value in setting)} | {mark} | {summary(own)} |")



if __name__ == "__main__":
    main()
