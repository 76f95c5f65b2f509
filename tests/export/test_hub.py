"""Push and pull against a server on this machine: what goes up comes back as the same run."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_hub import Handler, serving

import unweave
from small import small_plan, train_small
from unweave import cli
from unweave.export.hub import pull, push
from unweave.export.write import export_run
from unweave.training import load
from unweave.types import UserError

pytest.importorskip("huggingface_hub")


@pytest.fixture(scope="module")
def hub():
    with serving() as hub:
        yield hub


@pytest.fixture
def at_home(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    return hub


@pytest.fixture(scope="module")
def run(sprites, tmp_path_factory):
    return train_small(small_plan("beta_vae", steps=2), sprites,
                       out=tmp_path_factory.mktemp("runs"))[0]


def test_a_run_goes_up_and_comes_back(at_home, run, sprites, tmp_path):
    export_run(run, tmp_path / "out", to="torch")
    address = push(run, tmp_path / "out", "ada/sprites", private=True)
    assert address == f"{at_home.address}/ada/sprites"
    assert at_home.private["ada/sprites"]
    assert {"README.md", "model.pt", "model.py", "run/config.json", "run/weights.safetensors"} <= \
        set(at_home.repositories["ada/sprites"])
    folder = pull("ada/sprites", tmp_path / "in")
    back = load(folder / "run", data=sprites, device="cpu")
    assert back.run_id == run.run_id
    assert all(torch.equal(back.params[k], run.params[k]) for k in run.params)
    assert np.array_equal(back.encode(sprites.images([3])), run.encode(sprites.images([3])))
    assert sorted(p.name for p in (tmp_path / "in").iterdir()) == ["sprites"]
    push(run, tmp_path / "out", "ada/sprites")  # again: a new commit of the same
    with pytest.raises(UserError, match="exists already"):
        pull("ada/sprites", tmp_path / "in")


def test_paths_of_the_user_are_kept_out_of_the_card_and_told_of(at_home, run, tmp_path):
    path = "/home/ada/secret/pictures.npz"
    own = replace(run, config=run.config.replace(data=f"npz:{path}"))
    export_run(own, tmp_path / "out", to="torch")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "npz:pictures.npz" in card
    assert "secret" not in card
    with pytest.warns(UserWarning, match="names your path"):
        push(own, tmp_path / "out", "ada/own")


def test_what_fails_is_one_sentence_and_leaves_nothing(at_home, run, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="is not on the Hub"):
        pull("ada/nothing", tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []
    with pytest.raises(UserError, match="write user/name"):
        pull("nothing", tmp_path / "in")
    export_run(run, tmp_path / "out", to="torch")
    monkeypatch.setenv("HF_TOKEN", "another")
    with pytest.raises(UserError, match="did not take or give"):
        push(run, tmp_path / "out", "ada/other")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="the Hub"):
        push(run, tmp_path / "out", "ada/other")


@pytest.mark.parametrize("file", ["../../evil.txt", "/evil.txt", "x\0y"])
def test_files_that_would_lie_elsewhere_are_refused_in_a_sentence(at_home, tmp_path, file):
    at_home.repositories["eva/out"] = {"README.md": b"", file: b"evil"}
    with pytest.raises(UserError, match="neither taken nor given"):
        pull("eva/out", tmp_path / "a" / "b")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_odd_names_tokens_and_servers_are_one_sentence(at_home, run, tmp_path, monkeypatch):
    export_run(run, tmp_path / "out", to="torch")
    for name in ("ada/a--b", "ada/a..b", "ada/" + "x" * 200):
        with pytest.raises(UserError, match="check the name"):
            pull(name, tmp_path / "in")
        with pytest.raises(UserError, match="check the name"):
            push(run, tmp_path / "out", name)
    monkeypatch.setenv("HF_TOKEN", "\u00fcn")
    with pytest.raises(UserError, match="your token"):
        push(run, tmp_path / "out", "ada/token")
    # A server that answers everything with its front page, as those of hotels do.
    monkeypatch.setattr(Handler, "do_GET", lambda self: self.answer(200, b"<html>welcome</html>"))
    at_home.repositories["ada/whole"] = {"README.md": b""}
    with pytest.raises(UserError, match="HF_ENDPOINT"):
        pull("ada/whole", tmp_path / "in")


def test_the_command_line_pushes_and_pulls_a_run(at_home, tmp_path, capsys):
    (run,) = unweave.train("beta_vae", "dsprites", steps=1, batch_size=4, num_latents=3,
                           architecture="conv64-small", device="cpu", out=tmp_path / "runs",
                           progress=False)
    for words in (["export", run.folder, "--to", "safetensors", "-o", tmp_path / "model", "--push",
                   "ada/whole"], ["pull", "ada/whole", "-o", tmp_path / "in"]):
        with pytest.raises(SystemExit) as leave:
            cli.main([*map(str, words), "--json"])
        assert leave.value.code == 0
        (record,) = json.loads(capsys.readouterr().out)
    assert load(record["run"], device="cpu").run_id == run.run_id


def test_the_command_line_pulls_what_is_no_run(at_home, tmp_path, capsys):
    at_home.repositories["eva/plain"] = {"README.md": b"---\n---\nhello"}
    with pytest.raises(SystemExit) as leave:
        cli.main(["pull", "eva/plain", "-o", str(tmp_path), "--json"])
    assert leave.value.code == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record == {"name": "eva/plain", "folder": str(tmp_path / "plain"), "run": None}
