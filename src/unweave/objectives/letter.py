"""Letters: the hyper-parameters of a method, read from the signatures of its functions.

A keyword-only parameter is a letter, unless its name is in CONTEXT. A letter whose type admits a
tensor (`Strength`, `Positive`) has a value for each run of a stack; any other letter is part of
the pack key. Allowed values come from the annotation: a `Range`, a `Literal`, `Sizes`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from torch import Tensor

from unweave.types import PerRun, Range, UserError, unknown_name

CONTEXT = frozenset({"dataset_size", "step", "critic_logits", "state", "prior"})
"""Keywords that the trainer fills in: they are facts of the training, not letters."""

Value = bool | int | float | str

Momentum = Annotated[PerRun, Range(0.0, 0.9999)]
"""The share of the old value in a running estimate; at 1 nothing would ever enter it."""

Decay = Annotated[float, Range(0.0, 0.9999)]
"""A decay rate of Adam's moments, the same for all runs of a stack."""

Count = Annotated[int, Range(1.0)]
"""A number of things of which there is at least one."""


@dataclass(frozen=True)
class Sizes:
    """Whole numbers of at least 1, written with commas or x between them: "10,3", "10x3"."""

    def parse(self, value: Any) -> tuple[int, ...]:
        """The numbers in a string, a whole number or a sequence of them; ValueError if not."""
        # On the command line a comma makes two runs, so x does as well: "10x3".
        parts = value.replace("x", ",").split(",") if isinstance(value, str) else value
        parts = list(parts) if isinstance(parts, (list, tuple)) else [parts]
        numbers = tuple(int(p) for p in parts)
        whole = all(isinstance(p, str) or (p == n and not isinstance(p, bool))
                    for p, n in zip(parts, numbers))
        if not numbers or min(numbers) < 1 or not whole:
            raise ValueError(value)
        return numbers

    def __str__(self) -> str:
        return "whole numbers of at least 1, such as 10, or 10x3 for two"


@dataclass(frozen=True)
class Letter:
    """A hyper-parameter of a method: its default and what it may be."""

    name: str
    default: Value
    per_run: bool
    allowed: Range | Sizes | tuple[str, ...] | None

    def check(self, method: str, value: Any) -> Value:
        """`value` in the letter's type, or a UserError that says what is allowed."""
        said = f"{self.name}={value!r} of {method}"
        kind = type(self.default)
        if isinstance(self.allowed, tuple):
            if value not in self.allowed:
                raise unknown_name(f"{self.name} of {method}", value, self.allowed)
            return value
        if isinstance(self.allowed, Sizes):
            try:
                return ",".join(str(n) for n in self.allowed.parse(value))
            except (TypeError, ValueError, OverflowError):
                raise UserError(f"{said} must be {self.allowed}") from None
        if kind is bool:
            known = {"true": True, "false": False, "1": True, "0": False}
            if str(value).lower() not in known:
                raise UserError(f"{said} must be true or false")
            return known[str(value).lower()]
        try:
            number = kind(value)
            exact = isinstance(value, str) or number == value
        except (TypeError, ValueError, OverflowError):
            exact = False
        if not exact or number != number or (kind is float and abs(number) == float("inf")):
            raise UserError(f"{said} must be {'a whole' if kind is int else 'a finite'} number")
        if self.allowed is not None and float(number) not in self.allowed:
            raise UserError(f"{said} must be {self.allowed}")
        return number


@cache
def declared(function: Callable[..., Any]) -> Mapping[str, Letter]:
    """The letters that one function declares, in its order."""
    hints = get_type_hints(function, include_extras=True)
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or name in CONTEXT:
            continue
        if name not in hints or parameter.default is parameter.empty:
            raise UserError(f"{name!r} of {function.__name__} is a letter and needs a type and a "
                            f"default, as in {name}: float = 1.0")
        hint, allowed = hints[name], None
        if get_origin(hint) is Annotated:
            hint, allowed = get_args(hint)[:2]
        if get_origin(hint) is Literal:
            allowed = get_args(hint)
        per_run = Tensor in get_args(hint)
        default = float(parameter.default) if per_run else parameter.default
        found[name] = Letter(name, default, per_run, allowed)
    return found


def pick(function: Callable[..., Any], hyper: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a run's (or a stack's) letters that `function` declares: its keyword arguments."""
    return {name: hyper[name] for name in declared(function)}


def trailing(value: PerRun, axes: int) -> PerRun:
    """A per-run value `[*stack]` with `axes` axes of length 1 behind it; a number as it is."""
    return value[(..., *[None] * axes)] if isinstance(value, Tensor) else value
