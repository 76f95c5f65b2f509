"""Claims: a run has one owner, also when many take over from a dead one at the same moment."""

import json
import os
import subprocess
import sys
import time

import pytest

from unweave.studies import claims
from unweave.studies.claims import Runner, claimed, void_claims
from unweave.studies.store import open_store


@pytest.fixture(params=["folder", "memory"])
def store(request, tmp_path, monkeypatch):
    where = tmp_path / "s" if request.param == "folder" else f"memory://claims-{tmp_path.name}"
    opened = open_store(where, create=True)
    if request.param == "memory":  # this file system of fsspec does not know conditional writes
        plain = opened._fs.pipe_file

        def pipe(path, value, mode="overwrite"):
            if mode == "create" and opened._fs.exists(path):
                raise FileExistsError(path)
            plain(path, value)

        monkeypatch.setattr(opened._fs, "pipe_file", pipe)
    return opened


def runner(store, name):
    found = Runner(store, name)
    found.beat()
    return found


def test_a_run_has_one_owner(store):
    me, you = runner(store, "me"), runner(store, "you")
    assert me.take(["a", "b"]) == ["a", "b"]
    assert me.take(["a"]) == ["a"]  # mine already
    assert you.take(["a", "b", "c"]) == ["c"]
    assert claimed(store) == {"a": "me", "b": "me", "c": "you"}
    me.give_back(["a"])
    assert claimed(store) == {"b": "me", "c": "you"}
    assert you.take(["a", "b"]) == ["a"]
    assert me.take(["a"]) == []
    you.finish(["a", "c"])
    me.finish(["b"])
    assert store.files("claims") == []


def test_claims_of_the_dead_are_void(store, monkeypatch):
    gone, me = runner(store, "gone"), runner(store, "me")
    assert gone.take(["a", "b"]) == ["a", "b"]
    child = subprocess.Popen([sys.executable, "-c", ""])
    record = {"owner": "gone", "time": time.time(), "pid": child.pid, "started": "1",
              "machine": claims.this_process()["machine"]}
    child.wait()
    store.write_file("runners/gone.json", json.dumps(record).encode())
    assert me.take(["a"]) == ["a"]
    # Of another machine only silence tells.
    record |= {"machine": "elsewhere"}
    store.write_file("runners/gone.json", json.dumps(record).encode())
    assert me.take(["b"]) == []
    assert void_claims(store, ["a", "b"]) == []
    assert void_claims(store, ["a", "b"], force=True) == ["b"]  # a is of a process that runs here
    assert me.take(["b"]) == ["b"]
    old = record | {"time": time.time() - claims.DEAD_AFTER}
    store.write_file("runners/gone.json", json.dumps(old).encode())
    assert not claims.owner_is_alive(store, "gone")
    assert [r["owner"] for r in claims.runners(store)] == ["me"]


def test_at_the_end_nothing_is_held(store):
    def fail():
        with Runner(store, "me").at_work() as me:
            assert me.take(["a"]) == ["a"]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert claimed(store) == {}
    assert store.files("runners") == []


def test_a_server_without_conditions_is_refused(store, monkeypatch):
    claims.check_exclusive(store)
    assert store.files("runners") == []
    monkeypatch.setattr(store, "create_file", lambda path, payload: True)
    with pytest.raises(claims.UserError, match="conditional writes"):
        claims.check_exclusive(store)


def test_without_hard_links_the_name_is_taken_first(tmp_path, monkeypatch):
    store = open_store(tmp_path / "s", create=True)

    def refuse(*_):
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    assert store.create_file("claims/a", b"1")
    assert not store.create_file("claims/a", b"2")
    assert store.read_file("claims/a") == b"1"
    assert store.files("claims") == ["a"]


# Every process takes all it can of 25 runs, whose owners of the round before are all dead, and
# stays alive until all have tried.
HAMMER = """
import os, sys, time
from unweave.studies.claims import Runner
from unweave.studies.store import open_store

address, processes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
runs = [f"run-{i}" for i in range(25)]
open_store(address, create=True)
for round in range(rounds):
    children, start = [], time.time() + 0.05 * processes
    hold, end = os.pipe()  # until the other end is closed, nobody leaves
    for number in range(processes):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            runner = Runner(open_store(address), f"{round}-{number}")
            runner.beat()
            time.sleep(max(0.0, start - time.time()))
            os.write(into, (",".join(runner.take(runs)) + ";").encode())
            os.read(hold, 1)
            os._exit(0)
        os.close(into)
        children.append((child, out))
    taken = []
    for child, out in children:
        payload = b""
        while not payload.endswith(b";"):
            some = os.read(out, 65536)
            assert some, "a process failed"
            payload += some
        taken += [run for run in payload[:-1].decode().split(",") if run]
    os.close(end)
    for child, out in children:
        os.waitpid(child, 0)
    assert sorted(taken) == sorted(runs), (round, sorted(taken))
print("each run had one owner")
"""


def test_many_take_over_from_the_dead_at_once(tmp_path):
    script = tmp_path / "hammer.py"
    script.write_text(HAMMER)
    done = subprocess.run([sys.executable, str(script), str(tmp_path / "s"), "8", "6"],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "each run had one owner\n", done.stderr[-3000:]
