"""The FactorVAE score against plain loops, and its rules for dead and tied latents."""

import numpy as np
import pytest

from unweave.factors import FactorSpace
from unweave.metrics import factor_vae, plan_scores, score
from unweave.metrics.factor_vae import group_variances
from unweave.types import UserError

SPACE = FactorSpace(("a", "b", "c"), (4, 6, 5))
QUICK = {"num_points": 500, "num_train_votes": 300, "num_test_votes": 200, "group_size": 16}


def table(seed=0, latents=4, noise=0.5):
    rng = np.random.default_rng(seed)
    factors = SPACE.factors(np.arange(len(SPACE)))
    mixed = factors @ rng.normal(size=(3, latents))
    return mixed + noise * rng.normal(size=(len(SPACE), latents))


def slow_score(codes, draw, threshold=0.05):
    spread = np.var(codes[draw.points], axis=0, ddof=1)
    alive = [j for j in range(codes.shape[1]) if np.sqrt(spread[j]) >= threshold]
    votes = {}
    right = 0
    for i, (group, k) in enumerate(zip(draw.groups, draw.fixed)):
        ratio = [np.var(codes[group, j], ddof=1) / spread[j] for j in alive]
        winner = alive[int(np.argmin(ratio))]
        if i < draw.num_train:
            votes.setdefault(winner, np.zeros(3))[k] += 1
        else:
            right += int(np.argmax(votes.get(winner, np.zeros(3)))) == k
    return right / (len(draw.groups) - draw.num_train)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_agrees_with_plain_loops(seed):
    plan = plan_scores(SPACE, metrics="factor_vae", seed=seed, **QUICK)
    codes = table(seed)[plan.index]
    codes[:, 3] *= 0.01
    expected = slow_score(codes, plan.draws[0])
    assert plan.score(codes, details=False)[0].value == pytest.approx(expected, abs=1e-12)
    assert 0.3 < expected < 1.0


def test_group_variances_are_those_of_numpy_and_zero_exactly():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(200, 5)) + 1e3
    codes[:, 2] = 0.1
    groups = rng.integers(200, size=(50, 100))
    made = group_variances(codes, groups)
    np.testing.assert_allclose(made, np.var(codes[groups], axis=1, ddof=1), rtol=1e-9, atol=1e-20)
    assert (made[:, 2] == 0).all()


def test_a_worked_number():
    # Latent 0 is still in groups 0 to 3, latent 1 in groups 4 and 5.
    codes = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    groups = np.array([[0, 1], [0, 1], [0, 1], [0, 1], [0, 2], [0, 2]])
    fixed = np.array([0, 0, 1, 0, 1, 0])
    made = factor_vae(codes, groups, fixed, num_train=3)
    # Votes that train: latent 0 for factor 0 twice and for factor 1 once. Latent 1 has no vote
    # and stands for factor 0. Votes that test: right, wrong, right.
    assert made == {"factor_vae": pytest.approx(2 / 3), "factor_vae.train": pytest.approx(2 / 3),
                    "factor_vae.num_active": 2.0}


def test_all_latents_collapsed():
    factors = SPACE.factors(np.arange(len(SPACE)))
    codes = np.random.default_rng(0).normal(size=(len(SPACE), 3)) * 1e-3
    assert score(codes, factors, metrics="factor_vae", **QUICK) == {
        "factor_vae": 0.0, "factor_vae.train": 0.0, "factor_vae.num_active": 0.0}


def test_a_mask_takes_the_place_of_the_threshold():
    plan = plan_scores(SPACE, metrics="factor_vae", **QUICK)
    draw, codes = plan.draws[0], SPACE.factors(plan.index) * 1e-3
    given = {"num_train": draw.num_train, "points": draw.points}
    assert factor_vae(codes, draw.groups, draw.fixed, **given)["factor_vae"] == 0.0
    masked = factor_vae(codes, draw.groups, draw.fixed, active=[True] * 3, **given)
    assert masked["factor_vae"] == 1.0
    with pytest.raises(UserError, match="active"):
        factor_vae(codes, draw.groups, draw.fixed, active=[True], **given)


def test_paper_convention_has_the_numbers_of_the_paper():
    draw = plan_scores(SPACE, metrics="factor_vae", convention="paper").draws[0]
    assert draw.groups.shape == (1600, 100)
    assert draw.num_train == 800


@pytest.mark.parametrize(("change", "word"), [
    ({"groups": np.zeros(5, dtype=int)}, "groups"),
    ({"groups": np.zeros((6, 1), dtype=int)}, "two members"),
    ({"groups": np.full((6, 2), 9)}, "rows"),
    ({"fixed": np.zeros(3, dtype=int)}, "fixed"),
    ({"num_train": 6}, "num_train"),
    ({"std_threshold": float("nan")}, "std_threshold"),
    ({"codes": [["a"], ["b"]]}, "numbers"),
])
def test_bad_input_is_told(change, word):
    given = {"codes": np.eye(3), "groups": np.zeros((6, 2), dtype=int),
             "fixed": np.zeros(6, dtype=int), "num_train": 3} | change
    with pytest.raises(UserError, match=word):
        factor_vae(**given)
