"""Stores joined: rows that were made on different machines, or on different days, in one place.

Rows are copied as they are, under new part names, and only those that the store does not have: a
merge that was interrupted is run again, and one that is run twice changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from unweave.studies.memory import add_record, recall, studies_in
from unweave.studies.store import SCORE_KEY, Store
from unweave.types import UserError


def merge(store: Store, others: Sequence[Store]) -> dict[str, int]:
    """Add the rows, studies and kept weights of other stores; how many were new."""
    counts = {"runs": 0, "scores": 0, "curves": 0, "weights": 0}
    for other in others:
        if other.address == store.address:
            raise UserError(f"{store.address} cannot be merged into itself: name another store")
    for other in others:  # all are read once before anything is written: a damaged one stops all
        for table in ("runs", "scores", "curves"):
            other.read(table, ["run_id"])
        for name in studies_in(other):
            _check_study(store, other, name)
    for other in others:
        for table, number in _merge_rows(store, other).items():
            counts[table] += number
        for name in studies_in(other):
            for file in other.files(f"studies/{name}"):
                add_record(store, json.loads(other.read_file(f"studies/{name}/{file}") or b"{}"))
        held = set(store.files("weights"))
        for file in other.files("weights"):
            if file not in held:
                store.write_file(f"weights/{file}", other.read_file(f"weights/{file}") or b"")
                counts["weights"] += 1
    return counts


def _check_study(store: Store, other: Store, name: str) -> None:
    mine, theirs = recall(store, name), recall(other, name)
    if mine and theirs and mine["source"] != theirs["source"]:
        raise UserError(f"{store.address} has a study {name!r} from {mine['source']}, and "
                        f"{other.address} one from {theirs['source']}: rename one of them")


def _merge_rows(store: Store, other: Store) -> dict[str, int]:
    """Runs last: a run that is there counts as complete."""
    held = store.finished()
    scored = {tuple(row[k] for k in SCORE_KEY)
              for row in store.read("scores", list(SCORE_KEY)).to_pylist()}
    scores = other.read("scores")
    keys = zip(*(scores[k].to_pylist() for k in SCORE_KEY))
    scores = scores.filter(pa.array([key not in scored for key in keys], pa.bool_()))
    curves = _without(other.read("curves"), held)
    runs = _without(other.read("runs"), held)
    for table, rows in (("scores", scores), ("curves", curves), ("runs", runs)):
        store.append(table, rows)
    return {"runs": runs.num_rows, "scores": scores.num_rows, "curves": curves.num_rows}


def _without(rows: pa.Table, held: set[str]) -> pa.Table:
    wanted = [run_id not in held for run_id in rows["run_id"].to_pylist()]
    return rows.filter(pa.array(wanted, pa.bool_()))
