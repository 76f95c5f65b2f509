"""MIG, entropies and bins against plain loops and scikit-learn."""

import doctest
import math
import sys

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from unweave.factors import FactorSpace
from unweave.metrics import METRICS, mig
from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.metrics.mig import mig_bootstrap
from unweave.types import UserError


def rows(num=500, sizes=(3, 4, 7), latents=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(size, size=num) for size in sizes], axis=1)
    codes = factors @ rng.normal(size=(len(sizes), latents)) + rng.normal(size=(num, latents))
    return codes.astype(dtype), factors


def slow_mig(codes, factors, num_bins):
    gaps = []
    for v in factors.T:
        counts = np.unique(v, return_counts=True)[1] / len(v)
        h = -sum(p * math.log(p) for p in counts)
        known = []
        for z in codes.T:
            bins = np.digitize(z, np.histogram(z, num_bins)[1][:-1])
            known.append(mutual_info_score(bins, v))
        known.sort()
        gaps.append((known[-1] - known[-2]) / h)
    return sum(gaps) / len(gaps)


@pytest.mark.parametrize("num_bins", [1, 2, 7, 20, 100])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_agrees_with_plain_loops(num_bins, dtype):
    codes, factors = rows(dtype=dtype)
    codes[:, 3] = 2.5
    expected = slow_mig(codes.astype(np.float64), factors, num_bins)
    assert mig(codes, factors, num_bins=num_bins)["mig"] == pytest.approx(expected, abs=1e-9)


def test_the_example_in_the_docstring():
    assert doctest.testmod(sys.modules["unweave.metrics.mig"]).failed == 0


def test_bins_are_those_of_numpy():
    rng = np.random.default_rng(1)
    codes = np.stack([rng.normal(size=400), rng.integers(40, size=400), np.full(400, -3.0),
                      rng.normal(size=400) * 1e-12 + 1e6, np.exp(5 * rng.normal(size=400))], axis=1)
    expected = [np.digitize(z, np.histogram(z, 20)[1][:-1]) - 1 for z in codes.T]
    np.testing.assert_array_equal(discretise(codes, 20), np.stack(expected, axis=1))


def test_bins_of_single_precision_have_the_edges_of_double_precision():
    """As in numpy 1, which the published study had: values on a grid fall on the edges."""
    rng = np.random.default_rng(3)
    grid = [rng.integers(size, size=400) * rng.normal() + rng.normal()
            for size in (5, 11, 21, 41) for _ in range(25)]
    codes = np.stack(grid, axis=1).astype(np.float32)
    edges = [np.linspace(float(z.min()), float(z.max()), 21)[:-1].astype(np.float32)
             for z in codes.T]
    # In numpy 2 as well, when the range is not in single precision.
    np.testing.assert_array_equal(
        edges, [np.histogram(z, 20, (float(z.min()), float(z.max())))[1][:-1] for z in codes.T])
    expected = [np.digitize(z, own) - 1 for z, own in zip(codes.T, edges)]
    np.testing.assert_array_equal(discretise(codes, 20), np.stack(expected, axis=1))
    far = np.array([[-3e38], [0], [3e38]], dtype=np.float32)
    assert discretise(far, 3).ravel().tolist() == [0, 1, 2]


def test_information_and_entropy_agree_with_scikit_learn():
    codes, factors = rows()
    bins = discretise(codes, 9)
    expected = [[mutual_info_score(z, v) for v in factors.T] for z in bins.T]
    np.testing.assert_allclose(mutual_information(bins, factors), expected, atol=1e-12)
    np.testing.assert_allclose(entropy(factors), [mutual_info_score(v, v) for v in factors.T])


def test_a_worked_number():
    # v is a fair bit. z0 equals v; z1 equals v on three rows of four: joint counts 4 0 / 2 2.
    factors = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    codes = np.array([[0, 0], [0, 0], [0, 0], [0, 0], [1, 0], [1, 0], [1, 1], [1, 1]])
    second = 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3) + 0.25 * math.log(2)
    expected = (math.log(2) - second) / math.log(2)
    assert mig(codes, factors)["mig"] == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(0.68872, abs=1e-5)


def test_dsprites_factors_reach_the_ceiling_of_twenty_bins():
    # 32 values in 20 bins: 12 bins hold two values and 8 hold one; 40 values: 20 bins hold two.
    def share(num, pairs):
        return 1 - 2 * pairs / num * math.log(2) / math.log(num)

    expected = (1 + 1 + share(40, 20) + 2 * share(32, 12)) / 5
    space = FactorSpace(("shape", "scale", "orientation", "x", "y"), (3, 6, 40, 32, 32))
    whole = space.factors(np.arange(len(space)))
    assert expected == pytest.approx(0.9024, abs=1e-4)
    assert mig(whole, whole)["mig"] == pytest.approx(expected, abs=1e-9)
    # On 10,000 points the estimate of absent information, about (values - 1)(bins - 1) / 2n, is
    # not nothing: this is the 0.895 of the published study.
    sample = space.factors(space.draw(10_000, np.random.default_rng(0)))
    assert mig(sample, sample)["mig"] == pytest.approx(0.8955, abs=1e-3)


def test_one_latent_is_compared_with_nothing():
    codes = np.repeat(np.arange(4), 25)
    assert mig(codes, codes)["mig"] == pytest.approx(1.0)


def test_constant_factors_are_left_out():
    codes, factors = rows()
    more = np.column_stack([factors, np.full(len(factors), 3)])
    assert mig(codes, more) == mig(codes, factors)


def test_all_factors_constant_is_an_error():
    with pytest.raises(UserError, match="constant"):
        mig(rows()[0], np.zeros((500, 2), dtype=int))


def test_bad_bins_are_an_error():
    for bad in (0, -1):
        with pytest.raises(UserError, match="num_bins"):
            mig(*rows(), num_bins=bad)


def test_many_latents():
    codes, factors = rows(num=60, latents=10_000)
    assert mig(codes, factors)["mig"] in METRICS["mig"].range


def test_bootstrap_is_that_of_resampled_rows():
    """The sparse product against the metric itself, on rows whose bins resampling keeps."""
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(s, size=300) for s in (3, 5)], axis=1)
    codes = np.column_stack([factors, factors.sum(axis=1), rng.integers(4, size=(300, 3))])
    made = mig_bootstrap(np.random.default_rng(3), 12, codes, factors)["mig"]
    picks = np.random.default_rng(3).integers(300, size=(12, 300))
    expected = [mig(codes[pick], factors[pick])["mig"] for pick in picks]
    np.testing.assert_allclose(made, expected, atol=1e-12)
