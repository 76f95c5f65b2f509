"""`unweave study`: run, status, stop, retry, add, prune, unpack, list."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from unweave.commands.options import Json

study_app = typer.Typer(help="Studies: from a grid to an answer.", rich_markup_mode=None,
                        no_args_is_help=True)

StoreAt = Annotated[str, typer.Option("--store", help="A folder, or s3://bucket/folder.")]
StoreHere = Annotated[str, typer.Argument(help="The store: a folder, or s3://bucket/folder.")]
StudyName = Annotated[str | None, typer.Option("--study", help="Which, if there are several.")]


@study_app.command("list")
def list_studies(as_json: Json = False) -> None:
    """List the studies that ship, with their size.

    Example: unweave study list
    """
    from unweave.report.tables import print_records
    from unweave.studies.catalog import STUDIES

    records = [{"name": study.name, "data": list(study.data), "seeds": study.seeds,
                "metrics": list(study.metrics), "summary": study.summary}
               for study in STUDIES.values()]
    print_records(records, ("name", "data", "seeds", "summary"), as_json=as_json)


@study_app.command("run")
def run(
    name: Annotated[str, typer.Argument(help="A study, or file.py:function.")],
    store: StoreAt,
    data: Annotated[str | None, typer.Option(help="Data sets, with commas between.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, with commas between.")] = None,
    strengths: Annotated[str | None, typer.Option(
        help="Of the letter that the study varies, with commas between.")] = None,
    seeds: Annotated[str | None, typer.Option(help="0..4 or 0,2,5.")] = None,
    steps: Annotated[int | None, typer.Option(help="Another length of the runs.")] = None,
    metrics: Annotated[str | None, typer.Option(help="Metrics, with commas between.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    weights: Annotated[str, typer.Option(
        help="Which are kept, as safetensors: all, none, or the best of each method, strength and "
             "data set.")] = "none",
    best: Annotated[str, typer.Option(help="The score by which a run is the best.")] = "mig",
    work: Annotated[Path | None, typer.Option(help="Folder for unfinished runs.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that score.")] = None,
    stack: Annotated[int | None, typer.Option(help="Runs of a stack, at most.")] = None,
    details: Annotated[bool, typer.Option(help="Intervals, floors and ceilings.")] = True,
    log: Annotated[str | None, typer.Option(
        help="Send curves to tensorboard[:FOLDER] or wandb[:PROJECT] too.")] = None,
    engine: Annotated[str, typer.Option(help="local: this machine; ray: a cluster.")] = "local",
    address: Annotated[str | None, typer.Option(
        help="Of a Ray cluster, or auto; without one Ray starts on this machine.")] = None,
    gpus_per_stack: Annotated[float | None, typer.Option(
        help="With Ray: GPUs of a stack, or a share of one.")] = None,
    cpus_per_stack: Annotated[float, typer.Option(help="With Ray: cores of a stack.")] = 1.0,
    retries: Annotated[int, typer.Option(help="With Ray: attempts after a lost node.")] = 5,
    as_json: Json = False,
) -> None:
    """Train, score and store what is missing of a study; the same command goes on later.

    Example: unweave study run locatello2019 --data dsprites --seeds 0..4 --store S
    """
    from dataclasses import asdict

    from unweave.data import split_specs
    from unweave.report.tables import print_records
    from unweave.studies.catalog import find_study, only_methods, only_strengths
    from unweave.studies.ray_engine import Needs, plan_there, run_on_ray
    from unweave.studies.runner import check_scores, check_weights, data_of, run_study
    from unweave.studies.store import open_store
    from unweave.training.progress import display
    from unweave.types import UserError, unknown_name

    if engine not in ("local", "ray"):
        raise unknown_name("engine", engine, ("local", "ray"))
    study = find_study(name)
    asked = tuple(word.strip() for word in metrics.split(",")) if metrics else study.metrics
    check_weights(weights, best, asked)
    check_scores(study, asked)
    chosen = {"data": split_specs(data) if data else None, "seeds": seeds, "device": device,
              "steps": steps}
    if gpus_per_stack is None and device != "auto":
        gpus_per_stack = 0.0 if device == "cpu" else 1.0
    needs = Needs(gpus=gpus_per_stack, cpus=cpus_per_stack, retries=retries)
    if engine == "ray" and log is not None:
        raise UserError("curves are sent elsewhere by runs of this machine only: leave --log out "
                        "with --engine ray; the store holds all curves")
    if engine == "ray":
        made = plan_there(study, chosen, address=address, needs=needs)
    else:
        made = study.runs(**chosen)
    configs = only_strengths(only_methods(made, methods), strengths)
    datasets: dict[str, Any] = {}
    # Data that cannot be found is said before a store is made. Of a cluster, its nodes have them.
    where = open_store(store, create=True, before=None if engine == "ray" else (
        lambda: datasets.update(data_of(configs))))
    with display(None, keep=False) as listener:
        common = {"metrics": asked, "work": work, "weights": weights, "best": best,
                  "most_runs": stack, "details": details, "listener": listener,
                  "say": lambda line: print(line, file=sys.stderr, flush=True)}
        if engine == "ray":
            outcome = run_on_ray(study, configs, where, address=address, needs=needs, **common)
        else:
            outcome = run_study(study, configs, where, device=device, num_workers=workers, log=log,
                                datasets=datasets, **common)
    record = asdict(outcome) | {"failed": len(outcome.failed)}
    print_records([{"study": study.name} | record], ("study", *record), as_json=as_json)
    for run_id, reason in outcome.failed.items():
        print(f"unweave: {run_id} could not be scored: {reason}", file=sys.stderr)
    if outcome.failed:
        raise typer.Exit(1)


@study_app.command("status")
def status(store: StoreHere, study: StudyName = None, as_json: Json = False) -> None:
    """Say what is done, running, diverged and missing, and how long the rest takes.

    Example: unweave study status S
    """
    from unweave.report.tables import print_records
    from unweave.studies.memory import studies_in
    from unweave.studies.standing import standing, study_record
    from unweave.studies.store import open_store
    from unweave.types import UserError

    where = open_store(store)
    names = studies_in(where) if study is None else [study]
    if not names:
        raise UserError(f"{store} holds no study yet: `unweave study run` starts one")
    records = [standing(where, study_record(where, name)).as_dict() for name in names]
    print_records(records, list(records[0]), as_json=as_json)


@study_app.command("stop")
def stop(store: StoreHere) -> None:
    """Ask the runners of a store to stop; what is checkpointed stays, `run` goes on.

    Example: unweave study stop S
    """
    from unweave.studies.runner import request_stop
    from unweave.studies.store import open_store

    request_stop(open_store(store))


@study_app.command("retry")
def retry(
    store: StoreHere,
    study: StudyName = None,
    force: Annotated[bool, typer.Option(
        help="Also those of other machines that were heard of lately.")] = False,
    as_json: Json = False,
) -> None:
    """Void the claims of runners that are gone, so that the next `run` takes their runs at once.

    A runner of this machine is gone when its process is; one elsewhere when it was not heard of for
    a quarter of an hour, or when you say so with --force.

    Example: unweave study retry S
    """
    from unweave.report.tables import print_records
    from unweave.studies.claims import void_claims
    from unweave.studies.standing import study_record
    from unweave.studies.store import open_store

    where = open_store(store)
    record = study_record(where, study)
    finished = where.finished()
    freed = void_claims(where, set(record["runs"]) - finished, force=force)
    print_records([{"study": record["name"], "freed": len(freed),
                    "missing": len(set(record["runs"]) - finished)}],
                  ("study", "freed", "missing"), as_json=as_json)


@study_app.command("add")
def add(
    store: StoreHere,
    metrics: Annotated[str, typer.Option(help="Metrics, with commas between.")],
    study: StudyName = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Json = False,
) -> None:
    """Score metrics that runs of a study lack; needs the weights that were kept.

    Example: unweave study add S --metrics irs,tc
    """
    from unweave.report.tables import print_records
    from unweave.studies.adding import add_metrics
    from unweave.studies.standing import study_record
    from unweave.studies.store import open_store
    from unweave.training.progress import display

    where = open_store(store)
    with display(None) as listener:
        record = add_metrics(where, study_record(where, study),
                             [word.strip() for word in metrics.split(",")], device=device,
                             listener=listener)
    print_records([record], list(record), as_json=as_json)


@study_app.command("prune")
def prune(
    store: StoreHere,
    weights: Annotated[str, typer.Option(
        help="Which stay: none, or the best of each method, strength and data set.")] = "none",
    keep: Annotated[int | None, typer.Option(
        help="How many stay: of the whole store, or of each cell with --weights best.")] = None,
    best: Annotated[str, typer.Option(help="The score by which runs are the best.")] = "mig",
    as_json: Json = False,
) -> None:
    """Remove weights of all but the best runs; rows are never removed.

    Example: unweave study prune S --weights best --best mig
    """
    from unweave.report.tables import print_records
    from unweave.studies.adding import prune_weights
    from unweave.studies.store import open_store
    from unweave.types import unknown_name

    if weights not in ("best", "none"):
        raise unknown_name("policy for weights", weights, ("best", "none"))
    each = weights == "best"
    number = keep if keep is not None else int(each)
    record = prune_weights(open_store(store), keep=number, best=best, per_cell=each)
    print_records([record], list(record), as_json=as_json)


@study_app.command("unpack")
def unpack(
    store: StoreHere,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the runs.")] = Path("runs"),
    methods: Annotated[str | None, typer.Option(help="Methods, with commas between.")] = None,
    runs: Annotated[str | None, typer.Option(help="Ids of runs, with commas between.")] = None,
    as_json: Json = False,
) -> None:
    """Write runs whose weights were kept as folders, for `show`, `explore`, `score` and `export`.

    Example: unweave study unpack S --methods infogan --out runs
    """
    from unweave.report.tables import print_records
    from unweave.studies.kept import unpack as unpack_now
    from unweave.studies.store import open_store
    from unweave.training.folder import read_config

    chosen = [None if words is None else [word.strip() for word in words.split(",")]
              for words in (methods, runs)]
    records = []
    for folder in unpack_now(open_store(store), out, methods=chosen[0], run_ids=chosen[1]):
        config = read_config(folder)
        records.append({"run": str(folder), "method": config.method, "data": config.data,
                        "seed": config.seed})
    print_records(records, ("run", "method", "data", "seed"), as_json=as_json)
