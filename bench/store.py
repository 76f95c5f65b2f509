"""How long does a store of a whole study take to answer? 12,600 runs, then ten times as many.

    python bench/store.py [--out store-bench] [--times 1 10]

Makes a store of made-up rows in the shape of the study (7 data sets x 36 settings x 50 seeds, all
scores with labels and without, about a million score rows, thinned curves) and asks every question.
Ten times as many runs are ten times as many seeds, written in ten parts as ten runners would.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from unweave.metrics import METRICS
from unweave.studies.answers import QUESTIONS, analyse, read_rows
from unweave.studies.answers.grid import KEYS
from unweave.studies.catalog import LOCATELLO_DATA, LOCATELLO_GRID
from unweave.studies.select import select
from unweave.studies.store import SCHEMAS, Store, open_store

TERMS, POINTS = ("loss", "recon", "kl"), 50


def make(folder: Path, times: int) -> Store:
    """A store of 12,600 runs, so many times."""
    store = open_store(folder, create=True)
    rng = np.random.default_rng(0)
    known = [key for metric in METRICS.values() for key in metric.keys]
    keys = list(dict.fromkeys([*KEYS, *known]))
    settings = [(m, letter, float(v)) for m, letter, values, _ in LOCATELLO_GRID for v in values]
    for part in range(times):
        runs = [(d, *s, 50 * part + seed) for d in LOCATELLO_DATA for s in settings
                for seed in range(50)]
        ids = [f"{m}-{d}-{v:g}-{seed}" for d, m, _, v, seed in runs]
        data, method, letter, strength, seeds = map(list, zip(*runs))
        _append(store, "runs", len(runs), run_id=ids, study="locatello2019", source="unweave",
                status="done", method=method, data=data, letter=letter, strength=strength,
                seed=seeds, written=float(part))
        hidden = rng.normal(size=len(runs)) + np.repeat(rng.normal(size=len(runs) // 50), 50)
        values = hidden[:, None] * rng.normal(size=len(keys)) + rng.normal(
            size=(len(runs), len(keys)))
        _append(store, "scores", values.size, run_id=np.repeat(ids, len(keys)),
                key=np.tile(keys, len(ids)), value=1 / (1 + np.exp(-values.ravel())),
                metric=np.tile([k.partition(".")[0] for k in keys], len(ids)),
                convention="study2019", version="1", seed=0, settings="{}", overridden="[]",
                written=float(part))
        length = len(TERMS) * POINTS
        _append(store, "curves", len(ids) * length, run_id=np.repeat(ids, length),
                step=np.tile(np.arange(POINTS) * 6000, len(ids) * len(TERMS)),
                term=np.tile(np.repeat(TERMS, POINTS), len(ids)),
                value=rng.random(len(ids) * length))
    return store


def _append(store: Store, table: str, num: int, **columns: object) -> None:
    """Columns as arrays, or as one value for all rows; those not named are null."""
    made = []
    for field in SCHEMAS[table]:
        value = columns.get(field.name)
        if value is None or isinstance(value, str | int | float):
            made.append(pa.nulls(num, field.type) if value is None
                        else pa.repeat(pa.scalar(value, field.type), num))
        else:
            made.append(pa.array(value, field.type))
    store.append(table, pa.Table.from_arrays(made, schema=SCHEMAS[table]))


def main() -> None:
    """Print the seconds of every question for every size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("store-bench"))
    parser.add_argument("--times", type=int, nargs="+", default=[1, 10])
    arguments = parser.parse_args()
    columns: list[dict[str, float]] = []
    for times in arguments.times:
        folder = arguments.out / str(times)
        shutil.rmtree(folder, ignore_errors=True)
        found = {}
        began = time.perf_counter()
        store = make(folder, times)
        made = time.perf_counter() - began
        sizes = {name: store.sql(f"SELECT count(*) AS n FROM {name}")[0]["n"] for name in SCHEMAS}
        print(f"{times} x: {sizes['runs']:,} runs, {sizes['scores']:,} scores, "
              f"{sizes['curves']:,} points of curves, "
              f"{sum(f.stat().st_size for f in folder.rglob('*.parquet')) / 1e6:.0f} MB, "
              f"made in {made:.0f} s")
        began = time.perf_counter()
        rows = read_rows(store)
        found["read the grid"] = time.perf_counter() - began
        for name in QUESTIONS:
            began = time.perf_counter()
            (_, answer), = analyse(rows, [name])
            assert answer.missing is None, (name, answer.missing)
            found[name] = time.perf_counter() - began
        began = time.perf_counter()
        select(rows)
        found["select"] = time.perf_counter() - began
        found["all"] = sum(found.values())
        columns.append(found)
    print(f"\n| seconds | {' | '.join(f'{t} x' for t in arguments.times)} |")
    print(f"|---|{'---|' * len(columns)}")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(f'{column[name]:.2f}' for column in columns)} |")
    (arguments.out / "seconds.json").write_text(json.dumps(columns, indent=1))


if __name__ == "__main__":
    main()
