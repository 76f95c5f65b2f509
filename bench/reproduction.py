"""The published study beside our runs of it: the tables of docs/reproduction.md, from a store.

    unweave study run locatello2019 --data dsprites --seeds 0,1 --store S
    python bench/reproduction.py S --published dsprites_full.csv.gz
    python bench/reproduction.py S --published dsprites_full.csv.gz --add factor_vae=0.005

Prints for every score how many cells (a method at a strength) have our median inside the published
5 to 95 % band, over all and by method, then where our runs lie among the published ones as groups,
then for every score a table of cells: ours, the published median and its band. A cell outside is
marked. `--scores` picks some of them. `--figure` draws the same: the dSprites row of the study's
figure 8, published runs and ours on the same axes. `--add` says instead where all our runs would
lie with so much added to a score: how much of a shift a known difference explains.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from unweave.report.pictures.style import FAINT, INK, PALETTE, RULE, new_figure, plain
from unweave.studies.reproduction import Cells, agreement, as_group, both_sides, shares_draws
from unweave.studies.store import Store, open_store

SCORES = {
    "elbo.reconstruction": "reconstruction", "elbo.kl": "KL", "beta_vae": "BetaVAE",
    "factor_vae": "FactorVAE", "mig": "MIG", "sap": "SAP",
    "dci.disentanglement": "DCI disentanglement", "dci.completeness": "DCI completeness",
    "modularity": "modularity", "explicitness.test": "explicitness"}
"""Those that the study reports, by key."""


def share(records: list[dict[str, Any]]) -> str:
    inside = sum(record["inside"] for record in records)
    return f"{inside} of {len(records)}" if records else ""


def overview(records: list[dict[str, Any]], scores: list[str]) -> list[str]:
    """A row for each score: cells inside, by method, and the median shift in published spreads.

    The shift is (ours - published median) / half the width of the band; a method that is off as a
    group shows in it even where all of its cells are inside.
    """
    methods = list(dict.fromkeys(record["method"] for record in records))
    lines = ["| score | " + " | ".join(f"`{m}`" for m in methods) + " | all | share | shift |",
             "|---|" + "---|" * (len(methods) + 3)]
    for key in scores:
        own = [record for record in records if record["score"] == key]
        cells = [share([record for record in own if record["method"] == m]) for m in methods]
        shifts = [(r["median"] - r["published_median"])
                  / max(1e-12, 0.5 * (r["published_95"] - r["published_5"])) for r in own]
        part = np.mean([record["inside"] for record in own])
        lines.append(f"| {SCORES.get(key, key)} | {' | '.join(cells)} | {share(own)} | "
                     f"{100 * part:.0f} % | {np.median(shifts):+.2f} |")
    return lines


def groups(ours: Cells, theirs: Cells, scores: list[str]) -> list[str]:
    """Places of our runs among the published ones, and how likely chance is, by method."""
    methods = list(dict.fromkeys(cell[1] for cell in ours))
    lines = ["| score | " + " | ".join(f"`{m}`" for m in methods) + " | all |",
             "|---|" + "---|" * (len(methods) + 1)]
    for key in scores:
        own = {cell: runs for cell, runs in ours.items() if cell[3] == key}
        parts = [{cell: runs for cell, runs in own.items() if cell[1] == m} for m in methods]
        said = [f"{group.place:.2f} ({group.p:.2f})"
                for group in (as_group(part, theirs) for part in (*parts, own))]
        lines.append(f"| {SCORES.get(key, key)} | {' | '.join(said)} |")
    return lines


def alike(ours: Cells, theirs: Cells) -> list[str]:
    """Cells whose published runs must have had the same test points, and the groups without them.

    Only for accuracies on test points that are drawn for the score.
    """
    lines = []
    for key in ("beta_vae", "factor_vae"):
        own = {cell: runs for cell, runs in ours.items() if cell[3] == key}
        same = [cell for cell in own if shares_draws(theirs[cell])]
        for method in dict.fromkeys(cell[1] for cell in same):
            at = " and ".join(f"{cell[2]:g}" for cell in same if cell[1] == method)
            rest = {cell: runs for cell, runs in own.items() if cell not in same}
            parts = {f"`{method}` has": {c: r for c, r in rest.items() if c[1] == method},
                     "all methods": rest}
            groups = {who: as_group(part, theirs) for who, part in parts.items() if part}
            lines.append(f"- {SCORES[key]} of `{method}` at {at}; without that " + ", ".join(
                f"{who} {group.place:.2f} ({group.p:.2f})" for who, group in groups.items()) + ".")
    return lines


def added(ours: Cells, theirs: Cells, word: str) -> str:
    """Where all our runs would lie if a score were higher by as much as `word`, `key=value`, says.

    Without the cells whose published runs had the same test points.
    """
    key, _, amount = word.partition("=")
    own = {cell: runs for cell, runs in ours.items()
           if cell[3] == key and not shares_draws(theirs[cell])}
    moved = {cell: [(seed, value + float(amount)) for seed, value in runs]
             for cell, runs in own.items()}
    before, after = as_group(own, theirs), as_group(moved, theirs)
    return (f"{SCORES.get(key, key)}: all methods {before.place:.2f} ({before.p:.2f}), and "
            f"{after.place:.2f} ({after.p:.2f}) with {amount} added to ours.")


def shared_by_seeds(theirs: Cells, key: str) -> str:
    """How much more means over strengths vary between published seeds than of independent runs."""
    found = {}
    for method in dict.fromkeys(cell[1] for cell in theirs):
        own = [dict(runs) for cell, runs in theirs.items() if cell[1] == method and cell[3] == key]
        seeds = sorted(set.intersection(*map(set, own)))
        values = np.array([[runs[seed] for seed in seeds] for runs in own])
        places = (values.argsort(1).argsort(1) + 0.5) / len(seeds)  # uniform: a variance of 1/12
        found[method] = places.mean(0).var(ddof=1) * 12 * len(own)
    said = ", ".join(f"`{method}` {times:.1f}" for method, times in found.items())
    return (f"Places of published seeds in {SCORES.get(key, key)}, means over strengths, vary as "
            f"many times as those of independent runs would: {said}.")


def cells(records: list[dict[str, Any]], key: str) -> list[str]:
    """Methods by strengths: ours beside the published median and band."""
    own = [record for record in records if record["score"] == key]
    digits = 1 if key.startswith("elbo") else 3
    lines = ["| method | | 1st strength | 2nd | 3rd | 4th | 5th | 6th |", "|---|" + "---|" * 7]
    for method in dict.fromkeys(record["method"] for record in own):
        rows = sorted((r for r in own if r["method"] == method), key=lambda r: r["strength"])
        ours = [f"{r['median']:.{digits}f}" + ("" if r["inside"] else " **(outside)**")
                for r in rows]
        theirs = [f"{r['published_median']:.{digits}f} ({r['published_5']:.{digits}f} to "
                  f"{r['published_95']:.{digits}f})" for r in rows]
        runs = sorted({r["runs"] for r in rows})
        num = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        lines += [f"| `{method}` | ours, {num} seeds | " + " | ".join(ours) + " |",
                  "| | published, 50 | " + " | ".join(theirs) + " |"]
    return lines


NAMES = {"beta_vae": "beta-VAE", "annealed_vae": "AnnealedVAE", "factor_vae": "FactorVAE",
         "dip_vae_i": "DIP-VAE-I", "dip_vae_ii": "DIP-VAE-II", "beta_tcvae": "beta-TCVAE"}


def draw(store: Store, records: list[dict[str, Any]], scores: list[str], path: Path) -> None:
    """Methods by scores: the published band and median, our runs and their median."""
    methods = [m for m in NAMES if any(r["method"] == m for r in records)]
    figure = new_figure(0.5 + 1.5 * len(scores), 0.7 + 1.35 * len(methods),
                        "dSprites: published median and 5 to 95 % band (grey), our runs (dots) "
                        "and their median (line)")
    panels = figure.subplots(len(methods), len(scores), squeeze=False)
    for j, key in enumerate(scores):
        for below in panels[1:, j] if not key.startswith("elbo") else ():
            below.sharey(panels[0, j])  # losses have scales of their own, by method
    about = {row["run_id"]: row for row in store.runs()
             if row["source"] == "unweave" and row["data"] == "dsprites"}
    found = [s for s in store.scores() if s["convention"] == "study2019" and s["run_id"] in about]
    for i, method in enumerate(methods):
        for j, key in enumerate(scores):
            axes = panels[i][j]
            plain(axes)
            cells = sorted((r for r in records if (r["score"], r["method"]) == (key, method)),
                           key=lambda r: r["strength"])
            places = {r["strength"]: k for k, r in enumerate(cells)}
            x = list(places.values())
            axes.fill_between(x, [r["published_5"] for r in cells],
                              [r["published_95"] for r in cells], color=RULE, linewidth=0)
            axes.plot(x, [r["published_median"] for r in cells], color=FAINT, linewidth=1.0)
            axes.plot(x, [r["median"] for r in cells], color=PALETTE[i], linewidth=1.2)
            dots = [(places[about[s["run_id"]]["strength"]], s["value"]) for s in found
                    if s["key"] == key and about[s["run_id"]]["method"] == method]
            axes.plot(*zip(*dots), ".", color=PALETTE[i], markersize=3)
            axes.set_xticks(x, [f"{r['strength']:g}" for r in cells])
            if i == 0:
                axes.set_title(SCORES[key].replace("DCI ", "DCI\n"), fontsize=8, color=INK)
            if j == 0:
                axes.set_ylabel(NAMES[method], fontsize=8, color=INK)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--scores", nargs="*", default=list(SCORES))
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--add", metavar="SCORE=VALUE")
    options = parser.parse_args()
    store = open_store(options.store)
    ours, theirs = ({cell: runs for cell, runs in side.items() if cell[0] == "dsprites"}
                    for side in both_sides(store, [options.published]))
    if options.add:
        print(added(ours, theirs, options.add))
        return
    records = [record for record in agreement(store, [options.published])
               if record["score"] in options.scores and record["data"] == "dsprites"]
    scores = [key for key in options.scores if any(r["score"] == key for r in records)]
    print("\n".join(overview(records, scores)) + "\n")
    print("\n".join(groups(ours, theirs, scores)) + "\n")
    print(shared_by_seeds(theirs, scores[0]))
    if same := alike(ours, theirs):
        print("\nPublished bands that are too narrow for test points drawn for each run:\n\n"
              + "\n".join(same))
    for key in scores:
        print(f"\n### {SCORES.get(key, key)}\n")
        print("\n".join(cells(records, key)))
    if options.figure:
        draw(store, records, scores, options.figure)


if __name__ == "__main__":
    from sentences import told

    told(main)
