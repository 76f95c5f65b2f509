"""Codes and factors from files of any kind: npz, npy, csv, parquet; together or apart.

In a table a column is a code if its name is a word for it and a number (`z0`, `code_3`,
`latent.2`, `mu[1]`, `dim_4`); all others are factors, but for row numbers that pandas wrote beside
them. Patterns say it otherwise: `codes="h*"`, `factors="shape,pos_*"`. A file of codes alone takes
its factors from a second one, row by row.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from unweave.data.own_table import refuse_what_is_no_csv, without_row_numbers
from unweave.studies.scoring import read_arrays, read_npz
from unweave.types import UserError

CODE = re.compile(r"(z|c|mu|mean|code|codes|latent|latents|dim|embedding|feature)[ _.\[-]?\d+\]?",
                  re.IGNORECASE)
TABLES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True, eq=False)
class CodesAndFactors:
    """Arrays as `score` takes them, and the names of the factors if they have any."""

    codes: np.ndarray
    factors: np.ndarray
    factor_types: np.ndarray | None = None
    names: tuple[str, ...] = ()


def read_scored(path: str | Path, *, codes: str | None = None,
                factors: str | None = None) -> CodesAndFactors:
    """The codes and factors of a file; `factors` is a second file, or patterns of columns."""
    path = Path(path)
    other = None if factors is None else Path(factors)
    apart = other is not None and (other.is_file() or other.suffix in (".npy", ".npz", ".csv",
                                                                       ".parquet"))
    if not path.is_file():
        raise UserError(f"{path} does not exist: give codes as npz, npy, csv or parquet")
    if apart:
        found, names = _alone(other, "factors", None)
        return CodesAndFactors(_alone(path, "codes", codes)[0], found, None, names)
    if _is_table(path):
        return _of_table(path, codes, factors)
    if path.suffix == ".npy":
        raise UserError(f"{path} holds one array: name the file of the other with --factors")
    if codes is not None or factors is not None:
        names = codes or "codes", factors or "factors"
        held = read_npz(path, names, ("factor_types",))
        return CodesAndFactors(held[names[0]], held[names[1]], held.get("factor_types"))
    return CodesAndFactors(*read_arrays(path))


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(TABLES)


def _alone(path: Path, name: str, patterns: str | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """One array from a file: the whole table, or the array of that name."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: give a file of {name}, or the names of columns")
    if _is_table(path):
        table = read_table(path)
        chosen = _matching(table.column_names, patterns, path) if patterns else table.column_names
        return _columns(table, chosen), tuple(chosen)
    if path.suffix == ".npy":
        try:
            return np.load(path, allow_pickle=False), ()
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{path} is not a readable npy file ({error}): save {name} with "
                            "numpy.save") from None
    return read_npz(path, (patterns or name,))[patterns or name], ()


def _of_table(path: Path, codes: str | None, factors: str | None) -> CodesAndFactors:
    table = read_table(path)
    names = table.column_names
    of_codes = (_matching(names, codes, path) if codes else
                [name for name in names if CODE.fullmatch(name)])
    if not of_codes:
        raise UserError(f"no column of {path} looks like a code (z0, code_1, latent_2 ...); it has "
                        f"{', '.join(names[:12])}: name them with --codes 'PATTERN'")
    of_factors = (_matching(names, factors, path) if factors else
                  [name for name in names if name not in of_codes])
    if not of_factors:
        raise UserError(f"{path} has codes alone: name a file of factors with --factors FILE")
    both = sorted(set(of_codes) & set(of_factors))
    if both:
        raise UserError(f"{both[0]} of {path} is both a code and a factor: say which with --codes "
                        "and --factors")
    return CodesAndFactors(_columns(table, of_codes), _columns(table, of_factors), None,
                           tuple(of_factors))


def read_table(path: Path) -> pa.Table:
    """A csv, tsv or parquet file, or a UserError that names it."""
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
        else:
            separator = "\t" if ".tsv" in path.name else ","
            table = pa.csv.read_csv(
                path, parse_options=pa.csv.ParseOptions(delimiter=separator),
                convert_options=pa.csv.ConvertOptions(strings_can_be_null=True))
        names = table.column_names  # decoded here, and not before
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise UserError(f"{path} is not a readable table ({str(error).splitlines()[0]})") from None
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise UserError(f"{path} has several columns called {twice[0]!r}: give each its own name")
    refuse_what_is_no_csv(table, path)
    return without_row_numbers(table)


def _matching(names: list[str], patterns: str, path: Path) -> list[str]:
    """Columns in the order of the table, for patterns with commas between."""
    wanted = [pattern.strip() for pattern in patterns.split(",")]
    for pattern in wanted:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise UserError(f"no column of {path} is called {pattern}: it has "
                            f"{', '.join(names[:12])}")
    return [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in wanted)]


def _columns(table: pa.Table, names: list[str]) -> np.ndarray:
    """Columns side by side: numbers if all are, else objects, None where nothing is known.

    A column of lists (a vector in each row) becomes as many columns.
    """
    parts: list[np.ndarray] = []
    for name in names:
        column = table[name].combine_chunks()
        kind = column.type
        if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(
                kind):
            rows = [np.asarray(row) for row in column.to_pylist()]
            if len({row.shape for row in rows}) > 1 or any(row.ndim == 0 for row in rows):
                raise UserError(f"the column {name} holds lists of different lengths, or none: "
                                "give each row a list of as many numbers")
            if not rows:
                raise UserError(f"the column {name} has no rows: there is nothing to score")
            parts.append(np.stack(rows))
        elif column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            parts.append(column.to_numpy(zero_copy_only=False)[:, None])
        else:
            parts.append(np.array(column.to_pylist(), dtype=object)[:, None])
    if any(part.dtype == object for part in parts):
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts, axis=1)
