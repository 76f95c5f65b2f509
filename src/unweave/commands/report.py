"""`unweave report`: one HTML file on a store or on runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.options import Json


def report(
    target: Annotated[str, typer.Argument(
        help="A store (a folder or an address), a run folder, or a folder of runs.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file, .html.")] = Path(
        "report.html"),
    study: Annotated[str | None, typer.Option(help="Runs of one study of a store only.")] = None,
    source: Annotated[str | None, typer.Option(
        help="Runs of a store that are unweave or published; both, if not given, and questions "
        "are put to your own.")] = None,
    convention: Annotated[str, typer.Option(help="study2019 or paper.")] = "study2019",
    published: Annotated[str | None, typer.Option(
        help="For run folders: a store with published runs to compare with.")] = None,
    traversals: Annotated[int, typer.Option(
        help="Of how many runs to show traversals: the best of those with weights.")] = 6,
    title: Annotated[str | None, typer.Option(help="Another title.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of intervals and pictures.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML file: what was run, scores, figures, answers, commands.

    Example: unweave report S -o report.html        or: unweave report runs/ID -o run.html
    """
    from unweave.report.document import write_report
    from unweave.report.tables import print_records

    record = write_report(target, out, study=study, source=source, convention=convention,
                          published=published, num_looks=traversals, seed=seed, title=title,
                          device=device)
    print_records([record], tuple(record), as_json=as_json)
