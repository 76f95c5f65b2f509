"""Where a report comes from: a store of a study, or folders of runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unweave.config import RunConfig
from unweave.report.answers import about
from unweave.report.document.contents import (
    Scores,
    curve_values,
    study_command,
    train_command,
)
from unweave.report.document.looks import look
from unweave.report.document.questions import answers
from unweave.studies.answers.grid import METRICS, Rows, read_rows
from unweave.studies.catalog import strength_of
from unweave.studies.kept import kept, load_kept
from unweave.studies.standing import studies_in, study_record
from unweave.studies.store import Store
from unweave.training import load
from unweave.training.folder import Curves, read_curves
from unweave.training.run import finished
from unweave.types import UserError


@dataclass
class Gathered:
    """The parts of a report before they are put together."""

    title: str
    runs: list[dict[str, Any]]
    scores: Scores
    curves: dict[str, Any] = field(default_factory=dict)
    looks: list[dict[str, Any]] = field(default_factory=list)
    not_shown: list[str] = field(default_factory=list)
    """Sentences on runs that were to be looked at and could not be."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    answers_about: str = ""
    commands: list[list[str]] = field(default_factory=list)
    """[what for, command]"""
    published: Rows | None = None
    convention: str = "study2019"


def from_store(store: Store, *, study: str | None = None, source: str | None = None,
               convention: str = "study2019", num_looks: int = 6, seed: int = 0,
               device: str = "auto") -> Gathered:
    """A store: its rows, the answers of its analysis, traversals of the best of the kept runs."""
    rows = read_rows(store, source=source, study=study, convention=convention)
    with store.connect() as connection:
        made = connection.execute("SELECT * FROM runs ORDER BY source DESC, run_id")
        names = [c[0] for c in made.description]
        runs = [dict(zip(names, row)) for row in made.fetchall()]
        runs = [run for run in runs if (study is None or run["study"] == study)
                and (source is None or run["source"] == source)]
        place = {run["run_id"]: i for i, run in enumerate(runs)}
        scores, num = Scores(), len(runs)
        found = connection.execute(
            "SELECT run_id, key, value, low, high, higher_is_better FROM scores "
            "WHERE convention = ? AND value IS NOT NULL ORDER BY coalesce(overridden, '[]') = "
            "'[]', version, coalesce(seed, 0) DESC", [convention])
        for run_id, key, value, low, high, better in found.fetchall():
            if run_id in place:
                scores.add(num, place[run_id], {"key": key, "value": value, "low": low,
                                                "high": high, "higher_is_better": better})
        points = connection.execute(
            "SELECT run_id, term, list(step ORDER BY step), list(value ORDER BY step) "
            "FROM curves WHERE term IN ('loss', 'recon', 'kl') GROUP BY run_id, term").fetchall()
    curves: dict[str, dict[str, Any]] = {}
    for run_id, term, steps, values in points:
        if run_id in place:
            own = curves.setdefault(run_id, {"step": steps})
            if len(values) == len(own["step"]):
                own[term] = values
    gathered = Gathered(f"Study in {_short(store.address)}", runs, scores, curve_values(curves),
                        convention=convention)
    _look_at_kept(gathered, store, place, num_looks, seed, device)
    gathered.answers, gathered.answers_about = answers(rows, seed=seed), about(rows)
    held = {run["source"] for run in runs}
    if len(held) > 1:
        gathered.published = rows if rows.source == "published" else read_rows(
            store, source="published", convention=convention, keys=scores.ordered())
    for name in studies_in(store):
        if study in (None, name):
            gathered.commands.append([f"run the study {name}",
                                      study_command(study_record(store, name), store.address)])
    if "published" in held:
        gathered.commands.append(["import published scores, for each file", shlex.join(
            ["unweave", "study", "import", "published", "--file", "FILE.csv.gz", "--store",
             store.address])])
    gathered.commands.append(["answer the questions", shlex.join(
        ["unweave", "study", "analyse", store.address])])
    return gathered


def _look_at_kept(gathered: Gathered, store: Store, place: dict[str, int], num: int, seed: int,
                  device: str) -> None:
    held = [run_id for run_id in kept(store) if run_id in place
            and gathered.runs[place[run_id]]["status"] == "done"]
    for run_id in _best_first(held, place, gathered.scores)[:num]:
        try:
            run = load_kept(store, gathered.runs[place[run_id]], device=device)
            gathered.looks.append(look(run, seed=seed))
        except UserError as reason:
            gathered.not_shown.append(f"{run_id}: {reason}")


def _best_first(run_ids: Sequence[str], place: Mapping[str, int], scores: Scores) -> list[str]:
    """By the first of the study's scores that one of them has; then by name."""
    best = next((values for key in METRICS if (values := scores.value.get(key)) is not None
                 and any(values[place[run_id]] == values[place[run_id]] for run_id in run_ids)),
                None)
    return sorted(run_ids, key=lambda r: (0.0 if best is None or best[place[r]] != best[place[r]]
                                          else -best[place[r]], r))


def from_runs(target: Path, *, convention: str = "study2019", num_looks: int = 6, seed: int = 0,
              published: Store | None = None, device: str = "auto") -> Gathered:
    """A run folder, or a folder of them: configs, curves, scores, traversals."""
    folders = [target] if (target / "config.json").exists() else sorted(
        path.parent for path in target.glob("*/run.json"))
    if not folders:
        raise UserError(f"{target} is neither a store, nor a run folder, nor a folder of finished "
                        "runs: give one of these")
    held, not_shown = _readable(folders)
    place = {config.run_id: i for i, (_, config, _, _) in enumerate(held)}
    scores, looks = Scores(), []
    for i, (folder, *_) in enumerate(held):
        for row in _scores(folder, convention):
            scores.add(len(held), i, row)
    done = [config.run_id for _, config, info, _ in held if info["status"] == "done"]
    for run_id in _best_first(done, place, scores)[:num_looks]:
        folder = held[place[run_id]][0]
        try:
            looks.append(look(load(folder, device=device), seed=seed))
        except UserError as reason:  # its data may have been in memory: the rest needs none
            not_shown.append(f"{run_id}: {_without_parent(reason, folder)}")
    title = (f"Run {held[0][1].run_id}" if len(held) == 1
             else f"{len(held)} runs in {_short(str(target))}")
    commands = [[f"train {config.run_id}", said] for _, config, _, _ in held[:40]
                if (said := train_command(config))]
    commands.append(["score", shlex.join(["unweave", "score", str(target)])])
    rows = None if published is None else read_rows(published, source="published",
                                                    convention=convention, keys=scores.ordered())
    return Gathered(title, [_row(config, info) for _, config, info, _ in held], scores,
                    curve_values({config.run_id: own for _, config, _, own in held}), looks,
                    not_shown, commands=commands, published=rows, convention=convention)


_Held = tuple[Path, RunConfig, dict[str, Any], Curves]


def _readable(folders: Sequence[Path]) -> tuple[list[_Held], list[str]]:
    """What run folders say without their data and weights, and a sentence for each damaged one."""
    held: list[_Held] = []
    problems: list[tuple[UserError, Path]] = []
    for folder in folders:
        try:
            config, info = finished(folder)
            strength_of(config)  # a method that is not installed here is told of as well
            held.append((folder, config, info, read_curves(folder)))
        except UserError as problem:
            problems.append((problem, folder))
    if not held:
        raise problems[0][0]
    return held, [f"left out: {_without_parent(*told)}" for told in problems]


def _without_parent(problem: UserError, folder: Path) -> str:
    return str(problem).replace(f"{folder.parent}/", "")


def _row(config: RunConfig, info: Mapping[str, Any]) -> dict[str, Any]:
    letter, strength = strength_of(config)
    return {"run_id": config.run_id, "source": "unweave", "status": info["status"],
            "method": config.method, "data": config.data, "letter": letter, "strength": strength,
            "seed": config.seed, "steps": config.steps, "num_latents": config.num_latents,
            "architecture": config.architecture, "config": config,
            "seconds": info.get("seconds"), "device": info.get("device"),
            "versions": info.get("versions")}


def _scores(folder: Path | None, convention: str) -> Sequence[dict[str, Any]]:
    path = None if folder is None else folder / "scores.parquet"
    if path is None or not path.exists():
        return []
    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException):
        raise UserError(f"{path} is damaged: remove it and score again") from None
    rows = [row for row in rows if row["convention"] == convention and row["value"] is not None]
    return sorted(rows, key=lambda r: (r["overridden"] in (None, "[]", ""), str(r["version"]),
                                       -(r["seed"] or 0)))


def _short(address: str) -> str:
    """The last part of an address: a report may be passed on, and need not tell where it lay."""
    return address.rstrip("/").rsplit("/", 1)[-1] or address
