"""IRS: a slow reading of the formula, constants, bins of factors."""

import doctest
import sys

import numpy as np
import pytest

from unweave.metrics.irs import irs
from unweave.types import UserError

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 5], size=(200, 2))
CODES = FACTORS @ RNG.normal(size=(2, 3)) + 0.2 * RNG.normal(size=(200, 3))


def slow_irs(codes, factors):
    """The paper's score, with the maximum within groups."""
    scores, weights = [], []
    for z in codes.T:
        largest = max(abs(z - z.mean()))
        shares = []
        for v in factors.T:
            groups = [z[v == a] for a in sorted(set(v.tolist()))]
            shares.append(1 - np.mean([max(abs(g - g.mean())) for g in groups]) / largest)
        scores.append(max(shares))
        weights.append(largest)
    return np.dot(scores, weights) / sum(weights)


def test_the_worked_number_of_the_docstring():
    assert doctest.testmod(sys.modules["unweave.metrics.irs"]).failed == 0


def test_against_plain_loops():
    made = irs(CODES, FACTORS, diff_quantile=1.0)["irs"]
    assert made == pytest.approx(slow_irs(CODES, FACTORS), abs=1e-12)
    assert irs(CODES, FACTORS, diff_quantile=0.5)["irs"] > made


def test_constant_latents_and_factors_are_left_out():
    more = np.column_stack([np.full(200, 0.1), CODES])
    assert irs(more, FACTORS)["irs"] == pytest.approx(irs(CODES, FACTORS)["irs"], abs=1e-12)
    assert irs(np.ones((200, 2)), FACTORS) == {"irs": 0.0}
    wide = np.column_stack([FACTORS, np.zeros(200, dtype=int)])
    assert irs(CODES, wide) == irs(CODES, FACTORS)
    assert irs(FACTORS[:, 0], FACTORS[:, 0]) == {"irs": 1.0}


def test_bins_of_factors_join_their_values():
    fine = np.repeat(np.arange(40), 5)
    assert irs(fine, fine)["irs"] == 1.0
    # Two values to a bin lie half a step from their mean; the ends lie 19.5 from theirs.
    assert irs(fine, fine, factor_bins=20)["irs"] == pytest.approx(1 - 0.5 / 19.5)


def test_bad_quantiles_are_refused():
    with pytest.raises(UserError, match="diff_quantile"):
        irs(CODES, FACTORS, diff_quantile=1.5)
