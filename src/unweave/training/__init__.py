"""Training: packing runs into stacks, the loop, optimisers, checkpoints, run folders."""

from unweave.training.encoded import Encoded
from unweave.training.loop import versions
from unweave.training.run import Run, choose_device, load
from unweave.training.train import parse_seeds, plan, train, train_runs

__all__ = ["Encoded", "Run", "choose_device", "load", "parse_seeds", "plan", "train", "train_runs",
           "versions"]
