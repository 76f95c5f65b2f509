"""The command line. Flags have the names of the Python arguments; nothing is decided here.

Bad input ends with exit code 2 and one sentence. Heavy imports wait until a command runs.
"""

from __future__ import annotations

import errno
import io
import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.answers import analyse, compare, import_app, select
from unweave.commands.cost import cost
from unweave.commands.data import data_app, datasets
from unweave.commands.doctor import doctor, print_version
from unweave.commands.explore import explore
from unweave.commands.export import export, import_checkpoint, pull
from unweave.commands.joining import agreement, merge
from unweave.commands.options import Json
from unweave.commands.pictures import show
from unweave.commands.report import report
from unweave.commands.score import runs_in, score
from unweave.commands.study import study_app
from unweave.commands.train import train

app = typer.Typer(help="Train, measure and compare disentangled representations.",
                  pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(study_app, name="study")
study_app.add_typer(import_app, name="import")
study_app.command("analyse")(analyse)
for _command in (cost, merge, agreement):
    study_app.command(_command.__name__)(_command)

# ClickException, two steps above BadParameter: some releases of typer carry click inside, others
# depend on it, and this name is right for both.
_BadUsage = typer.BadParameter.__mro__[2]

_INTERRUPTED = 130  # what shells expect of a program that was stopped with Ctrl-C


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option(
        "--verbose", help="With --version: what a bug report needs.")] = False,
) -> None:
    """Train, measure and compare disentangled representations."""
    if version:
        print_version(verbose)
        raise typer.Exit
    if verbose:
        raise _BadUsage("--verbose belongs to --version: unweave --version --verbose")
    if context.invoked_subcommand is None:
        raise _BadUsage("no command was given: `unweave --help` lists them")


# In the order of use, which is that of `unweave --help`.
for _command in (train, score, show, explore, report, export, pull):
    app.command()(_command)
app.command("import-checkpoint")(import_checkpoint)
app.command()(compare)
app.command()(select)


@app.command()
def udr(
    targets: Annotated[list[Path], typer.Argument(
        help="Run folders or folders of runs, two runs of one data set at least; or an npz with "
        "arrays codes [run, sample, latent] and kl [run, latent].")],
    convention: Annotated[str, typer.Option(help="study2019 or paper.")] = "study2019",
    seed: Annotated[int, typer.Option(help="Seed of the evaluation's draws.")] = 0,
    num_points: Annotated[int | None, typer.Option(
        help="Images that all runs encode; 1,000 by default.")] = None,
    as_json: Json = False,
) -> None:
    """Rank runs without labels: how well the latents of each pair off with those of the others.

    Example: unweave udr runs/ID runs/ID runs/ID        or: unweave udr runs/
    """
    from unweave.report.tables import SCORE_COLUMNS, print_records, score_records
    from unweave.studies.across import udr_of_file, udr_of_runs, without_diverged
    from unweave.studies.scoring import store_scores

    if len(targets) == 1 and targets[0].is_file():
        records = [{"run": number, **record} for number, found in enumerate(
                   udr_of_file(targets[0], convention=convention, seed=seed))
                   for record in score_records(found)]
        print_records(records, ("run", *SCORE_COLUMNS), as_json=as_json,
                      title=f"{targets[0]} ({convention})")
        return
    runs = []
    for target in targets:
        found = runs_in(target)
        runs += found if (target / "config.json").exists() else without_diverged(found)
    overrides = {} if num_points is None else {"num_points": num_points}
    records = []
    for run, found in zip(runs, udr_of_runs(runs, convention=convention, seed=seed, progress=None,
                                            **overrides)):
        store_scores(run, found)
        records += [{"run": run.run_id, **record} for record in
                    score_records(found, run_id=run.run_id)]
    print_records(records, ("run", *SCORE_COLUMNS), as_json=as_json,
                  title=f"UDR of {len(runs)} runs on {runs[0].dataset.name} ({convention})")


@app.command()
def correlations(
    target: Annotated[Path, typer.Argument(
        help="A run folder, or an npz with arrays codes and factors.")],
    seed: Annotated[int, typer.Option(help="Seed of the evaluation's draws.")] = 0,
    num_points: Annotated[int, typer.Option(help="Images to encode.")] = 10_000,
    save: Annotated[Path | None, typer.Option(
        help="An npz file for the matrices `latents` and `factors`.")] = None,
    as_json: Json = False,
) -> None:
    """Correlations of latents with factors and with each other, and what each latent follows.

    Example: unweave correlations runs/ID --save correlations.npz
    """
    from unweave.report.correlations import correlation_records
    from unweave.report.tables import print_records
    from unweave.studies.correlations import correlations_of_file, correlations_of_run
    from unweave.studies.correlations import save as save_table
    from unweave.training import load

    if target.is_file():
        table, names = correlations_of_file(target)
    else:
        table, names = correlations_of_run(load(target), num_points=num_points, seed=seed)
    if save is not None:
        save_table(save, table, names)
    latents, factors = correlation_records(table, names)
    if as_json:
        print_records(latents + factors, (), as_json=True)
        return
    shown = [key for key in latents[0] if key not in ("table", "factors", "latents")]
    print_records(latents, shown, as_json=False, title=f"{target}: latents, with factors and "
                                                       "with each other")
    print_records(factors, ("name", "latent", "correlation", "others"), as_json=False,
                  title="each factor, the latent that follows it, what else is in that latent")


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods with their letters.

    Example: unweave methods
    """
    from unweave.objectives import METHODS, letters
    from unweave.report.tables import print_records

    records = [{"name": name, "summary": method.summary, "paper": method.paper,
                "aliases": list(method.aliases),
                "letters": {k: v.default for k, v in letters(name).items()}}
               for name, method in METHODS.items()]
    print_records(records, ("name", "letters", "summary", "paper"), as_json=as_json)


@app.command()
def architectures(as_json: Json = False) -> None:
    """List the architectures with their size on dSprites.

    Example: unweave architectures
    """
    from math import prod

    from unweave.nn import ARCHITECTURES
    from unweave.report.tables import print_records

    records = [{"name": name, "weights": sum(
        prod(p.shape) for p in entry.parameters((64, 64, 1), 20, 10).values()),
        "paper": entry.paper} for name, entry in ARCHITECTURES.items()]
    print_records(records, ("name", "weights", "paper"), as_json=as_json)


@app.command()
def metrics(as_json: Json = False) -> None:
    """List the metrics with their range and direction.

    Example: unweave metrics
    """
    from unweave.metrics import ACROSS_RUNS, METRICS
    from unweave.report.tables import print_records

    records = [{"name": name, "keys": list(metric.keys), "range": [metric.range.low,
                metric.range.high], "better": {True: "higher", False: "lower", None: "neither"}[
                metric.higher_is_better], "summary": metric.summary, "paper": metric.paper,
                "version": metric.version, "conventions": {k: dict(v) for k, v in
                                                           metric.conventions.items()}}
               for name, metric in {**METRICS, **ACROSS_RUNS}.items()]
    print_records(records, ("name", "keys", "range", "better", "summary", "paper"),
                  as_json=as_json)


app.command()(datasets)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for runs and pictures.")] = Path("demo"),
    steps: Annotated[int | None, typer.Option(help="Fewer for a smoke test.")] = None,
    as_json: Json = False,
) -> None:
    """Train a small stack on dSprites, score it, draw it: the main job in under five minutes.

    Example: unweave demo --out demo
    """
    from unweave.report.demo import run_demo

    run_demo(out, steps=steps, as_json=as_json)


app.command()(doctor)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input is one sentence on standard error and exit code 2."""
    warnings.formatwarning = _as_sentence
    _print_whatever_it_is()
    try:
        code = app(arguments, standalone_mode=False)
    except typer.Exit as leave:
        code = leave.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except _BadUsage as error:
        _complain(error.format_message())
        code = 2
    except BrokenPipeError:
        code = 0
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _complain(f"no space is left on the disk ({error.filename or 'while writing'}): free "
                      f"some and run the same command{_with_resume(arguments)}")
        else:
            _complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        code = 2
    except ValueError as error:
        from unweave.types import UserError

        if not isinstance(error, UserError):
            raise
        _complain(str(error))
        code = 2
    if code == _INTERRUPTED:  # releases of typer raise, leave or return on Ctrl-C
        if arguments is None:  # a program of its own: a second Ctrl-C would cut its farewell short
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _complain(f"interrupted{_how_to_go_on(arguments)}")
    sys.exit(code if isinstance(code, int) else 0)


def _print_whatever_it_is() -> None:
    """Where the terminal's encoding lacks a letter of a name, the letter is spelt out.

    Work that is done must not end in a traceback because of the line that tells of it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _first_word(arguments: list[str] | None) -> str:
    words = sys.argv[1:] if arguments is None else arguments
    return words[0] if words else ""


def _with_resume(arguments: list[str] | None) -> str:
    """Training goes on if told to, a study by itself."""
    return " with --resume" if _first_word(arguments) == "train" else ""


def _how_to_go_on(arguments: list[str] | None) -> str:
    """After Ctrl-C: what is kept, of commands that keep something."""
    if _first_word(arguments) not in ("train", "study"):
        return ""
    return (": what was checkpointed is kept, the same command"
            f"{_with_resume(arguments)} goes on")


def _as_sentence(message: Warning | str, *_where: object, **_more: object) -> str:
    """A warning without the line of code that it came from."""
    return f"unweave: {message}\n"


def _complain(sentence: str) -> None:
    print(f"unweave: {sentence}", file=sys.stderr)
