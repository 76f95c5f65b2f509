"""The public functions: what they accept, what they refuse, what a record says."""

import json
import warnings

import numpy as np
import pytest
import torch

from unweave.factors import FactorSpace, LabelTable
from unweave.metrics import METRICS, plan_scores, score, score_dataset, score_records
from unweave.types import UserError

QUICK = {"num_train_votes": 100, "num_test_votes": 50, "group_size": 8}
RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 4], size=(200, 2))
CODES = FACTORS + 0.1 * RNG.normal(size=(200, 2))


def test_lists_tensors_and_float32_are_accepted():
    expected = score(CODES, FACTORS, **QUICK)
    assert score(CODES.tolist(), FACTORS.tolist(), **QUICK) == expected
    tensor = torch.tensor(CODES, requires_grad=True)
    assert score(tensor, torch.tensor(FACTORS), **QUICK) == expected
    assert score(CODES.astype(np.float32), FACTORS.astype(np.uint8), **QUICK)["mig"] == \
        pytest.approx(expected["mig"], abs=0.02)
    of_codes = {key for metric in METRICS.values() if metric.default and not metric.needs
               for key in metric.keys}
    assert {key.partition(".")[0] for key in expected} == {k.partition(".")[0] for k in of_codes}
    assert set(expected) <= of_codes


def test_values_and_strings_are_classes():
    expected = score(CODES, FACTORS, **QUICK)
    assert score(CODES, FACTORS * 0.25 - 3, **QUICK) == expected
    names = np.array(["ape", "bee", "cat", "dog"])[FACTORS]
    assert score(CODES, names, **QUICK) == expected
    mixed = np.empty((200, 2), dtype=object)
    mixed[:, 0], mixed[:, 1] = names[:, 0], FACTORS[:, 1]
    assert score(CODES, mixed, **QUICK) == expected
    assert score(CODES, FACTORS * 1_000_000, **QUICK) == expected


def test_one_latent_and_one_factor_may_be_vectors():
    made = score(FACTORS[:, 0], FACTORS[:, 0], **QUICK)
    assert made == score(FACTORS[:, :1], FACTORS[:, :1], **QUICK)
    expected = {"mig": 1.0, "factor_vae": 1.0, "factor_vae.train": 1.0,
                "factor_vae.num_active": 1.0}
    assert {key: made[key] for key in expected} == pytest.approx(expected)


BAD = {
    "lengths": (CODES, FACTORS[:-1], "same number of rows, got 200 and 199"),
    "nan": (np.where(np.eye(200, 2) > 0, np.nan, CODES), FACTORS, "row 0, latent 0 is nan"),
    "inf": (np.where(np.eye(200, 2) > 0, np.inf, CODES), FACTORS, "finite"),
    "strings": (CODES.astype(str), FACTORS, "real numbers"),
    "complex": (CODES.astype(complex), FACTORS, "real numbers"),
    "cube": (CODES[:, :, None], FACTORS, r"\[sample, latent\]"),
    "cube of factors": (CODES, FACTORS[:, :, None], r"\[sample, factor\]"),
    "no latent": (CODES[:, :0], FACTORS, "at least one latent"),
    "no factor": (CODES, FACTORS[:, :0], "at least one factor"),
    "one row": (CODES[:1], FACTORS[:1], "at least 2 rows"),
    "no rows": (CODES[:0], FACTORS[:0], "at least 2 rows"),
    "a number": (1.0, 2, "sample, latent"),
    "ragged": ([[1, 2], [3]], FACTORS, "rows of equal length"),
    "infinite factor": (CODES, np.where(FACTORS == 0, np.inf, FACTORS), "factor 0 is inf"),
    "nothing known": (CODES, np.full((200, 2), np.nan), "constant"),
    "dictionaries": (CODES, np.full((200, 2), {}, dtype=object), "give numbers or strings"),
    "masked codes": (np.ma.masked_less(CODES, 0), FACTORS, "masked"),
    "constant": (CODES, np.ones((200, 1), dtype=int), "constant"),
    "huge": (np.where(np.eye(200, 2) > 0, 1.7e308, -1.7e308), FACTORS, "rescale"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_told_in_a_sentence(case):
    codes, factors, said = BAD[case]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "factor . is known in 0")
        with pytest.raises(UserError, match=said):
            score(codes, factors, **QUICK)


def test_unknown_names_are_told_with_near_misses():
    with pytest.raises(UserError, match="did you mean 'factor_vae'"):
        score(CODES, FACTORS, metrics=["mig", "factorvae"])
    with pytest.raises(UserError, match="study2019"):
        score(CODES, FACTORS, convention="study2018")
    with pytest.raises(UserError, match="did you mean 'num_bins'"):
        score(CODES, FACTORS, metrics="mig", num_bin=3)
    with pytest.raises(UserError, match="no metric"):
        score(CODES, FACTORS, metrics=[])


def test_a_constant_factor_is_left_out_with_a_warning():
    more = np.column_stack([FACTORS, np.zeros(200, dtype=int)])
    with pytest.warns(UserWarning, match="factor 2 is constant"):
        made = score(CODES, more, **QUICK)
    assert made == score(CODES, FACTORS, **QUICK)


def test_records_say_how_they_came_about():
    records = {r.key: r for r in score_records(CODES, FACTORS, seed=3, num_bins=10, **QUICK)}
    mig, vote = records["mig"], records["factor_vae"]
    assert mig.overridden == ("num_bins",)
    assert mig.settings == {"num_points": 200, "num_bins": 10}
    assert (mig.seed, mig.convention, mig.version) == (3, "study2019", METRICS["mig"].version)
    assert (mig.range_low, mig.range_high, mig.higher_is_better) == (0.0, 1.0, True)
    assert (vote.num_groups, vote.group_size, vote.num_points) == (150, 8, 200)
    assert mig.low < mig.value < mig.high
    assert mig.chance < 0.1 < mig.value <= mig.ceiling + 0.2
    assert records["factor_vae.num_active"].higher_is_better is None
    plain = [r.as_dict() for r in records.values()]
    assert json.loads(json.dumps(plain[0]))["value"] == mig.value


def test_details_are_left_out_when_not_wanted():
    for record in score_records(CODES, FACTORS, details=False, **QUICK):
        assert record.low is record.high is record.chance is record.ceiling is None


def test_num_train_splits_the_rows():
    split = score(CODES, FACTORS, num_train=120, **QUICK)
    assert split["mig"] == score(CODES, FACTORS, **QUICK)["mig"], "MIG trains nothing"
    with pytest.raises(UserError, match="num_train"):
        score(CODES, FACTORS, num_train=200)


def test_rows_and_world_agree():
    """The same perfect-but-noisy code, sampled from its space and given as all its rows."""
    space = FactorSpace(("a", "b", "c"), (5, 6, 7))
    every = space.factors(np.arange(len(space)))
    turn = np.random.default_rng(1).normal(size=(3, 3))
    codes = every @ turn + np.random.default_rng(2).normal(size=every.shape)
    from_world = {r.key: r.value for r in score_dataset(lambda i: codes[i], space, details=False)}
    from_rows = score(codes, every)
    assert from_rows["factor_vae"] == pytest.approx(from_world["factor_vae"], abs=0.03)
    assert score(codes, every, metrics="mig", convention="paper") == \
        {r.key: r.value for r in score_dataset(lambda i: codes[i], space, metrics="mig",
                                               convention="paper", details=False)}


def test_a_plan_serves_many_runs_and_checks_its_codes():
    space = FactorSpace(("a", "b"), (8, 9))
    plan = plan_scores(space, num_points=100, **QUICK)
    first = plan.score(space.factors(plan.index))
    second = plan.score(np.random.default_rng(0).normal(size=(len(plan.index), 2)))
    assert first[0].value > second[0].value
    assert first[0].ceiling == second[0].ceiling
    with pytest.raises(UserError, match="this plan needs the codes"):
        plan.score(np.zeros((3, 2)))


def test_nothing_warns_on_ordinary_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score_records(CODES, FACTORS, **QUICK)


def without(num=600, labels=None):
    """A plan's inputs for images without factors: codes of three latents, two of them labelled."""
    codes = np.random.default_rng(0).normal(size=(num, 3))
    table = None
    if labels is not None:
        values = np.stack([codes[:, 0] > 0, codes[:, 1] > 0], axis=1).astype(np.int64)
        table = LabelTable(("left", "up"), values, labels)
    return codes, FactorSpace.without_factors(num), table


def test_without_factors_the_codes_alone_are_scored():
    codes, space, _ = without()
    with pytest.warns(UserWarning, match="no factors, so these metrics are left out: .*mig"):
        found = score_dataset(lambda index: codes[index], space)
    assert {score.metric for score in found} == {
        name for name, metric in METRICS.items()
        if not metric.supervised and metric.default and not metric.needs}
    assert all(score.ceiling is None for score in found)
    expected = score_dataset(lambda index: codes[index], FactorSpace(("a",), (600,)), metrics="tc")
    assert [s.value for s in found if s.metric == "tc"] == [s.value for s in expected]
    with pytest.raises(UserError, match="no factors, so these metrics cannot score it: mig; "):
        score_dataset(lambda index: codes[index], space, metrics=["mig", "tc"])


def test_labels_take_the_place_of_factors_where_nothing_is_fixed():
    codes, space, labels = without(labels=("categorical", "categorical"))
    few = {"num_train_points": 400, "num_test_points": 200}
    (accuracy, _) = score_dataset(lambda index: codes[index], space, labels=labels,
                                  metrics="attributes", **few)
    assert accuracy.value > 0.9
    assert accuracy.ceiling > 0.8
    with pytest.raises(UserError, match=r"no factors that could be fixed, .*: factor_vae; "):
        score_dataset(lambda index: codes[index], space, labels=labels, metrics="factor_vae")


def test_labels_may_be_unknown_or_quantities():
    codes, space, labels = without(labels=(None, None))
    values = labels.values.astype(np.float64)
    values[::3, 0] = np.nan
    values[:, 1] = codes[:, 1]
    partial = LabelTable(("left", "up"), values, (None, "continuous"))
    found = score_dataset(lambda index: codes[index], space, labels=partial, metrics="sap",
                          details=False)
    assert found[0].value > 0.3
    assert found[0].settings["factor_types"] == ["ordinal", "continuous"]
    assert found[0].settings["num_unknown"][0] > 0


@pytest.mark.parametrize(("num", "parts"), [(600, (400, 200)), (20_000, (10_000, 5_000)),
                                            (3, (2, 1))])
def test_images_without_factors_never_train_and_test_at_once(num, parts):
    labels = LabelTable(("odd",), np.arange(num)[:, None] % 2, ("categorical",))
    plan = plan_scores(FactorSpace.without_factors(num), labels=labels, metrics="attributes")
    (draw,) = plan.draws
    assert draw.num_train == parts[0]
    assert len(draw.points) == len(np.unique(draw.points)) == sum(parts)
    assert plan.settings[0]["num_train_points"] == parts[0]
    assert plan.settings[0]["num_test_points"] == parts[1]
    with pytest.raises(UserError, match="2 images cannot be split"):
        plan_scores(FactorSpace.without_factors(2), metrics="attributes",
                    labels=LabelTable(("odd",), np.array([[0], [1]])))
