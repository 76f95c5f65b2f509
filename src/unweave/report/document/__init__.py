"""The report: one HTML file that opens offline, from a store or from runs.

All data lie in it as JSON; `report.js` and its neighbours turn them into tables and figures. Text
reaches the page as text only, and its policy forbids scripts, styles and addresses of others.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
import shlex
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from unweave.metrics.record import CONVENTIONS
from unweave.report.document.contents import about_runs, run_table, versions_of
from unweave.report.document.published import beside_published
from unweave.report.document.sources import Gathered, from_runs, from_store
from unweave.training.folder import write_atomically
from unweave.training.loop import versions
from unweave.types import UserError, unknown_name

SCRIPTS = ("figure.js", "table.js", "report.js")
"""In the order in which they need each other."""


def write_report(target: str | Path, out: str | Path, *, study: str | None = None,
                 source: str | None = None, convention: str = "study2019",
                 published: str | None = None, num_looks: int = 6, seed: int = 0,
                 title: str | None = None, device: str = "auto") -> dict[str, Any]:
    """Write a report on a store, a run folder or a folder of runs; what was written.

    `study` and `source` choose among the runs of a store. `published` is a store with published
    runs for comparison, where the target has none. `num_looks`: of how many runs traversals are
    shown, the best of those whose weights were kept.
    """
    from unweave.studies.store import open_store

    out = Path(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{out} must end in .html")
    if num_looks < 0:
        raise UserError(f"--traversals must be at least 0, got {num_looks}")
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
    options: dict[str, Any] = {"convention": convention, "num_looks": num_looks, "seed": seed,
                               "device": device}
    path = Path(target)
    if "://" in str(target) or (path / "store.json").exists():
        if published is not None:
            raise UserError(f"--published is for run folders, and {target} is a store: import the "
                            "published runs into it with `unweave study import published`")
        gathered = from_store(open_store(str(target)), study=study, source=source, **options)
    elif not path.is_dir():
        raise UserError(f"there is no store and no run at {target}: give a folder")
    elif study is not None or source is not None:
        said = "--study" if study is not None else "--source"
        raise UserError(f"{said} chooses among the runs of a store, and {target} is none: leave "
                        "it out, or give a store")
    else:
        gathered = from_runs(path, **options, published=None if published is None
                             else open_store(published))
    command = ["unweave", "report", str(target), "-o", str(out)]
    usual = {"convention": "study2019", "traversals": 6, "seed": 0}
    for name, value in (("study", study), ("source", source), ("published", published),
                        ("convention", convention), ("traversals", num_looks), ("seed", seed),
                        ("title", title)):
        command += [] if value is None or value == usual.get(name) else [f"--{name}", str(value)]
    gathered.commands.append(["make this report", shlex.join(command)])
    text = page(contents(gathered, title=title))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return {"file": str(out), "runs": len(gathered.runs), "traversals": len(gathered.looks),
            "answers": sum(not a["missing"] for a in gathered.answers),
            "bytes": len(text.encode())}


def contents(gathered: Gathered, *, title: str | None = None) -> dict[str, Any]:
    """Everything that the page shows, as plain values."""
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    here = ", ".join(f"{k} {v}" for k, v in versions().items())
    beside = (None if gathered.published is None else
              beside_published(gathered.runs, gathered.scores, gathered.published))
    return {"title": title or gathered.title, "made": made, "convention": gathered.convention,
            "about": about_runs(gathered.runs),
            "runs": run_table(gathered.runs, gathered.scores), "curves": gathered.curves,
            "looks": gathered.looks, "not_shown": gathered.not_shown,
            "answers": gathered.answers, "answers_about": gathered.answers_about,
            "published": beside, "commands": gathered.commands,
            "versions": [["this report", here], *versions_of(gathered.runs)]}


def page(values: dict[str, Any]) -> str:
    """The file. Only its own script and style may run, by their digests."""
    style = _read("report.css")
    script = "\n".join(_read(name) for name in SCRIPTS)
    # `<` cannot begin a tag inside JSON that has none; the two others end lines in scripts.
    data = (json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            .replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
    policy = (f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
              f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'")
    parts = {"policy": escape(policy, quote=True), "title": escape(values["title"]),
             "style": style, "script": script, "data": data}
    # One pass: nothing that a part says is taken for a place of another.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _read("report.html"))


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


__all__ = ["contents", "page", "write_report"]
