"""What a store remembers of its studies: their runs, metrics and where they come from.

Each call of `remember` that brings something new adds a file of its own, named by its content, and
`recall` puts them together: two runners that start at once with other seeds lose nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from unweave.config import RunConfig
from unweave.studies.catalog import Study
from unweave.studies.store import Store
from unweave.types import UserError


def remember(store: Store, study: Study, configs: Sequence[RunConfig],
             metrics: Sequence[str]) -> None:
    """Write down what a study consists of; a second call with more runs adds them."""
    record = recall(store, study.name)
    new = {c.run_id: json.loads(c.to_json()) for c in configs}
    if record is not None:
        if record["source"] != study.source:
            raise UserError(f"{store.address} has a study {study.name!r} from {record['source']}, "
                            f"and this one is from {study.source}: rename one of them, or use "
                            "another store")
        for what, own in (("convention", study.convention), ("settings", dict(study.settings))):
            held = record.get(what) or type(own)()
            if held != own:
                raise UserError(f"{store.address} has a study {study.name!r} whose {what} is "
                                f"{held}, and now it is {own}: use another store, or the "
                                f"{what} of before")
        new = {run_id: config for run_id, config in new.items() if run_id not in record["runs"]}
        if not new and set(metrics) <= set(record["metrics"]):
            return
    record = {"name": study.name, "source": study.source, "convention": study.convention,
              "metrics": list(metrics), "runs": new}
    if study.settings:
        record["settings"] = dict(study.settings)
    add_record(store, record)


def add_record(store: Store, record: dict[str, Any]) -> None:
    """Add to what is remembered of a study."""
    payload = json.dumps(record, sort_keys=True).encode()
    name = hashlib.sha256(payload).hexdigest()[:16]
    store.write_file(f"studies/{record['name']}/{name}.json", payload)


def recall(store: Store, name: str) -> dict[str, Any] | None:
    """All that is remembered of a study, or None."""
    found: dict[str, Any] | None = None
    held = store.files("studies")
    paths = [f"studies/{name}.json"] if f"{name}.json" in held else []  # of stores made before
    if name in held:
        paths += [f"studies/{name}/{file}" for file in store.files(f"studies/{name}")]
    for path in paths:
        try:
            part = json.loads(store.read_file(path) or b"")
            if found is None:
                found = part | {"metrics": list(part["metrics"]), "runs": dict(part["runs"])}
            else:
                found["metrics"] = list(dict.fromkeys([*found["metrics"], *part["metrics"]]))
                found["runs"] |= part["runs"]
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{store.address}/{path} is damaged: move it away, and `unweave study "
                            "run` writes it again") from None
    return found


def studies_in(store: Store) -> list[str]:
    """Names of the studies that were run into a store."""
    return list(dict.fromkeys(name.removesuffix(".json") for name in store.files("studies")))
