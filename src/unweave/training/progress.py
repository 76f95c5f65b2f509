"""Progress of training and encoding: what is reported, and the two ways to show it.

A terminal gets a live bar; anything else (a log, a pipe) gets a plain line now and then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType


@dataclass(frozen=True)
class Report:
    """Where a piece of work stands."""

    label: str
    step: int
    steps: int
    text: str
    """The rest of the line: speed, losses, time left."""


Listener = Callable[[Report], None]


def clock(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, second = divmod(round(max(seconds, 0.0)), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


class PlainLines:
    """A line at the start, the end and every few seconds."""

    def __init__(self, every: float = 10.0) -> None:
        self.every, self._last = every, float("-inf")

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, report: Report) -> None:
        """Print, unless a line was printed a moment ago."""
        if report.step < report.steps and time.monotonic() - self._last < self.every:
            return
        self._last = time.monotonic()
        print(f"{report.label}: {report.step}/{report.steps}  {report.text}", file=sys.stderr,
              flush=True)


class Silence(PlainLines):
    """Nothing at all."""

    def __call__(self, report: Report) -> None:
        """Say nothing."""


class LiveBar:
    """A rich progress bar on standard error, one row for each label."""

    def __enter__(self) -> LiveBar:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bars = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[text]}"),
            console=Console(stderr=True))
        self._rows: dict[str, int] = {}
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._bars.stop()

    def __call__(self, report: Report) -> None:
        """Move the bar of the report's label."""
        if report.label not in self._rows:
            self._rows[report.label] = self._bars.add_task(
                report.label, total=report.steps, text="")
        self._bars.update(self._rows[report.label], completed=report.step, text=report.text)


def display(enabled: bool | None = None) -> PlainLines | LiveBar:
    """A bar on a terminal, plain lines elsewhere; `False` shows nothing."""
    if enabled is False:
        return Silence()
    return LiveBar() if sys.stderr.isatty() else PlainLines()
