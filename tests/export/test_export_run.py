"""Exports are the run's numbers; the lines of the card work as they stand."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from small import small_letters, small_plan, train_small
from unweave.export import write
from unweave.export.write import FORMATS, export_run, in_float32
from unweave.studies.scoring import score_run, store_scores
from unweave.types import UserError

pytest.importorskip("onnxruntime")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def run(sprites, tmp_path_factory):
    return train_small(small_plan("beta_vae"), sprites, out=tmp_path_factory.mktemp("runs"))[0]


def test_all_formats_with_a_card_whose_lines_run(run, tmp_path, sprites):
    store_scores(run, score_run(run, metrics=["mig"], num_points=200))
    done = export_run(run, tmp_path / "out", to="all", licence="cc-by-4.0")
    assert done.formats == ("onnx", "safetensors", "torch")
    assert set(done.files) == {p.name for p in (tmp_path / "out").iterdir()}
    assert max(done.differences.values()) < 1e-5
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith('---\nlicense: "cc-by-4.0"\n')
    assert re.search(r"\| mig \| 0\.\d{3} \| 0\.\d{3} to 0\.\d{3} \| higher \| study2019 \|", card)
    blocks = BLOCK.findall(card)
    assert len(blocks) == 3
    assert all(len([line for line in b.splitlines() if line]) <= 6 for b in blocks)
    # All three in one fresh interpreter in which unweave cannot be imported.
    script = "import sys\nsys.modules['unweave'] = None\n"
    for number, block in enumerate(blocks):
        script += f"{block}\nassert tuple(codes.shape) == (1, 4), {number}\n"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path / "out", check=True)


@pytest.mark.parametrize("change", [
    {"method": "joint_vae"}, {"architecture": "kaddah2020"}, {"method": "vade"},
    {"method": "infowgan_gp"}, {"method": "infogan", "architecture": "infogan-shapes2d"}])
def test_methods_and_networks_of_other_kinds(sprites, tmp_path, change):
    change = {"method": "beta_vae", "steps": 2} | change
    run = train_small(small_plan(**small_letters(change["method"]) | change), sprites)[0]
    assert max(export_run(run, tmp_path, to="all").differences.values()) < 1e-5


def test_a_bfloat16_run_is_exported_in_float32(sprites, tmp_path):
    run = train_small(small_plan("beta_vae", steps=2, precision="bfloat16"), sprites)[0]
    export_run(run, tmp_path, to="torch")
    assert "trained with bfloat16" in (tmp_path / "README.md").read_text()
    images = sprites.images([0, 100])
    assert not np.array_equal(in_float32(run).encode(images), run.encode(images))


def test_what_differs_is_refused_and_nothing_is_written(run, tmp_path, monkeypatch):
    source = write.model_source(run).replace("torch.cat([mu,", "torch.cat([mu + 2e-5,")
    monkeypatch.setattr(write, "model_source", lambda run: source)
    with pytest.raises(UserError, match="differs from the run by"):
        export_run(run, tmp_path / "out", to="torch")
    assert not (tmp_path / "out").exists()


def test_folders_are_added_to_but_never_overwritten(run, sprites, tmp_path):
    export_run(run, tmp_path / "out", to="torch")
    done = export_run(run, tmp_path / "out", to="safetensors")
    assert done.formats == ("safetensors", "torch")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "model.pt" in card
    assert "model.safetensors" in card
    assert "has not been scored" in card or "95 % interval" in card
    other = train_small(small_plan("beta_vae", seeds=9, steps=2), sprites)[0]
    with pytest.raises(UserError, match="holds the export of"):
        export_run(other, tmp_path / "out", to="torch")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="holds other files"):
        export_run(run, tmp_path / "mine")
    with pytest.raises(UserError, match="known are onnx"):
        export_run(run, tmp_path / "new", to="keras")


def test_weights_are_loaded_without_pickles(run, tmp_path):
    export_run(run, tmp_path / "out", to="torch")
    state = torch.load(tmp_path / "out" / "model.pt", weights_only=True)
    assert set(state) == {k.replace(".mean", ".running_mean") for k in run.params}


@pytest.mark.parametrize("said", ["onnx,all", "all, torch", "torch, onnx ,safetensors"])
def test_formats_may_have_spaces_and_all_among_them(run, tmp_path, said):
    assert set(export_run(run, tmp_path / "out", to=said).formats) == set(FORMATS)
