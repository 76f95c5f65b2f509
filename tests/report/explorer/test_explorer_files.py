"""Lists of runs from folders and stores, static exports, and the files that npm brings."""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unweave
from random_runs import random_run, score_row, write_run
from unweave.cli import main
from unweave.data import load_data
from unweave.data.dataset import BytePixels, FactorDataset
from unweave.factors import FactorSpace, LabelTable
from unweave.studies.store import open_store
from unweave.types import UserError

pytest.importorskip("fastapi")
pytest.importorskip("onnx")

from unweave.data import shown_name
from unweave.report.explorer import vendor
from unweave.report.explorer.export import MARK, write_export
from unweave.report.explorer.facts import Album, run_record
from unweave.report.explorer.listing import Catalogue, NotListed, find_runs


@pytest.fixture
def libraries(tmp_path):
    """Files with the names of onnxruntime-web's: exports copy them unread."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    for name in (*vendor.FILES, vendor.LICENCE):
        (folder / name).write_text(name)
    return folder


def run_cli(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)))
    return end.value.code, capsys.readouterr()


def test_a_store_offers_the_runs_whose_weights_it_kept(sprites, tmp_path):
    store = open_store(tmp_path / "store", create=True)
    runs = [random_run(data=sprites, seed=seed) for seed in range(3)]
    store.append("runs", [{"run_id": run.run_id, "status": "done", "config": run.config.to_json(),
                           "source": "unweave"} for run in runs])
    store.append("runs", [{"run_id": "published-1", "status": "done", "source": "published"}])
    store.append("scores", [score_row(run, "mig", 0.1 + run.config.seed) for run in runs])
    for run, number in zip(runs, (0, 1)):
        payload = (write_run(run, tmp_path / "runs") / "weights.safetensors").read_bytes()
        store.write_file(f"weights/{run.run_id}.safetensors", payload[:number or None])
    found = find_runs([tmp_path / "store"], datasets={"sprites": sprites})
    assert set(found.entries) == {run.run_id for run in runs}
    codes = np.ones((1, 5), np.float32)
    np.testing.assert_array_equal(found.run(runs[0].run_id).decode(codes), runs[0].decode(codes))
    assert found.entries[runs[1].run_id].scores == {"mig": 1.1}
    with pytest.raises(UserError, match="are damaged"):
        found.run(runs[1].run_id)
    with pytest.raises(UserError, match="weights were not kept"):
        found.run(runs[2].run_id)
    with pytest.raises(NotListed):
        found.run("../../etc/passwd")


def test_weights_of_another_network_are_refused(sprites, tmp_path):
    store = open_store(tmp_path / "store", create=True)
    run, other = random_run(data=sprites), random_run(data=sprites, num_latents=7)
    store.append("runs", [{"run_id": run.run_id, "status": "done",
                           "config": run.config.to_json()}])
    store.write_file(f"weights/{run.run_id}.safetensors",
                     (write_run(other, tmp_path) / "weights.safetensors").read_bytes())
    with pytest.raises(UserError, match="are not those of a conv64-small with 5 latents"):
        find_runs([tmp_path / "store"], datasets={"sprites": sprites}).run(run.run_id)


def test_a_damaged_folder_among_others_is_listed_with_its_problem(folder, sprites, tmp_path):
    copy = tmp_path / "runs"
    shutil.copytree(folder.path, copy)
    (copy / folder.runs[0].run_id / "config.json").write_text("{")
    (copy / folder.runs[1].run_id / "scores.parquet").write_bytes(b"no")
    found = find_runs([copy], datasets={"sprites": sprites})
    assert "config.json" in found.entries[folder.runs[0].run_id].problem
    assert found.entries[folder.runs[1].run_id].status == "done, scores damaged"
    assert found.run(folder.runs[1].run_id).run_id == folder.runs[1].run_id
    assert found.run(folder.runs[2].run_id).run_id == folder.runs[2].run_id


def test_bad_targets_are_one_sentence_and_exit_code_2(capsys, folder, tmp_path):
    for target, sentence in ((tmp_path / "nothing", "neither a run folder"),
                             (folder.path / folder.diverged.run_id, "it is diverged")):
        code, said = run_cli(capsys, "explore", target, "--no-open")
        assert code == 2
        assert sentence in said.err
        assert "Traceback" not in said.err
    code, said = run_cli(capsys, "explore", folder.path, "--token", "x", "--no-open")
    assert code == 2
    assert "a token has 12" in said.err


def test_the_command_has_help_with_an_example(capsys):
    code, said = run_cli(capsys, "explore", "--help")
    assert code == 0
    assert "Example: unweave explore" in said.out
    assert "--json" in said.out


def test_the_command_serves_until_it_is_interrupted(capsys, tmp_path, monkeypatch, libraries):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    shutil.copytree(libraries, vendor.folders()[1])  # so that nobody asks npm
    folder = write_run(random_run(data=load_data("dsprites")), tmp_path)
    command = [sys.executable, "-m", "unweave", "explore", str(folder), "--no-open", "--port", "0",
               "--json"]
    path = os.pathsep.join(filter(None, [str(Path(unweave.__file__).parents[1]),
                                         os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=os.environ | {"PYTHONPATH": path}) as process:
        try:
            said = ""
            while not said.endswith("]\n"):
                line = process.stdout.readline()
                assert line, process.stderr.read()
                said += line
            (record,) = json.loads(said)
            assert record["runs"] == 1
            with urllib.request.urlopen(record["address"]) as answer:
                assert b"unweave explorer" in answer.read()
            port = record["address"].rstrip("/").rpartition(":")[2]
            code, said = run_cli(capsys, "explore", folder, "--no-open", "--port", port)
            assert code == 2
            assert "choose another --port" in said.err
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


def test_the_command_exports(capsys, tmp_path, libraries, monkeypatch):
    monkeypatch.setattr(vendor, "find", lambda: libraries)
    folder = write_run(random_run(data=load_data("dsprites")), tmp_path / "runs")
    code, said = run_cli(capsys, "explore", folder, "--export", tmp_path / "page",
                         "--num-images", "9", "--json")
    assert code == 0
    (record,) = json.loads(said.out)
    assert record["folder"] == str(tmp_path / "page")
    assert record["files"] == len([p for p in (tmp_path / "page").rglob("*") if p.is_file()])
    code, said = run_cli(capsys, "explore", folder, "--export", tmp_path)
    assert code == 2
    assert "not an earlier export" in said.err


def test_names_of_data_sets_do_not_tell_where_files_lie():
    assert shown_name("dsprites") == "dsprites"
    assert shown_name("images:/home/me/faces,table=/home/me/t.csv,size=64") == \
        "images:faces,table=t.csv,size=64"


def test_sliders_reach_as_far_as_the_codes(sprites):
    run = random_run(data=sprites)
    run.params["encoder.dense2.weight"] *= 40.0
    reaches = [latent["reach"] for latent in run_record(run)["latents"]]
    largest = np.abs(run.encode(sprites.images(np.arange(256)))).max(0)
    assert max(reaches) > 3
    assert all(reach >= 3 and reach <= 3.5 + high for reach, high in zip(reaches, largest))


def labelled():
    """Twelve images without factors, with a label of three names and a quantity."""
    images = np.arange(12, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 1), np.uint8)
    table = np.array([[("cat", "dog", "")[i % 3], i * 0.37] for i in range(12)], dtype=object)
    return FactorDataset("own", FactorSpace.without_factors(12), BytePixels(images),
                         labels=LabelTable(("animal", "weight"), table,
                                           ("categorical", "continuous")))


def test_images_with_labels_are_picked_by_them():
    album = Album(labelled())
    assert album.names == ("animal", "weight")
    assert album.values[0] == ["cat", "dog"]
    picked = album.pick({0: 1})
    assert sorted(picked) == [1, 4, 7, 10]
    assert album.record(picked)["rows"][0][0] == 1
    assert (album.classes(np.array([2]))[:, 0] == -1).all(), "an unknown label"
    assert len(album.sample(50)) == 12
    with pytest.raises(UserError, match="no factor 0 with the class 2"):
        album.pick({0: 2})


def test_an_export_holds_the_page_the_models_and_a_sample(catalogue, folder, libraries, tmp_path):
    wanted = {k: v for k, v in catalogue.entries.items() if k != folder.broken.run_id}
    some = Catalogue(wanted, catalogue.higher_is_better, catalogue.datasets)
    out = tmp_path / "page"
    files = write_export(some, out, vendor=libraries, title="three runs", num_images=30)
    names = {str(file.relative_to(out)) for file in files}
    assert {"index.html", "app.js", "style.css", "vendor/ort.js", f"vendor/{vendor.LICENCE}",
            "data/runs.json", MARK} <= names
    listing = json.loads((out / "data" / "runs.json").read_text())
    assert listing["static"] is True
    assert listing["title"] == "three runs"
    assert {row["id"] for row in listing["runs"]} == {run.run_id for run in folder.runs}
    for run in folder.runs:
        assert {f"data/runs/{run.run_id}/{part}" for part in
                ("run.json", "information.json", "encoder.onnx", "decoder.onnx")} <= names
    (sheet,) = out.glob("data/images/*.png")
    record = json.loads(sheet.with_suffix(".json").read_text())
    assert len(record["index"]) == 30
    tile = np.asarray(Image.open(sheet))[:64, :64, None]
    dataset = folder.runs[0].dataset
    np.testing.assert_array_equal(tile, dataset.images(record["index"][:1])[0])
    # A second export replaces the first; another folder's content is left alone.
    first = folder.runs[0].run_id
    some = Catalogue({first: wanted[first]}, {}, catalogue.datasets)
    write_export(some, out, vendor=libraries, title="again", num_images=2)
    assert json.loads((out / "data" / "runs.json").read_text())["title"] == "again"
    assert [path.name for path in (out / "data" / "runs").iterdir()] == [first]
    (out / MARK).unlink()
    with pytest.raises(UserError, match="not an earlier export"):
        write_export(some, out, vendor=libraries, title="t")
    with pytest.raises(UserError, match="1 image at least"):
        write_export(some, tmp_path / "b", vendor=libraries, title="t", num_images=0)


def test_an_export_that_fails_leaves_nothing(catalogue, libraries, tmp_path):
    with pytest.raises(UserError, match="damaged"):
        write_export(catalogue, tmp_path / "page", vendor=libraries, title="t")
    assert {path.name for path in tmp_path.iterdir()} == {"libraries"}


def archive_of(tmp_path, *, licence=None):
    """An archive such as npm packs, small."""
    path = tmp_path / "package.tgz"
    with tarfile.open(path, "w:gz") as tar:
        held = {f"package/{name}": name.encode() for name in vendor.FILES.values()}
        if licence:
            held["package/LICENSE"] = licence
        for name, payload in held.items():
            member = tarfile.TarInfo(name)
            member.size = len(payload)
            tar.addfile(member, io.BytesIO(payload))
    return path


def test_files_are_taken_from_an_archive_only_if_its_checksum_is_right(tmp_path, monkeypatch):
    path, target = archive_of(tmp_path), tmp_path / "vendor"
    with pytest.raises(UserError, match="nothing of it is used"):
        vendor.unpack(path, target)
    assert not target.exists()
    monkeypatch.setattr(vendor, "CHECKSUM", hashlib.sha256(path.read_bytes()).hexdigest())
    vendor.unpack(path, target)
    assert (target / "ort.js").read_bytes() == b"dist/ort.wasm.min.mjs"
    assert "MIT License" in (target / vendor.LICENCE).read_text()
    path = archive_of(tmp_path, licence=b"their own words")
    monkeypatch.setattr(vendor, "CHECKSUM", hashlib.sha256(path.read_bytes()).hexdigest())
    vendor.unpack(path, target)
    assert (target / vendor.LICENCE).read_text() == "their own words"


def test_without_npm_and_files_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(vendor, "HERE", tmp_path)
    (tmp_path / "package.json").write_text('{"dependencies": {"onnxruntime-web": "1.0.0"}}')
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert vendor.find() is None
    with pytest.raises(UserError, match="npm, which fetches it, is not installed"):
        vendor.find_or_fetch()
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error code E404' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(UserError, match=r"could not fetch .*E404"):
        vendor.find_or_fetch()
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").rglob("*.js"))


@pytest.mark.parametrize(("method", "given", "first"), [
    ("factor_vae", {"gamma": 35.0, "critic_beta2": 0.8}, ["gamma", "critic_beta2"]),
    ("joint_vae", {"gamma_z": 30.0}, ["gamma_z"]), ("infogan", {}, ["lambda_mi"])])
def test_the_strength_is_among_the_few_letters_that_the_list_has_room_for(sprites, tmp_path, method,
                                                                          given, first):
    run = random_run(data=sprites, method=method, **given)
    found = find_runs([write_run(run, tmp_path)], datasets={"sprites": sprites})
    for told in (found.records()[0]["letters"], run_record(run)["letters"]):
        assert list(told)[:len(first)] == first
        assert set(told) == set(dict(run.config.hyper)), "a filter may ask for any of them"


def test_an_export_goes_into_the_folder_in_which_one_stands(catalogue, libraries, tmp_path,
                                                            monkeypatch):
    here = tmp_path / "page"
    here.mkdir()
    monkeypatch.chdir(here)
    one = Catalogue(dict(list(catalogue.entries.items())[:1]), {}, catalogue.datasets)
    for title in ("first", "second"):  # the second replaces the first
        files = write_export(one, Path(), vendor=libraries, title=title, num_images=3)
        assert all(path.is_file() for path in files)
        assert json.loads(Path("data/runs.json").read_text())["title"] == title
    assert {path.name for path in tmp_path.iterdir()} == {"libraries", "page"}


def test_a_run_on_data_that_were_in_memory_is_listed_and_left_out(sprites, tmp_path, libraries):
    own, lost = random_run(data=sprites, seed=1), random_run(seed=2)
    for run in (own, lost):
        write_run(run, tmp_path / "runs")
    found = find_runs([tmp_path / "runs"], datasets={"sprites": sprites})
    assert not found.entries[own.run_id].problem
    assert "was in memory" in found.entries[lost.run_id].problem
    write_export(found, tmp_path / "page", vendor=libraries, title="t", num_images=3)
    assert [p.name for p in (tmp_path / "page/data/runs").iterdir()] == [own.run_id]
