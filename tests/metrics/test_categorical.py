"""Categorical latents: Gini's variance and classes as bins, against plain loops; bad input."""

import inspect
import json
import math
import sys

import numpy as np
import pytest

from unweave.factors import FactorSpace
from unweave.metrics import (
    METRICS,
    factor_vae,
    irs,
    mig,
    plan_scores,
    sap,
    score,
    score_dataset,
    score_records,
    tc,
    wasserstein,
)
from unweave.metrics.factor_vae import gini_variances
from unweave.metrics.information import discretise
from unweave.metrics.mig import mig_bootstrap
from unweave.types import UserError

SPACE = FactorSpace(("a", "b", "c"), (4, 6, 5))
FACTORS = SPACE.factors(np.arange(len(SPACE)))
QUICK = {"num_points": 500, "num_train_votes": 300, "num_test_votes": 200, "group_size": 16}
KINDS = [0, 6, 0, 5]
"""Of `mixed`: latents 1 and 3 are categorical."""
AWARE = [name for name, metric in METRICS.items()
         if "num_values" in inspect.signature(metric.function).parameters and not metric.needs]
"""Metrics that know classes from numbers."""
FEW = QUICK | {"num_stages": 5, "num_train_points": 1000, "num_test_points": 500}
"""For these, the slow ones among them as well."""
COUNT_CONSTANTS = ["sap", "mig_sup", "mutual_info_score", "dci", "dci_es"]
"""Of all latents, those out of use as well: as a mean, a base (DCI's completeness) or a size."""


def mixed(seed=0, noise=0.3):
    """Codes that know the factors in part: classes are those of a factor, some of them replaced."""
    rng = np.random.default_rng(seed)
    codes = FACTORS @ rng.normal(size=(3, 4)) + noise * rng.normal(size=(len(SPACE), 4))
    for j, k in ((1, 1), (3, 2)):
        other = rng.integers(KINDS[j], size=len(SPACE))
        codes[:, j] = np.where(rng.random(len(SPACE)) < noise, other, FACTORS[:, k])
    return codes


def renamed(codes, seed=3):
    """The same classes with other numbers."""
    rng, codes = np.random.default_rng(seed), codes.copy()
    for j, num in enumerate(KINDS):
        if num:
            codes[:, j] = rng.permutation(num)[codes[:, j].astype(int)]
    return codes


def slow_gini(x):
    """Equation 4 of appendix B, as it stands."""
    n = len(x)
    return sum(x[i] != x[j] for i in range(n) for j in range(n)) / (2 * n * (n - 1))


def slow_vote_score(codes, draw, num_values, threshold=0.05):
    def variance(j, rows):
        if not num_values[j]:
            return np.var(codes[rows, j], ddof=1)
        return slow_gini(codes[rows, j].tolist())

    spread = [variance(j, draw.points) for j in range(codes.shape[1])]
    alive = [j for j in range(codes.shape[1]) if spread[j] >= threshold**2]
    votes, right = {}, 0
    for i, (group, k) in enumerate(zip(draw.groups, draw.fixed)):
        winner = min(alive, key=lambda j: variance(j, group) / spread[j])
        if i < draw.num_train:
            votes.setdefault(winner, np.zeros(3))[k] += 1
        else:
            right += int(np.argmax(votes.get(winner, np.zeros(3)))) == k
    return right / (len(draw.groups) - draw.num_train)


def slow_information(left, right):
    n, total = len(left), 0.0
    for a in set(left):
        for b in set(right):
            both = sum(x == a and y == b for x, y in zip(left, right))
            if both:
                total += both / n * math.log(both * n / (left.count(a) * right.count(b)))
    return total


def slow_mig(codes, factors, num_bins, num_values):
    gaps = []
    for v in factors.T.tolist():
        known = []
        for z, num in zip(codes.T, num_values):
            binned = z if num else np.digitize(z, np.histogram(z, num_bins)[1][:-1])
            known.append(slow_information(binned.tolist(), v))
        known.sort()
        gaps.append((known[-1] - known[-2]) / slow_information(v, v))
    return sum(gaps) / len(gaps)


def test_gini_variance_of_a_worked_example():
    # Of the pairs of 0 0 1 2 all but the first differ: 5 of 6, and half of that is the variance.
    rows = np.arange(4)[None]
    assert gini_variances(np.array([0.0, 0.0, 1.0, 2.0]), rows)[0] == pytest.approx(5 / 12)
    assert gini_variances(np.array([7.0, 7.0, 3.0, 0.0]), rows)[0] == pytest.approx(5 / 12)
    bits = np.array([0.0, 0.0, 1.0, 0.0])
    assert gini_variances(bits, rows)[0] == pytest.approx(np.var(bits, ddof=1))
    assert gini_variances(np.full(4, 2.0), rows)[0] == 0.0


def test_gini_variances_agree_with_plain_loops(monkeypatch):
    rng = np.random.default_rng(0)
    column, groups = rng.integers(7, size=90).astype(np.float32), rng.integers(90, size=(30, 12))
    expected = [slow_gini(column[group].tolist()) for group in groups]
    np.testing.assert_allclose(gini_variances(column, groups), expected, rtol=1e-12)
    monkeypatch.setattr(sys.modules["unweave.metrics.factor_vae"], "VALUES_AT_ONCE", 50)
    np.testing.assert_allclose(gini_variances(column, groups), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dead", [None, 0, 1])
def test_the_vote_agrees_with_plain_loops(seed, dead):
    plan = plan_scores(SPACE, metrics="factor_vae", seed=seed, **QUICK | {"num_points": 150})
    codes = mixed(seed)[plan.index]
    if dead is not None:  # latents after a dropped one keep their kind
        codes[:, dead] = 0.0
    expected = slow_vote_score(codes, plan.draws[0], KINDS)
    made = plan.score(codes, num_values=KINDS, details=False)
    assert made[0].value == pytest.approx(expected, abs=1e-12)
    assert made[2].value == (4 if dead is None else 3)
    assert 0.4 < expected < 1.0


@pytest.mark.parametrize("num_bins", [2, 20])
def test_mig_agrees_with_plain_loops(num_bins):
    codes = mixed()
    expected = slow_mig(codes, FACTORS, num_bins, KINDS)
    made = mig(codes, FACTORS, num_bins=num_bins, num_values=KINDS)["mig"]
    assert made == pytest.approx(expected, abs=1e-12)
    untold = mig(codes, FACTORS, num_bins=num_bins)["mig"]
    assert (untold == pytest.approx(made)) == (num_bins == 20), "20 bins tell 6 classes apart"


def test_more_classes_than_bins():
    factors = np.repeat(np.arange(40), 5)
    assert mig(factors, factors)["mig"] < 0.9
    assert mig(factors, factors, num_values=[40])["mig"] == pytest.approx(1.0)
    # Numbers of classes that do not occur take no memory.
    assert mig(factors * 10**9, factors, num_values=[40 * 10**9])["mig"] == pytest.approx(1.0)


def test_bins_of_a_mixed_code():
    codes = np.array([[0.0, 5.0], [0.4, 2.0], [1.0, 5.0], [0.6, 0.0]])
    np.testing.assert_array_equal(discretise(codes, 2, [0, 6]), [[0, 2], [0, 1], [1, 2], [1, 0]])


def test_mig_bootstrap_is_that_of_resampled_rows(monkeypatch):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(s, size=300) for s in (3, 5)], axis=1)
    both, noise = factors @ [5, 1], rng.integers(30, size=300)
    codes = np.column_stack([factors, both, noise])
    kinds = [0, 5, 15, 30]
    picks = np.random.default_rng(3).integers(300, size=(12, 300))
    expected = [mig(codes[pick], factors[pick], num_values=kinds)["mig"] for pick in picks]
    for at_once in (1 << 24, 2000):
        monkeypatch.setattr(sys.modules["unweave.metrics.mig"], "COUNTS_AT_ONCE", at_once)
        made = mig_bootstrap(np.random.default_rng(3), 12, codes, factors, num_values=kinds)["mig"]
        np.testing.assert_allclose(made, expected, atol=1e-12)


def test_sap_of_a_class_is_the_majority_of_its_rows():
    # Class 0 is mostly value 0, class 1 value 1; class 2 was not seen: the most frequent value, 1.
    latent = np.array([0, 0, 0, 1, 1, 1, 1, 0, 1, 2, 2])
    factor = np.array([0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0])
    made = sap(latent, factor, num_train=7, num_values=[3])["sap"]
    assert made == pytest.approx(2 / 4)
    assert sap(FACTORS, FACTORS, num_values=[4, 6, 5])["sap"] > 0.7
    for settings in ({"standardise": True}, {"regression": True, "factor_types": "ordinal"}):
        first, second = (sap(c, FACTORS, num_values=KINDS, **settings)
                         for c in (mixed(), renamed(mixed())))
        assert second == pytest.approx(first)


def test_what_a_class_explains_of_a_quantity_is_between_its_means():
    latent, values = np.array([0, 0, 1, 1]), np.array([0.1, 0.3, 1.0, 2.5])
    means = np.array([0.2, 0.2, 1.75, 1.75])
    made = sap(latent, values, num_values=[2], factor_types="continuous")["sap"]
    assert made == pytest.approx(means.var() / values.var())


def test_irs_of_two_classes_is_that_of_bits():
    bits = (mixed()[:, :2] > mixed()[:, :2].mean(axis=0)).astype(float)
    assert irs(bits, FACTORS, num_values=[2, 2]) == pytest.approx(irs(bits, FACTORS))
    assert irs(FACTORS, FACTORS, num_values=[4, 6, 5])["irs"] == pytest.approx(1.0)


@pytest.mark.parametrize("metric", [tc, wasserstein])
def test_covariances_are_of_continuous_latents(metric):
    codes = mixed()
    assert metric(codes, num_values=KINDS) == pytest.approx(metric(codes[:, [0, 2]]))
    assert set(metric(FACTORS, num_values=[4, 6, 5]).values()) == {0.0}


def test_names_of_classes_do_not_matter():
    codes, same = mixed(), renamed(mixed())
    first, second = (score(c, FACTORS, metrics=AWARE, num_values=KINDS, **FEW)
                     for c in (codes, same))
    assert second == pytest.approx(first, abs=1e-12)
    first, second = (score(c, FACTORS, num_bins=4, **QUICK) for c in (codes, same))
    assert second["mig"] != pytest.approx(first["mig"], abs=1e-3)
    assert second["factor_vae"] != pytest.approx(first["factor_vae"], abs=1e-3)


@pytest.mark.parametrize("convention", ["study2019", "paper"])
@pytest.mark.parametrize("num_values", [[4, 0, 0], [0, 6, 5], [4, 6, 5], [9, 0, 100]])
def test_a_perfect_mixed_code_scores_1(convention, num_values):
    plan = plan_scores(SPACE, convention=convention)
    records = plan.score(SPACE.factors(plan.index), num_values=num_values)
    values = {record.key: record.value for record in records}
    assert values["factor_vae"] == values["factor_vae.train"] == 1.0
    assert values["mig"] == pytest.approx(1.0, abs=0.02)
    for record in records:
        if record.low is not None:
            assert record.low <= record.value <= record.high


def test_continuous_latents_alone_change_nothing():
    codes = mixed()
    expected = [r.as_dict() for r in score_records(codes, FACTORS, **QUICK)]
    for num_values in ([0] * 4, (0, 0, 0, 0), np.zeros(4, dtype=np.int32)):
        made = score_records(codes, FACTORS, num_values=num_values, **QUICK)
        assert [r.as_dict() for r in made] == expected
    assert all("num_values" not in record["settings"] for record in expected)


def test_records_say_which_latents_are_categorical():
    records = score_records(mixed(), FACTORS, metrics=AWARE, num_values=np.array(KINDS), **FEW)
    for record in records:
        plain = json.loads(json.dumps(record.as_dict()))
        assert plain["settings"]["num_values"] == KINDS
        assert "num_values" not in plain["overridden"]


def test_chance_takes_the_classes_and_the_ceiling_the_factors():
    factors = np.repeat(np.arange(40), 250)
    order = np.random.default_rng(0).permutation(40)[factors]
    plain, told = (score_records(order, factors, metrics="mig", num_values=v)[0]
                   for v in (None, [40]))
    assert told.value == pytest.approx(1.0)
    assert told.ceiling == plain.ceiling < 0.9
    # Plug-in information grows with the number of bins: 39 x 39 / 2n rather than 39 x 19 / 2n.
    assert told.chance == pytest.approx(39 * 39 / 20_000 / math.log(40), rel=0.1)
    assert plain.chance == pytest.approx(39 * 19 / 20_000 / math.log(40), rel=0.1)
    plan = plan_scores(SPACE, **QUICK)
    perfect = SPACE.factors(plan.index)[:, :2]
    first = plan.score(perfect, num_values=[4, 6])
    assert first[0].ceiling == plan.score(perfect)[0].ceiling, "the factors are three columns"


def test_a_constant_class_is_dropped_like_a_constant_number():
    more = np.column_stack([np.zeros(len(SPACE)), mixed(), np.full(len(SPACE), 2.0)])
    names = [name for name in AWARE if name not in COUNT_CONSTANTS]
    expected = score(mixed(), FACTORS, metrics=names, num_values=KINDS, **QUICK)
    made = score(more, FACTORS, metrics=names, num_values=[1, *KINDS, 3], **QUICK)
    assert made == pytest.approx(expected)


def test_a_class_latent_is_dropped_below_the_square_of_the_threshold():
    # A hundred rows of two classes, one of them once: Gini's variance is 99 / (100 x 99) = 0.01.
    codes = np.column_stack([np.arange(100) == 0, np.arange(100) % 2]).astype(float)
    groups, fixed = np.arange(100).reshape(50, 2), np.arange(50) % 2
    for threshold, left in ((0.0999, 2), (0.1001, 1)):
        made = factor_vae(codes, groups, fixed, num_train=25, std_threshold=threshold,
                          num_values=[2, 0])
        assert made["factor_vae.num_active"] == left


def test_an_encoder_with_classes():
    codes = mixed().astype(np.float32)
    records = score_dataset(lambda index: codes[index], SPACE, metrics=AWARE,
                            num_values=KINDS, **FEW)
    assert {r.metric for r in records} == set(AWARE)
    plan = plan_scores(SPACE, metrics=AWARE, **FEW)
    again = plan.score(renamed(codes)[plan.index], num_values=KINDS)
    for first, second in zip(records, again):
        assert (second.value, second.chance) == pytest.approx((first.value, first.chance))


BAD = {
    "short": ([0, 6, 0], "one entry for each of the 4 latents, got 3 of them"),
    "a number": (6, r"one entry for each of the 4 latents, got the shape \(\)"),
    "negative": ([0, 6, 0, -5], "whole numbers, 0 for a continuous latent"),
    "fraction": ([0, 6.5, 0, 5], "whole numbers, 0 for a continuous latent"),
    "text": (["0", "6", "0", "5"], "whole numbers, 0 for a continuous latent"),
    "too few": ([0, 5, 0, 5], r"latent 1 .* whole numbers from 0 to 4, row \d+ is 5.0"),
    "continuous": ([0, 6, 100, 5], r"latent 2 .* whole numbers from 0 to 99, row 0 is"),
    "one class": ([0, 6, 0, 1], "latent 3 .* whole numbers from 0 to 0"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_num_values_are_told_in_a_sentence(case):
    num_values, said = BAD[case]
    groups, fixed = np.arange(12).reshape(6, 2), np.arange(6) % 2
    plan = plan_scores(SPACE, **QUICK)
    for call in (lambda: score(mixed(), FACTORS, num_values=num_values, **QUICK),
                 lambda: plan.score(mixed()[plan.index], num_values=num_values),
                 lambda: mig(mixed(), FACTORS, num_values=num_values),
                 lambda: factor_vae(mixed(), groups, fixed, num_train=3, num_values=num_values)):
        with pytest.raises(UserError, match=said):
            call()


def test_negative_classes_are_told():
    codes = mixed()
    codes[7, 3] = -1
    with pytest.raises(UserError, match=r"latent 3 .* row 7 is -1\.0"):
        score(codes, FACTORS, num_values=KINDS, **QUICK)
