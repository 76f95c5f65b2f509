"""Released scores of Locatello et al. (2019) as rows of a store, beside a user's own runs.

Two forms are read. The table: a csv or csv.gz with a row a run. The result files of the study's
library: one JSON of many evaluations (columns or rows), the JSON of one evaluation, or folders in
which such files lie, also as zip or tar (`result_files`). A configuration value is there as its
library writes it, text in quotes.

An imported run is `published-DATA-METHOD-LETTER=STRENGTH-SEED`, so that a second import, or an
import of the same runs in the other form, adds what is missing and nothing else.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unweave.metrics import METRICS
from unweave.studies.result_files import ARCHIVES, decoded, documents, parsed
from unweave.studies.store import Store
from unweave.types import UserError

CONVENTION = "study2019"
VERSION = "published"
"""Of every imported score: no version of a metric of ours made it."""

LETTERS = {
    "beta_vae": ("beta", "vae.beta"), "annealed_vae": ("c_max", "annealed_vae.c_max"),
    "factor_vae": ("gamma", "factor_vae.gamma"), "beta_tcvae": ("beta", "beta_tc_vae.beta"),
    "dip_vae_i": ("lambda_od", "dip_vae.lambda_od"),
    "dip_vae_ii": ("lambda_od", "dip_vae.lambda_od"),
}
"""For each method the letter that the study varied, and the name it had there."""

_METHODS = {"beta_tc_vae": "beta_tcvae"}
_DATA = {"dsprites_full": "dsprites"}
_KNOWN_DATA = ("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites", "smallnorb",
               "cars3d", "shapes3d", "mpi3d_toy", "mpi3d_realistic", "mpi3d_real")

_LOSSES = {"elbo": "elbo", "elbo.reconstruction": "reconstruction_loss", "elbo.kl": "kl_loss"}
_COLUMNS = {
    "beta_vae": "beta_vae_eval_accuracy", "beta_vae.train": "beta_vae_train_accuracy",
    "factor_vae": "factor_vae_eval_accuracy", "factor_vae.train": "factor_vae_train_accuracy",
    "mig": "mig_discrete_mig", "sap": "sap_score", "modularity": "modularity_score",
    "explicitness.train": "modularity_explicitness_score_train",
    "explicitness.test": "modularity_explicitness_score_test",
    "dci.disentanglement": "dci_disentanglement", "dci.completeness": "dci_completeness",
    "dci.informativeness_train": "dci_informativeness_train",
    "dci.informativeness_test": "dci_informativeness_test", **_LOSSES,
}
"""Our keys and the columns of the table."""

_RESULTS: dict[str, dict[str, str]] = {
    "beta_vae": {"beta_vae": "eval_accuracy", "beta_vae.train": "train_accuracy"},
    "factor_vae": {"factor_vae": "eval_accuracy", "factor_vae.train": "train_accuracy",
                   "factor_vae.num_active": "num_active_dims"},
    "mig": {"mig": "discrete_mig"},
    "sap": {"sap": "SAP_score"},
    "dci": {f"dci.{k}": k for k in ("disentanglement", "completeness", "informativeness_train",
                                    "informativeness_test")},
    "modularity": {"modularity": "modularity_score", "explicitness.train":
                   "explicitness_score_train", "explicitness.test": "explicitness_score_test"},
    "irs": {"irs": "IRS"},
    "unsupervised": {"tc.mean": "gaussian_total_correlation",
                     "wasserstein.mean": "gaussian_wasserstein_correlation",
                     "wasserstein.normalised": "gaussian_wasserstein_correlation_norm",
                     "mutual_info_score": "mutual_info_score"},
    "downstream": {str(n): f"{n}:mean_test_accuracy" for n in (10, 100, 1000, 10000)},
}
"""For each evaluation our keys and the names under `evaluation_results.`. The name of an evaluation
begins with the word here."""

_SAMPLED = {"tc.mean": "tc.sampled", "wasserstein.mean": "wasserstein.sampled",
            "wasserstein.normalised": "wasserstein.sampled_normalised"}
"""Scores of sampled codes that have a key of their own; the others are not ours to compare."""

_STEPS, _BATCH, _LATENTS = 300_000, 64, 10


class Released(NamedTuple):
    """Rows of `runs` by run id, and values by run id and key."""

    runs: dict[str, dict[str, Any]]
    scores: dict[tuple[str, str], float]


def import_published(store: Store, files: Sequence[str | Path]) -> dict[str, int]:
    """Add released runs to a store; how many `runs` and `scores` were read and were new."""
    return store_published(store, read_published(files))


def read_published(files: Sequence[str | Path]) -> Released:
    """The runs and scores of files of either form; of a score in two files the first counts."""
    found = Released({}, {})
    for file in files:
        for run, scores in _rows_of(Path(file)):
            found.runs.setdefault(run["run_id"], run)
            for key, value in scores.items():
                found.scores.setdefault((run["run_id"], key), value)
    return found


def store_published(store: Store, released: Released) -> dict[str, int]:
    """Add those rows that a store does not have."""
    held_runs = set(store.read("runs", ["run_id"])["run_id"].to_pylist())
    table = store.read("scores", ["run_id", "key", "version"]).to_pylist()
    held = {(row["run_id"], row["key"]) for row in table if row["version"] == VERSION}
    new = {k: v for k, v in released.scores.items() if k not in held}
    # Scores first: a run without scores would look complete to whoever reads in between.
    about = {key: _about(key) for key in {key for _, key in new}}
    store.append("scores", ({"run_id": run_id, "key": key, "value": value, **about[key]}
                            for (run_id, key), value in new.items()))
    fresh = [run for run_id, run in released.runs.items() if run_id not in held_runs]
    store.append("runs", fresh)
    return {"runs": len(released.runs), "scores": len(released.scores), "new_runs": len(fresh),
            "new_scores": len(new)}


def _about(key: str) -> dict[str, Any]:
    metric = METRICS[key.partition(".")[0]]
    entry = metric.keys[key]
    return {"metric": metric.name, "convention": CONVENTION, "version": VERSION,
            "paper": metric.paper, "settings": "{}", "overridden": "[]",
            "range_low": entry.range.low, "range_high": entry.range.high,
            "higher_is_better": entry.higher_is_better}


def _rows_of(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    if not path.exists():
        raise UserError(f"{path} does not exist: give a csv of released scores, a JSON of results "
                        "or a folder of them")
    if path.is_dir() or path.name.endswith(ARCHIVES):
        found = list(documents(path))
        if not found:
            raise UserError(f"{path} has no result files: an evaluation is "
                            "results/aggregate/evaluation.json, or the files of results/json")
        for name, document in found:
            yield from _of_json(name, document)
    elif path.name.removesuffix(".gz").endswith(".csv"):
        yield from _of_csv(path)
    elif path.name.removesuffix(".gz").endswith(".json"):
        yield from _of_json(str(path), parsed(str(path), _text(path)))
    else:
        raise UserError(f"{path} must end in .csv, .csv.gz, .json or .json.gz, or be a folder of "
                        "results, or a zip or tar of one")


def _text(path: Path) -> str:
    try:
        return decoded(str(path), path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error}): copy or download it again") from None


def _of_csv(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    reader = csv.DictReader(_text(path).splitlines())
    columns = reader.fieldnames or []
    for needed in ("dataset", "model_name", "model_random_seed"):
        if needed not in columns:
            raise UserError(f"{path} has no column {needed!r}: it is not the table of released "
                            "scores, which has a row a run")
    for number, row in enumerate(reader, start=2):
        where = f"{path}, line {number}"
        run = _run(where, row["model_name"], row["dataset"], row["model_random_seed"],
                   {name: row.get(name.replace(".", "_")) for _, name in LETTERS.values()},
                   row.get("model_num"))
        yield run, _numbers(where, {key: row.get(name) for key, name in _COLUMNS.items()})


def _of_json(where: str, document: Any) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    for number, row in enumerate(_evaluations(where, document)):
        here = f"{where}, evaluation {number}"
        config = {k.removeprefix("train_config."): v for k, v in row.items()
                  if k.startswith("train_config.")}
        if "model.name" not in config or "dataset.name" not in config:
            raise UserError(f"{here} has no train_config.model.name and dataset.name: it is not "
                            "the JSON form of released results")
        run = _run(here, config["model.name"], config["dataset.name"],
                   config.get("model.random_seed"), config, config.get("model.model_num"))
        found: dict[str, Any] = {key: row.get(f"train_results.{name}")
                                 for key, name in _LOSSES.items()}
        yield run, _numbers(here, found | _evaluated(row))


def _evaluations(where: str, document: Any) -> Iterable[Mapping[str, Any]]:
    if isinstance(document, list) and all(isinstance(row, dict) for row in document):
        return document
    if isinstance(document, dict) and document:
        if all(isinstance(column, dict) for column in document.values()):  # column by column
            rows: dict[str, dict[str, Any]] = {}
            for name, column in document.items():
                for index, value in column.items():
                    rows.setdefault(index, {})[name] = value
            return rows.values()
        return [document]
    raise UserError(f"{where} is neither a list of evaluations nor columns of them: it is not the "
                    "JSON form of released results")


def _evaluated(row: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of one evaluation under our keys."""
    config = {k.removeprefix("evaluation_config."): _plain(v) for k, v in row.items()
              if k.startswith("evaluation_config.")}
    names = [config.get("evaluation.name", ""), config.get("evaluation.evaluation_fn", "")]
    kind = next((kind for name in names for kind in _RESULTS if name.startswith(kind)), None)
    if kind is None:
        return {}
    found = {key: row.get(f"evaluation_results.{name}") for key, name in _RESULTS[kind].items()}
    post = [_plain(v) for k, v in row.items() if k.startswith("postprocess_config.postprocess.")]
    if any(value.startswith("sampled") for value in post):
        return {_SAMPLED[key]: value for key, value in found.items() if key in _SAMPLED}
    if kind == "downstream":
        boosted = any("boost" in str(value) for value in config.values())
        stem = f"downstream.{'boosting' if boosted else 'logistic'}"
        accuracy = {n: value for n, value in found.items() if value is not None}
        found = {f"{stem}.{n}": value for n, value in accuracy.items()}
        found |= {f"{stem}.efficiency_{n}": accuracy[n] / accuracy["10000"] for n in ("100", "1000")
                  if n in accuracy and accuracy.get("10000")}
    return found


def _plain(value: Any) -> str:
    """A value of a configuration without its quotes, or the @ of a function."""
    return str(value).strip().strip("'\"").lstrip("@").removesuffix("()")


def _run(where: str, method: Any, data: Any, seed: Any, settings: Mapping[str, Any],
         number: Any) -> dict[str, Any]:
    method = _METHODS.get(_plain(method), _plain(method))
    data = _DATA.get(_plain(data), _plain(data))
    if method not in LETTERS:
        raise UserError(f"{where}: {method!r} is none of the study's methods "
                        f"({', '.join(LETTERS)})")
    if data not in _KNOWN_DATA:
        raise UserError(f"{where}: {data!r} is none of the study's data sets "
                        f"({', '.join(_KNOWN_DATA)})")
    letter, name = LETTERS[method]
    try:
        strength, seed = float(settings.get(name)), int(float(seed))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{where}: the seed {seed!r} or {name} {settings.get(name)!r} is not a "
                        "number") from None
    try:
        config = {} if number in (None, "") else {"model_num": int(float(number))}
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{where}: the number of the model, {number!r}, is not a number") from None
    return {"run_id": f"published-{data}-{method}-{letter}={strength:g}-{seed}",
            "study": "published", "source": "published", "status": "done", "method": method,
            "data": data, "letter": letter, "strength": strength, "seed": seed, "steps": _STEPS,
            "batch_size": _BATCH, "num_latents": _LATENTS, "architecture": "conv64-study2019",
            "precision": "float32", "config": json.dumps(config)}


def _numbers(where: str, found: Mapping[str, Any]) -> dict[str, float]:
    """Values that are there, as numbers."""
    numbers = {}
    for key, value in found.items():
        if value is None or value == "":
            continue
        try:
            numbers[key] = float(value)
        except (TypeError, ValueError):
            raise UserError(f"{where}: {key} is {value!r}, not a number") from None
    numbers = {key: value for key, value in numbers.items() if value == value}
    if "elbo" not in numbers and {"elbo.reconstruction", "elbo.kl"} <= numbers.keys():
        # The study's FactorVAE did not log it; in all others it is this sum.
        numbers["elbo"] = -(numbers["elbo.reconstruction"] + numbers["elbo.kl"])
    return numbers
