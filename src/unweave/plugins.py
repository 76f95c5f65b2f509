"""Plugins: methods, metrics and data sets that other packages bring, found by their entry points.

A package says in its pyproject.toml

    [project.entry-points."unweave.methods"]
    my_method = "my_package.objectives:MY_METHOD"

and `my_method` is a method wherever that package is installed: on the command line, in the workers
of a study, on every machine of a cluster. The groups are `unweave.methods`, `unweave.metrics` and
`unweave.datasets`. In one process, without a package, `METHODS["my_method"] = Method(...)` does.

What is unusual: entry points are read when a dictionary is looked at for the first time, not when
it is made. A package may therefore import unweave, and unweave that package, in either order.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import metadata
from typing import Generic, TypeVar

from unweave.types import UserError

Entry = TypeVar("Entry")

GROUPS = ("unweave.methods", "unweave.metrics", "unweave.datasets")


class Entries(MutableMapping[str, Entry], Generic[Entry]):
    """What is known under a name: our own entries, in their order, then those of plugins."""

    def __init__(self, group: str, kind: type[Entry], own: Mapping[str, Entry],
                 check: Callable[[Entry], object] | None = None) -> None:
        self.group, self.kind, self.check = group, kind, check
        self.origins: dict[str, str] = {}
        """The package, with its version, of every entry that a plugin brought."""
        self._entries, self._complete = dict(own), False

    def _known(self) -> dict[str, Entry]:
        if not self._complete:
            self._complete = True  # first: a plugin may look here while it is imported
            for point in sorted(metadata.entry_points(group=self.group), key=lambda p: p.name):
                self._add(point)
        return self._entries

    def _add(self, point: metadata.EntryPoint) -> None:
        """Take one plugin in; one that is broken is left out with a warning, others still work."""
        package = "an unnamed package" if point.dist is None else (
            f"{point.dist.name} {point.dist.version}")
        said = f"{point.name!r} of {package} ({self.group}) is left out"
        if point.name in self._entries:
            by = self.origins.get(point.name, "unweave itself")
            warnings.warn(f"{said}: {by} has that name; rename the plugin", stacklevel=4)
            return
        try:
            found = point.load()
        except (Exception, SystemExit) as error:  # not our code: it must not stop us
            warnings.warn(f"{said}: {point.value} cannot be loaded ({type(error).__name__}: "
                          f"{error})", stacklevel=4)
            return
        if problem := self._wrong(point.name, found):
            warnings.warn(f"{said}: {problem}", stacklevel=4)
            return
        self._entries[point.name], self.origins[point.name] = found, package

    def _wrong(self, name: str, entry: object) -> str:
        """Why something cannot be an entry under a name; nothing if it can."""
        if not isinstance(entry, self.kind):
            return f"{name!r} must be a {self.kind.__name__}, got a {type(entry).__name__}"
        if getattr(entry, "name", name) != name:
            return f"{name!r} calls itself {entry.name!r}: give it one name"
        if not re.fullmatch(r"\w[\w.-]*", name):  # it is part of folders, addresses and commands
            return f"{name!r} must be letters, digits, _, . and -"
        try:
            if self.check is not None:
                self.check(entry)
        except Exception as error:  # an entry that is wrong inside would end commands of all others
            return f"{name!r} cannot be used ({type(error).__name__}: {error})"
        return ""

    def __getitem__(self, name: str) -> Entry:
        return self._known()[name]

    def __setitem__(self, name: str, entry: Entry) -> None:
        if problem := self._wrong(name, entry):
            raise UserError(problem)
        self._known()[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self))}}}"
