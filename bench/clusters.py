"""VaDE over seeds: how well clusters agree with digits, and whether any run fails.

    python bench/clusters.py --data mnist:FOLDER,size=28,split=all --seeds 0..19 [--json FILE]

The paper's recipe: 784-500-500-2000-10, batches of 100, an autoencoder for 50 epochs, a mixture
fitted to its codes, 300 epochs of VaDE with Adam, its rate times 0.9 every 10 epochs. The paper
begins with a rate of 2e-3, which shakes the clusters that it starts from; here it is 5e-4 unless
`--learning-rate` says otherwise, and several rates train side by side. Published is 0.94 (Jiang et
al. 2017, table 2). One line for each mark: epochs, then the accuracy of every seed. On a GPU all
runs are one stack; on a CPU one follows another. `--init-from RUN` starts from a run's encoder and
decoder in place of the autoencoder.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from unweave.data import load_data
from unweave.metrics.clusters import cluster_scores
from unweave.objectives.mixture import of_weights
from unweave.objectives.posterior import split_head
from unweave.training import load, parse_seeds, plan
from unweave.training.run import choose_device
from unweave.training.stack import Stack
from unweave.training.warmup import heads_of_stack


def scores(stack: Stack, labels: np.ndarray) -> list[dict[str, float]]:
    """Of every run of a stack as it stands; NaN where its weights are not finite."""
    found = []
    with torch.no_grad():
        heads, index = heads_of_stack(stack)
        codes = split_head(heads, ())[0]
        for m in range(len(stack)):
            prior = of_weights({k: v[m] for k, v in stack.prior_params.items()})
            likely = stack.method.prior.assign(prior, codes[m])
            if not torch.isfinite(likely).all():
                found.append(dict.fromkeys(cluster_scores([0], [0]), float("nan")))
                continue
            own = labels[index[m].cpu().numpy()]
            found.append(cluster_scores(likely.argmax(-1).cpu().numpy(), own))
    return found


def summary(made: list[dict[str, float]]) -> str:
    """Cells of the table: over those seeds that have scores."""
    accuracy, nmi, ari = (np.array([s[f"clusters.{k}"] for s in made])
                          for k in ("accuracy", "nmi", "ari"))
    lost = f"{int(np.isnan(accuracy).sum())} of {len(made)}"
    if np.isnan(accuracy).all():
        return f" | | | | | {lost}"
    return (f"{np.nanmedian(accuracy):.3f} | {np.nanmin(accuracy):.3f} | {np.nanmax(accuracy):.3f} "
            f"| {np.nanmedian(nmi):.3f} | {np.nanmedian(ari):.3f} | {lost}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="mnist,size=28,split=all")
    parser.add_argument("--seeds", default="0..9")
    parser.add_argument("--pretrain-epochs", type=float, default=50)
    parser.add_argument("--epochs", type=float, default=300)
    parser.add_argument("--marks", type=int, default=10, help="lines after the fit")
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, nargs="+", default=[5e-4])
    parser.add_argument("--likelihood", default="bernoulli")
    parser.add_argument("--adam-eps", type=float, default=1e-8)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--init-from", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device, dataset = choose_device(options.device), load_data(options.data)
    labels = np.asarray(dataset.labels.values)[:, 0].astype(str)
    epoch = len(dataset) / options.batch_size
    donor = None if options.init_from is None else load(options.init_from, device="cpu")
    configs = [config for rate in options.learning_rate for config in plan(
        "vade", options.data, seeds=parse_seeds(options.seeds), device=str(device),
        precision=options.precision, steps=max(1, round(options.epochs * epoch)),
        batch_size=options.batch_size, architecture="jiang2017", learning_rate=rate,
        likelihood=options.likelihood, adam_eps=options.adam_eps,
        pretrain_steps=round(options.pretrain_epochs * epoch), decay_steps=10 * epoch,
        init_from="" if donor is None else donor.run_id)]
    lanes = [configs] if device.type == "cuda" else [[config] for config in configs]
    rows: dict[str, list[dict[str, float]]] = {}
    began = time.perf_counter()
    for lane in lanes:
        stack = Stack(lane, dataset, device)
        if donor is not None:
            for m in range(len(lane)):
                stack.start_from(m, donor.params)
        first = stack.num_steps - lane[0].steps
        marks = np.unique(np.linspace(first, stack.num_steps, options.marks + 1).round())
        stack.run_until(first)
        stack.begin()
        for mark in marks:
            stack.run_until(int(mark))
            name = f"{(mark - first) / epoch:.1f}"
            made = scores(stack, labels)
            rows.setdefault(name, []).extend(made)
            print(f"epoch {name}, {time.perf_counter() - began:.0f} s:",
                  " ".join(f"{s['clusters.accuracy']:.3f}" for s in made), flush=True)
    print("\n| rate | epochs after the fit | median | least | most | NMI | ARI | NaN |\n"
          "|---|---|---|---|---|---|---|---|")
    for rate in options.learning_rate:
        for name, made in rows.items():
            own = [score for score, config in zip(made, configs) if config.learning_rate == rate]
            print(f"| {rate:g} | {name} | {summary(own)} |")
    if options.json:
        options.json.write_text(json.dumps({"config": json.loads(configs[0].to_json()),
                                            "scores": rows}, indent=1))


if __name__ == "__main__":
    from sentences import told

    told(main)
