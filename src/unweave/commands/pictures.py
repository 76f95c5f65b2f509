"""`unweave show`: pictures of a run."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unweave.commands.options import Json
from unweave.commands.score import runs_in

if TYPE_CHECKING:
    from unweave.report.pictures import Picture
    from unweave.training import Run

_FORMATS = ("png", "svg")
_ENDINGS = (".png", ".svg", ".gif", ".webp")
_OTHERS = (".pdf", ".jpg", ".jpeg", ".eps", ".tif", ".tiff", ".bmp")
"""Nobody means a folder by these: they are refused, with the endings that a picture can have."""


def show(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    what: Annotated[list[str] | None, typer.Argument(
        help="traversals, reconstructions, samples, kl, losses, histograms, correlations, "
        "information, responses, importances, categories, clusters, noise, seeds, motion, or all; "
        "the usual ones by default.")] = None,
    out: Annotated[Path | None, typer.Option(
        "-o", "--out", help="A file (.png, .svg; .gif, .webp for motion), or a folder for "
        "several pictures; by default RUN/pictures.")] = None,
    form: Annotated[str, typer.Option("--format", help="png or svg, in a folder.")] = "png",
    seed: Annotated[int, typer.Option(help="Which images and draws.")] = 0,
    image: Annotated[str, typer.Option(
        help="Where latents start: the index of an image, zero, or typical: the image of a sample "
        "whose code is nearest to zero.")] = "typical",
    span: Annotated[float | None, typer.Option(
        help="Latents move from -span to span, under a mixture in standard deviations of the "
        "codes; 2 by default, 1 for generators.")] = None,
    factors: Annotated[str | None, typer.Option(
        help="Two factors for the map of responses, as position_x,position_y.")] = None,
    beside: Annotated[list[Path] | None, typer.Option(
        help="Another run for the picture of seeds, or a folder of runs; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Draw pictures of a run: every figure that the papers show of one.

    Example: unweave show runs/ID        or: unweave show runs/ID traversals -o traversals.png
    """
    from unweave.report.pictures import PICTURES, Latents, NoCharts, NoPicture
    from unweave.report.tables import print_records
    from unweave.training import load
    from unweave.types import UserError, unknown_name

    asked = [name for name in what or () if name != "all"]
    for name in asked:
        if name not in PICTURES:
            raise unknown_name("picture", name, (*PICTURES, "all"))
    if form not in _FORMATS:
        raise unknown_name("format", form, _FORMATS)
    if span is not None and not 0 < span < math.inf:
        raise UserError(f"--span {span:g} must be a number above 0")
    to_file = out is not None and out.suffix.lower() in (*_ENDINGS, *_OTHERS) and not out.is_dir()
    if to_file and (len(asked) != 1 or "all" in (what or ())):
        raise UserError(f"{out} is one file: name one picture, or give a folder for several")
    names = list(PICTURES) if "all" in (what or ()) else asked or [
        name for name, kind in PICTURES.items() if kind.usual]
    trained = load(run)
    others = {other.run_id: other for target in beside or () for other in runs_in(target)}
    others.pop(trained.run_id, None)
    if others and not asked and "all" not in (what or ()):
        names.append("seeds")
    options = {"image": _index(trained, image), "span": span, "beside": list(others.values()),
               "factors": None if factors is None else [f.strip() for f in factors.split(",")]}
    folder = run / "pictures" if out is None else out
    if folder.exists() and not folder.is_dir() and not to_file:
        raise UserError(f"{folder} is a file: give a folder, or a name that ends in .png")
    records: list[dict[str, Any]] = []
    latents, told = None, False
    for name in names:
        try:
            if latents is None and not PICTURES[name].of_curves:
                latents = Latents(trained, seed=seed)
            made = _made(trained, name, latents, options)
            path = made.save(out if to_file else folder / f"{name}{_ending(made, form)}")
        except NoPicture as reason:
            if name in asked:
                raise
            without_charts = isinstance(reason, NoCharts)
            if "all" in (what or ()) or (without_charts and not told):
                print(f"unweave: no {name}: {reason}", file=sys.stderr)
            told = told or without_charts
            continue
        records.append({"name": name, "file": str(path), "shows": made.caption,
                        "as in": PICTURES[name].source})
    print_records(records, ("name", "file", "shows"), as_json=as_json)


def _index(run: Run, image: str) -> int | str:
    from unweave.types import UserError

    if image in ("typical", "zero"):
        return image
    if not image.isdecimal():
        raise UserError(f"--image {image!r} is not understood: give the index of an image, typical "
                        "or zero")
    return int(run.dataset.space.checked(int(image))[0])


def _made(run: Run, name: str, latents: Any, options: dict[str, Any]) -> Picture:
    from unweave.report.pictures import options_of, picture

    own = {k: v for k, v in options.items() if k in options_of(name)}
    return picture(run, name, latents=latents, **own)


def _ending(made: Picture, form: str) -> str:
    return f".{form}" if f".{form}" in made.endings else made.endings[0]
