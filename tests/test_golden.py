"""Golden curves: a change is neutral, or it moves numbers and says so in the changelog."""

import json
import sys
from pathlib import Path

import pytest

from unweave.objectives import METHODS

sys.path.insert(0, str(Path(__file__).with_name("golden")))

from make import CURVES, golden_curves

STORED = json.loads(CURVES.read_text())


@pytest.fixture(scope="module")
def fresh():
    return golden_curves()


@pytest.mark.parametrize("method", METHODS)
def test_curves_are_where_they_were(method, fresh):
    assert method in STORED, "new method: python tests/golden/make.py"
    for term, values in STORED[method].items():
        # Other processors round otherwise; a changed stream or formula is off by far more.
        assert fresh[method][term] == pytest.approx(values, rel=2e-3, abs=2e-4), term
