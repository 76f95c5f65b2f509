"""Make the golden curves anew with `python tests/golden/make.py`; CHANGELOG.md says why they moved.

Six steps of every method on 256 sprites in float32 on the CPU, seed 0.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from small import make_sprites, small_plan, train_small
from unweave.objectives import METHODS

CURVES = Path(__file__).with_name("curves.json")
TERMS = ("loss", "recon", "kl")


def golden_curves() -> dict:
    """Loss, reconstruction and KL of every method at every step."""
    sprites = make_sprites()
    small = {"critic_width": 16, "critic_depth": 2}
    found = {}
    for method, record in METHODS.items():
        (run,) = train_small(small_plan(method, **(small if record.critic else {})), sprites)
        found[method] = {term: run.curves[term] for term in TERMS}
    return found


if __name__ == "__main__":
    CURVES.write_text(json.dumps(golden_curves(), indent=1) + "\n")
