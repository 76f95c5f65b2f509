"""`unweave study cost`: what a study takes before it is begun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.options import Json


def cost(
    study: Annotated[str, typer.Argument(help="A study, or file.py:function.")],
    gpus: Annotated[int, typer.Option(help="How many GPUs work on it.")] = 1,
    price: Annotated[float | None, typer.Option(help="Of a GPU hour, in any currency.")] = None,
    rates: Annotated[Path | None, typer.Option(
        help="Your own rates, as JSON; see docs/studies/machines.md.")] = None,
    store: Annotated[str | None, typer.Option(
        help="Take the rates from the finished runs of a store.")] = None,
    data: Annotated[str | None, typer.Option(help="Data sets, with commas between.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, with commas between.")] = None,
    strengths: Annotated[str | None, typer.Option(
        help="Of the letter that the study varies, with commas between.")] = None,
    seeds: Annotated[str | None, typer.Option(help="0..4 or 0,2,5.")] = None,
    steps: Annotated[int | None, typer.Option(help="Another length of the runs.")] = None,
    as_json: Json = False,
) -> None:
    """Say how many GPU hours and days a study takes, and what that costs, from measured rates.

    Example: unweave study cost locatello2019 --gpus 8 --price 3.50
    """
    from unweave.data import split_specs
    from unweave.report.tables import print_json, print_records
    from unweave.studies.catalog import find_study, only_methods, only_strengths
    from unweave.studies.cost import H200, cost_of, rates_of_store, read_rates
    from unweave.studies.store import open_store

    found = find_study(study)
    configs = only_methods(found.runs(data=split_specs(data) if data else None, seeds=seeds,
                                      device="cpu", steps=steps), methods)
    configs = only_strengths(configs, strengths)
    chosen = H200 if rates is None else read_rates(rates)
    if store is not None:
        chosen = rates_of_store(open_store(store), chosen)
    answer = cost_of(configs, chosen, gpus=gpus, price=price)
    total = {"gpus": gpus} | answer.total()
    if as_json:
        print_json({"total": total, "rows": answer.rows, "rates": chosen.name,
                    "source": chosen.source})
        return
    print_records(answer.rows, ("data", "method", "runs", "stacks", "gpu_hours"), as_json=False)
    print_records([total], [k for k in total if total[k] is not None], as_json=False)
    print(f"Rates of {chosen.name}: {chosen.source}.")
