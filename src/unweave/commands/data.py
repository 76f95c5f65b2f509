"""`unweave data`: list, show, fetch, check; `unweave datasets` is the first of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.options import Json

data_app = typer.Typer(help="Data sets: list, show, fetch, check.", rich_markup_mode=None,
                       no_args_is_help=True)


def datasets(as_json: Json = False) -> None:
    """List the data sets (the same as `unweave data list`).

    Example: unweave datasets
    """
    from unweave.data import DATASETS
    from unweave.data.fetch import on_disk
    from unweave.report.tables import print_records, size_of

    records = [{"name": name, "images": None if entry.space is None else len(entry.space),
                "shape": None if entry.image_shape is None else list(entry.image_shape),
                "factors": dict(zip(entry.factors, entry.sizes)), "labels": list(entry.labels),
                "options": dict(entry.options), "memory": entry.size,
                "obtained": entry.obtained, "licence": entry.licence, "source": entry.source,
                "file": entry.file, "summary": entry.summary,
                "here": size_of(on_disk(entry.fetch)) if entry.fetch else None}
               for name, entry in DATASETS.items()]
    print_records(records, ("name", "images", "shape", "factors", "memory", "here", "obtained",
                            "licence"), as_json=as_json)


data_app.command("list", help="List the data sets: what is here, how large, under which licence."
                 "\n\nExample: unweave data list")(datasets)


@data_app.command("show")
def show_data(
    name: Annotated[str, typer.Argument(help="A data set, or name:FILE.")],
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("."),
    seed: Annotated[int, typer.Option(help="Which images.")] = 0,
    as_json: Json = False,
) -> None:
    """Write a contact sheet and, of factors, a sheet of single-factor walks as PNG files.

    Example: unweave data show dsprites --out pictures
    """
    from unweave.data import load_data, parse_spec
    from unweave.data.picture import contact_sheet, factor_walks, save_png
    from unweave.report.tables import print_records

    dataset = load_data(name)
    stem = parse_spec(name)[0]
    records = []
    sheets = {"images": contact_sheet(dataset, seed=seed)}
    if dataset.space.has_factors:
        sheets["walks"] = factor_walks(dataset, seed=seed)
    for what, sheet in sheets.items():
        path = out / f"{stem}-{what}.png"
        save_png(sheet, path)
        records.append({"name": what, "file": str(path)})
    print_records(records, ("name", "file"), as_json=as_json)


@data_app.command("fetch")
def fetch_data(
    name: Annotated[str, typer.Argument(help="What to download, such as smallnorb or scream.")],
    as_json: Json = False,
) -> None:
    """Download the files of a data set into the cache folder; resumes, checks, renames.

    Example: unweave data fetch smallnorb
    """
    from unweave.data.fetch import fetch_all
    from unweave.report.tables import print_records, size_of
    from unweave.training.progress import Report, display

    with display() as listener:
        paths = fetch_all(name, progress=lambda file, had, total: listener(
            Report(file, had, total or had, f"bytes, {size_of(had)}")))
    print_records([{"name": name, "file": str(path), "size": size_of(path.stat().st_size)}
                   for path in paths], ("name", "file", "size"), as_json=as_json)


@data_app.command("check")
def check_data(
    name: Annotated[str, typer.Argument(help="The data set that the file should hold.")],
    file: Annotated[Path, typer.Option(help="The official file.")],
    as_json: Json = False,
) -> None:
    """Compare an official file with the rendered set, pixel by pixel.

    Example: unweave data check dsprites --file dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz
    """
    from dataclasses import asdict

    from unweave.data import check_file
    from unweave.report.tables import print_records
    from unweave.types import UserError

    if name != "dsprites":
        raise UserError(f"{name!r} cannot be checked: dsprites is the set that has both a file "
                        "and a renderer")
    record = {"name": name, **asdict(check_file(file))}
    print_records([record], [k for k in record if k != "name"], as_json=as_json)
