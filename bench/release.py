"""Rows of stores as one small store to keep in the repository: runs and scores, nothing else.

    python bench/release.py results/locatello2019 STORE [STORE ...]

Finished runs of the stores are joined, each once, with what is in the folder already. Curves and
weights stay behind, and of the versions behind a run only those of packages are kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

from unweave.studies.memory import add_record, recall, studies_in
from unweave.studies.merge import merge
from unweave.studies.store import Store, open_store

PACKAGES = ("unweave", "torch", "numpy", "python")


def packages(versions: str | None) -> str:
    """Versions of packages alone: of the machine nothing."""
    held = json.loads(versions or "{}")
    return json.dumps({name: held[name] for name in PACKAGES if name in held})


def release(folder: Path, sources: list[str]) -> Store:
    """Write the joined rows; the folder is replaced when all of them are there."""
    new, old = (folder.with_name(f"{folder.name}.{word}") for word in ("new", "old"))
    if old.exists() and not folder.exists():  # killed between the two renames below
        old.rename(folder)
    with tempfile.TemporaryDirectory() as work:
        joined = open_store(Path(work) / "joined", create=True)
        held = [str(folder)] if folder.exists() else []
        merge(joined, [open_store(source) for source in (*held, *sources)])
        small = open_store(Path(work) / "small", create=True)
        small.append("scores", joined.read("scores").sort_by([("run_id", "ascending"),
                                                              ("key", "ascending")]))
        runs = joined.read("runs").sort_by("run_id")
        place = runs.schema.get_field_index("versions")
        kept = pa.array([packages(v) for v in runs["versions"].to_pylist()], pa.string())
        small.append("runs", runs.set_column(place, "versions", kept))
        for name in studies_in(joined):
            add_record(small, recall(joined, name))
        for left in (new, old):  # by a call that was killed
            shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(Path(work) / "small", new)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    return open_store(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("stores", nargs="+")
    options = parser.parse_args()
    store = release(options.folder, options.stores)
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"{len(store.runs())} runs, {len(store.scores())} scores, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    from sentences import told

    told(main)
