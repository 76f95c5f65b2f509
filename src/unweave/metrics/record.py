"""What a metric declares about itself, and what a score carries with it.

A metric is a pure function and this record; there is no class to derive from. Its file ends with
`METRIC = Metric(...)`, and `registry.py` names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from unweave.markup import escape, table
from unweave.metrics.encoding import INPUTS
from unweave.types import Range, UserError, unknown_name

CONVENTIONS = ("paper", "study2019")
"""`paper`: our best reading of the metric's own paper. `study2019`: what produced the published
scores of Locatello et al. 2019."""


@dataclass(frozen=True)
class Key:
    """One number of a metric: the values it may take and which way is better (None: neither)."""

    range: Range
    higher_is_better: bool | None = True


@dataclass(frozen=True)
class Metric:
    """A metric: its function, the draw it needs, its keys, its paper, its settings by convention.

    `function(codes, factors, **settings)` for a draw of points, or
    `function(codes, groups, fixed, **settings)` for a draw with groups: see `sampling.Draw`.
    `num_train`, `points` and `num_values` (see `arrays`) are passed where the function has such a
    parameter; one without `num_values` sees class numbers as numbers. With `factor_types` it also
    gets the factors' types, and quantities as such: others see bins of them. So are
    the inputs that a model alone can give (`encoding`). `bootstrap`
    has the function's parameters, preceded by a generator and a number of replicates, and gives
    for some of the keys an array of that many replicates.
    """

    name: str
    function: Callable[..., dict[str, float]]
    draw: Callable[..., Any]
    keys: Mapping[str, Key]
    paper: str
    version: str
    summary: str
    conventions: Mapping[str, Mapping[str, Any]]
    bootstrap: Callable[..., dict[str, Any]] | None = None
    terms: Callable[..., dict[str, Any]] | None = None
    """With the function's parameters, for each key an array whose mean is the score: over images,
    draws or paths. The interval is then that of the mean, and nothing is computed twice."""
    default: bool = True
    """Whether it is among those taken when none is named; a slow one is not."""
    partial: bool = False
    """Whether it takes factors with unknown labels, NaN; others see the rows that know them all."""

    @property
    def supervised(self) -> bool:
        """Whether it looks at factors: one that does not can do without them."""
        factors = inspect.signature(self.function).parameters.get("factors")
        return factors is None or factors.default is inspect.Parameter.empty

    @property
    def interventional(self) -> bool:
        """Whether it looks at groups of images in which a factor is fixed."""
        return "groups" in inspect.signature(self.function).parameters

    @property
    def range(self) -> Range:
        """The values of the main key, which is the first."""
        return next(iter(self.keys.values())).range

    @property
    def higher_is_better(self) -> bool | None:
        """The direction of the main key."""
        return next(iter(self.keys.values())).higher_is_better

    @property
    def wants(self) -> tuple[str, ...]:
        """The inputs that it looks at beside codes and factors, if they are there."""
        return tuple(name for name in inspect.signature(self.function).parameters
                     if name in INPUTS)

    @property
    def needs(self) -> tuple[str, ...]:
        """Those of them that it cannot do without."""
        known = inspect.signature(self.function).parameters
        return tuple(name for name in self.wants if known[name].default is inspect.Parameter.empty)

    def lacking(self, given: Iterable[str]) -> UserError | None:
        """What to say where inputs that it needs are not among the given ones."""
        missing = [name for name in self.needs if name not in given]
        if not missing:
            return None
        return UserError(f"{self.name} looks at a model ({', '.join(missing)}), not at codes "
                         "alone: score a run, or give these in an Encoding")

    def settings(self, convention: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """A convention's settings with those overrides that this metric knows."""
        if convention not in self.conventions:
            raise unknown_name("convention", convention, self.conventions)
        own = dict(self.conventions[convention])
        return own | {k: v for k, v in overrides.items() if k in own}


def accepted(function: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that are parameters of a function."""
    known = inspect.signature(function).parameters
    return {k: v for k, v in settings.items() if k in known}


@dataclass(frozen=True)
class Score:
    """One number and what is needed to judge it. Plain values only."""

    key: str
    value: float
    low: float | None
    """95 % bootstrap interval of `value`; None where it was not asked for or is not defined."""
    high: float | None
    chance: float | None
    """The score of shuffled codes: what no information at all scores here. None, as is `ceiling`,
    for a score of the model itself, in which factors play no part."""
    ceiling: float | None
    """The score of the factors themselves as codes: what can be reached in this convention. They
    count as continuous: a categorical latent with more classes than MIG has bins may pass it."""
    range_low: float
    range_high: float
    higher_is_better: bool | None
    metric: str
    convention: str
    version: str
    paper: str
    seed: int
    num_points: int
    num_groups: int
    group_size: int
    num_rows: int
    """How many different rows (images) were looked at."""
    num_latents: int
    overridden: tuple[str, ...] = ()
    """Settings that differ from the convention."""
    settings: dict[str, Any] = field(default_factory=dict)
    """`num_values`, a list, is among them if categorical latents were taken as such."""

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, with `overridden` as a list."""
        return asdict(self) | {"overridden": list(self.overridden)}

    def _repr_html_(self) -> str:
        """What a notebook shows: a row of the table of scores."""
        return Scores([self])._repr_html_()


class Scores(list[Score]):
    """Scores as a list, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        records = [{
            "score": score.key, "value": f"{score.value:.3f}",
            "interval": (None if score.low is None or score.high is None
                         else f"{score.low:.3f} to {score.high:.3f}"),
            "chance": None if score.chance is None else f"{score.chance:.3f}",
            "ceiling": None if score.ceiling is None else f"{score.ceiling:.3f}",
            "better": {True: "higher", False: "lower", None: "neither"}[score.higher_is_better],
            "convention": score.convention + (" *" if score.overridden else "")}
            for score in self]
        changed = sorted({name for score in self for name in score.overridden})
        note = f"<div>* changed from the convention: {escape(changed)}</div>" if changed else ""
        return table(records, ("score", "value", "interval", "chance", "ceiling", "better",
                               "convention")) + note
