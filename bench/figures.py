"""The study's figures twice, from the published runs and from ours, for docs/reproduction.md.

    python bench/figures.py STORE --published dsprites_full.csv.gz --out docs/pictures/studies

Both sides are answers to the same questions (`unweave study analyse`), the published one from its
runs of those methods on dSprites that the store has too, ours from the scores that were published.
Writes a picture for each figure, both sides on the same axes, and prints what either side answers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from unweave.report.figures import draw
from unweave.studies.answers import Answer, Figure, Question, Rows, analyse, read_rows
from unweave.studies.published import Released, read_published, store_published
from unweave.studies.store import open_store

QUESTIONS = ("agreement", "ranges", "strengths", "unsupervised", "variance")
PICTURES = ("agreement", "ranges", "unsupervised")
"""Figures that are drawn, by name; figure 8 is what bench/reproduction.py draws."""


def published_rows(file: Path, methods: tuple[str, ...], folder: Path) -> Rows:
    """Of the published runs those of some methods on dSprites."""
    released = read_published([file])
    runs = {run_id: run for run_id, run in released.runs.items()
            if run["data"] == "dsprites" and run["method"] in methods}
    scores = {key: value for key, value in released.scores.items() if key[0] in runs}
    store = open_store(folder, create=True)
    store_published(store, Released(runs, scores))
    return read_rows(store, source="published")


def pairs(theirs: Rows, ours: Rows) -> Iterator[tuple[Question, Answer, Answer]]:
    for (question, a), (_, b) in zip(analyse(theirs, QUESTIONS), analyse(ours, QUESTIONS)):
        yield question, a, b


def one_above_the_other(theirs: Figure, ours: Figure) -> Any:
    """The panels of both; what is in the same place has the same axes."""
    panels = [replace(panel, title=f"{name}: {panel.title}")
              for name, figure in (("published", theirs), ("ours", ours))
              for panel in figure.panels]
    num = len(ours.panels)
    canvas = draw(replace(ours, panels=panels, columns=2 if num == 1 else num))
    axes = canvas.axes[:2 * num]
    for a, b in zip(axes[:num], axes[num:]):
        if a.images or b.images:
            continue
        low, high = zip(a.get_ylim(), b.get_ylim())
        for one in (a, b):
            one.set_ylim(min(low), max(high))
    return canvas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    ours = read_rows(open_store(options.store), source="unweave", study="locatello2019")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        theirs = published_rows(options.published, ours.methods, Path(work) / "published")
        ours = replace(ours, scores={k: v for k, v in ours.scores.items() if k in theirs.scores})
        print(f"{theirs.num_runs} published runs, {ours.num_runs} of ours\n")
        for question, a, b in pairs(theirs, ours):
            print(f"{question.asks} ({question.source})\n\n- published: "
                  f"{a.missing or a.sentence}\n- ours: {b.missing or b.sentence}\n")
            held = {figure.name: figure for figure in a.figures}
            for figure in b.figures:
                if figure.name in PICTURES and figure.name in held:
                    path = options.out / f"{figure.name}-beside.png"
                    one_above_the_other(held[figure.name], figure).savefig(path, dpi=100)


if __name__ == "__main__":
    from sentences import told

    told(main)
