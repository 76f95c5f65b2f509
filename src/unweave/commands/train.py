"""`unweave train`: runs of a method in folders, and a line for each."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unweave.commands.options import Json

if TYPE_CHECKING:
    from unweave.config import RunConfig


def train(
    method: Annotated[str, typer.Argument(help="A method: see `unweave methods`.")],
    data: Annotated[str, typer.Option(help="A data set, or name:FILE.")] = "dsprites",
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="LETTER=VALUE", help="A letter of the method; commas make runs.")] = None,
    steps: Annotated[int, typer.Option(help="Updates of each run.")] = 300_000,
    seeds: Annotated[str, typer.Option(help="0..3 or 0,2,5.")] = "0",
    out: Annotated[Path, typer.Option(help="Folder in which run folders are made.")] = Path("runs"),
    batch_size: Annotated[int, typer.Option(help="Images a step.")] = 64,
    num_latents: Annotated[int, typer.Option(help="Size of the code.")] = 10,
    learning_rate: Annotated[float, typer.Option(help="Adam's rate.")] = 1e-4,
    architecture: Annotated[str, typer.Option(help="See `unweave architectures`.")] = "conv64",
    likelihood: Annotated[str, typer.Option(help="bernoulli, gaussian, laplace.")] = "bernoulli",
    init: Annotated[str, typer.Option(help="glorot or pytorch.")] = "glorot",
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    init_from: Annotated[Path | None, typer.Option(
        help="The folder of a run whose encoder and decoder to start from.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on; keep what is done.")] = False,
    log: Annotated[str | None, typer.Option(
        help="Send curves to tensorboard[:FOLDER] or wandb[:PROJECT] too.")] = None,
    as_json: Json = False,
) -> None:
    """Train runs of a method; runs that differ in seed, strength or rate train as one stack.

    Example: unweave train beta_vae --data dsprites --set beta=4 --steps 20000 --seeds 0..3
    """
    from unweave.report.tables import print_records
    from unweave.training import train as train_now
    from unweave.training.progress import main_terms

    options = {
        "seeds": seeds, "steps": steps, "out": out, "device": device, "resume": resume,
        "batch_size": batch_size, "num_latents": num_latents, "learning_rate": learning_rate,
        "architecture": architecture, "likelihood": likelihood, "init": init,
        "precision": precision, "init_from": init_from, "log": log}
    letters = _parse_settings(settings or [], options | {"method": method, "data": data})
    runs = train_now(method, data, **{k: v for k, v in options.items() if v is not None},
                     **letters)
    terms = [{k: run.curves[k][-1] for k in main_terms(run.curves)} for run in runs]
    records = [{"name": run.run_id, "folder": str(run.folder), "status": run.status,
                "seed": run.config.seed, **dict(run.config.hyper), **last,
                "seconds": run.info["seconds"]} for run, last in zip(runs, terms)]
    if not as_json:  # eight letters and more, most of them as always, would leave no room
        for record, run in zip(records, runs):
            record["letters"] = _letters_to_tell(run.config) or None
    columns = ("folder", "status", "seed", "letters", *terms[0], "seconds")
    print_records(records, columns, as_json=as_json)


def _parse_settings(settings: list[str], options: Collection[str]) -> dict[str, Any]:
    """`beta=4` to a value, `beta=1,4` to a list of values; the objective checks them.

    Names in `options` are no letters: the command has options for them.
    """
    from unweave.types import UserError

    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name or not value:
            raise UserError(f"--set {setting!r} is not understood: write --set beta=4, "
                            "or --set beta=1,4,16 for three runs")
        if name.strip() in options:
            flag = "" if name.strip() == "method" else f"--{name.strip().replace('_', '-')} "
            raise UserError(f"--set {setting!r} sets no letter of the method: {name.strip()} is "
                            f"an option of its own, write {flag}{value}")
        found[name.strip()] = value.split(",") if "," in value else value
    return found


def _letters_to_tell(config: RunConfig) -> dict[str, Any]:
    """A run's strength, and its letters that are not as they are by default."""
    from unweave.objectives import letters
    from unweave.studies.catalog import STRENGTHS

    known, strength = letters(config.method), STRENGTHS.get(config.method)
    return {k: v for k, v in config.hyper if k == strength or v != known[k].default}
