"""Scores of codes: from plain arrays, or from an encoder and the factor space of its data.

Both go through a `Plan`: which metrics, with which settings, on which rows. A plan depends on the
data and the evaluation seed but on no code, so one plan serves every run of a study, and the rows
that all its metrics need are encoded once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.factors import FactorSpace, LabelTable
from unweave.metrics.across import ACROSS_RUNS
from unweave.metrics.arrays import ArrayLike, as_array, as_codes, as_labels, as_num_values
from unweave.metrics.encoding import INPUTS, ROW_INPUTS, Encoding, as_encoding
from unweave.metrics.labels import NUM_FACTOR_BINS, Labels
from unweave.metrics.record import CONVENTIONS, Metric, Score, Scores, accepted
from unweave.metrics.registry import METRICS
from unweave.metrics.resampling import resampled_means
from unweave.metrics.sampling import BOOTSTRAP, SHUFFLE, Draw, RowSource, Source, SpaceSource
from unweave.random import Purpose, numpy_generator
from unweave.types import Factors, IndexArray, UserError, unknown_name

NUM_REPLICATES = 200

LOOKUP_ROWS = 1 << 25
"""Data sets up to this size find positions in a table, larger ones by bisection."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Metrics, their settings and their rows. `index` holds the rows to encode, sorted, once each.

    Draws are in positions of `index`; `factors` are the factors of those rows: classes, -1 where a
    label is unknown. `factor_types` has the type of each, in words. `labels` are there if some of
    them are quantities or unknown.
    """

    metrics: tuple[Metric, ...]
    settings: tuple[dict[str, Any], ...]
    draws: tuple[Draw, ...]
    index: IndexArray
    factors: Factors
    convention: str
    seed: int
    overridden: tuple[tuple[str, ...], ...]
    factor_types: tuple[str, ...] = ()
    labels: Labels | None = None
    named: bool = True
    """Whether the metrics were asked for by name. If not, those that need more than there is are
    left out; if so, that is an error."""
    _ceilings: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)

    def score(self, codes: ArrayLike | Encoding, *, num_values: ArrayLike | None = None,
              details: bool = True) -> list[Score]:
        """A record for every key of every metric; `codes` belong to the rows of `index`.

        In place of codes, an `Encoding` also holds what metrics of a model look at.

        `num_values` has a number for each latent: 0 if it is continuous, K if it is categorical and
        its codes are the classes 0 to K - 1; None if all are continuous. `details` adds the
        bootstrap interval, the noise floor and the ceiling.
        """
        encoding = as_encoding(codes)
        # Metrics that ask the model alone look at no row, and no row of codes is then needed.
        codes = as_codes(encoding.codes) if len(self.index) else as_array(encoding.codes)
        if len(codes) != len(self.index):
            raise UserError(f"this plan needs the codes of {len(self.index)} rows, got those of "
                            f"{len(codes)}")
        checked = as_num_values(num_values, codes)
        num_values = checked.tolist() if checked.any() else None
        records = Scores()
        for i, metric in enumerate(self.metrics):
            lacking = metric.lacking(encoding.given)
            if lacking is None:
                records += self._records(i, encoding, codes, num_values, details)
            elif self.named:
                raise lacking
        return records

    def _records(self, i: int, encoding: Encoding, codes: np.ndarray,
                 num_values: list[int] | None, details: bool) -> list[Score]:
        metric, draw = self.metrics[i], self.draws[i]
        inputs = encoding.inputs(metric.wants, draw.points, self.settings[i])
        values = terms = self._evaluate(i, metric.terms or metric.function, codes, num_values,
                                        inputs=inputs)
        if metric.terms is not None:
            values = {key: float(each.mean()) for key, each in terms.items()}
        known = {} if num_values is None else accepted(metric.function, {"num_values": num_values})
        known |= self._said_of_labels(metric)
        replicates: dict[str, np.ndarray] = {}
        chance: dict[str, float] = {}
        ceiling: dict[str, float] = {}
        if details and not metric.needs:
            rows = draw.shuffled(numpy_generator(self.seed, Purpose.EVALUATION, SHUFFLE))
            other = encoding.inputs(metric.wants, rows.points, self.settings[i])
            chance = self._evaluate(i, metric.function, codes, num_values, rows=rows, inputs=other)
            ceiling = self._ceiling(i)
        rng = numpy_generator(self.seed, Purpose.EVALUATION, BOOTSTRAP)
        if details and metric.terms is not None:
            replicates = resampled_means(rng, NUM_REPLICATES, terms)
        elif details and metric.bootstrap is not None:
            replicates = self._evaluate(i, metric.bootstrap, codes, num_values, rng,
                                        NUM_REPLICATES, inputs=inputs)
        records = []
        for key, value in values.items():
            # Settings may make keys that were not declared: downstream sizes. They are alike.
            said = metric.keys.get(key, next(iter(metric.keys.values())))
            low, high = _interval(value, replicates.get(key), said.range.low, said.range.high)
            records.append(Score(
                key=key, value=value, low=low, high=high, chance=chance.get(key),
                ceiling=ceiling.get(key), range_low=said.range.low, range_high=said.range.high,
                higher_is_better=said.higher_is_better, metric=metric.name,
                convention=self.convention, version=metric.version, paper=metric.paper,
                seed=self.seed, num_points=len(draw.points),
                num_groups=0 if draw.groups is None else len(draw.groups),
                group_size=0 if draw.groups is None else draw.groups.shape[1],
                num_rows=len(self.index), num_latents=codes.shape[1],
                overridden=self.overridden[i], settings=self.settings[i] | known))
        return records

    def _ceiling(self, i: int) -> dict[str, float]:
        name = self.metrics[i].name
        if not self.factors.size:
            return {}
        if name not in self._ceilings:
            codes = self.factors.astype(np.float64) if self.labels is None else self.labels.filled()
            self._ceilings[name] = self._evaluate(i, self.metrics[i].function, codes, None)
        return self._ceilings[name]

    def _evaluate(self, i: int, function: Callable[..., Any], codes: np.ndarray,
                  num_values: list[int] | None, *before: Any, rows: Draw | None = None,
                  inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a metric; `rows` are those whose codes it sees, if not those of its draw.

        `inputs` are what a model says about the same rows.
        """
        draw = self.draws[i]
        rows = draw if rows is None else rows
        settings = {**self.settings[i], "num_train": draw.num_train, "num_values": num_values,
                    "points": rows.points, "factor_types": self.factor_types or None,
                    **(inputs or {})}
        if draw.groups is not None:
            return function(*before, codes, rows.groups, draw.fixed, **accepted(function, settings))
        codes = codes[rows.points]
        factors = self._table(function)[draw.points]
        if not self.metrics[i].partial and self.factors.size and self.factors.min() < 0:
            whole = (self.factors[draw.points] >= 0).all(axis=1)
            if draw.num_train is not None:
                settings["num_train"] = int(whole[:draw.num_train].sum())
            if whole.sum() < 2 or settings["num_train"] in (0, whole.sum()):
                raise UserError(f"{self.metrics[i].name} needs rows in which every factor is "
                                f"known, and only {int(whole.sum())} of {len(whole)} are so: give "
                                "more labels, or leave out the factor with fewest")
            codes, factors = codes[whole], factors[whole]
            settings |= {k: v[whole] for k, v in settings.items() if k in ROW_INPUTS}
        return function(*before, codes, factors, **accepted(function, settings))

    def _table(self, function: Callable[..., Any]) -> np.ndarray:
        """Factors as a function takes them: quantities where it asks for types, NaN for unknown."""
        if not self.factors.size:  # images are told apart by their number, which nobody looks at
            return self.index[:, None]
        if self.labels is None:
            return self.factors
        if accepted(function, {"factor_types": None}):
            return self.labels.values
        if self.factors.min() < 0:
            return np.where(self.factors < 0, np.nan, self.factors)
        return self.factors

    def _said_of_labels(self, metric: Metric) -> dict[str, Any]:
        """What a record says of factors that are not all known classes."""
        if self.labels is None or not metric.supervised:
            return {}
        said: dict[str, Any] = {"factor_types": list(self.factor_types)}
        if any(kind.is_quantity for kind in self.labels.types):
            said["num_factor_bins"] = self.labels.num_bins
        if self.factors.min() < 0:
            said["num_unknown"] = (self.factors < 0).sum(axis=0).tolist()
        return said


def plan_scores(space: FactorSpace, *, labels: LabelTable | None = None,
                metrics: str | Iterable[str] | None = None, convention: str = "study2019",
                seed: int = 0, num_factor_bins: int = NUM_FACTOR_BINS, **overrides: Any) -> Plan:
    """The plan that scores encoders of a data set: encode `plan.index`, call `plan.score`.

    Keyword arguments replace settings of the convention in every metric that has them
    (`num_train_votes=1000`), and are recorded in the scores. In a data set without factors `labels`
    take their place, but nothing can be fixed there: see `without_factors`.
    """
    source = SpaceSource(space, seed)
    if space.has_factors:
        return _plan(source, space.factors, metrics, convention, seed, overrides,
                     tuple(str(kind) for kind in space.types))
    named, metrics = metrics is not None, without_factors(metrics, labels)
    if labels is None:
        return _plan(source, space.factors, metrics, convention, seed, overrides, named=named)
    table = as_labels(labels.values, len(space), labels.types or None, num_factor_bins)
    classes = table.classes
    types = tuple(str(kind) for kind in table.types)
    if classes.min() >= 0 and not any(kind.is_quantity for kind in table.types):
        table = None
    return _plan(source, lambda index: classes[index], metrics, convention, seed, overrides, types,
                 table, named=named)


def without_factors(names: str | Iterable[str] | None,
                    labels: LabelTable | None) -> list[str]:
    """Those metrics that a data set without factors can have, all if none are named.

    Without labels these are the ones that look at codes alone. One that is named and cannot be had
    is refused; of those that nobody named a warning tells.
    """
    def can(metric: Metric) -> bool:
        return not metric.supervised or (labels is not None and not metric.interventional)

    chosen = _chosen(names)
    unable = ", ".join(metric.name for metric in chosen if not can(metric))
    held = "no factors" if labels is None else "labels, but no factors that could be fixed"
    if unable and names is not None:
        known = ", ".join(name for name, metric in METRICS.items() if can(metric))
        raise UserError(f"the data set has {held}, so these metrics cannot score it: {unable}; "
                        f"choose among {known}")
    if unable:
        warnings.warn(f"the data set has {held}, so these metrics are left out: {unable}",
                      stacklevel=4)
    return [metric.name for metric in chosen if can(metric)]


def score_dataset(encode: Callable[[np.ndarray], ArrayLike | Encoding], space: FactorSpace, *,
                  labels: LabelTable | None = None,
                  metrics: str | Iterable[str] | None = None, convention: str = "study2019",
                  seed: int = 0, num_values: ArrayLike | None = None, details: bool = True,
                  **overrides: Any) -> list[Score]:
    """Scores of one encoder. `encode(index)` is called once and gives codes `[sample, latent]`.

    It may give an `Encoding` instead, for metrics that look at more of a model than its codes.
    `num_values` tells categorical latents: see `Plan.score`.
    """
    plan = plan_scores(space, labels=labels, metrics=metrics, convention=convention, seed=seed,
                       **overrides)
    return plan.score(encode(plan.index), num_values=num_values, details=details)


def score_records(codes: ArrayLike | Encoding, factors: ArrayLike, *,
                  metrics: str | Iterable[str] | None = None, convention: str = "study2019",
                  seed: int = 0, num_train: int | None = None,
                  num_values: ArrayLike | None = None, factor_types: Any = None,
                  num_factor_bins: int = NUM_FACTOR_BINS, details: bool = True,
                  **overrides: Any) -> list[Score]:
    """Scores of given rows: codes `[sample, latent]`, factors `[sample, factor]`.

    The rows play the part of the data set: points are all of them, groups are made from those that
    share a value. With `num_train` the first rows train and the rest test. `num_values` tells
    categorical latents: see `Plan.score`. Metrics of a model need an `Encoding` in place of codes.

    `factor_types` has a type for each factor, or one for all: `categorical`, `ordinal`,
    `continuous`, `circular` (classes) or `circular:PERIOD` (quantities); None infers it. Where a
    metric needs classes, quantities are put into `num_factor_bins` bins of equal width. A label may
    be unknown (NaN, None, an empty string, masked): its row is left out for that factor, or, where
    a metric needs all factors of a row, altogether.
    """
    encoding = as_encoding(codes)
    labels = as_labels(factors, len(as_codes(encoding.codes)), factor_types, num_factor_bins)
    classes = labels.classes
    _warn_of_factors(classes)
    types = tuple(str(kind) for kind in labels.types)
    if labels.are_classes:
        labels = None
    source = RowSource(classes, seed, num_train)
    plan = _plan(source, lambda index: classes[index], metrics, convention, seed, overrides, types,
                 labels, encoding.given)
    return plan.score(encoding, num_values=num_values, details=details)


def score(codes: ArrayLike | Encoding, factors: ArrayLike, *,
          metrics: str | Iterable[str] | None = None, convention: str = "study2019",
          seed: int = 0, num_train: int | None = None,
          num_values: ArrayLike | None = None, factor_types: Any = None,
          num_factor_bins: int = NUM_FACTOR_BINS, **overrides: Any) -> dict[str, float]:
    """The scores alone, by key: `score(codes, factors)["mig"]`. See `score_records`."""
    records = score_records(codes, factors, metrics=metrics, convention=convention, seed=seed,
                            num_train=num_train, num_values=num_values,
                            factor_types=factor_types, num_factor_bins=num_factor_bins,
                            details=False, **overrides)
    return {record.key: record.value for record in records}


def _plan(source: Source, factors: Callable[[np.ndarray], Factors],
          names: str | Iterable[str] | None, convention: str, seed: int,
          overrides: Mapping[str, Any], factor_types: tuple[str, ...] = (),
          labels: Labels | None = None, given: Iterable[str] = INPUTS,
          named: bool | None = None) -> Plan:
    named = names is not None if named is None else named
    metrics = _chosen(names, given)
    if convention not in CONVENTIONS:
        raise unknown_name("convention", convention, CONVENTIONS)
    known = {name for m in metrics for name in m.conventions[convention]}
    for name in overrides:
        if name not in known:
            raise unknown_name("setting", name, sorted(known))
    settings = [m.settings(convention, overrides) for m in metrics]
    draws = [m.draw(source, **accepted(m.draw, s)) for m, s in zip(metrics, settings)]
    if isinstance(source, RowSource):
        index = source.points(None)
    else:
        index, draws = _together(draws, len(source.space))
    for own, draw in zip(settings, draws):
        if "num_points" in own:
            own["num_points"] = len(draw.points)
        if "num_train_points" in own:
            own["num_train_points"] = draw.num_train
            own["num_test_points"] = len(draw.points) - draw.num_train
    overridden = tuple(tuple(k for k in overrides if k in s) for s in settings)
    return Plan(metrics, tuple(settings), tuple(draws), index, factors(index), convention, seed,
                overridden, factor_types, None if labels is None else labels.at(index), named)


def _warn_of_factors(classes: Factors) -> None:
    """Say which factors are left out, and how many labels are missing."""
    num_rows, num_factors = classes.shape
    for k, column in enumerate(classes.T):
        known = column[column >= 0]
        if len(known) < 2 or known.min() == known.max():
            if num_factors > 1:
                why = ("constant in these rows" if len(known) > 1
                       else f"known in {len(known)} of {num_rows} rows")
                warnings.warn(f"factor {k} is {why} and is left out of the scores", stacklevel=3)
        elif len(known) < num_rows:
            warnings.warn(f"factor {k} is unknown in {num_rows - len(known)} of {num_rows} rows, "
                          "which are left out where it is scored", stacklevel=3)


def _together(draws: list[Draw], num_rows: int) -> tuple[np.ndarray, list[Draw]]:
    """The sorted rows of all draws, once each, and the draws in positions among them."""
    if num_rows > LOOKUP_ROWS:
        index = np.unique(np.concatenate([draw.rows() for draw in draws]))
        return index, [d.renumbered(lambda rows: np.searchsorted(index, rows)) for d in draws]
    needed = np.zeros(num_rows, dtype=bool)
    for draw in draws:
        needed[draw.rows()] = True
    position = np.cumsum(needed) - 1
    return np.flatnonzero(needed), [d.renumbered(lambda rows: position[rows]) for d in draws]


def _chosen(names: str | Iterable[str] | None,
            given: Iterable[str] = INPUTS) -> tuple[Metric, ...]:
    if names is None:
        names = [name for name, metric in METRICS.items()
                 if metric.default and metric.lacking(given) is None]
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name in ACROSS_RUNS:
            raise UserError(f"{name} compares several runs: use `unweave {name} RUN RUN ...`, or "
                            f"unweave.metrics.{name} with the codes of each run")
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
        lacking = METRICS[name].lacking(given)
        if lacking is not None:
            raise lacking
    if not names:
        raise UserError(f"no metric was named; known are {', '.join(METRICS)}")
    return tuple(METRICS[name] for name in dict.fromkeys(names))


def _interval(value: float, replicates: np.ndarray | None, least: float,
              most: float) -> tuple[float | None, float | None]:
    """The 95 % percentile interval, centred on the value.

    Resampled rows repeat, which lifts plug-in information: centring takes that shift out.
    """
    if replicates is None:
        return None, None
    low, high = np.percentile(replicates, [2.5, 97.5]) - replicates.mean() + value
    return float(np.clip(low, least, value)), float(np.clip(high, value, most))
