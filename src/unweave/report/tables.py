"""Tables for people (rich) and records for machines (JSON): one listing, two ways to print it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # tables are printed, by `unweave doctor`, where torch cannot even be imported
    from unweave.metrics.record import Score

Record = Mapping[str, Any]


def print_records(records: Sequence[Record], columns: Sequence[str], *, as_json: bool,
                  title: str = "") -> None:
    """A table of some columns of the records, or all of every record as a JSON list."""
    if as_json:
        print_json([dict(r) for r in records])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        numeric = any(isinstance(r.get(column), float) for r in records)
        # The name of a thing is what one copies into the next command: never cut in two.
        whole = numeric or column in ("name", "folder", "file", "run")
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left",
                         no_wrap=whole, overflow="fold")
    for record in records:
        table.add_row(*[Text(_cell(record.get(c))) for c in columns])
    # Without a terminal the width is unknown and nothing should be cut.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def print_json(value: Any) -> None:
    """Values as JSON; what is no number (NaN, infinite), which JSON does not have, as null."""
    print(json.dumps(_finite(value), indent=2, default=_plain, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={_short(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_short(v) for v in value)
    return str(value)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    return _finite(value.item()) if hasattr(value, "item") else str(value)


def size_of(num_bytes: int | None) -> str:
    """Bytes in words, with three digits; "no" where there are none."""
    if num_bytes is None:
        return "no"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes} bytes"


SCORE_COLUMNS = ("name", "value", "interval", "chance", "ceiling", "range", "better", "used")


def score_records(scores: Sequence[Score], **extra: Any) -> list[dict[str, Any]]:
    """Scores as records with `name`, and interval, range and sample as a reader wants them."""
    records = []
    for score in scores:
        interval = (None if score.low is None or score.high is None
                    else f"{score.low:.3f} to {score.high:.3f}")
        used = (f"{score.num_groups} votes of {score.group_size}" if score.num_groups
                else f"{score.num_points} points" if score.num_points else "draws of the prior")
        better = {True: "higher", False: "lower", None: "neither"}[score.higher_is_better]
        records.append({**extra, "name": score.key, **score.as_dict(), "interval": interval,
                        "range": f"{score.range_low:g} to {score.range_high:g}",
                        "better": better, "used": used})
    return records
