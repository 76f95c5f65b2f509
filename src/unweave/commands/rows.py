"""Rows of stores: `unweave study merge` and `agreement`; what a study takes: `study cost`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print records for machines.")]


def merge(
    store: Annotated[str, typer.Argument(help="The store that gets the rows; made if missing.")],
    others: Annotated[list[str], typer.Argument(help="Stores whose rows are added.")],
    as_json: Json = False,
) -> None:
    """Join stores that were made on different machines or days; nothing is doubled.

    Example: unweave study merge all monday tuesday s3://bucket/wednesday
    """
    from unweave.report.tables import print_records
    from unweave.studies.merging import merge as merge_now
    from unweave.studies.store import open_store

    sources = [open_store(other) for other in others]  # before a store is made for nothing
    record = merge_now(open_store(store, create=True), sources)
    print_records([record], list(record), as_json=as_json)


def agreement(
    store: Annotated[str, typer.Argument(help="A store with runs of the published grid.")],
    published: Annotated[list[str], typer.Option(
        "--published", help="A csv or JSON of released scores, or a store that holds them.")],
    study: Annotated[str | None, typer.Option(help="Runs of one study only.")] = None,
    keys: Annotated[str | None, typer.Option(help="Scores, with commas; all by default.")] = None,
    cells: Annotated[bool, typer.Option(help="Also every cell, not the summary alone.")] = False,
    as_json: Json = False,
) -> None:
    """Set the medians of runs beside those of the published ones: inside their 5-95 % band?

    Example: unweave study agreement S --published dsprites_full.csv.gz --cells
    """
    from unweave.report.tables import print_records
    from unweave.studies.agreement import KEYS, published_rows, summary
    from unweave.studies.agreement import agreement as agreement_now
    from unweave.studies.store import open_store

    chosen = tuple(keys.split(",")) if keys else KEYS
    records = agreement_now(open_store(store), published_rows(published, chosen), keys=chosen,
                            study=study)
    short = summary(records)
    if as_json:
        print(json.dumps({"summary": short, "cells": records}, indent=2))
        return
    if cells:
        print_records(records, list(records[0]), as_json=False,
                      title="ours beside the published median and 5-95 % band")
    print_records(short, list(short[0]), as_json=False,
                  title="medians inside the published 5-95 % band")


def cost(
    name: Annotated[str, typer.Argument(help="A study, or file.py:function.")],
    data: Annotated[str | None, typer.Option(help="Data sets, with commas between.")] = None,
    seeds: Annotated[str | None, typer.Option(help="0..4 or 0,2,5.")] = None,
    gpus: Annotated[int, typer.Option(help="GPUs that work side by side.")] = 1,
    cores: Annotated[int, typer.Option(help="Cores that score beside each GPU.")] = 16,
    price: Annotated[float | None, typer.Option(help="Of an hour of a GPU, in any money.")] = None,
    rates: Annotated[Path | None, typer.Option(
        help="JSON of model-steps a second by method on your GPU.")] = None,
    measured: Annotated[str | None, typer.Option(
        help="A store whose runs tell the rates.")] = None,
    as_json: Json = False,
) -> None:
    """Compute GPU hours, days and money of a study from measured rates.

    Example: unweave study cost locatello2019 --gpus 8 --price 4
    """
    from unweave.report.tables import print_records
    from unweave.studies.catalog import find_study
    from unweave.studies.cost import H200, measured_rates, read_rates
    from unweave.studies.cost import cost as cost_now
    from unweave.studies.store import open_store
    from unweave.types import UserError

    if rates is not None and measured is not None:
        raise UserError("--rates and --measured both say how fast a GPU is: give one of them")
    study = find_study(name)
    configs = study.runs(data=data.split(",") if data else None, seeds=seeds, device="cpu")
    if not configs:
        raise UserError(f"the study {name!r} trains nothing, so it costs nothing")
    chosen = (read_rates(rates) if rates else measured_rates(open_store(measured)) if measured
              else H200)
    records = cost_now(configs, chosen, num_gpus=gpus, num_cores=cores, price=price)
    if as_json:
        records = [record | {"rates": chosen.source} for record in records]
    print_records(records, list(records[0]), as_json=as_json, title=f"rates: {chosen.source}")
