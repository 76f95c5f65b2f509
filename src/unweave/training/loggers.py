"""Curves as they are made, sent to TensorBoard or Weights & Biases. Extras, off by default.

A logger sees what a run's curves see: the same points, under the same names (`loss`, `kl.3`).
`open_logger("tensorboard")` writes event files into the folder of runs, one subfolder a run, so
that `tensorboard --logdir runs` finds them; `open_logger("wandb:PROJECT")` opens a run there for
each of ours, in whatever mode WANDB_MODE says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from unweave.config import RunConfig
from unweave.types import UserError, unknown_name


@runtime_checkable
class Logger(Protocol):
    """Where points of curves go."""

    def point(self, config: RunConfig, step: int, terms: Mapping[str, float]) -> None:
        """A point of a run's curves: the means of its terms since the last."""

    def finish(self, config: RunConfig, status: str) -> None:
        """The run has ended, `done` or `diverged`."""

    def close(self) -> None:
        """Training is over, or was broken off; what is open is closed."""


class TensorBoard:
    """Event files in FOLDER/run_id."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError("logging to TensorBoard needs another package: pip install "
                            "'unweave[tensorboard]'") from None
        self._make, self._folder, self._open = SummaryWriter, folder, {}

    def point(self, config: RunConfig, step: int, terms: Mapping[str, float]) -> None:
        """A scalar for each term."""
        if config.run_id not in self._open:
            # Points at and after this step are of an earlier try: TensorBoard forgets them.
            writer = self._make(str(self._folder / config.run_id), purge_step=step)
            writer.add_text("config", f"    {config.to_json()}", step)
            self._open[config.run_id] = writer
        for name, value in terms.items():
            self._open[config.run_id].add_scalar(name, value, step)

    def finish(self, config: RunConfig, status: str) -> None:
        """Write what is left of a run."""
        if config.run_id in self._open:
            self._open[config.run_id].add_text("status", status)
            self._open.pop(config.run_id).close()

    def close(self) -> None:
        """Write what is left."""
        for writer in self._open.values():
            writer.close()
        self._open = {}


class WeightsAndBiases:
    """A run of a project for each of ours, by the same id; several are open at once."""

    def __init__(self, project: str, folder: Path | None) -> None:
        try:
            import wandb
        except ImportError:
            raise UserError("logging to Weights & Biases needs another package: pip install "
                            "'unweave[wandb]'") from None
        self._wandb, self._project, self._folder, self._open = wandb, project, folder, {}

    def point(self, config: RunConfig, step: int, terms: Mapping[str, float]) -> None:
        """A row of the history."""
        if config.run_id not in self._open:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
            settings = {k: v for k, v in config.__dict__.items() if k != "hyper"}
            try:
                self._open[config.run_id] = self._wandb.init(
                    project=self._project, id=config.run_id, name=config.run_id, resume="allow",
                    reinit="create_new", group=config.method,
                    config=settings | dict(config.hyper),
                    dir=None if self._folder is None else str(self._folder))
            except self._wandb.errors.Error as error:
                reason = str(error).strip().splitlines()[0]
                raise UserError(f"Weights & Biases cannot be reached ({reason}): log in with "
                                "`wandb login`, or set WANDB_MODE=offline") from error
        self._open[config.run_id].log(dict(terms), step=step)

    def finish(self, config: RunConfig, status: str) -> None:
        """End the run there; a diverged one counts as failed."""
        if config.run_id in self._open:
            run = self._open.pop(config.run_id)
            run.summary["status"] = status
            run.finish(exit_code=0 if status == "done" else 1)

    def close(self) -> None:
        """End what is open: it was broken off, and goes on when training is resumed."""
        for run in self._open.values():
            run.finish(exit_code=1)
        self._open = {}


def _tensorboard(rest: str, out: Path | None) -> Logger:
    if not rest and out is None:
        raise UserError("runs in memory have no folder for TensorBoard: write "
                        "tensorboard:FOLDER, or give --out")
    return TensorBoard(Path(rest) if rest else out)


def _wandb(rest: str, out: Path | None) -> Logger:
    return WeightsAndBiases(rest or "unweave", out)


LOGGERS: Mapping[str, Callable[[str, Path | None], Any]] = {"tensorboard": _tensorboard,
                                                            "wandb": _wandb}


def open_logger(said: str, out: str | Path | None) -> Logger:
    """From `tensorboard`, `tensorboard:FOLDER`, `wandb` or `wandb:PROJECT`."""
    name, _, rest = said.partition(":")
    if name not in LOGGERS:
        raise unknown_name("logger", name, LOGGERS)
    return LOGGERS[name](rest, None if out is None else Path(out))
