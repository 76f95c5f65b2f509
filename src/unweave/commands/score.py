"""`unweave score`: a run, codes of any origin, or an encoder of any kind on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unweave.commands.options import Json

if TYPE_CHECKING:
    from unweave.training import Run


def score(
    target: Annotated[Path | None, typer.Argument(
        help="A run folder, a folder of runs, or codes with factors: npz, csv, parquet.")] = None,
    metrics: Annotated[list[str] | None, typer.Option(
        "--metric", help="A metric: see `unweave metrics`; all by default.")] = None,
    convention: Annotated[str, typer.Option(help="study2019 or paper.")] = "study2019",
    seed: Annotated[int, typer.Option(help="Seed of the evaluation's draws.")] = 0,
    encoder: Annotated[str | None, typer.Option(
        help="Score an encoder instead: a file .onnx, .pt, .pt2; package.module:function; "
        "hf:NAME.")] = None,
    data: Annotated[str, typer.Option(help="For an encoder: the data set.")] = "dsprites",
    layout: Annotated[str | None, typer.Option(
        help="For an encoder: nchw, nhwc or flat; found out if it can be.")] = None,
    scale: Annotated[str | None, typer.Option(
        help="For an encoder: unit, symmetric, bytes or imagenet.")] = None,
    channels: Annotated[int | None, typer.Option(help="For an encoder: 1 or 3.")] = None,
    size: Annotated[str | None, typer.Option(
        help="For an encoder: resize images to 224, or 96x128.")] = None,
    output: Annotated[str | None, typer.Option(
        help="For an encoder: the name or number of the output that is the code.")] = None,
    codes: Annotated[str | None, typer.Option(
        help="For a table: columns that are codes, 'z*'; for an npz: its array.")] = None,
    factors: Annotated[str | None, typer.Option(
        help="For codes: columns that are factors, or a file of factors.")] = None,
    num_train: Annotated[int | None, typer.Option(
        help="For arrays: the first rows train, the rest test.")] = None,
    factor_types: Annotated[str | None, typer.Option(
        help="For arrays: categorical, ordinal, continuous, circular or circular:PERIOD for each "
        "factor, with commas; inferred where nothing is said.")] = None,
    votes: Annotated[int | None, typer.Option(
        help="Train votes of the FactorVAE score (half as many test): a quick look.")] = None,
    cells: Annotated[str, typer.Option(
        help="For runs with combinations left out: all, seen or unseen ones.")] = "all",
    device: Annotated[str, typer.Option(help="For an encoder: cpu or cuda.")] = "cpu",
    as_json: Json = False,
) -> None:
    """Score a run on its data set, codes against factors, or any encoder on a data set.

    Example: unweave score runs/ID        or: unweave score codes.csv --metric mig
    or: unweave score --encoder model.onnx --data dsprites
    """
    from unweave.types import UserError

    overrides = {} if votes is None else {
        "num_train_votes": votes, "num_test_votes": max(1, votes // 2)}
    options: dict[str, Any] = {"metrics": metrics, "convention": convention, "seed": seed}
    if (target is None) == (encoder is None):
        raise UserError("give one thing to score: a run folder, a file of codes, or --encoder "
                        "with --data")
    if encoder is not None:
        _score_encoder(encoder, data, layout=layout, scale=scale, channels=channels, size=size,
                       output=output, device=device, cells=cells, as_json=as_json,
                       options=options | overrides)
    elif target.is_file():
        _score_file(target, codes, factors, num_train, factor_types, as_json=as_json,
                    options=options | overrides)
    else:
        _score_runs(target, cells, as_json=as_json, options=options | overrides)


def _score_encoder(spec: str, data: str, *, layout: str | None, scale: str | None,
                   channels: int | None, size: str | None, output: str | None, device: str,
                   cells: str, as_json: bool, options: dict[str, Any]) -> None:
    from unweave.data import load_data
    from unweave.report.tables import SCORE_COLUMNS, print_records, score_records
    from unweave.studies.encoders import open_encoder, score_encoder
    from unweave.studies.preparing import Preparation
    from unweave.training.run import choose_device

    said = Preparation(layout, scale, channels, _size(size))
    dataset = load_data(data)
    encode = open_encoder(spec, dataset.image_shape, preparation=said, output=output,
                          device=str(choose_device(device)))
    found = score_encoder(encode, dataset, cells=cells, **options)
    print_records(score_records(found, encoder=spec, data=data), SCORE_COLUMNS, as_json=as_json,
                  title=f"{spec} on {data} ({options['convention']})")


def _size(said: str | None) -> tuple[int, int] | None:
    from unweave.types import UserError

    if said is None:
        return None
    parts = said.lower().split("x")
    if len(parts) > 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise UserError(f"--size {said!r} is not understood: write 224, or 96x128 for height "
                        "and width")
    return int(parts[0]), int(parts[-1])


def _score_file(target: Path, codes: str | None, factors: str | None, num_train: int | None,
                factor_types: str | None, *, as_json: bool, options: dict[str, Any]) -> None:
    from unweave.metrics import score_records as score_arrays
    from unweave.report.tables import SCORE_COLUMNS, print_records, score_records
    from unweave.studies.tables import read_scored

    held = read_scored(target, codes=codes, factors=factors)
    types: Any = held.factor_types
    if factor_types is not None:
        types = factor_types.split(",") if "," in factor_types else factor_types
    found = score_arrays(held.codes, held.factors, num_train=num_train, factor_types=types,
                         **options)
    print_records(score_records(found), SCORE_COLUMNS, as_json=as_json,
                  title=f"{target} ({options['convention']})")


def _score_runs(target: Path, cells: str, *, as_json: bool, options: dict[str, Any]) -> None:
    from unweave.report.tables import SCORE_COLUMNS, print_records, score_records
    from unweave.studies.scoring import score_run, store_scores

    everything = []
    for run in runs_in(target):
        found = score_run(run, cells=cells, progress=None, **options)
        store_scores(run, found)
        records = score_records(found, run_id=run.run_id)
        everything += records
        if not as_json:
            print_records(records, SCORE_COLUMNS, as_json=False,
                          title=f"{run.run_id} on {run.dataset.name}"
                          f"{'' if cells == 'all' else f', {cells} cells'} "
                          f"({options['convention']})")
    if as_json:
        print_records(everything, SCORE_COLUMNS, as_json=True)


def runs_in(target: Path) -> list[Run]:
    """The run in a folder, or the finished runs in the folders below it."""
    from unweave.training import load
    from unweave.types import UserError

    if (target / "config.json").exists():
        return [load(target)]
    below = sorted(p.parent for p in target.glob("*/run.json"))
    if not below:
        raise UserError(f"{target} is neither a run folder nor a folder of finished runs")
    return [load(folder) for folder in below]
