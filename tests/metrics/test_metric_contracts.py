"""What every metric of codes must do, run over METRICS. A new metric adds its line to PROPERTIES.

Those that look at a model have theirs in `test_model_contracts.py`.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest

from unweave.factors import FactorSpace
from unweave.metrics import CONVENTIONS, METRICS, Score, plan_scores, score, score_records

SPACE = FactorSpace(("a", "b", "c"), (4, 6, 5))
FACTORS = SPACE.factors(np.arange(len(SPACE)))
PERFECT = (FACTORS - FACTORS.mean(axis=0)) / FACTORS.std(axis=0)
QUICK = {"num_points": 3000, "num_train_votes": 1000, "num_test_votes": 600,
         "num_stages": 20, "sizes": (100,)}


@dataclass(frozen=True)
class Properties:
    """What a metric claims, on the main key."""

    ceiling: float
    """Of a perfect code of 4 x 6 x 5 values."""
    chance: float
    """Of codes that know nothing."""
    duplicates_cost: bool
    """Whether a copy of a latent lowers the score."""
    missing: float
    """At most this when one factor of three is not in the code."""
    tolerance: float = 0.02
    copy: float = 0.2
    """What a copy costs, at least, where it costs."""
    rotation: float = 0.2
    """What a rotation by 45 degrees of two latents costs, at least."""
    scale_free: bool = True
    """Whether scale and place of latents do not matter."""
    constants_free: bool = True
    """Whether latents that never vary change nothing."""
    supervised: bool = True
    """Whether the metric looks at factors. One that does not cannot tell how good a code is."""
    constant: float | None = None
    """Of codes that never vary, about; None if exactly the least value there is."""
    unsaturated: dict[str, int] = field(default_factory=dict)
    """Settings with which a noisy code stays off the ceiling and its interval has a width."""
    ceiling_paper: float | None = None
    """The ceiling in the convention `paper`, where it is another."""
    keys: tuple[str, ...] = ()
    """What codes alone and the quick settings leave of the keys, if not all of them."""


PROPERTIES = {
    "mig": Properties(ceiling=1.0, chance=0.0, duplicates_cost=True, missing=0.68,
                      keys=("mig",)),
    "factor_vae": Properties(ceiling=1.0, chance=1 / 3, duplicates_cost=False, missing=0.99,
                             tolerance=0.08),
    "beta_vae": Properties(ceiling=1.0, chance=1 / 3, duplicates_cost=False, missing=1.01,
                           tolerance=0.08, constant=1 / 3, scale_free=False,
                           unsaturated={"group_size": 3}),
    "modularity": Properties(ceiling=1.0, chance=0.45, duplicates_cost=False, missing=0.9,
                             tolerance=0.2, rotation=0.1),
    # A linear classifier does not mind a rotation. By itself it cannot tell a middle value.
    "explicitness": Properties(ceiling=1.0, chance=0.5, duplicates_cost=False, missing=0.9,
                               tolerance=0.03, rotation=-0.01, constant=0.5,
                               ceiling_paper=0.81),
    # One-vs-rest answers, from a hundred labels: middle values are lost.
    "downstream": Properties(ceiling=0.69, chance=0.2, duplicates_cost=True, missing=0.8,
                             tolerance=0.05, copy=-0.1, rotation=-0.1, constant=0.2,
                             scale_free=False, ceiling_paper=1.0,
                             keys=("downstream.logistic.100", "downstream.boosting.100")),
    "mig_sup": Properties(ceiling=1.0, chance=0.0, duplicates_cost=False, missing=0.55,
                          constants_free=False),
    # The floor is what noise lacks of the entropy of full bins: more if codes have few values.
    "jemmig": Properties(ceiling=1.0, chance=0.25, duplicates_cost=True, missing=0.75,
                         tolerance=0.2, copy=0.08),
    "dcimig": Properties(ceiling=1.0, chance=0.0, duplicates_cost=False, missing=0.75),
    "dci": Properties(ceiling=1.0, chance=0.0, duplicates_cost=False, missing=0.95),
    # Of noise the weakest probe knows all that can be known.
    "dci_es": Properties(ceiling=1.0, chance=1.0, duplicates_cost=False, missing=1.01,
                         tolerance=0.1, constant=1.0, rotation=0.0),
    # Noise shares little with any factor, and not equally little.
    "infomec": Properties(ceiling=1.0, chance=0.2, duplicates_cost=False, missing=0.95,
                          tolerance=0.2),
    # Noise without bounds scores more than shuffled values, each of which is as far as can be.
    "irs": Properties(ceiling=1.0, chance=0.15, duplicates_cost=False, missing=0.8, tolerance=0.2,
                      scale_free=False),
    # Of codes alone. A grid is uncorrelated, and its values are independent.
    "tc": Properties(ceiling=0.0, chance=0.0, duplicates_cost=False, missing=1.0,
                     supervised=False, keys=("tc.mean",)),
    "wasserstein": Properties(ceiling=0.0, chance=0.0, duplicates_cost=False, missing=1.0,
                              supervised=False, scale_free=False,
                              keys=("wasserstein.mean", "wasserstein.normalised")),
    "mutual_info_score": Properties(ceiling=0.0, chance=0.0, duplicates_cost=False, missing=1.0,
                                    supervised=False, constants_free=False),
    # "No" is nearly always right, and a middle value has no direction. The hinge knows a scale.
    # Its interval is that of the rows that test: with few of them they decide.
    "attributes": Properties(ceiling=0.85, chance=0.795, duplicates_cost=True, missing=0.85,
                             copy=-0.1, rotation=-0.02, constant=0.795, scale_free=False,
                             unsaturated={"num_test_points": 1500}),
    "correlation": Properties(ceiling=1.0, chance=0.02, duplicates_cost=False, missing=0.72,
                              rotation=0.15),
    # A line per class on one number: only the first and the last of several are easy to tell.
    "sap": Properties(ceiling=0.615, chance=0.0, duplicates_cost=True, missing=0.45,
                      scale_free=False, constants_free=False),
}
ALL = sorted(name for name, metric in METRICS.items() if not metric.needs)
SUPERVISED, SCALE_FREE, CONSTANTS_FREE = (
    [name for name in ALL if name in PROPERTIES and getattr(PROPERTIES[name], claim)]
    for claim in ("supervised", "scale_free", "constants_free"))
RESAMPLED = [name for name in ALL if METRICS[name].bootstrap is not None]


def sized(name):
    known = METRICS[name].conventions["study2019"]
    return {k: v for k, v in QUICK.items() if k in known}


def main(name, codes, seed=0, **options):
    """The main key of a metric for the codes of all combinations."""
    plan = plan_scores(SPACE, metrics=name, seed=seed, **{**sized(name), **options})
    return plan.score(np.asarray(codes)[plan.index], details=False)[0].value


def test_every_metric_has_its_properties():
    assert set(PROPERTIES) == set(ALL)


@pytest.mark.parametrize("name", METRICS)
def test_declarations(name):
    metric = METRICS[name]
    assert metric.name == name
    assert all(key == name or key.startswith(f"{name}.") for key in metric.keys)
    assert set(metric.conventions) == set(CONVENTIONS)
    assert metric.paper
    assert metric.version
    assert metric.summary
    assert metric.range.low < metric.range.high


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_perfect_code_reaches_the_ceiling(name, convention):
    plan = plan_scores(SPACE, metrics=name, convention=convention, **sized(name))
    first = plan.score(PERFECT[plan.index])[0]
    said = PROPERTIES[name].ceiling
    if convention == "paper" and PROPERTIES[name].ceiling_paper is not None:
        said = PROPERTIES[name].ceiling_paper
    assert first.value == pytest.approx(said, abs=0.005)
    if PROPERTIES[name].scale_free:
        assert first.ceiling == pytest.approx(first.value, abs=1e-9)


@pytest.mark.parametrize("name", SCALE_FREE)
def test_order_sign_and_scale_of_latents_do_not_matter(name):
    rng = np.random.default_rng(0)
    codes = PERFECT @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=PERFECT.shape)
    moved = codes[:, [2, 0, 1]] * np.array([4.0, -0.5, 2.0]) + np.array([-8.0, 1.0, 32.0])
    assert main(name, moved) == pytest.approx(main(name, codes), abs=0.01)


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_rotation_costs(name):
    turn = np.array([[1, -1, 0], [1, 1, 0], [0, 0, np.sqrt(2)]]) / np.sqrt(2)
    assert main(name, PERFECT @ turn) < main(name, PERFECT) - PROPERTIES[name].rotation


@pytest.mark.parametrize("name", SUPERVISED)
def test_noise_scores_chance(name):
    rng = np.random.default_rng(0)
    factors = FACTORS[rng.integers(len(FACTORS), size=4000)]
    noise = rng.normal(size=(4000, 5))
    said, allowed = PROPERTIES[name].chance, PROPERTIES[name].tolerance
    first = score_records(noise, factors, metrics=name, **sized(name))[0]
    assert first.value == pytest.approx(said, abs=allowed)
    perfect = score_records(factors, factors, metrics=name, **sized(name))[0]
    assert perfect.chance == pytest.approx(said, abs=allowed)


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_copied_latent(name):
    double = np.column_stack([PERFECT, -2 * PERFECT[:, 0]])
    if PROPERTIES[name].duplicates_cost:
        assert main(name, double) < main(name, PERFECT) - PROPERTIES[name].copy
    else:
        assert main(name, double) == pytest.approx(main(name, PERFECT), abs=1e-3)


@pytest.mark.parametrize("name", CONSTANTS_FREE)
def test_constant_and_collapsed_latents_change_nothing(name):
    more = np.column_stack([np.full(len(PERFECT), 7.0), PERFECT, np.zeros(len(PERFECT))])
    assert main(name, more) == pytest.approx(main(name, PERFECT), abs=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_nothing_but_constants_scores_the_least(name):
    value, said = main(name, np.ones((len(PERFECT), 4))), PROPERTIES[name].constant
    if said is None:
        assert value == METRICS[name].range.low
    else:
        assert value == pytest.approx(said, abs=PROPERTIES[name].tolerance)


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_missing_factor_costs(name):
    noise = np.random.default_rng(0).normal(size=(len(PERFECT), 2))
    value = main(name, np.column_stack([PERFECT[:, :2], noise]))
    assert value < PROPERTIES[name].missing


@pytest.mark.parametrize("name", ALL)
def test_one_latent_is_enough(name):
    assert main(name, PERFECT[:, 1]) in METRICS[name].range


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_value_whoever_else_is_scored(name):
    rng = np.random.default_rng(0)
    codes = PERFECT + rng.normal(size=PERFECT.shape)
    assert main(name, codes) == main(name, codes)
    rows = rng.integers(len(FACTORS), size=1000)
    alone = score(codes[rows], FACTORS[rows], metrics=name, **sized(name))
    among = score(codes[rows], FACTORS[rows], metrics=ALL, **QUICK)
    assert alone == {key: among[key] for key in PROPERTIES[name].keys or METRICS[name].keys}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("latents", [1, 2, 7, 40])
def test_ranges_hold_and_records_are_whole(name, latents):
    rng = np.random.default_rng(latents)
    rows = FACTORS[rng.integers(len(FACTORS), size=800)]
    codes = rows @ rng.normal(size=(3, latents)) + rng.normal(size=(800, latents))
    records = score_records(codes, rows, metrics=name, **sized(name))
    assert [r.key for r in records] == list(PROPERTIES[name].keys or METRICS[name].keys)
    for record in records:
        assert isinstance(record, Score)
        said = METRICS[name].keys[record.key].range
        assert record.value in said
        assert record.chance in said
        assert record.ceiling in said
        if record.low is not None:
            assert record.low <= record.value <= record.high
            assert record.low in said
            assert record.high in said


@pytest.mark.parametrize("name", RESAMPLED)
def test_intervals_are_about_as_wide_as_seeds_are_apart(name):
    rng = np.random.default_rng(0)
    codes = PERFECT @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(len(PERFECT), 4))
    options = {**sized(name), **PROPERTIES[name].unsaturated}
    plans = [plan_scores(SPACE, metrics=name, seed=s, **options) for s in range(12)]
    values = [p.score(codes[p.index], details=False)[0].value for p in plans]
    first = plans[0].score(codes[plans[0].index])[0]
    # Four standard deviations make a 95 % interval; twelve seeds tell a deviation roughly.
    assert 0.4 < (first.high - first.low) / (4 * np.std(values, ddof=1)) < 2.5
