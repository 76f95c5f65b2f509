"""Path length: worked numbers, decoders whose speed is known, categorical latents."""

import doctest
import sys

import numpy as np
import pytest
from linear_model import SCALES, VARIANCE, encoding

from unweave.factors import FactorSpace
from unweave.metrics import path_length, score_dataset
from unweave.metrics.path_length import slerp
from unweave.types import UserError

SPACE = FactorSpace(("a",), (9,))


def normal(num, seed=0, size=3):
    return np.random.default_rng(seed).normal(size=(num, size))


def test_the_worked_number_of_the_docstring():
    assert doctest.testmod(sys.modules[path_length.__module__]).failed == 0


def test_paths_turn_evenly_and_keep_their_ends():
    first, second = normal(50), normal(50, seed=1)
    assert slerp(first, second, np.zeros((50, 1))) == pytest.approx(first)
    assert slerp(first, second, np.ones((50, 1))) == pytest.approx(second)
    middle = slerp(np.array([[2.0, 0.0]]), np.array([[0.0, 4.0]]), np.full((1, 1), 0.5))
    assert middle == pytest.approx(np.full((1, 2), 3 * np.sqrt(0.5)))
    assert slerp(first, first, np.full((50, 1), 0.3)) == pytest.approx(first)


def test_a_linear_decoder_moves_by_its_weights():
    """By finite differences of the same paths, elsewhere: W z moves |W dz/dt|^2."""
    model, num = encoding(), 400
    made = path_length(prior=model.prior, decode=model.decode, features=model.features,
                       num_paths=num)
    ends, t = model.prior(2 * num), (np.arange(num)[:, None] + 0.5) / num
    speed = (slerp(ends[::2], ends[1::2], t + 1e-6) - slerp(ends[::2], ends[1::2], t)) / 1e-6
    assert made["path_length.pixel"] == pytest.approx(((speed * SCALES) ** 2).sum(1).mean(),
                                                      rel=1e-3)
    # The encoder gives back W'W S z, a share |w|^2 / (1 + |w|^2) of each latent.
    share = SCALES**2 * VARIANCE
    assert made["path_length.encoder"] == pytest.approx(((speed * share) ** 2).sum(1).mean(),
                                                        rel=1e-3)


def test_the_step_does_not_matter_where_it_is_small():
    wave = {"prior": normal, "decode": lambda z: np.sin(3 * z), "features": lambda x: x,
            "num_paths": 600}
    made = [path_length(epsilon=e, **wave)["path_length.pixel"] for e in (1e-5, 1e-4, 1e-3)]
    assert made == pytest.approx([made[0]] * 3, rel=5e-3)


def test_classes_stay_and_a_decoder_that_ignores_codes_goes_nowhere():
    seen = []

    def decode(z):
        seen.append(z)
        return np.zeros((len(z), 2, 2, 1))

    def prior(num):
        return np.column_stack([normal(num, size=2), np.arange(num) % 5])

    made = path_length(prior=prior, decode=decode, features=lambda x: x, num_values=[0, 0, 5],
                       num_paths=10)
    assert made == {"path_length.pixel": 0.0, "path_length.encoder": 0.0}
    assert all(np.array_equal(z[:, 2], prior(20)[::2, 2]) for z in seen)


def test_it_asks_for_no_row():
    calls = []

    def encode(index):
        calls.append(len(index))
        return _without_rows()

    (first, _) = score_dataset(encode, SPACE, metrics="path_length", num_paths=50)
    assert calls == [0]
    assert (first.num_points, first.num_rows, first.settings["num_paths"]) == (0, 0, 50)


def _without_rows():
    from dataclasses import replace

    return replace(encoding(), codes=np.zeros((0, 3)))


@pytest.mark.parametrize(("setting", "value"),
                         [("num_paths", 0), ("epsilon", 0.0), ("epsilon", 2.0)])
def test_settings_are_checked(setting, value):
    with pytest.raises(UserError, match=setting):
        path_length(prior=normal, decode=np.sin, features=np.sin, **{setting: value})
