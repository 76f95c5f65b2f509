"""Rows of a store as a grid: data sets x settings x seeds, a number for each score key.

A setting is a method with the strength of its letter. Every question of the study is one about
this grid, so that it is read once, by one query, and all else is arithmetic on arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unweave.metrics import CONVENTIONS
from unweave.studies.store import Store
from unweave.types import UserError, unknown_name

METRICS = ("beta_vae", "factor_vae", "mig", "dci.disentanglement", "modularity", "sap")
"""The six disentanglement scores of Locatello et al. (2019)."""

UNSUPERVISED = ("elbo", "elbo.reconstruction", "elbo.kl", "tc.mean", "tc.sampled",
                "wasserstein.mean", "mutual_info_score", "udr", "udr.spearman")
"""Scores that need no labels."""

DOWNSTREAM = tuple(f"downstream.{model}.{n}" for model in ("logistic", "boosting")
                   for n in (10, 100, 1000, 10000))
EFFICIENCY = tuple(f"downstream.{model}.efficiency_100" for model in ("logistic", "boosting"))

KEYS = (*METRICS, *UNSUPERVISED, *DOWNSTREAM, *EFFICIENCY)
"""All that some question asks for."""

_METHODS = ("beta_vae", "factor_vae", "beta_tcvae", "dip_vae_i", "dip_vae_ii", "annealed_vae")
_DATA = ("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites", "smallnorb", "cars3d",
         "shapes3d")


class Setting(NamedTuple):
    """A method and the strength of the letter that was varied; NaN where none was."""

    method: str
    letter: str
    strength: float

    def __str__(self) -> str:
        known = self.strength == self.strength
        return f"{self.method} {self.letter}={self.strength:g}" if known else self.method


class Missing(Exception):
    """The rows do not answer a question: carries the sentence that says what is missing."""


@dataclass(frozen=True)
class Rows:
    """The grid. `scores[key]` and `run_ids` are `[data set, setting, seed]`, NaN and "" if none."""

    data: tuple[str, ...]
    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    run_ids: np.ndarray
    scores: dict[str, np.ndarray]
    source: str
    convention: str
    left_out: int
    """Runs of a data set, setting and seed that another run has already."""
    store: Store | None = None
    """Where curves are, for the question that asks for them."""

    @property
    def num_runs(self) -> int:
        """How many runs there are."""
        return int((self.run_ids != "").sum())

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order of the settings."""
        return tuple(dict.fromkeys(s.method for s in self.settings))

    def of_method(self, method: str) -> list[int]:
        """Numbers of a method's settings, by strength."""
        return [i for i, setting in enumerate(self.settings) if setting.method == method]

    def have(self, keys: Iterable[str]) -> list[str]:
        """Those keys of which there are scores."""
        return [key for key in keys if key in self.scores]

    def need(self, keys: Sequence[str], at_least: int = 1) -> list[str]:
        """Those keys of which there are scores; Missing if there are too few."""
        found = self.have(keys)
        if len(found) < at_least:
            names = ", ".join(k for k in keys if k not in found)
            count = "" if at_least == 1 else f"at least {at_least} of "
            remedy = ("released tables come without" if self.source == "published"
                      else "`unweave study add` scores them")
            raise Missing(f"the rows have no scores for this: it needs {count}{names} "
                          f"({self.convention}); {remedy}")
        return found

    def where(self, data: str) -> int:
        """The number of a data set."""
        if data not in self.data:
            raise Missing(f"the rows have no runs on {data}")
        return self.data.index(data)


def read_rows(store: Store, *, source: str | None = None, study: str | None = None,
              convention: str | None = None, keys: Sequence[str] = KEYS) -> Rows:
    """The grid of a store's finished runs.

    Without `source` it is that of the user's own runs if there are any, otherwise of the published
    ones; without `convention` scores are those of `study2019` if there are any, otherwise of the
    one that the runs were scored by. Of several scores of one key that of the convention's own
    settings counts, then that of the latest version, then of the first evaluation seed.
    """
    with store.connect() as connection:
        runs = connection.execute(
            "SELECT run_id, source, study, method, data, coalesce(letter, '') AS letter, "
            "strength, seed FROM runs WHERE status = 'done' ORDER BY run_id").fetchnumpy()
        if len(runs["run_id"]) == 0:
            raise UserError(f"{store.address} holds no finished runs: `unweave study run` or "
                            "`unweave study import published` adds some")
        own = np.array(_chosen(runs, "source", source, ("unweave", "published")))
        if study is not None:
            own &= np.array(_chosen(runs, "study", study, ()))
        picked = {name: np.ma.filled(np.ma.asarray(column)[own], np.nan if name == "strength" else
                                     None) for name, column in runs.items()}
        if not own.any():
            raise UserError(f"{store.address} has no runs that are of the source and of the study "
                            "at once: drop --source or --study")
        convention = _convention(connection, picked["run_id"], convention)
        scores = _scores(connection, picked["run_id"], keys, convention)
    return replace(_grid(picked, scores, convention), store=store)


def _chosen(runs: dict[str, np.ndarray], column: str, wanted: str | None,
            order: Sequence[str]) -> list[bool]:
    held = sorted({str(value) for value in runs[column]})
    if wanted is None:
        wanted = next((name for name in order if name in held), held[0])
    if wanted not in held:
        raise unknown_name(column, wanted, held)
    return [value == wanted for value in runs[column]]


def _convention(connection: Any, run_ids: np.ndarray, wanted: str | None) -> str:
    if wanted is not None:
        if wanted not in CONVENTIONS:
            raise unknown_name("convention", wanted, CONVENTIONS)
        return wanted
    mine = set(run_ids.tolist())
    held = connection.execute("SELECT DISTINCT convention, run_id FROM scores "
                              "WHERE convention IS NOT NULL").fetchall()
    found = {convention for convention, run_id in held if run_id in mine}
    return "study2019" if "study2019" in found or not found else min(found)


def _scores(connection: Any, run_ids: np.ndarray, keys: Sequence[str],
            convention: str) -> dict[str, np.ndarray]:
    """For each key that has scores, an array over the runs."""
    import pyarrow as pa

    connection.register("picked", pa.table({"run_id": pa.array(run_ids.tolist()),
                                            "run": np.arange(len(run_ids), dtype=np.int32)}))
    connection.register("wanted", pa.table({"key": list(keys),
                                            "column": np.arange(len(keys), dtype=np.int32)}))
    # `scores` keeps the last written of equals; the order below leaves the one to use at the end.
    found = connection.execute(
        "SELECT run, w.column AS number, value FROM scores s JOIN picked USING (run_id) "
        "JOIN wanted w USING (key) WHERE s.key IN (SELECT key FROM wanted) AND convention = ? "
        "AND value IS NOT NULL ORDER BY coalesce(overridden, '[]') = '[]', version, "
        "coalesce(s.seed, 0) DESC", [convention]).fetchnumpy()
    table = np.full((len(keys), len(run_ids)), np.nan)
    table[np.ma.getdata(found["number"]), np.ma.getdata(found["run"])] = np.ma.getdata(
        found["value"])
    return {key: row for key, row in zip(keys, table) if not np.isnan(row).all()}


def _grid(runs: dict[str, np.ndarray], scores: dict[str, np.ndarray], convention: str) -> Rows:
    data = _in_order(set(runs["data"]), _DATA)
    methods = _in_order(set(runs["method"]), _METHODS)
    named = [Setting(m, a, float(s)) for m, a, s in
             zip(runs["method"], runs["letter"], runs["strength"])]
    # NaN differs from itself: settings are told apart by their names.
    by_name = {str(setting): setting for setting in named}
    settings = sorted(by_name.values(), key=lambda s: (
        methods.index(s.method), s.letter, -np.inf if s.strength != s.strength else s.strength))
    seeds = sorted({int(seed) for seed in runs["seed"]})
    at = {name: {value: i for i, value in enumerate(values)} for name, values in
          {"data": data, "setting": [str(s) for s in settings], "seed": seeds}.items()}
    place = np.array([(at["data"][d], at["setting"][str(s)], at["seed"][int(e)])
                      for d, s, e in zip(runs["data"], named, runs["seed"])])
    shape = (len(data), len(settings), len(seeds))
    flat = np.ravel_multi_index(tuple(place.T), shape)
    kept = np.unique(flat, return_index=True)[1]
    run_ids = np.full(shape, "", dtype=object)
    run_ids.flat[flat[kept]] = runs["run_id"][kept]
    grids = {}
    for key, values in scores.items():
        grids[key] = np.full(shape, np.nan)
        grids[key].flat[flat[kept]] = values[kept]
    return Rows(tuple(data), tuple(settings), tuple(seeds), run_ids, grids, str(runs["source"][0]),
                convention, len(flat) - len(kept))


def _in_order(found: set[str], known: Sequence[str]) -> list[str]:
    return [name for name in known if name in found] + sorted(found - set(known))
