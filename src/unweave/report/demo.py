"""The demo: the main job, start to end, small enough for two CPU cores and five minutes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from unweave.report.document import write_report
from unweave.report.pictures import picture
from unweave.report.tables import print_records, score_records
from unweave.studies.scoring import score_run, store_scores
from unweave.training import train
from unweave.training.progress import clock
from unweave.types import UserError

# The shortest training found in which position and scale have latents of their own in most seeds:
# total correlation weighted strongly, a rate twenty times the study's, a network of half the width.
# A study trains the full network for 300,000 steps.
STEPS = 3200
SETTINGS: dict[str, Any] = {"beta": 40.0, "learning_rate": 2e-3, "batch_size": 48,
                            "num_latents": 6, "architecture": "conv64-small"}
SEEDS = (0, 1, 2)
VOTES = {"num_train_votes": 1000, "num_test_votes": 500}

COLUMNS = ("run", "name", "value", "interval", "chance", "ceiling", "range", "better", "used")


def run_demo(out: Path, *, steps: int | None = None, as_json: bool = False) -> None:
    """Train a stack of beta-TCVAEs on dSprites, score it, print a table, write pictures."""
    began = time.monotonic()
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: give a folder for the demo")
    if (out / "runs").exists():  # the demo's own output; a second demo replaces the first
        shutil.rmtree(out / "runs")

    def say(text: str) -> None:
        if not as_json:
            print(text, flush=True)  # a log keeps the order of what is said here and there

    say(f"Training {len(SEEDS)} beta-TCVAEs on dSprites, each with its own seed ...")
    runs = train("beta_tcvae", "dsprites", seeds=SEEDS, steps=steps or STEPS, out=out / "runs",
                 **SETTINGS)
    say("Scoring them: one encoding of each feeds every metric ...")
    records, best = [], (-1.0, runs[0])
    for run in runs:
        scores = score_run(run, metrics=["mig", "factor_vae"], progress=None, **VOTES)
        store_scores(run, scores)
        main = [s for s in scores if s.key == s.metric]
        records += score_records(main, run_id=run.run_id,
                                 run=f"seed {run.config.seed}")
        best = max(best, (next(s.value for s in main if s.key == "mig"), run),
                   key=lambda pair: pair[0])
    print_records(records, COLUMNS, as_json=as_json,
                  title="Scores of the three seeds (convention study2019, fewer votes)")
    # Around a large sprite in the middle, so that every move is easy to see.
    centre = int(runs[0].dataset.index([[1, 5, 0, 16, 16]])[0])
    pictures = [picture(run, "traversals", image=centre).save(
        out / f"traversal-seed{run.config.seed}.png") for run in runs]
    pictures.append(picture(best[1], "reconstructions").save(out / "reconstructions.png"))
    say("interval: 95 % bootstrap over points or votes; chance: the same codes shuffled; "
        "ceiling: the factors\nthemselves as codes. Seeds differ more than the intervals are "
        "wide: one run says little about a method.\n")
    for path in pictures:
        say(f"  {path}")
    say(f"\nThe best MIG is seed {best[1].config.seed}'s: look at "
        f"{out / f'traversal-seed{best[1].config.seed}.png'}, where each row moves one latent.")
    made = write_report(out / "runs", out / "report.html", title="The demo of unweave")
    say(f"All of it in one page, with curves and commands: {made['file']}")
    say(f"Runs are in {out / 'runs'}: unweave.load(folder) gives encode, decode, traverse.")
    say(f"Done in {clock(time.monotonic() - began)}.")
