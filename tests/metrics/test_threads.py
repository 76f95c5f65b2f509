"""Work on several threads: the same results in the same order, no threads within threads."""

import threading

import numpy as np
import pytest

from unweave.metrics.logistic import fit_one_vs_rest
from unweave.metrics.threads import available_threads, side_by_side
from unweave.types import UserError


def test_results_keep_their_order():
    assert side_by_side(lambda x: x * x, range(20), num_threads=4) == [x * x for x in range(20)]
    assert side_by_side(lambda x: x, []) == []


def test_work_inside_work_is_done_in_turn(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    outside = available_threads()
    gate = threading.Barrier(2, timeout=30)

    def one(_):
        gate.wait()  # both are under way at once
        return available_threads(), len(side_by_side(lambda x: x, range(3)))

    assert side_by_side(one, range(2), num_threads=2) == [(1, 3), (1, 3)]
    assert available_threads() == outside


def test_errors_come_through():
    def fail(_):
        raise UserError("one sentence")

    with pytest.raises(UserError, match="one sentence"):
        side_by_side(fail, range(3), num_threads=2)


def test_regressions_do_not_depend_on_the_number_of_threads(monkeypatch):
    rng = np.random.default_rng(0)
    features, classes = rng.normal(size=(9000, 3)), rng.integers(20, size=9000)
    made = []
    for threads in (1, 3):
        monkeypatch.setattr("unweave.metrics.irls.available_threads", lambda t=threads: t)
        monkeypatch.setattr("unweave.metrics.threads.available_threads", lambda t=threads: t)
        made.append(fit_one_vs_rest(features, classes, 20))
    np.testing.assert_allclose(made[1], made[0], atol=1e-9)
