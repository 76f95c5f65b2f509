"""Make the golden curves anew with `python tests/golden/make.py`; CHANGELOG.md says why they moved.

Six steps of every method on 256 sprites in float32 on the CPU, seed 0.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from small import make_sprites, small_letters, small_plan, train_small
from unweave.objectives import METHODS

CURVES = Path(__file__).with_name("curves.json")
TERMS = ("loss", "recon", "kl", "generator_loss", "critic_value", "mi")


def golden_curves() -> dict:
    """The main terms of every method at every step: of VAEs loss, reconstruction and KL."""
    sprites = make_sprites()
    found = {}
    for method in METHODS:
        (run,) = train_small(small_plan(method, **small_letters(method)), sprites)
        found[method] = {term: run.curves[term] for term in TERMS if term in run.curves}
    return found


if __name__ == "__main__":
    CURVES.write_text(json.dumps(golden_curves(), indent=1) + "\n")
