"""Own factors: a table beside the images says what is in each of them.

A csv or parquet file with a column of file names and a column for each factor. If every combination
of classes belongs to one image, complete grid or not, the images have factors, and every metric
can be computed. If several images share a row, a label is unknown or a column is a quantity, the
columns are labels: metrics that fix a factor are then out of reach, the others are not.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from unweave.factors import FactorSpace, FactorType, LabelTable
from unweave.types import IndexArray, UserError, unknown_name

OPTIONS = {
    "table": "a csv or parquet file with factors; a relative path starts where the images are",
    "file": "the column with the names of the files: file by default",
    "factors": "the columns to use, joined by +; all by default",
    "types": "FACTOR:TYPE joined by +; categorical, ordinal, circular or continuous",
    "as": "factors or labels; by default factors, if each combination belongs to one image",
}

Columns = dict[str, np.ndarray]

MANY_VALUES, FEW_VALUES = 100, 20
"""As for labels that are scored: fractions with many distinct values are quantities."""


_FOREIGN = "not in utf-8): save the table in that encoding"

MANY_COLUMNS = 63
"""As many axes as numpy numbers."""


@dataclass(frozen=True, eq=False)
class Described:
    """Which images there are, in the order of a space, and what is known of them."""

    rows: IndexArray
    """The stored image of each index."""
    space: FactorSpace
    labels: LabelTable | None


def read_table(path: Path, file_column: str | None) -> Columns:
    """Columns of a csv (or tsv) or parquet file; the names of files are read as text."""
    if not path.is_file():
        raise UserError(f"no table {path}: give a csv or parquet file; a relative path starts "
                        "where the images are")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            table = pq.read_table(path)
        else:
            tab = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
            texts = {} if file_column is None else {file_column: pa.string()}
            table = pyarrow.csv.read_csv(
                path, parse_options=pyarrow.csv.ParseOptions(delimiter=tab),
                convert_options=pyarrow.csv.ConvertOptions(column_types=texts,
                                                           strings_can_be_null=True))
        table.column_names  # noqa: B018 - decoded here, or refused below
    except UnicodeDecodeError:
        raise UserError(f"the table {path} cannot be read (names of columns are "
                        f"{_FOREIGN}") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"the table {path} cannot be read ({reason}): save it as csv with one line "
                        "of names at the top, or as parquet") from error
    repeated = [name for name, num in Counter(table.column_names).items() if num > 1]
    if repeated:
        raise UserError(f"the table {path} has two columns {repeated[0]!r}: rename one")
    if table.num_rows == 0:
        raise UserError(f"the table {path} has no rows: it needs one for each image")
    refuse_what_is_no_csv(table, path)
    if file_column is None or file_column in table.column_names:
        table = without_row_numbers(table, file_column)
    return {name: _column(path, name, table[name]) for name in table.column_names}


def refuse_what_is_no_csv(table: pa.Table, path: Path) -> None:
    """Columns that are not apart, or texts in another encoding: a csv is read all the same."""
    if path.suffix.lower() in (".parquet", ".pq"):
        return
    if table.num_columns == 1 and table.num_rows and pa.types.is_string(table.schema[0].type):
        name, first = table.column_names[0], str(table[0][0])
        for mark in ";,\t|":
            if 0 < name.count(mark) == first.count(mark):
                raise UserError(f"{path} has one column, {name!r}: separate columns with commas, "
                                "or with tabs in a file called .tsv")
    for name in table.column_names:
        if pa.types.is_binary(table[name].type):
            raise UserError(f"{path} cannot be read (texts of the column {name!r} are {_FOREIGN}")


def without_row_numbers(table: pa.Table, keep: str | None = None) -> pa.Table:
    """The table without what pandas calls its index: rows are numbered in it, nothing is said.

    A csv has it as a first column without a name, a parquet file says which columns it is.
    """
    said = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in said.get("index_columns", []) if isinstance(name, str)
             and name.startswith("__index_level_")]
    if table.column_names[:1] == [""] and table.num_columns > 1:
        index.append("")
    return table.drop_columns([name for name in index
                               if name in table.column_names and name != keep])


def _column(path: Path, name: str, column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    plain = (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
             or pa.types.is_string(kind) or pa.types.is_large_string(kind)
             or pa.types.is_null(kind))
    if not plain:
        if not (pa.types.is_temporal(kind) or pa.types.is_decimal(kind)):
            raise UserError(f"the column {name!r} of {path} holds values of type {kind}: numbers "
                            "and names are understood")
        column = column.cast(pa.string())
        kind = column.type
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return column.to_numpy()
    return np.array(column.to_pylist(), dtype=object)


def match_files(names: Sequence[str], column: np.ndarray, where: str) -> IndexArray:
    """For each row of the table the number of its picture; refuses what does not fit.

    A name is the path below the folder, with or without its ending.
    """
    number = {name: k for k, name in enumerate(names)}
    stems = Counter(name.rpartition(".")[0] for name in names)
    number |= {stem: k for k, name in enumerate(names)
               if stems[stem := name.rpartition(".")[0]] == 1 and stem not in number}
    found = np.empty(len(column), dtype=np.int64)
    for row, said in enumerate(column):
        name = "" if said is None else str(said).strip().replace("\\", "/").removeprefix("./")
        if name not in number:
            lost = sum(1 for other in column if other is None or str(other).strip().replace(
                "\\", "/").removeprefix("./") not in number)
            raise UserError(f"{where} names {lost} files that are not among the {len(names)} "
                            f"pictures, the first is {name!r} in row {row + 1}: correct it, or "
                            "give the column of file names, file=COLUMN")
        found[row] = number[name]
    again = np.flatnonzero(np.bincount(found, minlength=len(names)) > 1)
    if len(again):
        raise UserError(f"{where} has several rows for {names[again[0]]!r}: keep one for each "
                        "picture")
    return found


def choose(columns: Mapping[str, np.ndarray], options: Mapping[str, str], where: str,
           file_column: str | None = None) -> Columns:
    """The columns that are factors: those named, or all but the one with file names."""
    wanted = [name for name in options.get("factors", "").split("+") if name]
    known = [name for name in columns if name != file_column]
    for name in wanted:
        if name not in known:
            raise unknown_name("column", name, known)
    if not wanted and not known:
        raise UserError(f"{where} has no column of factors: add one")
    return {name: columns[name] for name in wanted or known}


def describe(columns: Columns, rows: IndexArray, options: Mapping[str, str],
             where: str) -> Described:
    """Factors where they are that, labels else; `rows` are the stored images of the rows."""
    types = _types(columns, options)
    wanted = options.get("as")
    if wanted not in (None, "factors", "labels"):
        raise unknown_name("reading of a table", wanted, ("factors", "labels"))
    why = "labels were asked for"
    if wanted != "labels":
        found, why = _as_factors(columns, rows, types)
        if found is not None:
            return found
        if wanted == "factors":
            raise UserError(f"{where} does not give factors: {why}; correct it, choose other "
                            "columns with factors=, or use as=labels")
    values = np.empty((len(rows), len(columns)), dtype=object)
    for k, column in enumerate(columns.values()):
        values[:, k] = column
    order = np.argsort(rows, kind="stable")
    labels = LabelTable(tuple(columns), values[order],
                        tuple(types.get(name) for name in columns))
    return Described(rows[order], FactorSpace.without_factors(len(rows)), labels)


def _as_factors(columns: Columns, rows: IndexArray,
                types: Mapping[str, FactorType]) -> tuple[Described | None, str]:
    """The images by combinations of classes; or None and the reason."""
    values, classes = [], []
    for name, column in columns.items():
        unknown = [v is None or v != v for v in column]
        if any(unknown):
            return None, f"{name} is unknown in row {unknown.index(True) + 1}"
        if column.dtype == object:
            plain = {type(v) for v in column} <= {int, float}
            column = column.astype(np.float64) if plain else np.array([str(v) for v in column])
        kind = types.get(name)
        seen, found = np.unique(column, return_inverse=True)
        quantity = (kind is None and seen.dtype.kind == "f" and (seen != np.round(seen)).any()
                    and len(seen) > min(MANY_VALUES, max(FEW_VALUES, len(column) // 2)))
        if quantity or (kind is not None and kind.is_quantity):
            return None, f"{name} is a quantity, with {len(seen)} values in {len(column)} rows"
        values.append(seen)
        classes.append(found.reshape(-1).astype(np.int64))
    sizes = tuple(len(seen) for seen in values)
    if math.prod(sizes) >= 1 << 62:
        return None, f"a grid of {math.prod(sizes):.0e} combinations cannot be numbered"
    if len(sizes) > MANY_COLUMNS:
        return None, f"there are {len(sizes)} columns, more than the {MANY_COLUMNS} of a grid"
    cells = np.ravel_multi_index(tuple(classes), sizes)
    order = np.argsort(cells, kind="stable")
    same = np.flatnonzero(np.diff(cells[order]) == 0)
    if len(same):
        row = order[same[0]]
        said = ", ".join(f"{name}={seen[c[row]]}"
                         for name, seen, c in zip(columns, values, classes))
        return None, f"several images have {said}"
    kinds = tuple(types.get(name) or ("categorical" if seen.dtype.kind in "Ub" else "ordinal")
                  for name, seen in zip(columns, values))
    space = FactorSpace(tuple(columns), sizes, tuple(values), cells=cells, types=kinds)
    return Described(rows[order], space, None), ""


def _types(columns: Columns, options: Mapping[str, str]) -> dict[str, FactorType]:
    found = {}
    for said in filter(None, options.get("types", "").split("+")):
        name, _, kind = said.partition(":")
        if name not in columns:
            raise unknown_name("column", name, columns)
        found[name] = FactorType.parse(kind)
    return found
