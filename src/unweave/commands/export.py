"""`unweave export`, `unweave pull`, `unweave import-checkpoint`: runs leave, and come in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.options import Json


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    to: Annotated[str, typer.Option(
        help="onnx, safetensors, torch, several with commas, or all.")] = "onnx",
    out: Annotated[Path | None, typer.Option(
        "--out", "-o", help="Folder for the files; exported/ID by default.")] = None,
    licence: Annotated[str, typer.Option(help="Your licence, for the card.")] = "unknown",
    push: Annotated[str | None, typer.Option(
        metavar="USER/NAME", help="Put it on the Hugging Face Hub as well.")] = None,
    private: Annotated[bool, typer.Option("--private", help="A private repository.")] = False,
    as_json: Json = False,
) -> None:
    """Write a run's encoder and decoder for other programs, checked, with a model card.

    Example: unweave export runs/ID --to onnx,torch -o model
    """
    from unweave.export import export_run
    from unweave.report.tables import print_records
    from unweave.training import load

    loaded = load(run, device="cpu")
    done = export_run(loaded, out or Path("exported") / loaded.run_id, to=to, licence=licence)
    record = {"run": loaded.run_id, "folder": str(done.folder), "files": list(done.files),
              "difference": done.differences}
    if push is not None:
        from unweave.export.hub import push as push_now

        record["address"] = push_now(loaded, done.folder, push, private=private)
    print_records([record], tuple(record), as_json=as_json)


def pull(
    name: Annotated[str, typer.Argument(metavar="USER/NAME", help="A repository of the Hub.")],
    out: Annotated[Path, typer.Option(
        "--out", "-o", help="Folder in which one of that name is made.")] = Path("models"),
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit.")] = None,
    as_json: Json = False,
) -> None:
    """Fetch a run that was pushed to the Hugging Face Hub; its run folder is NAME/run.

    Example: unweave pull user/name -o models
    """
    from unweave.export.hub import pull as pull_now
    from unweave.report.tables import print_records

    folder = pull_now(name, out, revision=revision)
    held = folder / "run"
    record = {"name": name, "folder": str(folder),
              "run": str(held) if (held / "config.json").exists() else None}
    print_records([record], tuple(record), as_json=as_json)


def import_checkpoint(
    file: Annotated[Path, typer.Argument(
        help="A model.pt of disentangling-vae, or the folder of one.")],
    out: Annotated[Path, typer.Option(
        "--out", "-o", help="Folder in which a run folder is made.")] = Path("runs"),
    specs: Annotated[Path | None, typer.Option(help="Its specs.json, if not beside it.")] = None,
    data: Annotated[str | None, typer.Option(
        help="The data set to score it on; the one of the specs by default.")] = None,
    as_json: Json = False,
) -> None:
    """Make a run of a checkpoint of disentangling-vae (its Burgess network): then score it.

    Example: unweave import-checkpoint results/btcvae_dsprites -o runs
    """
    from unweave.export.checkpoint import import_checkpoint as import_now
    from unweave.report.tables import print_records

    folder = import_now(file, out=out, specs=specs, data=data)
    print_records([{"name": folder.name, "folder": str(folder)}], ("name", "folder"),
                  as_json=as_json)
