"""Checkpoints of disentangling-vae: a model of its layout gives the same codes here."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from small import make_sprites
from unweave import cli
from unweave.export.checkpoint import import_checkpoint
from unweave.studies.scoring import score_run
from unweave.training import load
from unweave.types import UserError

SPECS = {"batch_size": 64, "btcvae_A": -5.0, "btcvae_B": 6.4, "btcvae_G": 1, "dataset": "dsprites",
         "epochs": 30, "img_size": [1, 64, 64], "latent_dim": 10, "loss": "btcvae", "lr": 5e-4,
         "model_type": "Burgess", "rec_dist": "bernoulli", "reg_anneal": 10000, "seed": 1234}


class Theirs(nn.Module):
    """The network of that library by its published layout: names, sizes, the head's order."""

    def __init__(self, side=64, channels=1, latents=10):
        super().__init__()
        self.latents, self.big = latents, side == 64
        step = {"kernel_size": 4, "stride": 2, "padding": 1}
        encoder = {"conv1": nn.Conv2d(channels, 32, **step), "conv2": nn.Conv2d(32, 32, **step),
                   "conv3": nn.Conv2d(32, 32, **step), "lin1": nn.Linear(512, 256),
                   "lin2": nn.Linear(256, 256), "mu_logvar_gen": nn.Linear(256, 2 * latents)}
        decoder = {"lin1": nn.Linear(latents, 256), "lin2": nn.Linear(256, 256),
                   "lin3": nn.Linear(256, 512), "convT1": nn.ConvTranspose2d(32, 32, **step),
                   "convT2": nn.ConvTranspose2d(32, 32, **step),
                   "convT3": nn.ConvTranspose2d(32, channels, **step)}
        if self.big:
            encoder["conv_64"] = nn.Conv2d(32, 32, **step)
            decoder["convT_64"] = nn.ConvTranspose2d(32, 32, **step)
        self.encoder, self.decoder = nn.ModuleDict(encoder), nn.ModuleDict(decoder)

    def posterior(self, x):
        names = ["conv1", "conv2", "conv3"] + ["conv_64"] * self.big
        for name in names:
            x = torch.relu(self.encoder[name](x))
        x = x.flatten(1)
        for name in ("lin1", "lin2"):
            x = torch.relu(self.encoder[name](x))
        return self.encoder["mu_logvar_gen"](x).view(-1, self.latents, 2).unbind(-1)

    def images(self, z):
        for name in ("lin1", "lin2", "lin3"):
            z = torch.relu(self.decoder[name](z))
        z = z.view(-1, 32, 4, 4)
        for name in ["convT_64"] * self.big + ["convT1", "convT2"]:
            z = torch.relu(self.decoder[name](z))
        return torch.sigmoid(self.decoder["convT3"](z))


def stored(folder, model, specs=SPECS, *, old=False):
    """As torch writes it today, or as it did in 2019, when those models were released."""
    folder.mkdir(exist_ok=True)
    torch.save(model.state_dict(), folder / "model.pt", _use_new_zipfile_serialization=not old)
    if specs is not None:
        (folder / "specs.json").write_text(json.dumps(specs))
    return folder


def test_codes_images_and_scores_are_those_of_the_model(tmp_path, sprites):
    torch.manual_seed(0)
    model = Theirs()
    folder = import_checkpoint(stored(tmp_path / "btcvae_dsprites", model), out=tmp_path / "runs")
    run = load(folder, data=sprites, device="cpu")
    images = sprites.images(np.arange(30))
    x = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        mu, logvar = model.posterior(x)
        decoded = model.images(mu)
    np.testing.assert_allclose(run.posterior(images)[0], mu, atol=1e-6)
    np.testing.assert_allclose(run.posterior(images)[1], logvar, atol=1e-6)
    np.testing.assert_allclose(run.decode(mu.numpy()), decoded.permute(0, 2, 3, 1), atol=1e-6)
    config = run.config
    assert (config.method, config.data, config.seed, config.steps) == (
        "beta_tcvae", "dsprites", 1234, 30 * 11520)
    assert (config["alpha"], config["beta"], config["gamma"]) == (-5.0, 6.4, 1.0)
    assert run.info["imported"]["from"] == "disentangling-vae"
    assert 0 <= score_run(run, metrics=["mig"], num_points=200)[0].value <= 1
    with pytest.raises(UserError, match="imported before"):
        import_checkpoint(tmp_path / "btcvae_dsprites", out=tmp_path / "runs")


def test_images_of_32_and_colour(tmp_path):
    torch.manual_seed(0)
    model = Theirs(side=32, channels=3, latents=4)
    specs = SPECS | {"dataset": "mnist", "loss": "factor", "factor_G": 6, "lr_disc": 5e-5}
    folder = import_checkpoint(stored(tmp_path / "m", model, specs, old=True),
                               out=tmp_path / "runs")
    run = load(folder, data=_colour(), device="cpu")
    assert (run.config.architecture, run.config.data) == ("burgess2018-32", "mnist,fit=resize")
    assert (run.config.method, run.config["gamma"]) == ("factor_vae", 6.0)
    images = run.dataset.images(np.arange(5))
    with torch.no_grad():
        mu, _ = model.posterior(torch.from_numpy(images).permute(0, 3, 1, 2) / 255)
    np.testing.assert_allclose(run.encode(images), mu, atol=1e-6)


def _colour():
    from unweave.data import table_dataset

    pictures = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), dtype=np.uint8)
    return table_dataset(pictures, np.arange(8)[:, None], ("place",), name="noise")


class Evil:
    def __reduce__(self):
        return print, ("executed",)


def test_what_is_not_such_a_checkpoint_is_one_sentence(tmp_path, capsys):
    torch.save(Evil(), tmp_path / "evil.pt")
    (tmp_path / "text.pt").write_text("hello")
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    stored(tmp_path / "bare", Theirs(), None)
    stored(tmp_path / "cifar", Theirs(), SPECS | {"dataset": "cifar10"})
    stored(tmp_path / "odd", Theirs(), SPECS | {"loss": "wae"})
    for name, said in (("evil.pt", "opened safely"), ("text.pt", "opened safely"),
                       ("other.pt", "not a Burgess model"), ("list.pt", "no weights by name"),
                       ("none.pt", "does not exist"), ("bare", "no specs.json"),
                       ("cifar", "not a data set here"), ("odd", "unknown loss")):
        with pytest.raises(UserError, match=said):
            import_checkpoint(tmp_path / name, out=tmp_path / "runs")
    assert "executed" not in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()


def test_a_checkpoint_with_odd_parts_is_one_sentence_and_no_run(tmp_path):
    (tmp_path / "junk.pt").write_bytes(b"abc")
    with pytest.raises(UserError, match="opened safely") as told:
        import_checkpoint(tmp_path / "junk.pt", out=tmp_path / "runs")
    assert "weights_only" not in str(told.value), "not what torch advises"
    for i, (change, said) in enumerate((
            ({"dataset": ["dsprites"]}, "not a data set here"), ({"loss": ["VAE"]}, "unknown loss"),
            ({"batch_size": 0}, "batch_size 0"), ({"epochs": float("inf")}, "not a number"),
            ({"rec_dist": "poisson"}, "unknown rec_dist"))):
        stored(tmp_path / f"specs-{i}", Theirs(), SPECS | change)
        with pytest.raises(UserError, match=said):
            import_checkpoint(tmp_path / f"specs-{i}", out=tmp_path / "runs")
    stored(tmp_path / "good", Theirs(), SPECS)
    with pytest.raises(UserError, match="unknown data set 'dsprite'"):
        import_checkpoint(tmp_path / "good", out=tmp_path / "runs", data="dsprite")
    for data, said in (("dsprites,foo=1", "dsprites has no options, got foo=1"),
                       ("mnist,siz=28", "unknown option of mnist 'siz'"),
                       ("mpi3d_toy:", "names no file"), ("shapes3d-render:a.h5", "takes no file")):
        with pytest.raises(UserError, match=said):
            import_checkpoint(tmp_path / "good", out=tmp_path / "runs", data=data)
    for name, weight in (("encoder.mu_logvar_gen.weight", torch.zeros(19, 256)),
                         ("encoder.lin1.weight", torch.zeros(5, 5))):
        state = Theirs().state_dict() | {name: weight}
        torch.save(state, tmp_path / "good" / "model.pt")
        with pytest.raises(UserError, match=r"damaged|has the shape"):
            import_checkpoint(tmp_path / "good", out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_the_command_line_imports(tmp_path, capsys):
    stored(tmp_path / "bare", Theirs(), None)
    with pytest.raises(SystemExit) as leave:
        cli.main(["import-checkpoint", str(tmp_path / "bare" / "model.pt"), "--data", "dsprites",
                  "-o", str(tmp_path / "runs"), "--json"])
    assert leave.value.code == 0
    (record,) = json.loads(capsys.readouterr().out)
    run = load(record["folder"], data=make_sprites(), device="cpu")
    assert (run.config.method, run.config.init) == ("vae", "disentangling-vae")
