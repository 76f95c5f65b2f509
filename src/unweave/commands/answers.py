"""What stored rows say: `unweave study import`, `unweave study analyse`, `compare`, `select`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.options import Json

import_app = typer.Typer(help="Runs of others, as rows of a store.", rich_markup_mode=None,
                         no_args_is_help=True)


@import_app.command("published")
def import_published(
    files: Annotated[list[Path], typer.Option(
        "--file", help="A csv or JSON of released scores, or result files: a folder, zip or tar.")],
    store: Annotated[str, typer.Option(help="A folder or address; made if it is not there.")],
    as_json: Json = False,
) -> None:
    """Read the released scores of Locatello et al. (2019) into a store; twice changes nothing.

    Example: unweave study import published --file dsprites_full.csv.gz --store published
    """
    from unweave.report.tables import print_records
    from unweave.studies.published import read_published, store_published
    from unweave.studies.store import open_store

    released = read_published(files)  # before a store is made for nothing
    record = store_published(open_store(store, create=True), released)
    print_records([record], tuple(record), as_json=as_json)


def analyse(
    store: Annotated[str, typer.Argument(help="The folder or address of a store.")],
    questions: Annotated[list[str] | None, typer.Option(
        "--question", help="One question, with its whole tables; all in short by default.")] = None,
    out: Annotated[Path | None, typer.Option(
        help="Folder for tables (csv) and figures (PNG, SVG).")] = None,
    source: Annotated[str | None, typer.Option(
        help="unweave or published; your own runs if there are any.")] = None,
    study: Annotated[str | None, typer.Option(help="Runs of one study only.")] = None,
    convention: Annotated[str | None, typer.Option(
        help="study2019 or paper; study2019 if the runs have such scores.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: Json = False,
) -> None:
    """Answer the questions of the papers from stored rows, with intervals and figures.

    Example: unweave study analyse published --question selection --out answers
    """
    from unweave.report.answers import report_answers
    from unweave.studies.answers import read_rows
    from unweave.studies.store import open_store

    rows = read_rows(open_store(store), source=source, study=study, convention=convention)
    report_answers(rows, questions, out=out, seed=seed, as_json=as_json)


def compare(
    run: Annotated[str, typer.Argument(help="A run folder with scores, or a run of the store.")],
    store: Annotated[str, typer.Option(help="A store with published runs.")],
    as_json: Json = False,
) -> None:
    """Percentiles of a run's scores within the published runs of its data set, per method.

    Example: unweave compare runs/ID --store published
    """
    from unweave.report.tables import print_records
    from unweave.studies.compare import compare as compare_now
    from unweave.studies.store import open_store

    records = compare_now(run, open_store(store))
    print_records(records, [k for k in records[0] if k != "overridden"], as_json=as_json,
                  title=f"{run}: percent of published runs with a lower score")


def select(
    store: Annotated[str, typer.Argument(help="The folder or address of a store.")],
    by: Annotated[str | None, typer.Option(
        help="The score that orders the list, such as udr or elbo.")] = None,
    data: Annotated[str | None, typer.Option(help="One data set; all by default.")] = None,
    num: Annotated[int, typer.Option(min=1, help="Runs to show for each data set.")] = 10,
    source: Annotated[str | None, typer.Option(
        help="unweave or published; your own runs if there are any.")] = None,
    study: Annotated[str | None, typer.Option(help="Runs of one study only.")] = None,
    convention: Annotated[str | None, typer.Option(
        help="study2019 or paper; study2019 if the runs have such scores.")] = None,
    as_json: Json = False,
) -> None:
    """Rank runs by scores that need no labels, and say how far to trust that.

    Example: unweave select published --data dsprites --by elbo
    """
    from unweave.report.tables import print_json, print_records
    from unweave.studies.answers import read_rows
    from unweave.studies.select import select as select_now
    from unweave.studies.store import open_store

    rows = read_rows(open_store(store), source=source, study=study, convention=convention)
    found = select_now(rows, by=by, data=data, num=num)
    if as_json:
        print_json({"by": found.by, "sentence": found.sentence, "runs": found.runs,
                    "trust": found.trust})
        return
    print_records(found.runs, list(found.runs[0]), as_json=False, title=f"ranked by {found.by}")
    trust = [record for record in found.trust if data in (None, record["data"])]
    if trust:
        print_records(trust, ("data", "score", "correlation", "correlation_low",
                              "correlation_high", "best_percentile", "runs"), as_json=False,
                      title="mean rank correlation with scores that need labels, better "
                            "with better")
    print(found.sentence)
