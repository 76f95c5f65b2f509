"""What every metric that looks at a model must do, run over those of METRICS."""

from dataclasses import replace

import numpy as np
import pytest
from linear_model import X, encoding

from unweave.factors import FactorSpace
from unweave.metrics import METRICS, Encoding, plan_scores, score, score_dataset, score_records
from unweave.metrics.encoding import INPUTS, ROW_INPUTS
from unweave.types import UserError

MODEL = [name for name, metric in METRICS.items() if metric.needs]
FACTORS = (X[:, :2] > 0).astype(int)
SPACE = FactorSpace(("a", "b"), (20, 20))
QUICK = {"num_particles": 20, "num_paths": 50, "num_samples": 100}


def sized(name):
    return {k: v for k, v in QUICK.items() if k in METRICS[name].conventions["study2019"]}


@pytest.mark.parametrize("name", MODEL)
def test_codes_alone_are_refused_if_it_was_named_and_else_it_is_left_out(name):
    metric = METRICS[name]
    with pytest.raises(UserError, match=f"{name} looks at a model .*score a run"):
        score(X, FACTORS, metrics=name)
    with pytest.raises(UserError, match=metric.needs[0]):
        score_dataset(lambda index: np.zeros((len(index), 2)), SPACE, metrics=[name],
                      **sized(name))
    assert not set(score(X, FACTORS, num_train_votes=20, num_test_votes=10)) & set(metric.keys)


@pytest.mark.parametrize("name", MODEL)
def test_records_are_whole(name):
    records = score_records(encoding(), FACTORS, metrics=name, **sized(name))
    assert [record.key for record in records] == list(METRICS[name].keys)
    for record in records:
        assert np.isfinite(record.value)
        assert record.value in METRICS[name].keys[record.key].range
        assert record.chance is record.ceiling is None, "factors play no part in it"
        assert record.low <= record.value <= record.high


@pytest.mark.parametrize("name", MODEL)
def test_same_seed_same_value_whoever_else_is_scored(name):
    options = {k: v for other in MODEL for k, v in sized(other).items()}
    alone = score(encoding(), FACTORS, metrics=name, **sized(name))
    among = score(encoding(), FACTORS, metrics=["tc", *MODEL], **options)
    assert alone == {key: among[key] for key in METRICS[name].keys}


@pytest.mark.parametrize("name", MODEL)
def test_factors_do_not_matter(name):
    first = score(encoding(), FACTORS, metrics=name, **sized(name))
    assert first == score(encoding(), FACTORS[::-1], metrics=name, **sized(name))


@pytest.mark.parametrize("name", sorted(set(ROW_INPUTS) - {"category_logits"}))
def test_what_is_not_finite_or_too_short_is_told_by_name(name):
    (metric,) = [m for m in MODEL if name in METRICS[m].needs][:1]
    whole = encoding()
    wrong = whole.inputs([name], np.arange(len(X)), QUICK)[name]
    with pytest.raises(UserError, match=f"{name} needs a line for each of the 400 rows"):
        score(replace(whole, **{name: wrong[:-1]}), FACTORS, metrics=metric, **sized(metric))
    wrong[3] = np.nan
    with pytest.raises(UserError, match=f"{name} must be finite: .*diverged"):
        score(replace(whole, **{name: wrong}), FACTORS, metrics=metric, **sized(metric))


def test_every_input_is_looked_at_and_is_a_field():
    assert {name for metric in METRICS.values() for name in metric.wants} == set(INPUTS)
    assert encoding().given == set(INPUTS) - {"category_logits"}
    assert Encoding(X).given == frozenset()


def test_functions_of_rows_are_asked_for_the_rows_of_the_draw():
    """A decoding costs: rows that only other metrics look at must not be paid for."""
    asked = []

    def reconstruction(rows):
        asked.append(rows)
        return np.zeros(len(rows))

    plan = plan_scores(SPACE, metrics=["elbo", "factor_vae"], num_points=30, num_train_votes=20,
                       num_test_votes=10)
    zeros = np.zeros((len(plan.index), 3))
    plan.score(Encoding(zeros, mu=zeros, logvar=zeros, reconstruction=reconstruction))
    assert [len(rows) for rows in asked] == [30], "once, interval included"
    assert len(plan.index) > 100
