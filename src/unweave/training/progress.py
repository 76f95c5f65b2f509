"""Progress of training: what is reported, and the two ways to show it.

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
    """Where training stands. `terms` are means over the runs that are still finite."""

    label: str
    step: int
    steps: int
    num_runs: int
    num_diverged: int
    model_steps_per_second: float
    seconds_left: float
    terms: dict[str, float]


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
        if report.step < report.steps and time.monotonic() - self._last < self.every:
            return
        self._last = time.monotonic()
        print(f"{report.label}: {summary(report)}", file=sys.stderr, flush=True)


class LiveBar:
    """A rich progress bar on standard error, one row for each stack."""

    def __enter__(self) -> LiveBar:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bars = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[summary]}"),
            console=Console(stderr=True))
        self._rows: dict[str, int] = {}
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._bars.stop()

    def __call__(self, report: Report) -> None:
        if report.label not in self._rows:
            self._rows[report.label] = self._bars.add_task(
                report.label, total=report.steps, summary="")
        self._bars.update(self._rows[report.label], completed=report.step,
                          summary=summary(report))


def summary(report: Report) -> str:
    """One line: step, speed, losses, time left."""
    terms = "  ".join(f"{k} {v:.1f}" for k, v in report.terms.items())
    lost = f"  {report.num_diverged} diverged" if report.num_diverged else ""
    return (f"step {report.step}/{report.steps}  {report.model_steps_per_second:.0f} model-steps/s"
            f"  {terms}{lost}  {clock(report.seconds_left)} left")


def display(enabled: bool | None = None) -> PlainLines | LiveBar:
    """A bar on a terminal, plain lines elsewhere; `False` shows next to nothing."""
    if enabled is False:
        return PlainLines(every=float("inf"))
    return LiveBar() if sys.stderr.isatty() else PlainLines()
