"""Papers' tables beside our runs of them, from a store: parts of docs/reproduction.md and others.

    unweave study run kim2018 --data dsprites --methods beta_vae --strengths 4 --store S
    unweave study run kim2018 --data dsprites --methods factor_vae --strengths 40 --store S
    unweave study run kumar2018 --store S
    unweave study run kaddah2020 --store S
    unweave study run infogan_lambda --store S
    python bench/papers.py S [--published dsprites_full.csv.gz]

Prints a table for each of the studies that the store has runs of: means over our seeds, with the
standard deviation between them, and what the paper prints. `results/papers` has rows of ours.
With the released scores of Locatello et al. 2019, Kim & Mnih's table also has what that study's
runs of the same methods and strengths have, and how high the mean of a few of them can be.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from unweave.studies.published import read_published
from unweave.studies.store import Store, open_store

Rows = dict[tuple[str, float | None], dict[str, list[float]]]
"""Values of each score by method and strength."""

RECONSTRUCTION = "elbo.reconstruction"

# Kim & Mnih 2018, section 5: "around 0.82", "around 0.73", "both with reconstruction error around
# 45".
KIM = {("factor_vae", 40.0): ("0.82", "45"), ("beta_vae", 4.0): ("0.73", "45")}
# Kumar et al. 2018, table 1, 2D Shapes: score and error; DIP-VAE is the best of its strengths.
KUMAR = {("vae", None): (81.3, 0.0017), ("beta_vae", 4.0): (80.7, 0.0032),
         ("beta_vae", 60.0): (95.7, 0.0113)}
KUMAR_DIP = (98.7, 0.0018)
# Kaddah 2020, table 2: FactorVAE score on training and test votes, reconstruction.
KADDAH = {"beta_vae": (0.74, 0.731, 42.66), "annealed_vae": (0.761, 0.761, 27.03),
          "joint_vae": (0.801, 0.792, 15.32), "factor_vae": (0.705, 0.696, 26.73),
          "beta_tcvae": (0.713, 0.717, 28.42)}


def rows_of(store: Store, study: str) -> Rows:
    """Scores of a study's finished runs on dSprites."""
    about = {row["run_id"]: (row["method"], row["strength"]) for row in store.runs()
             if row["study"] == study and row["status"] == "done" and row["data"] == "dsprites"}
    found: Rows = {}
    for score in store.scores():
        if score["run_id"] in about and score["value"] is not None:
            cell = found.setdefault(about[score["run_id"]], {})
            cell.setdefault(score["key"], []).append(score["value"])
    return found


def said(values: Iterable[float], digits: int, scale: float = 1.0) -> str:
    """Mean and deviation between seeds."""
    values = scale * np.asarray(list(values))
    spread = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def named(method: str, strength: float | None) -> str:
    return f"`{method}`" if strength is None else f"`{method}` {strength:g}"


def kim(rows: Rows) -> list[str]:
    """Figures 4 and 5 on 2D Shapes."""
    lines = ["| | seeds | FactorVAE score | paper | reconstruction | paper |", "|---|" + "---|" * 5]
    for cell, scores in sorted(rows.items()):
        score, loss = KIM.get(cell, ("", ""))
        lines.append(f"| {named(*cell)} | {len(scores['factor_vae'])} | "
                     f"{said(scores['factor_vae'], 3)} | {score} | "
                     f"{said(scores[RECONSTRUCTION], 1)} | {loss} |")
    return lines


def kim_published(files: list[str], *, num: int = 10, draws: int = 10_000) -> list[str]:
    """What the runs of Locatello et al. 2019 have at the strengths of figure 5.

    Their score has more votes and smaller groups, their network another dense layer, and FactorVAE
    half of the updates.
    """
    released, random = read_published(files), np.random.default_rng(0)
    lines, sentences = [], [""]
    for (method, strength), (score, loss) in KIM.items():
        own = [run_id for run_id, row in released.runs.items()
               if (row["data"], row["method"], row["strength"]) == ("dsprites", method, strength)]
        scores, losses = (np.array([released.scores[run_id, key] for run_id in own])
                          for key in ("factor_vae", RECONSTRUCTION))
        means = [random.choice(scores, num, replace=False).mean() for _ in range(draws)]
        lines.append(f"| {named(method, strength)}, Locatello et al. 2019 | {len(own)} | "
                     f"{said(scores, 3)} | {score} | {said(losses, 1)} | {loss} |")
        sentences.append(f"{named(method, strength)}, Locatello et al. 2019: of {draws:,} means of "
                         f"{num} of its runs the largest is {max(means):.3f}.")
    return lines + sentences


def kumar(rows: Rows) -> list[str]:
    """Table 1, 2D Shapes: the BetaVAE score by support vector machines, in percent.

    The paper's errors have a unit that it does not name, so errors are set beside the VAE's.
    """
    lines = ["| | seeds | BetaVAE score, SVM | paper | reconstruction, nats | times the VAE's | "
             "paper |", "|---|" + "---|" * 6]
    order = sorted(rows, key=lambda cell: (cell[0] != "vae", cell[0], cell[1] or 0.0))
    dips = [cell for cell in order if cell[0] == "dip_vae_i"]
    best = max(dips, key=lambda cell: np.mean(rows[cell]["beta_vae"]), default=None)
    usual = np.mean(rows[order[0]][RECONSTRUCTION])
    for cell in order:
        score, error = KUMAR.get(cell, KUMAR_DIP if cell == best else (None, None))
        scores = rows[cell]
        lines.append(f"| {named(*cell)} | {len(scores['beta_vae'])} | "
                     f"{said(scores['beta_vae'], 1, 100.0)} | {score or ''}"
                     f"{', its best' if cell == best else ''} | "
                     f"{said(scores[RECONSTRUCTION], 1)} | "
                     f"{np.mean(scores[RECONSTRUCTION]) / usual:.2f} | "
                     f"{'' if error is None else f'{error / KUMAR[order[0]][1]:.2f}'} |")
    return lines


def kaddah(rows: Rows) -> list[str]:
    """Table 2, dSprites: the FactorVAE score and reconstruction."""
    lines = ["| | seeds | FactorVAE score, training votes | paper | test votes | paper | "
             "reconstruction | paper |", "|---|" + "---|" * 7]
    for method, paper in KADDAH.items():
        for cell, scores in rows.items():
            if cell[0] == method:
                lines.append(
                    f"| {named(*cell)} | {len(scores['factor_vae'])} | "
                    f"{said(scores['factor_vae.train'], 3)} | {paper[0]} | "
                    f"{said(scores['factor_vae'], 3)} | {paper[1]} | "
                    f"{said(scores[RECONSTRUCTION], 1)} | {paper[2]} |")
    return lines


def games(store: Store) -> list[str]:
    """Figures 8 and 34: scores over lambda, of the smaller network and the bigger one."""
    cells: dict[tuple[str, float], dict[str, list[float]]] = {}
    about = {row["run_id"]: (row["architecture"], row["strength"]) for row in store.runs()
             if row["study"] == "infogan_lambda" and row["status"] == "done"}
    for score in store.scores():
        if score["run_id"] in about:
            cell = cells.setdefault(about[score["run_id"]], {})
            cell.setdefault(score["key"], []).append(score["value"])
    lines = ["| network | lambda | seeds | FactorVAE score | BetaVAE score |", "|---|" + "---|" * 4]
    lines += [f"| `{network}` | {strength:g} | {len(scores['factor_vae'])} | "
              f"{said(scores['factor_vae'], 3)} | {said(scores['beta_vae'], 3)} |"
              for (network, strength), scores in sorted(cells.items())]
    return lines if cells else []


TABLES: dict[str, tuple[str, Callable[[Rows], list[str]]]] = {
    "kim2018": ("Kim & Mnih 2018, figures 4 and 5", kim),
    "kumar2018": ("Kumar et al. 2018, table 1", kumar),
    "kaddah2020": ("Kaddah 2020, table 2", kaddah)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("--published", nargs="*", default=[], help="released scores of 2019")
    options = parser.parse_args()
    store = open_store(options.store)
    shown: list[Any] = []
    for study, (title, table) in TABLES.items():
        rows = rows_of(store, study)
        if rows:
            shown.append(study)
            lines = table(rows)
            if study == "kim2018" and options.published:
                lines += kim_published(options.published)
            print(f"### {title}\n\n" + "\n".join(lines) + "\n")
    if lines := games(store):
        shown.append("infogan_lambda")
        print("### Kim & Mnih 2018, figures 8 and 34\n\n" + "\n".join(lines) + "\n")
    if not shown:
        raise SystemExit(f"{options.store} has no runs of {', '.join(TABLES)} on dSprites, nor of "
                         "infogan_lambda")


if __name__ == "__main__":
    from sentences import told

    told(main)
