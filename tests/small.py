"""Small trainings that tests share: a few steps on 256 sprites."""

import numpy as np
import torch

from unweave.data import load_data, table_dataset
from unweave.objectives import METHODS
from unweave.training import plan, train_runs

SMALL = {"steps": 6, "batch_size": 8, "num_latents": 4, "precision": "float32"}


def make_sprites():
    """256 real sprites as a small data set: 2 shapes x 2 scales x 8 x 8 positions."""
    whole, sizes = load_data("dsprites"), (2, 2, 8, 8)
    rows = np.stack(np.unravel_index(np.arange(256), sizes), axis=-1)
    picked = np.stack([rows[:, 0], rows[:, 1] * 5, rows[:, 0] * 0, rows[:, 2] * 4 + 2,
                       rows[:, 3] * 4 + 2], axis=-1)
    names = ("shape", "scale", "position_x", "position_y")
    return table_dataset(whole.images(whole.index(picked)), rows, names, name="sprites")


def small_letters(method):
    """Letters that keep a method's tests quick; what they check does not depend on them."""
    record = METHODS[method]
    if record.critic is not None:
        return {"critic_width": 16, "critic_depth": 2}
    if record.game is not None:
        return {"critic_steps": 2, "num_noise": 5, "architecture": "conv64-small", "batch_size": 4}
    if record.warmup is not None:
        return {"pretrain_steps": 3, "clusters": 3, "decay_steps": 2}
    return {}


def small_plan(method="beta_vae", **changes):
    """Configs of a method on the `sprites` fixture."""
    return plan(method, "sprites", device="cpu", **(SMALL | changes))


def train_small(configs, sprites, **options):
    """Runs of those configs, in memory unless `out` says otherwise."""
    return train_runs(configs, device="cpu", datasets={"sprites": sprites},
                      **({"out": None} | options))


def same(a, b):
    """Whether two runs have the same weights and curves, bit for bit."""
    return (set(a.params) == set(b.params)
            and all(torch.equal(a.params[k], b.params[k]) for k in a.params)
            and a.curves == b.curves)
