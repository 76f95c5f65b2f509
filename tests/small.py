"""Small trainings that tests share: a few steps on 256 sprites."""

import torch

from unweave.training import plan, train_runs

SMALL = {"steps": 6, "batch_size": 8, "num_latents": 4, "precision": "float32"}


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
