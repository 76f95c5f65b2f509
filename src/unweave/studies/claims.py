"""Claims: which runner of a store is at work on a run, so that two never take the same one.

    claims/RUN.N.json      the N-th claim on a run: who made it, and whether it was given back
    runners/OWNER.json     a runner's sign of life, written anew every two minutes

A run belongs to the owner of its last claim. Whoever finds that claim given back, or its owner
dead, makes the next one, N + 1. A claim is created only if its name is not there yet (a hard link
in a folder, a conditional write on an object store), so of several who notice the same dead runner
at the same moment exactly one succeeds. Nobody writes to the claim of another, and claims disappear
only after the run's row is in the store: whoever comes late and takes the run anew must look there
(`Store.finished`) before starting on it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from unweave.studies.store import Store
from unweave.types import UserError

HEARTBEAT = 120.0
"""Seconds between two signs of life."""

DEAD_AFTER = 900.0
"""Seconds of silence after which the claims of a runner are void."""


class Runner:
    """Somebody who works on a store: makes claims, and says that it is alive."""

    def __init__(self, store: Store, owner: str | None = None) -> None:
        self.store = store
        self.owner = owner or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.about: dict[str, Any] = {}
        """What `status` shows of this runner."""
        self._mine: dict[str, int] = {}

    @contextmanager
    def at_work(self) -> Iterator[Runner]:
        """Signs of life until the end; what is then still claimed is given back."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT):
                with suppress(Exception):  # a server out of reach for a moment: the next one counts
                    self.beat()

        self.beat()
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()
            self.give_back(list(self._mine))
            self.store.remove_file(f"runners/{self.owner}.json")

    def beat(self) -> None:
        """Say that this runner is alive."""
        record = {"owner": self.owner, "time": time.time(), **this_process(), **self.about}
        self.store.write_file(f"runners/{self.owner}.json", json.dumps(record).encode())

    def take(self, run_ids: Iterable[str]) -> list[str]:
        """Those of the runs that are now this runner's. It must have said that it is alive."""
        held, judged = last_claims(self.store), {self.owner: True}
        return [run_id for run_id in run_ids if self._take(run_id, held.get(run_id, -1), judged)]

    def _take(self, run_id: str, last: int, judged: dict[str, bool]) -> bool:
        if last >= 0:
            claim = _read(self.store, f"claims/{run_id}.{last}.json")
            if claim is not None and not claim.get("given_back"):
                owner = claim.get("owner", "")
                if not owner:  # being written, where there are no hard links
                    return False
                if owner not in judged:
                    judged[owner] = owner_is_alive(self.store, owner)
                if judged[owner]:
                    return owner == self.owner
        if not self.store.create_file(_path(run_id, last + 1), self._claim()):
            return False
        self._mine[run_id] = last + 1
        return True

    def _claim(self, **more: Any) -> bytes:
        return json.dumps({"owner": self.owner, "time": time.time(), **more}).encode()

    def give_back(self, run_ids: Iterable[str]) -> None:
        """Leave runs that are not done to whoever comes next."""
        for run_id in run_ids:
            number = self._mine.pop(run_id, None)
            if number is not None:
                self.store.write_file(_path(run_id, number), self._claim(given_back=True))

    def finish(self, run_ids: Iterable[str]) -> None:
        """Remove the claims on runs whose rows are in the store."""
        for run_id in run_ids:
            last = self._mine.pop(run_id, 0)
            for number in range(last, -1, -1):
                self.store.remove_file(_path(run_id, number))


def last_claims(store: Store) -> dict[str, int]:
    """The number of the last claim on each run."""
    found: dict[str, int] = {}
    for name in store.files("claims"):
        run_id, _, number = name.removesuffix(".json").rpartition(".")
        if number.isdigit():
            found[run_id] = max(found.get(run_id, -1), int(number))
    return found


def claimed(store: Store) -> dict[str, str]:
    """Runs that are being worked on, and the runner that does: claims of the dead do not count."""
    found, judged = {}, {}
    for run_id, number in last_claims(store).items():
        claim = _read(store, _path(run_id, number))
        if claim is None or claim.get("given_back"):
            continue
        owner = claim.get("owner", "")
        if owner not in judged:
            judged[owner] = owner_is_alive(store, owner)
        if judged[owner]:
            found[run_id] = owner
    return found


def void_claims(store: Store, run_ids: Iterable[str], *, force: bool = False) -> list[str]:
    """Free runs of runners that are gone, or (`force`) of all runners but those of this machine."""
    held, wanted = last_claims(store), set(run_ids)
    working = claimed(store)
    freed = []
    for run_id in wanted & held.keys():
        owner = working.get(run_id)
        if owner is not None and (not force or _lives_here(store, owner)):
            continue
        claim = _read(store, _path(run_id, held[run_id]))
        if claim is not None and claim.get("given_back"):
            continue
        payload = json.dumps({"owner": "", "time": time.time(), "given_back": True}).encode()
        if store.create_file(_path(run_id, held[run_id] + 1), payload):
            freed.append(run_id)
    return freed


def abandoned(store: Store, finished: Collection[str]) -> list[str]:
    """Finished runs that are still claimed: their runner was killed before it let go of them."""
    over = last_claims(store).keys() & finished
    working = claimed(store) if over else {}
    return sorted(run_id for run_id in over if run_id not in working)


def clear_leftovers(store: Store, run_ids: Collection[str]) -> None:
    """Remove the claims on abandoned runs, and what else killed runners left in a store."""
    for name in store.files("claims") if run_ids else []:
        if name.removesuffix(".json").rpartition(".")[0] in run_ids:
            store.remove_file(f"claims/{name}")
    for name in store.files("runners"):
        if not owner_is_alive(store, name.removesuffix(".json")):  # if it only slept it says so
            store.remove_file(f"runners/{name}")
    store.sweep(DEAD_AFTER)


def runners(store: Store) -> list[dict[str, Any]]:
    """What the living runners of a store said last."""
    found = [_read(store, f"runners/{name}") for name in store.files("runners")]
    return [record for record in found if record is not None and is_alive(record)]


def owner_is_alive(store: Store, owner: str) -> bool:
    """Whether a runner may still be at work; one that said goodbye, or nothing, is not."""
    record = _read(store, f"runners/{owner}.json") if owner else None
    return record is not None and is_alive(record)


def is_alive(record: Mapping[str, Any]) -> bool:
    """Heard of lately, and if it is a process of this machine, one that still runs."""
    if time.time() - record.get("time", 0.0) >= DEAD_AFTER:
        return False
    if record.get("machine") != this_process()["machine"]:
        return True
    return _started(record.get("pid", -1)) == record.get("started")


def check_exclusive(store: Store) -> None:
    """Refuse an object store that does not know conditional writes: runners would collide."""
    path = f"runners/.probe-{uuid.uuid4().hex}"
    try:
        first, second = (store.create_file(path, payload) for payload in (b"1", b"2"))
    finally:
        store.remove_file(path)
    if not first or second:
        raise UserError(f"{store.address} does not keep to conditional writes (If-None-Match), so "
                        "that two runners could take the same run: use a server that does, or a "
                        "folder")


def this_process() -> dict[str, Any]:
    """What tells this process from every other: machine, process id, start."""
    return {"machine": _machine(), "pid": os.getpid(), "started": _started(os.getpid())}


@cache
def _machine() -> str:
    """The host, and on Linux its process namespace: containers may share a name."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str | None:
    """When a process of this machine began, in whatever unit; None if it is no more.

    With the start, a process that was given the number of a dead one is not taken for it.
    """
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # somebody else's process
        return ""
    return ""


def _lives_here(store: Store, owner: str) -> bool:
    record = _read(store, f"runners/{owner}.json")
    return record is not None and record.get("machine") == _machine()


def _path(run_id: str, number: int) -> str:
    return f"claims/{run_id}.{number}.json"


def _read(store: Store, path: str) -> dict[str, Any] | None:
    """A record that was written whole; None if it is not there."""
    payload = store.read_file(path)
    try:
        record = None if payload is None else json.loads(payload)
    except ValueError:
        return {"owner": ""}
    return record if isinstance(record, dict) else None
