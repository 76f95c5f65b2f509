"""Factor types, declared and inferred; labels that are unknown; bins of quantities."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

from unweave.factors import FactorSpace, FactorType
from unweave.metrics import (
    METRICS,
    dci,
    dcimig,
    jemmig,
    mig,
    mig_sup,
    modularity,
    score,
    score_records,
)
from unweave.metrics.arrays import as_factors, as_labels, varying
from unweave.metrics.sap import explained, sap
from unweave.types import UserError

OF_CODES = sorted(name for name, metric in METRICS.items() if not metric.needs)
"""Metrics that need no model: see test_model_contracts for the others."""

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 4, 5], size=(600, 3))
CODES = FACTORS + 0.2 * RNG.normal(size=(600, 3))
QUICK = {"num_train_votes": 200, "num_test_votes": 100, "group_size": 8}
GAPS = RNG.random((600, 3)) < [0.0, 0.1, 0.3]
NOISE = RNG.normal(size=600)


@pytest.mark.parametrize(("column", "said"), [
    (["a", "b"] * 30, "categorical"),
    ([True, False] * 30, "categorical"),
    (np.array([True, None] * 30, dtype=object), "categorical"),
    (np.arange(60), "ordinal"),
    (np.arange(60.0), "ordinal"),
    (np.tile([0.25, 0.5, 0.75], 20), "ordinal"),
    (np.linspace(0, 1, 60), "continuous"),
    (np.tile(np.linspace(0, 1, 101), 40), "continuous"),
    (np.tile(np.linspace(0, 1, 100), 40), "ordinal"),
    (np.array(["2020-01-01", "NaT"] * 3, dtype="datetime64[D]"), "ordinal"),
])
def test_types_are_inferred(column, said):
    assert [str(kind) for kind in as_labels(column).types] == [said]


def test_types_are_declared_one_by_one_or_for_all():
    types = as_labels(FACTORS, None, ["categorical", None, "circular:4"]).types
    assert types == (FactorType("categorical"), FactorType("ordinal"), FactorType("circular", 4.0))
    assert [t.is_quantity for t in types] == [False, False, True]
    assert str(types[2]) == "circular:4"
    assert {str(t) for t in as_labels(FACTORS, None, "continuous").types} == {"continuous"}
    assert as_labels(FACTORS, None, np.array(["", "ordinal", "circular"])).types[2].period is None


@pytest.mark.parametrize(("types", "said"), [
    (["ordinal"], "a type for each of the 3 factors, got 1"),
    ("continous", "did you mean 'continuous'"),
    ("circular:0", "a number above 0"),
    ("circular:x", "a number above 0"),
    ("ordinal:3", "only a circular factor"),
    (3, "must be a list"),
    ([["ordinal"] * 3], "must be a list"),
])
def test_bad_types_are_told(types, said):
    with pytest.raises(UserError, match=said):
        score(CODES, FACTORS, metrics="mig", factor_types=types)
    with pytest.raises(UserError, match="declared continuous and does not hold real numbers"):
        score(CODES, FACTORS.astype(str), metrics="mig", factor_types="continuous")
    with pytest.raises(UserError, match="num_factor_bins"):
        score(CODES, FACTORS, metrics="mig", num_factor_bins=1)


def test_a_space_has_types():
    space = FactorSpace(("a", "b"), (2, 3), values=(np.array(["x", "y"]), np.arange(3)))
    assert [str(t) for t in space.types] == ["categorical", "ordinal"]
    assert FactorSpace(("a",), (4,), types=("circular",)).types == (FactorType("circular"),)
    for types, said in ((("continuous",), "cannot be continuous"), (("ordinal",) * 2, "2 factor")):
        with pytest.raises(UserError, match=said):
            FactorSpace(("a",), (4,), types=types)


UNKNOWN = {
    "nan": np.where(GAPS, np.nan, FACTORS),
    "none": np.where(GAPS, None, FACTORS),
    "empty": np.where(GAPS, "", FACTORS.astype(str)),
    "masked": np.ma.masked_array(FACTORS, GAPS),
    "masked names": np.ma.masked_array(FACTORS.astype(str), GAPS),
}


@pytest.mark.parametrize("how", sorted(UNKNOWN))
def test_labels_may_be_unknown_in_many_ways(how):
    made = as_factors(UNKNOWN[how], unknown=True)
    np.testing.assert_array_equal(made, np.where(GAPS, -1, FACTORS))
    np.testing.assert_array_equal(varying(made), [0, 1, 2])
    with pytest.raises(UserError, match="must be known"):
        as_factors(UNKNOWN[how])


def test_bins_have_equal_width_and_go_round_on_a_circle():
    column = np.array([0.0, 0.49, 0.5, 1.0, np.nan])
    made = as_labels(column, None, "continuous", 2)
    np.testing.assert_array_equal(made.classes[:, 0], [0, 0, 1, 1, -1])
    np.testing.assert_array_equal(made.filled()[:, 0], [0.0, 0.49, 0.5, 1.0, 0.5])
    turned = as_labels(np.array([-10.0, 350.0, 10.0, 370.0, 100.0]), None, "circular:360", 4)
    np.testing.assert_array_equal(turned.classes[:, 0], [2, 2, 0, 0, 1])
    same = np.digitize(CODES[:, 0], np.histogram(CODES[:, 0], 20)[1][:-1]) - 1
    _, numbers = np.unique(same, return_inverse=True)
    np.testing.assert_array_equal(as_factors(CODES[:, :1])[:, 0], numbers)
    with pytest.raises(UserError, match="rescale"):
        score(CODES, np.where(GAPS, -1.7e308, 1.7e308), metrics="mig", factor_types="continuous")


ONE_BY_ONE = {"mig": mig, "mig_sup": mig_sup, "jemmig": jemmig, "dcimig": dcimig,
              "modularity": modularity}


def test_information_leaves_out_a_row_for_the_factor_that_is_unknown():
    """By pairs: with one factor known in some rows, its part is the score of these rows alone."""
    rows = ~GAPS[:, 2]
    whole = mig(CODES, FACTORS[:, :2])["mig"]
    # Codes at the ends are known, so that bins are the same in both.
    ends = np.r_[CODES.argmin(axis=0), CODES.argmax(axis=0)]
    rows[ends] = True
    third = mig(CODES[rows], FACTORS[rows][:, 2])["mig"]
    holes = np.column_stack([FACTORS[:, :2], np.where(rows, FACTORS[:, 2], np.nan)])
    assert mig(CODES, holes)["mig"] == pytest.approx((2 * whole + third) / 3, abs=1e-12)
    alone = np.where(rows, FACTORS[:, 2], np.nan)
    for name, function in ONE_BY_ONE.items():
        assert function(CODES, alone) == pytest.approx(function(CODES[rows], FACTORS[rows][:, 2])
                                                       ), name


@pytest.mark.parametrize("name", OF_CODES)
def test_every_metric_takes_gaps_names_and_quantities(name):
    metric = METRICS[name]
    options = {k: v for k, v in {**QUICK, "num_stages": 5, "sizes": (100,)}.items()
               if k in metric.conventions["study2019"]}
    angle = np.mod(FACTORS[:, 2] + 0.1 * RNG.random(600), 5)
    table = np.empty((600, 4), dtype=object)
    table[:, 0], table[:, 1] = FACTORS[:, 0].astype(str), np.where(GAPS[:, 1], None, FACTORS[:, 1])
    table[:, 2], table[:, 3] = angle, FACTORS[:, 1] + 0.5 * RNG.random(600)
    types = ["categorical", "ordinal", "circular:5", "continuous"]
    with pytest.warns(UserWarning, match="factor 1 is unknown in"):
        records = score_records(CODES, table, metrics=name, factor_types=types,
                                num_factor_bins=6, **options)
    for record in records:
        for value in (record.value, record.chance, record.ceiling):
            assert value in metric.keys[record.key].range
        if metric.supervised:
            assert record.settings["factor_types"] == types
            assert record.settings["num_factor_bins"] == 6
            assert record.settings["num_unknown"] == [0, int(GAPS[:, 1].sum()), 0, 0]
            if not name.endswith("vae") and metric.higher_is_better:
                assert record.value >= record.chance - 0.05
    plain = score_records(CODES, FACTORS, metrics=name, details=False, **options)[0]
    assert "factor_types" not in plain.settings


@pytest.mark.parametrize("name", OF_CODES)
def test_a_few_unknown_labels_change_little(name):
    options = {k: v for k, v in {**QUICK, "num_stages": 5, "sizes": (100,)}.items()
               if k in METRICS[name].conventions["study2019"]}
    few = np.where(RNG.random((600, 3)) < 0.03, np.nan, FACTORS)
    with pytest.warns(UserWarning, match="unknown in"):
        made = score(CODES, few, metrics=name, **options)
    for key, value in score(CODES, FACTORS, metrics=name, **options).items():
        assert made[key] == pytest.approx(value, abs=0.08)


def test_sap_of_quantities_is_their_squared_correlation():
    quantity = CODES[:, 0] + 0.3 * RNG.normal(size=600)
    squares = np.corrcoef(CODES[:400].T, quantity[:400])[:3, 3] ** 2
    lead = np.sort(squares)[-1] - np.sort(squares)[-2]
    assert sap(CODES, quantity, num_train=400)["sap"] == pytest.approx(lead)
    both = np.column_stack([quantity, FACTORS[:, 1]])
    classes = sap(CODES, FACTORS[:, 1], num_train=400)["sap"]
    made = sap(CODES, both, num_train=400)["sap"]
    assert made == pytest.approx((lead + classes) / 2)
    record = score_records(CODES, both, metrics="sap")[0]
    assert record.low < record.value < record.high


def test_sap_on_a_circle_does_not_see_the_seam():
    angle = RNG.uniform(0, 360, size=600)
    codes = np.column_stack([np.sin(np.radians(angle + 40)), RNG.normal(size=600)])
    assert sap(codes, angle, factor_types=["circular:360"])["sap"] > 0.98
    assert sap(codes, angle, factor_types="continuous")["sap"] < 0.8
    turned = sap(codes, angle + 720, factor_types=["circular:360"])
    assert turned["sap"] == pytest.approx(sap(codes, angle, factor_types="circular:360")["sap"])
    # The regression of the latent on sine and cosine, by least squares.
    table = np.column_stack([np.ones(600), np.sin(np.radians(angle)), np.cos(np.radians(angle))])
    noisy = codes + RNG.normal(size=codes.shape)
    rest = noisy - table @ np.linalg.lstsq(table, noisy, rcond=None)[0]
    said = 1 - rest.var(axis=0) / noisy.var(axis=0)
    np.testing.assert_allclose(explained(noisy, angle, FactorType("circular", 360.0)), said)
    # Classes on a circle, and categories, whose means explain.
    ring = FACTORS[:, 1] * 90.0
    np.testing.assert_allclose(explained(noisy, ring, FactorType("circular", 360.0)),
                               explained(noisy, FACTORS[:, 1] * 1.0, FactorType("circular")))
    means = np.stack([noisy[FACTORS[:, 1] == c].mean(axis=0) for c in range(4)])[FACTORS[:, 1]]
    np.testing.assert_allclose(explained(noisy, FACTORS[:, 1] * 1.0, FactorType("categorical")),
                               means.var(axis=0) / noisy.var(axis=0))


def test_groups_keep_to_rows_that_know_the_factor():
    from unweave.metrics.sampling import groups_of_rows, pairs_of_rows

    holes = np.where(GAPS, -1, FACTORS)
    for draw in (groups_of_rows, pairs_of_rows):
        groups, fixed = draw(holes, 300, 6, np.random.default_rng(0))
        values = holes[groups.reshape(300, -1), fixed[:, None]]
        assert values.min() >= 0
        if draw is groups_of_rows:
            assert (values == values[:, :1]).all()
        else:
            assert (values[:, ::2] == values[:, 1::2]).all()


def test_too_few_labels_are_told():
    hardly = np.column_stack([FACTORS, np.full(600, np.nan)])
    with pytest.warns(UserWarning, match="factor 3 is known in 0 of 600 rows and is left out"):
        made = score(CODES, hardly, metrics=["mig", "sap", "factor_vae", "explicitness"], **QUICK)
    assert made == score(CODES, FACTORS, metrics=["mig", "sap", "factor_vae", "explicitness"],
                         **QUICK)
    train = np.where(np.arange(600) < 400, FACTORS[:, 0], np.nan)
    with pytest.warns(UserWarning, match="unknown in 200"), \
            pytest.raises(UserError, match="rows that test"):
        score(CODES, train, metrics="sap", num_train=400)


@pytest.mark.parametrize("estimator", ["boosting", "lasso", "random_forest", "l1_svm"])
def test_dci_of_quantities(estimator):
    rng = np.random.default_rng(1)
    quantities = rng.uniform(size=(450, 3))
    codes = np.column_stack([quantities[:, 0], quantities[:, 1], rng.normal(size=450)])
    made = dci(codes, quantities, num_train=300, estimator=estimator, num_stages=30)
    assert made["dci.disentanglement"] > (0.2 if estimator == "l1_svm" else 0.5)
    if estimator != "l1_svm":
        # Two factors are known, and the third not at all: R2 of 1, 1 and less than 0.
        assert made["dci.informativeness_test"] == pytest.approx(2 / 3, abs=0.05)
    if estimator == "boosting":
        records = score_records(codes, quantities, metrics="dci", num_stages=5)
        assert all(r.low <= r.value <= r.high for r in records)
    with pytest.raises(UserError, match="labels on either side"):
        dci(codes, np.where(np.arange(450) < 300, quantities[:, 0], np.nan), num_train=300,
            estimator=estimator)


def test_dci_of_a_quantity_is_scikit_learns_regression():
    rng = np.random.default_rng(1)
    codes = rng.normal(size=(1500, 3))
    values = codes[:, 0] + 0.5 * codes[:, 1] ** 2 + rng.normal(size=1500)
    gaps = rng.random(1500) < 0.2
    known = ~gaps
    split = int(known[:1000].sum())
    theirs = GradientBoostingRegressor(n_estimators=30, random_state=0)
    theirs.fit(codes[known][:split], values[known][:split])
    made = dci(codes, np.where(gaps, np.nan, values), num_train=1000, num_stages=30)
    assert made["dci.informativeness_test"] == pytest.approx(
        theirs.score(codes[known][split:], values[known][split:]), abs=1e-3)
    assert made["dci.informativeness_train"] == pytest.approx(
        theirs.score(codes[known][:split], values[known][:split]), abs=1e-3)
    share = theirs.feature_importances_
    assert made["dci.completeness"] == pytest.approx(
        1 + (share * np.log(share)).sum() / np.log(3), abs=5e-3)


def test_dci_on_a_circle_and_of_classes_with_gaps():
    angle = RNG.uniform(0, 360, size=600)
    codes = np.column_stack([np.cos(np.radians(angle)), np.sin(np.radians(angle)), NOISE])
    made = dci(codes, angle, factor_types="circular:360", num_stages=30)
    assert made["dci.informativeness_test"] > 0.98
    assert made == dci(codes, angle + 360, factor_types="circular:360", num_stages=30)
    # Both halves of the circle matter alike: one of three latents is out of use.
    assert made["dci.completeness"] == pytest.approx(1 - np.log(2) / np.log(3), abs=0.02)
    rows = ~GAPS[:, 2]
    alone = dci(CODES, np.where(GAPS[:, 2], np.nan, FACTORS[:, 2]), num_train=400, num_stages=10)
    assert alone == dci(CODES[rows], FACTORS[rows][:, 2], num_train=int(rows[:400].sum()),
                        num_stages=10)
