"""Codes of many runs at once are those of each alone."""

import numpy as np
import pytest

from small import small_plan, train_small
from unweave.training.encoding import encode_runs
from unweave.types import UserError


@pytest.mark.parametrize("method", ["beta_vae", "joint_vae"])
def test_together_as_alone(sprites, method, monkeypatch):
    monkeypatch.setattr("unweave.training.encoding._IMAGES_ON_CPU", 20)  # several passes
    runs = train_small(small_plan(method, seeds=[0, 1], steps=2), sprites)
    index = np.arange(7, 40)
    seen = []
    together = encode_runs(runs, index, listener=seen.append)
    assert together.shape == (2, 33, len(runs[0].num_values))
    for codes, run in zip(together, runs):
        np.testing.assert_allclose(codes, run.encode_at(index), rtol=1e-5, atol=1e-6)
    assert not np.allclose(together[0], together[1])
    # To the last bit: a stack resumed with fewer runs must give the scores of the whole one.
    np.testing.assert_array_equal(together[1], encode_runs(runs[1:], index)[0])
    assert seen[-1].step == seen[-1].steps == 33


def test_runs_that_differ_are_refused(sprites):
    one, = train_small(small_plan(seeds=0, steps=1), sprites)
    other, = train_small(small_plan(seeds=0, steps=1, architecture="conv64-small"), sprites)
    with pytest.raises(UserError, match="has the architecture 'conv64-small'"):
        encode_runs([one, other], [0, 1])
    with pytest.raises(UserError, match="no run"):
        encode_runs([], [0])
