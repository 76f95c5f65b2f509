"""The store: rows survive, are never doubled in an answer, and bad stores get one sentence."""

import multiprocessing
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unweave.studies.store import open_store
from unweave.types import UserError

RUN = {"run_id": "vae-1", "study": "quick", "source": "unweave", "status": "done", "method": "vae",
       "data": "dsprites", "seed": 0}


def score(value, key="mig", run_id="vae-1", **more):
    return {"run_id": run_id, "key": key, "value": value, "metric": key, "convention": "study2019",
            "version": "1", "seed": 0, "settings": "{}", **more}


def test_rows_come_back_as_they_were_written(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    store.append("runs", [RUN])
    store.append("curves", [{"run_id": "vae-1", "step": 3, "term": "loss", "value": 2.5}])
    store.append("scores", [])
    again = open_store(tmp_path / "s")
    row, = again.runs()
    assert {k: row[k] for k in RUN} == RUN
    assert row["written"] > 0
    assert row["strength"] is None
    assert again.read("curves").to_pylist() == [
        {"run_id": "vae-1", "step": 3, "term": "loss", "value": 2.5}]
    assert again.files("scores") == []
    with pytest.raises(ValueError, match="no column"):
        store.append("runs", [{"colour": "red"}])


@pytest.mark.parametrize("address", ["folder", "memory"])
def test_of_equals_one_counts(tmp_path, address):
    where = tmp_path / "s" if address == "folder" else f"memory://{tmp_path.name}"
    store = open_store(where, create=True)
    store.append("runs", [RUN])
    store.append("runs", [RUN | {"status": "diverged"}])
    store.append("scores", [score(0.1), score(0.2, "sap")])
    store.append("scores", [score(0.3)])
    assert [row["status"] for row in store.runs()] == ["done"]
    assert sorted((row["key"], row["value"]) for row in store.scores()) == [
        ("mig", 0.3), ("sap", 0.2)]
    assert store.sql("SELECT count(*) AS n FROM runs") == [{"n": 1}]
    assert store.sql("SELECT key, value FROM scores ORDER BY key") == [
        {"key": "mig", "value": 0.3}, {"key": "sap", "value": 0.2}]
    assert store.sql("SELECT status FROM runs WHERE method = ?", ["vae"]) == [{"status": "done"}]
    assert store.scored("study2019", 0) == {"vae-1": {"mig", "sap"}}
    assert store.scored("paper", 0) == {}


def test_an_unfinished_part_is_not_seen_and_a_damaged_one_is_named(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    store.append("runs", [RUN])
    (tmp_path / "s/runs/.part-x.parquet.1.tmp").write_bytes(b"half")
    assert len(store.runs()) == 1
    part = next((tmp_path / "s/runs").glob("part-*"))
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"runs/part-.*\.parquet is damaged .*: move it away"):
        store.runs()
    with pytest.raises(UserError, match=r"runs/part-.*\.parquet is damaged .*: move it away"):
        store.sql("SELECT count(*) FROM runs")
    with (pytest.raises(UserError, match=r"runs/part-.*\.parquet is damaged .*: move it away"),
          store.connect()):
        pass


def test_what_duckdb_finds_only_when_rows_are_asked_for_is_named_too(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    store.append("runs", [RUN])
    store.append("scores", [score(0.1)])
    part = next((tmp_path / "s/scores").glob("part-*"))
    whole = part.read_bytes()
    part.write_bytes(whole[:4] + bytes(200) + whole[204:])  # pages are broken, the footer is not
    with pytest.raises(UserError, match=r"scores/part-.*\.parquet is damaged"):
        store.sql("SELECT value FROM scores")
    texts = pq.read_table(pa.BufferReader(whole))
    texts = texts.set_column(texts.column_names.index("value"), "value", [["much"]])
    pq.write_table(texts, part)
    with pytest.raises(UserError, match=r"scores/part-.*\.parquet is damaged .*much"):
        store.scores()
    with pytest.raises(UserError, match=r"scores/part-.*\.parquet is damaged .*much"):
        store.sql("SELECT sum(value) FROM scores")


def test_stores_that_duckdb_cannot_open_by_itself_are_read(tmp_path):
    """A column that no part has yet, notes among the parts, a folder that looks like a pattern."""
    store = open_store(tmp_path / "s[1]", create=True)
    store.append("runs", [RUN])
    store.append("scores", [score(0.1)])
    assert store.sql("SELECT value FROM scores") == [{"value": 0.1}]
    (tmp_path / "s[1]").rename(tmp_path / "s")
    store = open_store(tmp_path / "s")
    part = next((tmp_path / "s/scores").glob("part-*"))
    pq.write_table(pq.read_table(part).drop_columns(["overridden"]), part)
    (tmp_path / "s/curves").mkdir()
    (tmp_path / "s/curves/README").write_text("notes")
    assert store.sql("SELECT value, overridden FROM scores") == [{"value": 0.1, "overridden": None}]
    assert store.sql("SELECT count(*) AS n FROM curves") == [{"n": 0}]


def _append_many(folder, number):
    store = open_store(folder)
    for i in range(20):
        store.append("scores", [score(0.5, run_id=f"run-{number}-{i}")])


def test_writers_side_by_side_lose_nothing(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append_many, args=(str(tmp_path / "s"), n))
               for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(store.scores()) == 40


def test_bad_stores_get_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"there is no store at .*: `unweave study run` makes one"):
        open_store(tmp_path / "nothing")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("x")
    with pytest.raises(UserError, match="not empty and not a store"):
        open_store(tmp_path / "other", create=True)
    with pytest.raises(UserError, match=r"is a file: give a folder|not empty"):
        open_store(tmp_path / "other/file", create=True)
    store = open_store(tmp_path / "s", create=True)
    (tmp_path / "s/store.json").write_text('{"format": 99}')
    with pytest.raises(UserError, match=r"newer unweave \(store format 99"):
        open_store(tmp_path / "s")
    (tmp_path / "s/store.json").write_text("{")
    with pytest.raises(UserError, match=r"store\.json is damaged"):
        open_store(tmp_path / "s")
    with pytest.raises(UserError, match="cannot answer that"):
        store.sql("SELECT nothing FROM runs")
    with pytest.raises(UserError, match="is not an address of a store"):
        open_store("nosuch://x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_one_sentence(tmp_path):
    (tmp_path / "s").mkdir(mode=0o500)
    with pytest.raises(UserError, match="no permission"):
        open_store(tmp_path / "s/inside", create=True)


def test_a_format_that_is_no_number_is_one_sentence(tmp_path):
    (tmp_path / "store.json").write_text('{"format": "x"}')
    with pytest.raises(UserError, match=r"store\.json is damaged"):
        open_store(tmp_path)
