"""Bad input of scripts in this folder: one sentence and exit code 2, as `unweave` does it."""

from __future__ import annotations

import sys
from collections.abc import Callable

from unweave.types import UserError


def told(main: Callable[[], None]) -> None:
    """Run a script's `main`; a missing store or an unknown name is told without a traceback."""
    try:
        main()
    except UserError as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        sys.exit(2)
