"""Objectives: pure functions of a forward pass. METHODS maps names to records.

A method's letters are the keyword-only parameters of its `loss`. A letter whose type admits a
tensor (`Strength`, `Positive`) has a value for each run of a stack; any other letter is part of
the pack key. Allowed values come from the annotation. What the trainer supplies is in CONTEXT.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from torch import Tensor

from unweave.objectives.elbo import LIKELIHOODS, beta_vae, vae
from unweave.types import Range, Terms, UserError, unknown_name

CONTEXT = frozenset({"dataset_size", "step"})
"""Keywords that the trainer fills in: they are facts of the training, not letters."""


@dataclass(frozen=True)
class Method:
    """A method: its objective, where it comes from, and a line on what it does."""

    loss: Callable[..., Terms]
    paper: str
    summary: str


METHODS: dict[str, Method] = {
    "vae": Method(vae, "Kingma & Welling 2014", "the evidence lower bound"),
    "beta_vae": Method(beta_vae, "Higgins et al. 2017", "KL term weighted by beta"),
}


@dataclass(frozen=True)
class Letter:
    """A hyper-parameter of a method: its default and what it may be."""

    name: str
    default: bool | int | float | str
    per_run: bool
    allowed: Range | tuple[str, ...] | None

    def check(self, method: str, value: Any) -> bool | int | float | str:
        """`value` in the letter's type, or a UserError that says what is allowed."""
        said = f"{self.name}={value!r} of {method}"
        kind = type(self.default)
        if isinstance(self.allowed, tuple):
            if value not in self.allowed:
                raise UserError(f"{said} must be one of {', '.join(self.allowed)}")
            return value
        if kind is bool:
            known = {"true": True, "false": False, "1": True, "0": False}
            if str(value).lower() not in known:
                raise UserError(f"{said} must be true or false")
            return known[str(value).lower()]
        try:
            number = kind(value)
            exact = isinstance(value, str) or number == value
        except (TypeError, ValueError):
            exact = False
        if not exact or number != number or (kind is float and abs(number) == float("inf")):
            raise UserError(f"{said} must be {'a whole' if kind is int else 'a finite'} number")
        if self.allowed is not None and number not in self.allowed:
            raise UserError(f"{said} must be {self.allowed}")
        return number


@cache
def letters(method: str) -> Mapping[str, Letter]:
    """The letters of a method, in the order in which its objective declares them."""
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    loss = METHODS[method].loss
    hints = get_type_hints(loss, include_extras=True)
    found = {}
    for name, parameter in inspect.signature(loss).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or name in CONTEXT:
            continue
        hint, allowed = hints[name], None
        if get_origin(hint) is Annotated:
            hint, allowed = get_args(hint)[:2]
        if get_origin(hint) is Literal:
            allowed = get_args(hint)
        per_run = Tensor in get_args(hint)
        default = float(parameter.default) if per_run else parameter.default
        found[name] = Letter(name, default, per_run, allowed)
    return found


def complete(method: str, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """All letters of a method, checked, defaults filled in, sorted: RunConfig's `hyper`."""
    known = letters(method)
    for name in given:
        if name not in known:
            if not known:
                raise UserError(f"{method} has no letters, so {name!r} cannot be set")
            raise unknown_name(f"letter of {method}", name, known)
    return tuple(sorted(
        (name, letter.check(method, given[name]) if name in given else letter.default)
        for name, letter in known.items()
    ))


def context(method: str) -> frozenset[str]:
    """Which of CONTEXT a method's objective asks for."""
    return CONTEXT & set(inspect.signature(METHODS[method].loss).parameters)


__all__ = ["LIKELIHOODS", "METHODS", "Letter", "Method", "complete", "context", "letters"]
