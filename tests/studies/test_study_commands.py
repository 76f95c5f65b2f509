"""`unweave study` as a user calls it."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from unweave import load, train
from unweave.cli import main
from unweave.studies.ray_engine import connect
from unweave.studies.store import open_store
from unweave.types import UserError

STUDY = """
from unweave.training import plan
METRICS = ("tc",)
def one(data, seeds):
    "A single short run."
    return plan("vae", "dsprites", seeds=seeds, device="cpu", steps=2, batch_size=4, num_latents=3,
                architecture="conv64-small", precision="float32")
"""


def call(capsys, *arguments, code=0):
    with pytest.raises(SystemExit) as leave:
        main(["study", *map(str, arguments)])
    said = capsys.readouterr()
    assert leave.value.code == code, said.err
    return said


def test_a_study_from_start_to_end(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(STUDY)
    store = tmp_path / "s"
    run = ("run", f"{tmp_path / 'mine.py'}:one", "--store", store, "--seeds", "0", "--weights",
           "all", "--no-details", "--workers", "1", "--device", "cpu", "--json")
    said = call(capsys, *run)
    record, = json.loads(said.out)
    assert (record["done"], record["skipped"], record["failed"]) == (1, 0, 0)
    assert "vae on dsprites: 1 run trained, 1 of 1 in all" in said.err
    record, = json.loads(call(capsys, *run).out)
    assert (record["done"], record["skipped"]) == (0, 1)
    record, = json.loads(call(capsys, "status", store, "--json").out)
    assert (record["study"], record["runs"], record["done"], record["missing"]) == ("one", 1, 1, 0)
    open_store(store).append("runs", [{"run_id": "of another study", "status": "done"}])
    record, = json.loads(call(capsys, "add", store, "--metrics", "wasserstein", "--device", "cpu",
                              "--json").out)
    assert record == {"scored": 1, "complete": 0, "without_weights": 0}
    keys = {row["key"] for row in open_store(store).scores()}
    assert {"tc.mean", "tc.sampled", "wasserstein.mean"} <= keys
    record, = json.loads(call(capsys, "prune", store, "--json").out)
    assert record == {"kept": 0, "removed": 1}
    said = call(capsys, "add", store, "--metrics", "irs", code=2)
    assert "no weights of them were kept" in said.err
    call(capsys, "stop", store)
    assert open_store(store).read_file("stop.json") is not None
    record, = json.loads(call(capsys, "retry", store, "--json").out)
    assert record == {"study": "one", "freed": 0, "missing": 0}


def test_kept_runs_become_folders_like_trained_ones(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(STUDY)
    store, out = tmp_path / "s", tmp_path / "runs"
    call(capsys, "run", f"{tmp_path / 'mine.py'}:one", "--store", store, "--seeds", "0,1",
         "--weights", "all", "--no-details", "--workers", "1", "--device", "cpu")
    records = json.loads(call(capsys, "unpack", store, "--out", out, "--json").out)
    assert [record["seed"] for record in records] == [0, 1]
    folders = [Path(record["run"]) for record in records]
    assert sorted(p.name for p in out.iterdir()) == sorted(folder.name for folder in folders)
    again, = train("vae", "dsprites", seeds="1", device="cpu", steps=2, batch_size=4,
                   num_latents=3, architecture="conv64-small", precision="float32",
                   out=tmp_path / "own")
    run = load(folders[1], device="cpu")
    assert run.config == again.config
    assert run.curves == again.curves
    images = run.dataset.images([5, 6])
    assert (run.encode(images) == again.encode(images)).all()
    written = (folders[0] / "weights.safetensors").stat().st_mtime_ns
    call(capsys, "unpack", store, "--out", out)  # what is there stays
    assert (folders[0] / "weights.safetensors").stat().st_mtime_ns == written
    half = tmp_path / "one" / run.run_id / ".weights.safetensors.1.tmp"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"of a call that was killed")
    one = json.loads(call(capsys, "unpack", store, "--out", tmp_path / "one", "--json",
                          "--runs", run.run_id).out)
    assert [Path(record["run"]).name for record in one] == [run.run_id]
    assert not half.exists()
    for arguments, words in (
            (("--runs", "vae-0"), "unknown run with weights in"),
            (("--methods", "cc_vae"), "unknown method with weights in"),
            (("--out", tmp_path / "mine.py"), "is a file: give --out a folder")):
        assert words in call(capsys, "unpack", store, *arguments, code=2).err
    call(capsys, "prune", store)
    assert "kept no weights: run the study with" in call(capsys, "unpack", store, code=2).err


def test_bad_calls_are_one_sentence(tmp_path, capsys):
    for arguments, words in (
            (("run", "locatello", "--store", tmp_path / "s"), "unknown study 'locatello': did you"),
            (("status", tmp_path / "none"), "there is no store at"),
            (("add", tmp_path / "none", "--metrics", "mig"), "there is no store at"),
            (("run", "quick", "--store", tmp_path / "s", "--seeds", "x"), "seeds 'x'"),
            (("run", "quick", "--store", tmp_path / "s", "--weights", "x"), "policy for weights")):
        said = call(capsys, *arguments, code=2)
        assert words in said.err
        assert said.err.count("\n") == 1
    open_store(tmp_path / "empty", create=True)
    assert "holds no study yet" in call(capsys, "status", tmp_path / "empty", code=2).err


def test_data_that_are_missing_leave_no_store_behind(tmp_path, capsys):
    store = tmp_path / "s"
    there = "run", "quick", "--store", store, "--device", "cpu"
    said = call(capsys, *there, "--data", f"dsprites,images:{tmp_path / 'none'}", code=2)
    assert "none does not exist" in said.err
    assert not store.exists()
    open_store(store, create=True)
    call(capsys, *there, "--data", f"images:{tmp_path / 'none'}", code=2)
    assert open_store(store).runs() == []


def test_the_list(capsys):
    names = {record["name"] for record in json.loads(call(capsys, "list", "--json").out)}
    assert {"locatello2019", "quick"} <= names


@pytest.mark.parametrize(("address", "words"), [
    (None, r"Ray does not start on this machine \(The current node timed out"),
    ("auto", r"no Ray cluster answers at 'auto' \(The current node timed out")])
def test_a_ray_that_does_not_start_is_one_sentence(monkeypatch, address, words):
    def init(**_):
        raise Exception("The current node timed out during startup.\nMore of it.")  # Ray's own

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=bool, init=init))
    with pytest.raises(UserError, match=words):
        connect(address)
