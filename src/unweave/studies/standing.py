"""How a study stands: what is done, what is running, what is missing, how long the rest takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unweave.config import RunConfig
from unweave.markup import card
from unweave.studies.claims import claimed, runners
from unweave.studies.memory import recall, studies_in
from unweave.studies.store import Store
from unweave.types import UserError


@dataclass(frozen=True)
class Standing:
    """Counts of a study's runs, and its pace over the last hour of finished runs."""

    study: str
    runs: int
    done: int
    diverged: int
    running: int
    missing: int
    unscored: int
    """Runs that are done but lack a metric of the study."""
    runners: int
    """At work on the store now."""
    models_per_hour: float | None
    hours_left: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.__dict__)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return card(self.study, {k: v for k, v in self.as_dict().items() if k != "study"})


def study_record(store: Store, name: str | None) -> dict[str, Any]:
    """What is known of a study of a store; without a name, of the only one there is."""
    names = studies_in(store)
    if name is None:
        if len(names) != 1:
            held = ", ".join(names) or "none"
            raise UserError(f"{store.address} holds these studies: {held}; name one with --study")
        name = names[0]
    record = recall(store, name)
    if record is None:
        held = ", ".join(names) or "none"
        raise UserError(f"{store.address} has no study {name!r}: it holds {held}")
    return record


def configs_of(record: dict[str, Any]) -> list[RunConfig]:
    """The runs of a remembered study."""
    return [RunConfig.from_record(config) for config in record["runs"].values()]


def standing(store: Store, record: dict[str, Any]) -> Standing:
    """Counts from the rows and claims of a store."""
    wanted = record["runs"]
    rows = {row["run_id"]: row for row in store.runs() if row["run_id"] in wanted}
    scored = store.scored(record["convention"], 0)
    asked = set(record["metrics"])
    done = [row for row in rows.values() if row["status"] == "done"]
    running = sum(run_id in wanted and run_id not in rows for run_id in claimed(store))
    missing = len(wanted) - len(rows)
    times = sorted(row["written"] for row in rows.values())
    recent = [t for t in times if t > times[-1] - 3600.0] if times else []
    pace = None
    if len(recent) > 1 and recent[-1] > recent[0]:
        pace = (len(recent) - 1) / (recent[-1] - recent[0]) * 3600.0
    return Standing(
        study=record["name"], runs=len(wanted), done=len(done), diverged=len(rows) - len(done),
        running=running, missing=missing,
        unscored=sum(not asked <= scored.get(row["run_id"], set()) for row in done),
        runners=len(runners(store)), models_per_hour=pace,
        hours_left=missing / pace if pace else None)
