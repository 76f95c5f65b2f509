"""Loops that numpy cannot say, as machine code: compiled by numba when they are first called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache


@cache
def compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Machine code of a function of arrays, kept between sessions where a folder can be written.

    Numba is imported here and not before: many scores do without it.
    """
    import numba

    plain = inspect.unwrap(function)
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(plain)
    except RuntimeError:
        return numba.njit(nogil=True, error_model="numpy")(plain)
