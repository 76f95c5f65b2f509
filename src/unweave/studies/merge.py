"""Stores made on different machines, joined: rows that are missing are added, none comes twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unweave.studies.memory import add_record, recall, studies_in
from unweave.studies.store import SCORE_KEY, Store
from unweave.types import UserError


def merge(into: Store, others: Sequence[Store]) -> list[dict[str, Any]]:
    """Add to a store the finished runs of others, with scores, curves, weights and studies.

    Of a run that both have the store's own rows stay, and scores that it lacks are added. What
    cannot be joined (two studies of one name) is refused before anything is written. Killed in the
    middle, the same call goes on: rows of runs come last, as in a study.
    """
    for number, other in enumerate(others):
        if other.address == into.address:
            raise UserError(f"{into.address} cannot be merged into itself: name another store")
        for name in studies_in(other):
            for before in (into, *others[:number]):  # two that are read may not agree, either
                _same_source(before, other, name)
    return [_add(into, other) for other in others]


def _same_source(into: Store, other: Store, name: str) -> None:
    mine, theirs = recall(into, name), recall(other, name)
    if mine is None or theirs is None:
        return
    for what in ("source", "convention", "settings"):
        if mine.get(what) != theirs.get(what):
            raise UserError(f"{into.address} has a study {name!r} whose {what} is {mine.get(what)},"
                            f" and that of {other.address} is {theirs.get(what)}: they are two "
                            "studies of one name, keep them in two stores")


def _add(into: Store, other: Store) -> dict[str, Any]:
    runs = _once(other.read("runs"), ("run_id",))
    finished = pa.array(runs["run_id"].to_pylist(), pa.string())
    added = {}
    for table, key in (("scores", SCORE_KEY), ("curves", ("run_id", "term", "step")),
                       ("runs", ("run_id",))):
        theirs = runs if table == "runs" else _once(other.read(table), key)
        theirs = theirs.filter(pc.is_in(theirs["run_id"], value_set=finished))
        if table == "runs":
            added["weights"] = _add_weights(into, other, set(finished.to_pylist()))
        new = _lacking(theirs, into.read(table, list(key)), key)
        into.append(table, new)
        added[table] = new.num_rows
    for name in studies_in(other):
        record = recall(other, name)
        if record is not None and record != recall(into, name):
            add_record(into, record)
    return {"from": other.address, **{k: added[k] for k in ("runs", "scores", "curves",
                                                            "weights")}}


def _add_weights(into: Store, other: Store, finished: set[str]) -> int:
    """Weights that the other store kept of its finished runs."""
    held, number = set(into.files("weights")), 0
    for name in other.files("weights"):
        payload = other.read_file(f"weights/{name}") if name not in held else None
        if payload is not None and name.removesuffix(".safetensors") in finished:
            into.write_file(f"weights/{name}", payload)
            number += 1
    return number


def _keys(table: pa.Table, key: Sequence[str]) -> list[tuple]:
    return list(zip(*[table[k].to_pylist() for k in key]))


def _once(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """One row for each key: the one that readers of the store take."""
    if "written" in table.column_names:  # of a run the first counts, of a score the last
        order = "ascending" if tuple(key) == ("run_id",) else "descending"
        table = table.sort_by([("written", order)])
    seen: set[tuple] = set()
    first = [not (k in seen or seen.add(k)) for k in _keys(table, key)]
    return table.filter(pa.array(first, pa.bool_()))


def _lacking(theirs: pa.Table, mine: pa.Table, key: Sequence[str]) -> pa.Table:
    held = set(_keys(mine, key))
    return theirs.filter(pa.array([k not in held for k in _keys(theirs, key)], pa.bool_()))
