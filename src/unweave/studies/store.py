"""The store: every number of a study as rows, in parquet part files that are never edited.

    store.json                     the format of the store
    runs/part-*.parquet            a row a run, diverged ones too
    scores/part-*.parquet          a row a score: run, metric key, convention, value, interval, ...
    curves/part-*.parquet          run, step, term, value
    weights/RUN.safetensors        of the runs whose weights were kept
    claims/, runners/              who is at work on a run, so that it is not made twice (claims.py)
    studies/NAME/*.json            what a study consists of (memory.py)

The store is a folder, or an fsspec address (s3://bucket/folder). A part is written under a
temporary name and renamed; on an object store a part appears whole by itself. Readers take the
first row of a run and the last of a score, so that a part written twice changes nothing. Resuming a
study and adding a metric later are the same question: which rows are missing?

Writing and asking what is missing need pyarrow alone; `Store.sql` answers questions with DuckDB.
"""

from __future__ import annotations

import errno
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unweave.markup import card, table
from unweave.types import UserError

FORMAT = 1
"""Of the store. A reader refuses stores of a later format."""

_PARTS_AT_ONCE = 256  # read from an object store

_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()

SCHEMAS: dict[str, pa.Schema] = {
    "runs": pa.schema([
        ("run_id", _TEXT), ("study", _TEXT), ("source", _TEXT), ("status", _TEXT),
        ("method", _TEXT), ("data", _TEXT), ("letter", _TEXT), ("strength", _REAL),
        ("seed", _WHOLE), ("steps", _WHOLE), ("batch_size", _WHOLE), ("num_latents", _WHOLE),
        ("architecture", _TEXT), ("precision", _TEXT), ("config", _TEXT),
        ("diverged_at", _WHOLE), ("seconds", _REAL), ("device", _TEXT), ("versions", _TEXT),
        ("written", _REAL)]),
    "scores": pa.schema([
        ("run_id", _TEXT), ("key", _TEXT), ("value", _REAL), ("low", _REAL), ("high", _REAL),
        ("chance", _REAL), ("ceiling", _REAL), ("range_low", _REAL), ("range_high", _REAL),
        ("higher_is_better", pa.bool_()), ("metric", _TEXT), ("convention", _TEXT),
        ("version", _TEXT), ("paper", _TEXT), ("seed", _WHOLE), ("num_points", _WHOLE),
        ("num_groups", _WHOLE), ("group_size", _WHOLE), ("num_rows", _WHOLE),
        ("num_latents", _WHOLE), ("overridden", _TEXT), ("settings", _TEXT), ("written", _REAL)]),
    "curves": pa.schema([
        ("run_id", _TEXT), ("step", _WHOLE), ("term", _TEXT), ("value", _REAL)]),
}
"""Columns of the tables. `letter` and `strength`: the letter that the study varies, and its value;
`config`, `versions`, `settings` and `overridden` are JSON; `source`: `unweave` or `published`."""

SCORE_KEY = ("run_id", "key", "convention", "version", "seed", "settings")
"""What tells two scores apart; of equals the last written counts."""


class Store:
    """Rows of runs, scores and curves at an address. Open one with `open_store`."""

    def __init__(self, address: str, filesystem: Any, root: str) -> None:
        self.address, self._fs, self._root = address, filesystem, root.rstrip("/")
        self._seen: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"Store({self.address!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: runs by data set, method and status, and what is scored."""
        counts: dict[tuple[str, ...], int] = {}
        for row in self.runs():
            group = (row["data"], row["method"], row["source"], row["status"])
            counts[group] = counts.get(group, 0) + 1
        columns = ("data", "method", "source", "status", "runs")
        records = [dict(zip(columns, (*group, f"{n:,}"))) for group, n in sorted(counts.items())]
        facts = {"studies": [name.removesuffix(".json") for name in self.files("studies")] or None,
                 "runs": f"{sum(counts.values()):,}"}
        return card(f"store at {self.address}", facts, table(records, columns) if records else "")

    @property
    def folder(self) -> Path | None:
        """The folder, if the store is one on this machine."""
        return Path(self._root) if self.is_local else None

    @cached_property
    def is_local(self) -> bool:
        """Whether the store is a folder on this machine."""
        protocol = self._fs.protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    # -- writing ---------------------------------------------------------------------------------

    def append(self, table: str, rows: Iterable[Mapping[str, Any]] | pa.Table) -> None:
        """Add rows to a table as one part; columns that a row does not have are null."""
        schema = SCHEMAS[table]
        if not isinstance(rows, pa.Table):
            now = time.time()
            listed = [{"written": now} | dict(row) if "written" in schema.names else dict(row)
                      for row in rows]
            unknown = {k for row in listed for k in row} - set(schema.names)
            if unknown:
                raise ValueError(f"{table} has no column {sorted(unknown)}")
            rows = pa.Table.from_pylist(listed, schema=schema)
        if rows.num_rows == 0:
            return
        buffer = pa.BufferOutputStream()
        pq.write_table(rows.cast(schema), buffer, compression="zstd")
        name = f"part-{time.time_ns():x}-{uuid.uuid4().hex[:12]}.parquet"
        self.write_file(f"{table}/{name}", buffer.getvalue().to_pybytes())

    def write_file(self, path: str, payload: bytes) -> None:
        """A file of the store, whole or not at all."""
        final = f"{self._root}/{path}"
        if not self.is_local:
            self._fs.pipe_file(final, payload)
            return
        with _complete(Path(final), payload) as temporary:
            temporary.replace(final)

    def create_file(self, path: str, payload: bytes) -> bool:
        """A file of the store, whole, if there is none of that name: of several exactly one can.

        On an object store this is a write with the condition `If-None-Match: *`.
        """
        final = f"{self._root}/{path}"
        if self.is_local:
            with _complete(Path(final), payload) as temporary:
                return _linked(temporary, Path(final))
        try:
            self._fs.pipe_file(final, payload, mode="create")
        except OSError:
            # There already; or written by a request whose answer was lost and that was sent again.
            held = self.read_file(path)
            if held is None:
                raise
            return held == payload
        return True

    def read_file(self, path: str) -> bytes | None:
        """A file of the store, or None."""
        try:
            return self._fs.cat_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return None

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder of the store, in order; hidden ones are unfinished."""
        try:
            self._fs.invalidate_cache()
            found = self._fs.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        names = sorted(str(path).rsplit("/", 1)[-1] for path in found)
        return [name for name in names if name and not name.startswith(".")]

    def remove_file(self, path: str) -> None:
        """Remove a file (weights, a claim); rows are never removed."""
        try:
            self._fs.rm_file(f"{self._root}/{path}")
        except FileNotFoundError:
            return

    def sweep(self, seconds: float) -> None:
        """Remove what killed processes had half written, if nobody has written on for so long.

        Weights may be large. An object store has no half files.
        """
        if self.folder is None:
            return
        for name in (".", *SCHEMAS, "weights", "claims", "runners", "studies/*"):
            for path in self.folder.glob(f"{name}/.*.tmp"):
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > seconds:
                        path.unlink()

    # -- reading ---------------------------------------------------------------------------------

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of a table as they were written, in the order of their parts."""
        schema = SCHEMAS[table]
        wanted = list(columns) if columns is not None else schema.names
        names = [name for name in self.files(table) if name.endswith(".parquet")]
        parts = [self._part(table, name, payload, wanted)
                 for name, payload in self._payloads(table, names)]
        empty = pa.schema([schema.field(k) for k in wanted]).empty_table()
        return pa.concat_tables([empty, *parts]).combine_chunks()

    def _payloads(self, table: str, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Contents of parts, in their order; from an object store many at a time."""
        if self.is_local:
            yield from ((name, self.read_file(f"{table}/{name}") or b"") for name in names)
            return
        for start in range(0, len(names), _PARTS_AT_ONCE):
            some = names[start:start + _PARTS_AT_ONCE]
            paths = [f"{self._root}/{table}/{name}" for name in some]
            found = self._fs.cat(paths, on_error="omit")
            held = {str(path).rsplit("/", 1)[-1]: payload for path, payload in found.items()}
            yield from ((name, held.get(name, b"")) for name in some)

    def _part(self, table: str, name: str, payload: bytes, columns: Sequence[str]) -> pa.Table:
        schema = SCHEMAS[table]
        try:
            # Arrow's own buffer and this thread: its threads that look into Python objects may
            # outlive a short program, and abort it.
            source = pa.BufferReader(payload)
            part = pq.ParquetFile(source, pre_buffer=False).read(use_threads=False)
            missing = [k for k in schema.names if k not in part.column_names]
            for k in missing:  # a column that a later version added
                field = schema.field(k)
                part = part.append_column(field, pa.nulls(part.num_rows, field.type))
            return part.select(columns).cast(pa.schema([schema.field(k) for k in columns]))
        except (OSError, pa.ArrowException) as error:
            raise UserError(f"{self.address}/{table}/{name} is damaged "
                            f"({str(error).splitlines()[0]}): move it away; the runs whose rows it "
                            "held are then made again") from None

    def runs(self) -> list[dict[str, Any]]:
        """The runs, one row each: of equals the first written."""
        found: dict[str, dict[str, Any]] = {}
        for row in sorted(self.read("runs").to_pylist(), key=lambda r: r["written"] or 0.0):
            found.setdefault(row["run_id"], row)
        return list(found.values())

    def scores(self) -> list[dict[str, Any]]:
        """The scores, one row for each `SCORE_KEY`: of equals the last written."""
        found = {}
        for row in sorted(self.read("scores").to_pylist(), key=lambda r: r["written"] or 0.0):
            found[tuple(row[k] for k in SCORE_KEY)] = row
        return list(found.values())

    def finished(self) -> set[str]:
        """Runs whose rows are all there. Parts that were read before are not read again."""
        new = [name for name in self.files("runs")
               if name.endswith(".parquet") and name not in self._seen]
        for name, payload in self._payloads("runs", new):
            self._seen[name] = self._part("runs", name, payload, ["run_id"])["run_id"].to_pylist()
        return {run_id for part in self._seen.values() for run_id in part}

    def scored(self, convention: str, seed: int) -> dict[str, set[str]]:
        """Which metrics each run has scores of, in a convention with an evaluation seed."""
        table = self.read("scores", ["run_id", "metric", "convention", "seed"])
        found: dict[str, set[str]] = {}
        for row in table.to_pylist():
            if row["convention"] == convention and row["seed"] == seed:
                found.setdefault(row["run_id"], set()).add(row["metric"])
        return found

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """A DuckDB connection with the views `runs`, `scores` and `curves`, one row each.

        What is damaged is named in a sentence, also where that shows only when rows are asked for.
        """
        try:
            import duckdb
        except ImportError:
            raise UserError("questions to a store need duckdb: pip install duckdb") from None
        with duckdb.connect() as connection:
            try:
                for name in SCHEMAS:
                    self._view(connection, name)
                yield connection
            except duckdb.Error as error:
                for name in SCHEMAS:
                    self.read(name)  # says which part is damaged
                first = str(error).strip().splitlines()[0]
                raise UserError(f"the store cannot answer that ({first})") from None

    def _view(self, connection: Any, name: str) -> None:
        """One table as a view: read from its files where DuckDB can, else from memory."""
        import duckdb

        schema, held = SCHEMAS[name], [f for f in self.files(name) if f.endswith(".parquet")]
        rule = {
            "runs": "QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY written) = 1",
            "scores": f"QUALIFY row_number() OVER (PARTITION BY {', '.join(SCORE_KEY)} "
                      "ORDER BY written DESC) = 1",
            "curves": "QUALIFY row_number() OVER (PARTITION BY run_id, term, step) = 1",
        }[name]
        view = f"CREATE VIEW {name} AS SELECT {', '.join(schema.names)} FROM {{}} {rule}"
        if self.is_local and held and not set(self._root) & set("*?["):  # a pattern to DuckDB
            pattern = f"{self._root}/{name}/*.parquet".replace("'", "''")
            try:
                connection.execute(view.format(f"read_parquet('{pattern}', union_by_name=true)"))
                return
            except duckdb.Error:
                pass  # a damaged part, or a column that no part has: reading tells
        connection.register(f"{name}_rows", self.read(name))
        connection.execute(view.format(f"{name}_rows"))

    def sql(self, question: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows that answer a question to the views `runs`, `scores` and `curves`."""
        with self.connect() as connection:
            found = connection.execute(question, list(parameters))
            names = [column[0] for column in found.description]
            return [dict(zip(names, row)) for row in found.fetchall()]


@contextmanager
def _complete(final: Path, payload: bytes) -> Iterator[Path]:
    """A hidden file beside `final` with all of the payload, on disk; gone at the end."""
    final.parent.mkdir(parents=True, exist_ok=True)
    # Not by process id: runners on two machines that share a folder may have the same.
    temporary = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(payload)
            handle.flush()
            os.fsync(handle.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _linked(temporary: Path, final: Path) -> bool:
    """Give a whole file its name, unless the name is taken."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        try:  # no hard links here: the name is taken first, and the file moved onto it
            final.open("xb").close()
        except FileExistsError:
            return False
        temporary.replace(final)
    return True


def open_store(address: str | Path, *, create: bool = False,
               before: Callable[[], object] | None = None) -> Store:
    """The store at a folder or an fsspec address.

    `create` makes an empty one where nothing is; without it a missing store is an error, as is one
    of a later format or a folder that is something else. `before` is called ahead of making one:
    what raises there leaves nothing behind.
    """
    import fsspec

    address = str(address)
    try:
        # Other runners write too: a file that a listing of before does not show may be there.
        filesystem, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        raise UserError(f"{address} needs another package ({error}): pip install s3fs for "
                        "s3:// addresses") from None
    except ValueError as error:
        raise UserError(f"{address!r} is not an address of a store ({error}): give a folder, or "
                        "s3://bucket/folder") from None
    store = Store(address, filesystem, root)
    with _reaching(store):
        payload = store.read_file("store.json")
        if payload is None:
            if not create:
                raise UserError(f"there is no store at {address}: `unweave study run` makes one")
            if store.is_local and Path(root).exists() and any(Path(root).iterdir()):
                raise UserError(f"{address} is not empty and not a store: give another folder")
    if payload is None:
        if before is not None:
            before()
        with _reaching(store):
            store.write_file("store.json", json.dumps({"format": FORMAT}).encode())
        return store
    try:
        number = int(json.loads(payload)["format"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{address}/store.json is damaged: write {{\"format\": {FORMAT}}} into it "
                        "if this is a store") from None
    if number > FORMAT:
        raise UserError(f"{address} was written by a newer unweave (store format {number}, this "
                        f"version reads up to {FORMAT}): upgrade unweave to read it")
    return store


@contextmanager
def _reaching(store: Store) -> Iterator[None]:
    """A sentence for whatever keeps a store from being read or written."""
    address = store.address
    try:
        yield
    except PermissionError:
        raise UserError(f"{address} cannot be read or written: you have no permission "
                        "there") from None
    except NotADirectoryError:
        raise UserError(f"{address} is a file: give a folder for the store") from None
    except UserError:
        raise
    except Exception as error:  # of whatever library speaks to the server
        if store.is_local:
            raise
        raise UserError(f"{address} cannot be reached ({str(error).splitlines()[0]}): check that "
                        "the bucket is there, the credentials, and AWS_ENDPOINT_URL for a server "
                        "other than Amazon's") from None
