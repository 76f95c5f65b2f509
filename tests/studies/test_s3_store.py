"""A store on S3: a real server over HTTP, a killed runner, two runners at once, every row once."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_claims import HAMMER
from test_runner import SCRIPT, STUDY, values

from small import make_sprites
from unweave.cli import main
from unweave.studies.claims import runners
from unweave.studies.runner import run_study
from unweave.studies.store import open_store
from unweave.types import UserError

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.skipif(not all(map(find_spec, ("s3fs", "moto", "flask", "flask_cors"))),
                       reason="needs s3fs and a server: pip install s3fs 'moto[s3]' flask "
                              "flask-cors"),
    # Of aiobotocore's connections, closed by the garbage collector at the end of a process.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def bucket():
    """The address of an empty bucket on a server of this machine."""
    import s3fs

    server = subprocess.Popen([sys.executable, str(HERE / "s3_server.py")], text=True,
                              stdout=subprocess.PIPE)
    port = server.stdout.readline().strip()
    chosen = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_DEFAULT_REGION": "us-east-1",
              "AWS_ACCESS_KEY_ID": secrets.token_hex(8),
              "AWS_SECRET_ACCESS_KEY": secrets.token_hex(8)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in chosen.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("studies")
        yield "s3://studies"
    server.kill()
    server.wait()
    server.stdout.close()


@pytest.mark.slow  # the same hammer runs on a folder every time
def test_claims_are_exclusive(bucket, tmp_path):
    script = tmp_path / "hammer.py"
    script.write_text(HAMMER)
    done = subprocess.run([sys.executable, str(script), f"{bucket}/hammer", "4", "2"],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "each run had one owner\n", done.stderr[-3000:]


def test_bad_addresses_are_one_sentence(bucket, monkeypatch):
    with pytest.raises(UserError, match="no store at s3://studies/nothing"):
        open_store("s3://studies/nothing")
    with pytest.raises(UserError, match=r"cannot be reached .*bucket"):
        open_store("s3://nowhere/s", create=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    import s3fs
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(UserError, match="cannot be reached"):
        open_store("s3://studies/s")
    s3fs.S3FileSystem.clear_instance_cache()


def test_killed_and_shared_every_row_is_there_once(bucket, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))  # for unfinished runs
    script = tmp_path / "go.py"
    script.write_text(SCRIPT.format(paths=[str(HERE), str(HERE.parent)]))

    def start():
        return subprocess.Popen([sys.executable, str(script), f"{bucket}/s"], text=True,
                                start_new_session=True, stdout=subprocess.PIPE)

    first = start()
    store = None
    for _ in range(1200):  # until it is at work
        time.sleep(0.1)
        try:
            store = open_store(f"{bucket}/s")
        except UserError:
            continue
        if store.files("claims"):
            break
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert store.files("claims")
    assert store.files("runners")
    both = [start(), start()]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(int(line.split("done=")[1].split(",")[0]) for line in said) <= 4, said
    # The rows as written, not as read: none is there twice.
    assert sorted(store.read("runs")["run_id"].to_pylist()) == sorted(
        config.run_id for config in STUDY.runs())
    assert store.files("claims") == []
    assert runners(store) == []
    local = open_store(tmp_path / "local", create=True)
    run_study(STUDY, STUDY.runs(), local, device="cpu", num_workers=1, details=False,
              datasets={"sprites": make_sprites()}, say=lambda line: None)
    assert values(store) == values(local)
    record, = _call(capsys, "study", "status", f"{bucket}/s", "--json")
    assert (record["done"], record["missing"], record["running"]) == (4, 0, 0)
    answers = _call(capsys, "study", "analyse", f"{bucket}/s", "--question", "models", "--json")
    assert answers


def _call(capsys, *arguments):
    with pytest.raises(SystemExit) as leave:
        main(list(arguments))
    said = capsys.readouterr()
    assert leave.value.code == 0, said.err
    return json.loads(said.out)
