"""Attributes by mean difference and correlations: worked numbers and independent routes."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from small import small_plan, train_small
from unweave.metrics import (
    attribute_table,
    attributes,
    correlation,
    correlations,
    followers,
    score,
    score_records,
)
from unweave.metrics.attributes import attributes_bootstrap
from unweave.report.correlations import correlation_records
from unweave.studies.correlations import correlations_of_run, save
from unweave.types import UserError

RNG = np.random.default_rng(0)
LABELS = (RNG.random((900, 2)) < [0.3, 0.5]).astype(int)
CODES = LABELS @ [[1.5, 0.3, 0.0], [0.0, 1.0, 2.0]] + RNG.normal(size=(900, 3))


def by_the_book(codes, labels, num_train, balanced):
    """Accuracy on the rows after `num_train`, the bias found by a search for the least loss."""
    own = labels[:num_train] == 1
    direction = codes[:num_train][own].mean(axis=0) - codes[:num_train][~own].mean(axis=0)
    p, y = codes @ direction, np.where(labels == 1, 1.0, -1.0)
    weight = np.where(own, 1 / own.sum(), 1 / (~own).sum()) if balanced else np.ones(num_train)

    def loss(bias):
        return (weight * np.maximum(0, 1 - y[:num_train] * (p[:num_train] + bias))).sum()

    bias = minimize_scalar(loss, bracket=(-5, 5), options={"xtol": 1e-12}).x
    right = (p[num_train:] + bias > 0) == (labels[num_train:] == 1)
    if not balanced:
        return right.mean()
    return (right[labels[num_train:] == 1].mean() + right[labels[num_train:] == 0].mean()) / 2


@pytest.mark.parametrize("shift", [0.0, 40.0])
def test_binary_attributes(shift):
    table = attribute_table(CODES + shift, LABELS, num_train=601)
    for k in range(2):
        said = [by_the_book(CODES, LABELS[:, k], 601, balanced) for balanced in (False, True)]
        assert table.accuracy[k] == pytest.approx(said[0], abs=0.004), "rows at the bias"
        assert table.balanced[k] == pytest.approx(said[1], abs=0.004)
    assert table.factor.tolist() == [0, 1]
    assert table.value.tolist() == [1, 1]
    made = attributes(CODES, LABELS, num_train=601)
    assert made["attributes.accuracy"] == pytest.approx(table.accuracy.mean(), abs=0.004)


def test_the_names_of_two_values_may_change_places():
    made = attributes(CODES, LABELS, num_train=601)
    assert attributes(CODES, 1 - LABELS, num_train=601) == pytest.approx(made, abs=0.004)


def test_more_values_are_told_one_against_the_rest():
    three = np.repeat([0, 1, 2], 100)
    table = attribute_table(10.0 * three, three)
    # The middle value has no direction; two thirds of the rows do not have it.
    assert table.accuracy == pytest.approx([1.0, 2 / 3, 1.0])
    assert table.balanced == pytest.approx([1.0, 0.5, 1.0])
    both = np.column_stack([three, three > 0])
    assert attributes(10.0 * three, both)["attributes.accuracy"] == \
        pytest.approx((8 / 9 + 1.0) / 2), "factors count alike"


def test_a_rare_attribute_without_a_trace():
    rare = (np.arange(1000) % 20 == 0).astype(int)
    made = attributes(np.random.default_rng(1).normal(size=(1000, 3)), rare, num_train=500)
    assert made["attributes.accuracy"] == pytest.approx(0.95, abs=0.02)
    assert made["attributes.balanced"] == pytest.approx(0.5, abs=0.12)


def test_classes_of_categorical_latents_have_no_order():
    names = np.tile([0, 1, 2], 100)
    made = attributes(5.0 * (names == 1)[:, None], (names == 1).astype(int))
    assert made["attributes.accuracy"] == 1.0
    classes = attribute_table(names[:, None], names, num_values=[3])
    assert classes.accuracy == pytest.approx([1.0, 1.0, 1.0])


def test_resampled_scores_lie_around_the_score():
    made = attributes(CODES, LABELS, num_train=600)
    found = attributes_bootstrap(np.random.default_rng(0), 300, CODES, LABELS, num_train=600)
    for key, value in made.items():
        assert found[key].mean() == pytest.approx(value, abs=0.005)
        # Two proportions of 300 rows each, averaged.
        assert 0.5 < found[key].std() / np.sqrt(value * (1 - value) / 600) < 1.6


def test_bad_attributes():
    with pytest.raises(UserError, match="num_train must leave rows to test"):
        attributes(CODES, LABELS, num_train=900)
    with pytest.raises(UserError, match="too large"):
        attributes(CODES * 1e80, LABELS)
    with pytest.raises(UserError, match="constant"):
        attributes(CODES, np.zeros(900, dtype=int))


def test_matrices_are_pearson_s():
    table = correlations(CODES, LABELS)
    whole = np.corrcoef(CODES.T, LABELS.T)
    np.testing.assert_allclose(table.latents, whole[:3, :3], atol=1e-12)
    np.testing.assert_allclose(table.factors, whole[:3, 3:], atol=1e-12)
    large = correlations(CODES * 1e200 + 1e200, LABELS)
    np.testing.assert_allclose(large.factors, table.factors, atol=1e-9)
    dead = correlations(np.column_stack([CODES, np.full(900, 0.1)]), LABELS)
    assert not dead.latents[3].any()
    assert not dead.factors[3].any()


def test_figure_2_and_the_three_numbers():
    table = correlations(CODES, LABELS)
    found = followers(table)
    size = np.abs(table.factors)
    assert found.latent.tolist() == [0, 2]
    assert found.correlation[1].tolist() == table.factors[2].tolist()
    made = correlation(np.column_stack([CODES, np.ones(900)]), LABELS)
    off = np.abs(table.latents)[~np.eye(3, dtype=bool)]
    assert made == pytest.approx({
        "correlation.factors": (size[0, 0] + size[2, 1]) / 2,
        "correlation.others": (size[0, 1] + size[2, 0]) / 2,
        "correlation.latents": off.mean()})
    latents, factors = correlation_records(table, ["hat", "beard"])
    assert [record["latent"] for record in factors] == ["z0", "z2"]
    assert factors[0]["others"] == {"beard": pytest.approx(table.factors[0, 1], abs=1e-3)}
    assert latents[1]["factors"]["hat"] == latents[1]["hat"] == table.factors[1, 0]
    assert latents[1]["latents"]["z2"] == table.latents[1, 2]


def test_correlations_of_a_run(sprites, tmp_path):
    (run,) = train_small(small_plan(steps=1), sprites)
    table, names = correlations_of_run(run, num_points=500)
    assert names == ["shape", "scale", "position_x", "position_y"]
    assert table.factors.shape == (4, 4)
    assert np.diag(table.latents) == pytest.approx(1.0)
    save(tmp_path / "table.npz", table, names)
    (category,) = train_small(small_plan("joint_vae", steps=1), sprites)
    with pytest.raises(UserError, match="categorical"):
        correlations_of_run(category)
    run.info = {"status": "diverged", "diverged_at": 1}
    with pytest.raises(UserError, match="diverged at step 1"):
        correlations_of_run(run)


def test_unknown_labels_are_left_out_for_their_factor():
    gaps = LABELS.astype(float)
    gaps[::3, 0] = np.nan
    rows = np.flatnonzero(~np.isnan(gaps[:, 0]))
    table = attribute_table(CODES, gaps, num_train=600)
    alone = attribute_table(CODES[rows], LABELS[rows, 0], num_train=int((rows < 600).sum()))
    whole = attribute_table(CODES, LABELS, num_train=600)
    assert table.accuracy == pytest.approx([alone.accuracy[0], whole.accuracy[1]], abs=0.01)
    made = correlations(CODES, gaps).factors
    np.testing.assert_allclose(made[:, 0], correlations(CODES[rows], LABELS[rows]).factors[:, 0],
                               atol=1e-12)
    np.testing.assert_allclose(made[:, 1], correlations(CODES, LABELS).factors[:, 1], atol=1e-12)
    gaps[:600, 1] = np.nan
    assert attribute_table(CODES, gaps, num_train=600).factor.tolist() == [0]
    gaps[600:, 0] = np.nan
    with pytest.raises(UserError, match="labels on either side"):
        attributes(CODES, gaps, num_train=600)


def test_quantities_correlate_by_their_values():
    heights = np.exp(CODES[:, :1])
    said = np.corrcoef(CODES[:, 0], heights[:, 0])[0, 1]
    assert correlations(CODES, heights).factors[0, 0] == pytest.approx(said)
    assert score(CODES, heights, metrics="correlation")["correlation.factors"] == \
        pytest.approx(said)
    ranks = correlations(CODES, heights, factor_types="ordinal").factors[0, 0]
    assert ranks > said + 0.05


def test_the_interval_of_correlations_with_quantities_is_that_of_the_quantities():
    """Whole numbers with a long tail: their ranks, or bins of them, spread quite differently."""
    rng = np.random.default_rng(0)
    size = np.round(10 * np.exp(1.5 * rng.normal(size=2_000)))
    codes = np.column_stack([size + 50 * rng.normal(size=2_000), rng.normal(size=2_000)])
    draws = rng.integers(2_000, size=(300, 2_000))
    spread = np.std([np.corrcoef(codes[rows, 0], size[rows])[0, 1] for rows in draws])
    (record, *_) = score_records(codes, size, metrics="correlation", factor_types="continuous")
    assert (record.high - record.low) / (2 * 1.96) == pytest.approx(spread, rel=0.15)


@pytest.mark.filterwarnings("ignore:factor 1 is unknown")
def test_an_attribute_that_hardly_any_row_knows_leaves_an_interval():
    """One row that tests knows it: a third of the resamples have none that does."""
    labels = LABELS.astype(float)
    labels[2:-1, 1] = np.nan
    labels[:2, 1] = [0, 1]
    for record in score_records(CODES, labels, metrics="attributes", num_train=600):
        assert 0 <= record.low <= record.value <= record.high <= 1
