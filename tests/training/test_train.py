"""Training as a user sees it: runs that do not depend on their neighbours, resume, and diverge."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

import unweave
from small import same, small_plan, train_small
from unweave.config import RunConfig
from unweave.training import plan
from unweave.types import UserError


def test_a_diverged_run_is_stored_as_such_and_the_others_go_on(sprites, tmp_path):
    configs = [*small_plan(seeds=[0, 1]), *small_plan(learning_rate=1e30)]
    runs = train_small(configs, sprites, out=tmp_path)
    assert [run.status for run in runs] == ["done", "done", "diverged"]
    again = unweave.load(runs[2].folder, data=sprites, device="cpu")
    assert again.status == "diverged"
    assert again.info["diverged_at"] == again.curves["step"][-1] < 6
    with pytest.raises(UserError, match="diverged at step"):
        unweave.score_run(again)
    assert same(runs[0], train_small(small_plan(seeds=0), sprites)[0])


def test_run_folder_round_trip(sprites, tmp_path):
    run = train_small(small_plan(), sprites, out=tmp_path)[0]
    assert sorted(p.name for p in run.folder.iterdir()) == [
        "config.json", "curves.parquet", "run.json", "weights.safetensors"]
    table = pq.read_table(run.folder / "curves.parquet")
    assert table.column_names == ["run_id", "step", "term", "value"]
    assert set(table["term"].to_pylist()) == {
        "loss", "recon", "kl", "elbo", "kl.0", "kl.1", "kl.2", "kl.3"}
    info = json.loads((run.folder / "run.json").read_text())
    assert {"torch", "unweave", "python"} <= set(info["versions"])
    assert info["seconds"] > 0
    with pytest.raises(UserError, match=r"give the one in memory again, load\(folder, data="):
        unweave.load(run.folder)
    again = unweave.load(run.folder, data=sprites, device="cpu")
    assert same(run, again)
    images = sprites.images(np.arange(5))
    assert np.array_equal(run.encode(images), again.encode(images))
    assert again.encode(images).shape == (5, 4)
    assert again.reconstruct(images).shape == images.shape
    assert again.sample(3).shape == (3, 64, 64, 1)
    assert np.array_equal(again.sample(3), again.sample(3))
    assert not np.array_equal(again.sample(3), again.sample(3, seed=1))
    walk = again.traverse(images[0], num=3)
    assert walk.shape == (4, 3, 64, 64, 1)
    # The middle of every row is the image's own reconstruction, but for the latent that moves.
    code = again.encode(images[:1])
    code[0, 2] = 2.0
    assert np.allclose(walk[2, 2], again.decode(code)[0], atol=1e-6)
    assert np.allclose(again.posterior_at([0, 3])[0], again.encode(sprites.images([0, 3])))


def test_resuming_gives_the_weights_of_an_uninterrupted_run(sprites, tmp_path):
    configs = small_plan(seeds=[0, 1])
    whole = train_small(configs, sprites)

    class Stop(Exception):
        pass

    def stop(report):
        if report.step == 4:
            raise Stop

    with pytest.raises(Stop):
        train_small(configs, sprites, out=tmp_path, listener=stop, checkpoint_seconds=0.0)
    with pytest.raises(UserError, match="is unfinished at step 3 of 6"):
        unweave.load(tmp_path / configs[0].run_id, data=sprites)
    with pytest.raises(UserError, match=r"exists already \(unfinished\): add --resume"):
        train_small(configs, sprites, out=tmp_path)
    # One run is further than its neighbour, as when the process dies between two checkpoints.
    train_small(configs[:1], sprites, out=tmp_path, resume=True)
    resumed = train_small(configs, sprites, out=tmp_path, resume=True)
    assert all(same(a, b) for a, b in zip(whole, resumed))
    assert not (tmp_path / configs[0].run_id / "checkpoint.safetensors").exists()
    with pytest.raises(UserError, match=r"exists already \(finished\)"):
        train_small(configs, sprites, out=tmp_path)


SCRIPT = """
import sys
from unweave.training import train_runs, plan
configs = plan("beta_vae", "dsprites", seeds=[0, 1], steps=40, batch_size=4, num_latents=3,
               precision="float32", device="cpu")
train_runs(configs, out=sys.argv[1], device="cpu", resume=True, checkpoint_seconds=0.0,
           listener=lambda r: print(r.step, flush=True))
"""


def test_kill_9_loses_at_most_the_work_since_the_last_checkpoint(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "killed")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if int(line) >= 15:
                os.kill(process.pid, signal.SIGKILL)
                break
        process.wait()
    assert process.returncode == -signal.SIGKILL
    resumed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert 13 <= int(resumed[0]) <= 40
    subprocess.run([*command[:-1], str(tmp_path / "whole")], check=True, capture_output=True)
    for folder in (tmp_path / "whole").iterdir():
        a, b = unweave.load(folder), unweave.load(tmp_path / "killed" / folder.name)
        assert same(a, b)


def test_a_run_killed_before_or_while_it_wrote_goes_on(sprites, tmp_path):
    """Its folder is made before its config is in it, and files have another name at first."""
    before, amid = small_plan(seeds=[0, 1])
    (tmp_path / before.run_id).mkdir()
    (tmp_path / amid.run_id).mkdir()
    (tmp_path / amid.run_id / ".config.json.123.tmp").write_text("{")
    runs = train_small([before, amid], sprites, out=tmp_path, resume=True)
    for run in runs:
        assert sorted(p.name for p in run.folder.iterdir()) == [
            "config.json", "curves.parquet", "run.json", "weights.safetensors"]
    foreign = small_plan(seeds=2)
    (tmp_path / foreign[0].run_id).mkdir()
    (tmp_path / foreign[0].run_id / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not a run folder"):
        train_small(foreign, sprites, out=tmp_path, resume=True)


def test_bad_folders_get_one_sentence(sprites, tmp_path):
    run = train_small(small_plan(), sprites, out=tmp_path)[0]

    def refused(words):
        with pytest.raises(UserError, match=words):
            unweave.load(run.folder, data=sprites)

    weights = run.folder / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    refused("is damaged or not a safetensors file")
    weights.write_bytes(b"PK\x03\x04 something else")
    refused("is damaged or not a safetensors file")
    weights.unlink()
    refused("weights.safetensors is missing")
    weights.write_bytes(whole)
    curves = (run.folder / "curves.parquet").read_bytes()
    (run.folder / "curves.parquet").write_bytes(curves[:100])
    refused("curves.parquet is damaged")
    (run.folder / "curves.parquet").write_bytes(curves)
    config = json.loads((run.folder / "config.json").read_text())
    (run.folder / "config.json").write_text(json.dumps(config | {"format": 99}))
    refused("written by a newer unweave .*upgrade unweave")
    (run.folder / "config.json").write_text("{")
    refused("cannot be read")
    (run.folder / "config.json").write_text('{"name": "webpack"}')
    refused("not written by unweave")
    with pytest.raises(UserError, match="is not a folder"):
        unweave.load(tmp_path / "nothing")


@pytest.mark.parametrize(("changes", "words"), [
    ({"beta": -1.0}, "must be at least 0"),
    ({"batch_size": 257}, "larger than sprites, which has 256 images"),
    ({"steps": 0}, "steps=0 must be a whole number of at least 1"),
    ({"num_latents": 2.5}, "num_latents=2.5 must be a whole number"),
    ({"learning_rate": 0.0}, "must be a number above 0"),
    ({"architecture": "conv46"}, "did you mean 'conv64'"),
    ({"likelihood": "poisson"}, "known are"),
    ({"precision": "float16"}, "unknown precision"),
    ({"seeds": "3..1"}, "seeds '3..1' are not understood"),
    ({"seeds": [1, 1]}, "the same run is asked for twice"),
    ({"seeds": [-1]}, "seeds must be at least 0"),
    ({"seeds": []}, "no seeds were given"),
    ({"seeds": "0..999999999"}, "more than 10,000, which is the most at once"),
    ({"seeds": "0..9999,20000"}, "more than 10,000"),
    ({"seeds": range(10**9)}, "more than 10,000"),
    ({"seeds": 1.5}, "are not whole numbers"),
    ({"seeds": [0, 0.5]}, "are not whole numbers"),
    ({"seeds": 1 << 64}, "must be below 2\\^64"),
    ({"seeds": str(1 << 64)}, "must be below 2\\^64"),
    ({"beta": []}, "beta has an empty list of values"),
    ({"seed": 1}, "seed is not given by itself: give seeds"),
    ({"hyper": {"beta": 1}}, "give each letter by its own name"),
    ({"alpha": 1.0}, "unknown letter of beta_vae 'alpha'"),
])
def test_bad_input_is_refused_before_anything_is_written(sprites, tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        train_small(small_plan(**changes), sprites, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_half_written(sprites, tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        train_small(small_plan(), sprites, out=tmp_path)
    left = sorted(p.name for p in (tmp_path / small_plan()[0].run_id).iterdir())
    assert left == ["config.json"]


def test_what_is_learned_is_real(sprites):
    run = train_small(small_plan(steps=200, batch_size=16, learning_rate=1e-3, beta=0.1,
                                 architecture="conv64-small", init="pytorch"), sprites)[0]
    assert run.curves["kl"][-1] > 1.0
    images = sprites.images(np.arange(len(sprites)))
    codes = run.encode(images)
    own = np.abs(run.decode(codes) - images / 255.0).mean()
    others = np.abs(run.decode(np.roll(codes, 1, axis=0)) - images / 255.0).mean()
    far = np.abs(run.decode(codes[::-1]) - images / 255.0).mean()
    assert own < others < far  # a neighbour's code is worse than one's own, a stranger's worse yet


def test_as_many_seeds_as_are_allowed_are_planned_at_once():
    configs = plan("vae", seeds="0..9999")
    assert [c.seed for c in configs] == list(range(10_000))


def test_seeds_and_names():
    assert unweave.training.parse_seeds("0..3") == [0, 1, 2, 3]
    assert unweave.training.parse_seeds("0,2,5..6") == [0, 2, 5, 6]
    assert unweave.training.parse_seeds(4) == [4]
    assert unweave.training.parse_seeds(np.int64(4)) == [4]
    assert unweave.training.parse_seeds(np.arange(2)) == unweave.training.parse_seeds(range(2))
    (config,) = plan("vae", device="cpu", precision="float32")
    assert config == RunConfig("vae")
    started = time.monotonic()
    assert unweave.training.plan("vae", device="cpu")[0].precision in ("float32", "bfloat16")
    assert time.monotonic() - started < 5


def test_images_without_factors_train_and_are_scored_by_their_codes(tmp_path, sprites):
    from unweave.data import FactorDataset
    from unweave.data.dataset import BytePixels
    from unweave.factors import FactorSpace, LabelTable
    from unweave.report.pictures import picture
    from unweave.report.sheets import latent_facts
    from unweave.studies.correlations import correlations_of_run
    from unweave.studies.scoring import score_run

    plain = FactorDataset("plain", FactorSpace.without_factors(256),
                          BytePixels(sprites.images(np.arange(256))))
    settings = {"steps": 3, "batch_size": 8, "num_latents": 4, "device": "cpu", "out": None,
                "progress": False, "precision": "float32"}
    (run,) = unweave.train("vae", plain, **settings)
    (same_run,) = unweave.train("vae", sprites, **settings)
    assert run.curves == same_run.curves
    assert score_run(run, metrics=["tc"])[0].ceiling is None
    with pytest.raises(UserError, match="no factors, so these metrics cannot score it: mig"):
        score_run(run, metrics=["mig"])
    with pytest.raises(UserError, match="plain has no factors and no labels"):
        correlations_of_run(run)
    assert picture(run, "traversals").image().width > 0
    assert latent_facts(run, num=50)[1].shape == (4, 0)
    table = sprites.factors(np.arange(256)).astype(np.float64)
    table[::3, 3] = np.nan
    run.dataset.labels = LabelTable(("shape", "scale", "x", "y"), table)
    shared, expected = latent_facts(run)[1], latent_facts(same_run)[1]
    np.testing.assert_array_equal(shared[:, :3], expected[:, :3])
    np.testing.assert_allclose(shared[:, 3], expected[:, 3], atol=0.1)
    assert (shared[:, 3] != expected[:, 3]).any()
    assert picture(run, "traversals").image().width > 0
