"""Work side by side on the cores at hand, with libraries that have threads of their own kept quiet.

Compiled loops and numpy's larger operations run without Python's lock, so threads are enough. While
they run, linear algebra stays on one thread each: many small matrix products gain nothing from more
and would take the cores from each other. Work inside such work is done in turn.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_worker = threading.local()


def available_threads() -> int:
    """The cores this process may use, or OMP_NUM_THREADS if that is less; one within such work."""
    if getattr(_worker, "busy", False):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    said = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores or 1, int(said) if said.isdigit() else cores or 1))


def side_by_side(function: Callable[[Item], Result], items: Iterable[Item],
                 num_threads: int | None = None) -> list[Result]:
    """`[function(item) for item in items]`, on as many threads as there are (or `num_threads`)."""
    items = list(items)
    if getattr(_worker, "busy", False):
        return [function(item) for item in items]
    threads = min(len(items), num_threads or available_threads())
    if threads <= 1:
        with _libraries().limit(limits=1, user_api="blas"):
            return [function(item) for item in items]

    def alone(item: Item) -> Result:
        _worker.busy = True
        return function(item)

    with (_libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool):
        return list(pool.map(alone, items))


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
