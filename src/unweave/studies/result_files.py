"""Result files of disentanglement_lib, found in folders and archives and read where they are.

A step (train, postprocess, evaluation) leaves `results/json/STEP_config.json` and
`STEP_results.json`, and in `results/aggregate/STEP.json` everything so far under one roof, names
with the file in front. A folder of steps is copied into that of the next, so an evaluation holds
its training too; a model that was only trained has no evaluation. The released models are zip
files of such folders: they are not unpacked.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from unweave.data.archive import contents
from unweave.types import UserError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
STEPS = ("evaluation", "train")
"""Steps whose numbers are ours to read; of both in one place the first tells all."""

_WANTED = re.compile(r"(^|/)[^/]+\.json$")
_MOST = 256_000_000


def documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Name and content of every result below a folder, or in an archive of one."""
    held: dict[PurePosixPath, dict[str, str]] = {}
    for name, payload in contents(path, _WANTED, _MOST):
        place = PurePosixPath(name)
        held.setdefault(place.parent, {})[place.stem] = decoded(f"{path}/{name}", payload)
    for place in sorted(held):
        stems = held[place]
        if place.name == "aggregate":
            step = next((step for step in STEPS if step in stems), None)
            if step is not None:
                where = f"{path}/{place}/{step}.json"
                yield where, parsed(where, stems[step])
            continue
        step = next((step for step in STEPS if f"{step}_results" in stems), None)
        beside = held.get(place.parent / "aggregate", {})
        if step is not None and step not in beside and "evaluation" not in beside:
            where = f"{path}/{place}/{step}_results.json"
            yield where, {f"{stem}.{k}": v for stem, text in sorted(stems.items())
                          for k, v in _object(f"{path}/{place}/{stem}.json", text).items()}


def decoded(where: str, payload: bytes) -> str:
    """The text of a file, unpacked if it is gzip."""
    try:
        return (gzip.decompress(payload) if where.endswith(".gz") else payload).decode()
    except (OSError, EOFError, UnicodeDecodeError, gzip.zlib.error) as error:
        raise UserError(f"{where} cannot be read ({error}): copy or download it again") from None


def parsed(where: str, text: str) -> Any:
    """What a JSON text says."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not JSON ({error}): copy or download it again") from None


def _object(where: str, text: str) -> dict[str, Any]:
    found = parsed(where, text)
    if not isinstance(found, dict):
        raise UserError(f"{where} holds no names and values: it is not a file of results")
    return found
