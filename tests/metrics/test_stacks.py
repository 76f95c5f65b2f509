"""A stack of runs gets the scores that its runs get one by one."""

import numpy as np
import pytest

from unweave.factors import FactorSpace
from unweave.metrics import METRICS, plan_scores, score_stack
from unweave.types import UserError

SPACE = FactorSpace(("a", "b"), (4, 6))
QUICK = {"num_points": 300, "num_train_votes": 100, "num_test_votes": 50, "num_train_points": 200,
         "num_test_points": 100, "num_stages": 3}
NAMES = ["mig", "factor_vae", "beta_vae", "explicitness", "sap", "dci"]


def stack_of(plan, num=5):
    rng = np.random.default_rng(0)
    rows = SPACE.factors(plan.index).astype(float)
    return np.stack([rows @ rng.normal(size=(2, 3)) + rng.normal(size=(len(rows), 3))
                     for _ in range(num)])


@pytest.mark.parametrize("details", [False, True])
def test_scores_are_those_of_a_loop(details):
    known = {k for name in NAMES for k in METRICS[name].conventions["study2019"]}
    plan = plan_scores(SPACE, metrics=NAMES, **{k: v for k, v in QUICK.items() if k in known})
    codes = stack_of(plan)
    made = score_stack(plan, codes, details=details, num_threads=3)
    assert made == [plan.score(run, details=details) for run in codes]
    assert score_stack(plan, list(codes), details=details) == made


def test_bad_input_is_told():
    plan = plan_scores(SPACE, metrics="mig", num_points=100)
    with pytest.raises(UserError, match="run, row, latent"):
        score_stack(plan, np.zeros((len(plan.index), 3)))
    with pytest.raises(UserError, match="one run at least"):
        score_stack(plan, [])
    with pytest.raises(UserError, match="needs the codes of"):
        score_stack(plan, np.zeros((2, 7, 3)), num_threads=2)
