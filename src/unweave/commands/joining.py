"""Stores beside each other: `unweave study merge` and `unweave study agreement`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.options import Json


def merge(
    store: Annotated[str, typer.Argument(help="The store that gets the rows; made if not there.")],
    others: Annotated[list[str], typer.Argument(metavar="FROM...", help="Stores to read.")],
    as_json: Json = False,
) -> None:
    """Join stores made on different machines: rows that are missing are added, none twice.

    Example: unweave study merge all machine1 machine2 s3://bucket/machine3
    """
    from unweave.report.tables import print_records
    from unweave.studies.merge import merge as merge_now
    from unweave.studies.store import open_store

    sources = [open_store(address) for address in others]  # before a store is made for nothing
    records = merge_now(open_store(store, create=True), sources)
    print_records(records, list(records[0]), as_json=as_json)


def agreement(
    store: Annotated[str, typer.Argument(help="A store with runs of your own.")],
    published: Annotated[list[Path], typer.Option(
        help="A csv or JSON of released scores, or a folder of result files.")],
    outside: Annotated[bool, typer.Option(help="Show only what lies outside the band.")] = False,
    every: Annotated[bool, typer.Option(
        "--all", help="Also runs with other settings than the published ones.")] = False,
    as_json: Json = False,
) -> None:
    """Set medians of your runs beside the published median and its 5 to 95 % band, by cell.

    Example: unweave study agreement S --published dsprites_full.csv.gz
    """
    from unweave.report.tables import print_json, print_records
    from unweave.studies.reproduction import agreement as agreement_now
    from unweave.studies.reproduction import left_out, summary
    from unweave.studies.store import open_store

    where = open_store(store)
    records = agreement_now(where, published, every=every)
    others = 0 if every else left_out(where)
    shown = [record for record in records if not (outside and record["inside"])]
    if as_json:
        print_json({"sentence": summary(records), "left_out": others, "cells": shown})
        return
    print_records(shown, list(records[0]), as_json=False)
    print(summary(records))
    if others:
        print(f"Left out: {others} runs with other settings than the published ones; --all counts "
              "them, too.")
