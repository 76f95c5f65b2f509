"""Whatever is given, a score comes back or one sentence: seeded tables of odd shapes and values."""

import warnings

import numpy as np
import pytest

from unweave.metrics import METRICS, factor_vae, score
from unweave.types import UserError

QUICK = {"num_train_votes": 20, "num_test_votes": 10, "group_size": 3, "num_stages": 2,
         "sizes": (10,)}
NAMES = np.array(["ape", "bee", "", "cat", "dog"], dtype=object)


def column(rng, num_rows, kind):
    """One column of labels: classes, names, quantities, constants, gaps, oddities."""
    made = {
        "classes": lambda: rng.integers(4, size=num_rows),
        "many classes": lambda: rng.integers(10_000, size=num_rows),
        "negative": lambda: rng.integers(-9, 9, size=num_rows),
        "names": lambda: NAMES[rng.integers(5, size=num_rows)],
        "booleans": lambda: rng.random(num_rows) < 0.5,
        "quantity": lambda: rng.normal(size=num_rows),
        "tiny": lambda: rng.normal(size=num_rows) * 1e-300,
        "huge": lambda: rng.normal(size=num_rows) * 1e300,
        "constant": lambda: np.full(num_rows, 3),
        "unknown": lambda: np.full(num_rows, np.nan),
        "almost unknown": lambda: np.where(np.arange(num_rows) < 2, np.arange(num_rows), np.nan),
        "gaps": lambda: np.where(rng.random(num_rows) < 0.5, np.nan, np.arange(num_rows) % 3),
        "infinite": lambda: np.where(rng.random(num_rows) < 0.1, np.inf, 1.0),
        "none": lambda: np.where(rng.random(num_rows) < 0.3, None, 1),
        "mixed": lambda: np.array([[1, "a", 2.5, None, True][i]
                                   for i in rng.integers(5, size=num_rows)], dtype=object),
        "lists": lambda: np.array([[i] for i in range(num_rows)] + [None], dtype=object)[:num_rows],
    }[kind]()
    return np.asarray(made).astype(object)


KINDS = ["classes", "many classes", "negative", "names", "booleans", "quantity", "tiny", "huge",
         "constant", "unknown", "almost unknown", "gaps", "infinite", "none", "mixed", "lists"]


def codes_of(rng, num_rows):
    num_latents = int(rng.choice([1, 2, 3, 9]))
    codes = rng.normal(size=(num_rows, num_latents)) * rng.choice([1.0, 1e-200, 1e-9, 1e9, 1e160])
    if rng.random() < 0.3:
        codes = np.round(codes)
    if rng.random() < 0.2:
        codes[:, 0] = 7.0
    if rng.random() < 0.1:
        codes[0, 0] = np.nan
    return codes.astype(np.float32) if np.abs(codes).max() < 1e30 and rng.random() < 0.3 else codes


@pytest.mark.parametrize("seed", range(30))
def test_a_score_or_a_sentence(seed):
    rng = np.random.default_rng(seed)
    num_rows = int(rng.choice([2, 3, 5, 12, 40, 90]))
    kinds = rng.choice(KINDS, size=rng.integers(1, 4))
    factors = np.stack([column(rng, num_rows, kind) for kind in kinds], axis=1)
    types = rng.choice(["categorical", "ordinal", "continuous", "circular", "circular:3", ""],
                       size=len(kinds)) if rng.random() < 0.5 else None
    codes = codes_of(rng, num_rows)
    num_train = int(rng.integers(num_rows + 2)) if rng.random() < 0.5 else None
    for name in sorted(METRICS):
        options = {k: v for k, v in QUICK.items() if k in METRICS[name].conventions["study2019"]}
        said = outcome(codes, factors, metrics=name, factor_types=types, seed=seed,
                       num_train=num_train, **options)
        if isinstance(said, str):
            assert "\n" not in said
            assert 15 < len(said) < 400
        else:
            known = METRICS[name].keys
            assert all(value in known.get(key, next(iter(known.values()))).range
                       for key, value in said.items()), (name, list(kinds), types)


def outcome(codes, factors, **options):
    """The scores, or the sentence that says why there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return score(codes, factors, **options)
        except UserError as error:
            return str(error)


def test_codes_beyond_all_floats_and_votes_that_are_none_are_one_sentence():
    with pytest.raises(UserError, match="codes must be real numbers"):
        score([[10**400], [1], [2], [3]], [0, 1, 0, 1], metrics="mig")
    with pytest.raises(UserError, match="groups must be row numbers"):
        factor_vae(np.eye(4), np.empty((0, 5), int), np.empty(0, int), num_train=1)
