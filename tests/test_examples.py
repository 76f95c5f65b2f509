"""The example for Lightning runs: with Lightning where it is installed, else with a stand-in."""

import importlib.util
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch

FILE = Path(__file__).parents[1] / "docs" / "examples" / "lightning_vae.py"


class Module(torch.nn.Module):
    """As much of a LightningModule as manual optimisation needs."""

    def optimizers(self):
        return self.made if len(self.made) > 1 else self.made[0]

    def manual_backward(self, loss):
        loss.backward()

    def log_dict(self, terms):
        self.logged = {k: float(v) for k, v in terms.items()}


class Trainer:
    def __init__(self, max_epochs, **_):
        self.max_epochs = max_epochs

    def fit(self, module, loader):
        module.made = module.configure_optimizers()
        for _ in range(self.max_epochs):
            for number, batch in enumerate(loader):
                module.training_step(batch, number)


@pytest.mark.parametrize(("method", "letters"), [
    ("beta_tcvae", {"beta": 4}), ("factor_vae", {"critic_width": 8, "critic_depth": 1})])
def test_the_lightning_example_trains(monkeypatch, method, letters):
    if importlib.util.find_spec("lightning") is None:
        stand_in = types.ModuleType("lightning")
        stand_in.LightningModule, stand_in.Trainer = Module, Trainer
        monkeypatch.setitem(sys.modules, "lightning", stand_in)
    spec = importlib.util.spec_from_file_location("lightning_vae", FILE)
    example = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice on loaders
        spec.loader.exec_module(example)
        module = example.main(method, num_epochs=2, **letters)
    assert int(module.vae.objective.step) == 8
    assert isinstance(module.vae.encode(torch.zeros(3, 8)), torch.Tensor)
