import json

import pytest

from unweave.config import RunConfig, log_every


def test_run_id_is_a_function_of_the_config():
    config = RunConfig("beta_vae", seed=1, hyper=(("beta", 4.0),))
    assert config.run_id == RunConfig("beta_vae", seed=1, hyper=(("beta", 4.0),)).run_id
    others = [config.replace(seed=2), config.replace(steps=10), config.replace(precision="x"),
              config.replace(hyper=(("beta", 5.0),))]
    assert len({c.run_id for c in [config, *others]}) == 5
    # Stored results carry ids: a change here moves them all, and belongs into the changelog.
    assert config.run_id == "beta_vae-207d88aa2a"


def test_json_round_trip():
    config = RunConfig("beta_vae", seed=3, learning_rate=2e-4, hyper=(("beta", 4.0),))
    assert RunConfig.from_record(json.loads(config.to_json())) == config
    with pytest.raises(ValueError, match="not a run's config"):
        RunConfig.from_record({"method": "vae", "colour": "red"})


def test_pack_key_ignores_seed_rate_and_strengths_only():
    config = RunConfig("beta_vae", hyper=(("beta", 4.0), ("size", 3)))
    same = config.replace(seed=9, learning_rate=1.0, hyper=(("beta", 1.0), ("size", 3)))
    per_run = frozenset({"beta"})
    assert config.pack_key(per_run) == same.pack_key(per_run)
    for other in (config.replace(steps=1), config.replace(hyper=(("beta", 4.0), ("size", 2)))):
        assert config.pack_key(per_run) != other.pack_key(per_run)


def test_curve_points_depend_on_length_alone():
    assert [log_every(n) for n in (1, 499, 1000, 300_000)] == [1, 1, 2, 600]
