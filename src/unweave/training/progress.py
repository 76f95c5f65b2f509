"""Progress of training and encoding: what is reported, and the three ways to show it.

A terminal gets a live bar, a notebook one that is drawn in its place; anything else (a log, a pipe)
gets a plain line now and then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from unweave.markup import escape


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
    """A rich progress bar on standard error, one row for each label.

    `keep=False` takes the row of finished work away: for long lists of it.
    """

    def __init__(self, keep: bool = True) -> None:
        self.keep = keep

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
        if report.step >= report.steps and not self.keep:
            self._bars.remove_task(self._rows.pop(report.label))


class NotebookBar:
    """Bars below the cell of a notebook, one for each label, drawn anew in the same place.

    Needs nothing but the kernel itself: no widgets, and a saved notebook keeps the last state.
    """

    def __init__(self, every: float = 0.25) -> None:
        self.every, self._last = every, float("-inf")
        self._reports: dict[str, Report] = {}
        self._place: Any = None

    def __enter__(self) -> NotebookBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reports:
            self._draw()  # what came last, though it came a moment after the one before

    def __call__(self, report: Report) -> None:
        """Draw, unless that was done a moment ago."""
        self._reports[report.label] = report
        if time.monotonic() - self._last >= self.every or report.step >= report.steps:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display

        self._last = time.monotonic()
        shown = HTML(self.html())
        if self._place is None:
            self._place = display(shown, display_id=True)
        else:
            self._place.update(shown)

    def html(self) -> str:
        """The bars as they stand."""
        return "".join(
            f'<div style="white-space:nowrap">{escape(report.label)} '
            f'<progress value="{report.step}" max="{max(report.steps, 1)}"></progress> '
            f"{report.step}/{report.steps} {escape(report.text)}</div>"
            for report in self._reports.values())


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, whose cells can show HTML."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")


def display(enabled: bool | None = None, *,
            keep: bool = True) -> PlainLines | LiveBar | NotebookBar:
    """A bar on a terminal or in a notebook, plain lines elsewhere; `False` shows nothing."""
    if enabled is False:
        return Silence()
    if in_notebook():
        return NotebookBar()
    return LiveBar(keep) if sys.stderr.isatty() else PlainLines()


def main_terms(curves: Container[str]) -> list[str]:
    """The terms that a line has room for: of a VAE's, or of two players'."""
    terms = ("loss", "recon", "kl") if "recon" in curves else ("loss", "critic_loss", "mi")
    return [name for name in terms if name in curves]
