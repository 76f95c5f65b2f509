"""What a runner says of its work: a line for each stack, a bar over all runs, a log in the store.

The log is `log/OWNER.log`, a line with the time for everything that was said. In a folder lines are
added as they come; on an object store, whose files cannot grow, it is written anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unweave.config import RunConfig
from unweave.studies.store import Store
from unweave.training.progress import Listener, Report, clock

ALL_RUNS = "all runs"
"""The label of the bar over all."""


@dataclass
class Outcome:
    """What a call of `run_study` did."""

    done: int = 0
    diverged: int = 0
    skipped: int = 0
    """Runs that were complete before."""
    elsewhere: int = 0
    """Runs that another runner has claimed."""
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


class Tally:
    """Counts of a runner, told to a listener, a line at a time to `say`, and to a log."""

    def __init__(self, store: Store, owner: str, total: int, outcome: Outcome, *,
                 listener: Listener | None, say: Callable[[str], None]) -> None:
        self.began = time.time()
        self.total, self.outcome, self.trained = total, outcome, 0
        self._store, self._path = store, f"log/{owner}.log"
        self._listener, self._say = listener, say
        self._lines: list[str] = []

    def begin(self, study: str, what: str) -> None:
        """The first line of the log."""
        self.log(f"{study}: {self.total} runs to make, {self.outcome.skipped} complete, {what}")
        self._bar()

    def stack(self, configs: Sequence[RunConfig]) -> None:
        """A stack is trained: one line."""
        self.trained += len(configs)
        first = configs[0]
        plural = "run" if len(configs) == 1 else "runs"
        self.say(f"{first.method} on {first.data}: {len(configs)} {plural} trained, "
                 f"{self.trained} of {self.total} in all, {self._pace()}")
        self._bar()

    def scored(self, run_ids: Sequence[str]) -> None:
        """Runs are scored and stored."""
        if run_ids:
            self.log(f"stored {', '.join(run_ids)}")
        self._bar()

    def failed(self, run_id: str, reason: str) -> None:
        """A run could not be made or scored."""
        self.outcome.failed[run_id] = reason
        self.log(f"failed {run_id}: {reason}")

    def end(self) -> None:
        """The last line of the log."""
        o = self.outcome
        self.log(f"{'stopped' if o.stopped else 'end'}: {o.done} done, {o.diverged} diverged, "
                 f"{len(o.failed)} failed, {o.elsewhere} with other runners, "
                 f"{clock(time.time() - self.began)}")

    def say(self, line: str) -> None:
        """A line for people, and for the log."""
        self._say(line)
        self.log(line)

    def log(self, line: str) -> None:
        """A line for the log alone."""
        self._lines.append(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
        if self._store.folder is None:
            self._store.write_file(self._path, "".join(self._lines).encode())
            return
        path = self._store.folder / self._path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as handle:
            handle.write(self._lines[-1])

    def _pace(self) -> str:
        seconds = max(time.time() - self.began, 1e-9)
        left = (self.total - self.trained - self.outcome.elsewhere) * seconds / max(self.trained, 1)
        return f"{self.trained / seconds * 3600.0:.0f} models an hour, {clock(left)} left"

    def _bar(self) -> None:
        if self._listener is None:
            return
        o = self.outcome
        stored = o.done + o.diverged
        scoring = max(0, self.trained - stored - len(o.failed))
        words = [f"{scoring} being scored", f"{o.diverged} diverged",
                 f"{len(o.failed)} failed"]
        text = ", ".join(w for w in words if not w.startswith("0 "))
        more = [self._pace()] if self.trained else []
        self._listener(Report(ALL_RUNS, stored, self.total, "  ".join([text, *more]).strip()))
