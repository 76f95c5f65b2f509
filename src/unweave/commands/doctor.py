"""`unweave doctor`: what works on this machine; and what `unweave --version --verbose` prints."""

from __future__ import annotations

from unweave.commands.options import Json
from unweave.version import __version__


def doctor(as_json: Json = False) -> None:
    """Say what works on this machine, and how to get the rest.

    Example: unweave doctor
    """
    from unweave.report.doctor import findings
    from unweave.report.tables import print_records

    records = [finding.as_dict() for finding in findings()]
    if as_json:
        print_records(records, (), as_json=True)
        return
    print_records([record | {"works": "yes" if record["works"] else "no"} for record in records],
                  ("name", "works", "found", "advice"), as_json=False)


def print_version(verbose: bool) -> None:
    """The version alone, or with everything that a bug report needs."""
    print(f"unweave {__version__}")
    if verbose:
        from unweave.report.versions import versions

        for name, value in versions()[1:]:
            print(f"{name}: {value}")
