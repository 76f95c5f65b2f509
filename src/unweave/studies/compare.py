"""Where a run stands among the published ones: percentiles of its scores, per method.

A percentile is the share of published runs of the data set with a lower score, equal ones counted
half. It says nothing about better or worse: that is in the score's direction. Only scores of the
published convention are compared, and only those that the released table has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unweave.studies.answers.grid import Rows, read_rows
from unweave.studies.published import CONVENTION
from unweave.studies.store import Store
from unweave.types import UserError


def compare(target: str | Path, store: Store) -> list[dict[str, Any]]:
    """A record for each score of a run: its percentiles within the published runs of its data.

    `target` is a run folder with scores, or the id of a run in the store. `all` pools the methods;
    `setting` is the percentile within the runs of the same method and strength.
    """
    run, scores = _scored(target, store)
    if not scores:
        raise UserError(f"{target} has no scores in the convention {CONVENTION}, which the "
                        f"published runs have: `unweave score {target}` makes them")
    rows = read_rows(store, source="published", keys=sorted(scores))
    if run["data"] not in rows.data:
        raise UserError(f"{target} was trained on {run['data']}, and {store.address} has published "
                        f"runs of {', '.join(rows.data)} only: import those of its data set")
    d = rows.data.index(run["data"])
    records = []
    for key, row in scores.items():
        if key not in rows.scores or np.isnan(rows.scores[key][d]).all():
            continue
        records.append({"name": key, "value": row["value"],
                        **_percentiles(rows, key, d, row["value"], run),
                        "better": {True: "higher", False: "lower", None: "neither"}[
                            row["higher_is_better"]],
                        "overridden": row["overridden"] not in (None, "[]", "")})
    if not records:
        raise UserError(f"{target} has no score that the published runs have too "
                        f"({', '.join(scores)}): score mig, for one")
    return records


def stand_among(rows: Rows, run: dict[str, Any], scores: dict[str, float],
                ) -> dict[str, dict[str, float | None]]:
    """For each score the percentiles of a run within published `rows`, as `compare` has them.

    `run` has `method`, `data` and `strength`. Empty where no published run is of its data set.
    """
    if run["data"] not in rows.data:
        return {}
    d = rows.data.index(run["data"])
    return {key: _percentiles(rows, key, d, value, run) for key, value in scores.items()
            if key in rows.scores and not np.isnan(rows.scores[key][d]).all()}


def _percentiles(rows: Rows, key: str, d: int, value: float,
                 run: dict[str, Any]) -> dict[str, float | None]:
    values = rows.scores[key][d]
    found = {"all": percentile(values, value)}
    found |= {method: percentile(values[rows.of_method(method)], value)
              for method in rows.methods}
    own = [i for i, s in enumerate(rows.settings)
           if s.method == run["method"] and s.strength == run["strength"]]
    return found | {"setting": percentile(values[own], value) if own else None}


def percentile(values: np.ndarray, value: float) -> float | None:
    """The share of values below, equal ones counted half, in percent; NaN is left out."""
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return None
    return float(100 * ((values < value).sum() + 0.5 * (values == value).sum()) / len(values))


def _scored(target: str | Path, store: Store) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Method, data and strength of a run, and its comparable scores by key."""
    from unweave.data import parse_spec

    path = Path(target)
    if not path.exists():
        held = store.sql("SELECT run_id, method, data, strength FROM runs WHERE run_id = ?",
                         [str(target)])
        if not held:
            raise UserError(f"{target} is neither a run folder nor a run of {store.address}")
        about = held[0] | {"data": parse_spec(held[0]["data"])[0]}
        return about, _picked(store.sql("SELECT * FROM scores WHERE run_id = ?", [str(target)]))
    from unweave.studies.catalog import strength_of
    from unweave.training import load

    config = load(path).config
    file = path / "scores.parquet"
    if not file.exists():
        raise UserError(f"{path} has no scores yet: `unweave score {path}` makes them")
    try:
        rows = pq.read_table(file).to_pylist()
    except (OSError, pa.ArrowException):
        raise UserError(f"{file} is damaged: remove it and score again") from None
    about = {"method": config.method, "data": parse_spec(config.data)[0],
             "strength": strength_of(config)[1]}
    return about, _picked(rows)


def _picked(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By key, those of the published convention; its own settings before changed ones."""
    rows = [row for row in rows if row["convention"] == CONVENTION and row["value"] is not None]
    rows.sort(key=lambda r: (r["overridden"] in (None, "[]", ""), str(r["version"]),
                             -(r["seed"] or 0)))
    return {row["key"]: row for row in rows}
