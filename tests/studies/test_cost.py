"""What a study takes, from rates: sums that can be done by hand."""

import json
from dataclasses import replace

import pytest

from unweave.cli import main
from unweave.studies.catalog import STUDIES, only_methods, only_strengths
from unweave.studies.cost import H200, cost_of, rates_of_store, read_rates
from unweave.studies.store import open_store
from unweave.training import plan
from unweave.types import UserError


def runs(num, data="dsprites", method="beta_vae", **given):
    return plan(method, data, seeds=range(num), steps=300_000, device="cpu", **given)


def hours(configs, **given):
    return cost_of(configs, **given).gpu_hours


def test_rates_are_the_measured_ones():
    encode = 7.4 / 36 / 3600
    assert hours(runs(128)) == pytest.approx(128 * (300_000 / 20_478 / 3600 + encode))
    assert hours(runs(36)) == pytest.approx(36 * (300_000 / 15_912 / 3600 + encode))
    assert hours(runs(1)) == pytest.approx(300_000 / 1_496 / 3600 + encode)
    assert H200.of(runs(1, method="beta_tcvae")[0], 12) == pytest.approx(8_000, rel=1e-3)
    assert H200.of(runs(1, method="factor_vae")[0], 64) == pytest.approx(5_920, rel=1e-4)
    for method, network, num_runs, rate in (
            ("infogan", "infogan-mnist", 64, 3_092), ("infogan", "infogan-shapes2d", 64, 3_140),
            ("infogan", "infogan-shapes2d-big", 1, 112), ("infowgan_gp", "infowgan-mnist", 64, 622),
            ("infowgan_gp", "infowgan-shapes2d", 64, 951),
            ("infowgan_gp", "infowgan-shapes2d-big", 64, 48.2), ("vade", "jiang2017", 64, 17_841)):
        config = replace(runs(1)[0], method=method, architecture=network)
        assert H200.of(config, num_runs) == pytest.approx(rate, rel=1e-4), network
    assert H200.of(runs(1, "cars3d")[0], 128) == pytest.approx(0.77 * 20_478)
    for grey in ("mnist,size=28", "mnist,size=28,split=all", "dsprites:FILE", "dsprites"):
        config = replace(runs(1)[0], data=grey, method="infogan", architecture="infogan-mnist")
        assert H200.of(config, 64) == pytest.approx(3_092, rel=1e-4), grey
    assert H200.of(runs(1, method="beta_tcvae")[0], 128) == pytest.approx(0.93 * 20_478)


def test_days_and_money():
    configs = runs(256)  # two stacks
    one, two, three = (cost_of(configs, gpus=n, price=2.0) for n in (1, 2, 3))
    assert one.days == pytest.approx(one.gpu_hours / 24)
    assert two.days == pytest.approx(one.days / 2)
    assert three.days == two.days  # nothing for the third GPU
    assert one.money == pytest.approx(2.0 * one.gpu_hours)
    assert one.core_hours == pytest.approx(256 * 35 / 3600)
    for wrong in ({"gpus": 0}, {"price": -1.0}, {"price": float("nan")}, {"price": float("inf")}):
        with pytest.raises(UserError, match="at least"):
            cost_of(configs, **wrong)
    with pytest.raises(UserError, match="trains nothing"):
        cost_of([])


def test_own_rates(tmp_path):
    path = tmp_path / "rates.json"
    path.write_text(json.dumps({"steps_per_second": {"1": 100.0}, "encode_seconds": 0}))
    assert hours(runs(10), rates=read_rates(path)) == pytest.approx(10 * 3000 / 3600)
    path.write_text(json.dumps({"methods": {"vae conv64": {"2": 50, "4": 70}}}))
    assert read_rates(path).of(runs(1, method="vae")[0], 3) == 60
    for text, words in (("{", "not a JSON"), ('{"speed": 1}', "'speed', which is none of"),
                        ('{"colour": 0}', "colour is 0"), ('{"steps_per_second": {}}', "must be"),
                        ('{"steps_per_second": {"x": 1}}', "must be names"),
                        ('{"steps_per_second": {"\u00b2": 1}}', "must be names"),
                        ('{"steps_per_second": {"1": Infinity}}', "is inf, and must be"),
                        ('{"most_runs": 0.5}', "most_runs is 0.5, and must be a whole"),
                        ('{"methods": {"vae": {"x": 1}}}', "methods vae must be names"),
                        ('{"methods": {"vae": "x"}}', "methods vae is 'x'")):
        path.write_text(text)
        with pytest.raises(UserError, match=words):
            read_rates(path)
    with pytest.raises(UserError, match="does not exist"):
        read_rates(tmp_path / "none")


def test_rates_of_a_store(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    with pytest.raises(UserError, match="no finished runs"):
        rates_of_store(store)
    store.append("runs", [{"run_id": str(i), "source": "unweave", "status": "done", "steps": 1000,
                           "method": "beta_vae", "data": "dsprites", "device": "cuda",
                           "seconds": seconds} for i, seconds in enumerate((1.0, 2.0, 50.0))])
    found = rates_of_store(store)
    assert found.of(runs(1)[0], 7) == 500.0
    assert found.of(runs(1, "cars3d")[0], 128) == pytest.approx(0.77 * 20_478)
    assert "3 runs of" in found.source


def test_factor_vae_makes_half_its_steps_in_the_convention_of_the_study(tmp_path):
    plain, study = (runs(64, method="factor_vae", convention=name)
                    for name in ("paper", "study2019"))
    assert hours(study) < 0.51 * hours(plain)
    store = open_store(tmp_path / "s", create=True)
    store.append("runs", [{"run_id": "a", "source": "unweave", "status": "done", "steps": 300_000,
                           "method": "factor_vae", "data": "dsprites", "device": "cuda",
                           "seconds": 100.0, "config": study[0].to_json()}])
    assert rates_of_store(store).of(study[0], 64) == pytest.approx(1_500.0)


def test_some_methods():
    configs = STUDIES["locatello2019"].runs(data=["dsprites"], seeds="0", device="cpu")
    some = only_methods(configs, "beta_vae, factor_vae")
    assert {c.method for c in some} == {"beta_vae", "factor_vae"}
    assert len(some) == 12
    assert only_methods(configs, None) == configs
    with pytest.raises(UserError, match="unknown method of this study 'vea'"):
        only_methods(configs, "vea")


def test_some_strengths():
    configs = STUDIES["locatello2019"].runs(data=["dsprites"], seeds="0,1", device="cpu")
    some = only_strengths(only_methods(configs, "beta_vae"), "4, 16")
    assert [(c["beta"], c.seed) for c in some] == [(4, 0), (4, 1), (16, 0), (16, 1)]
    assert only_strengths(configs, None) == configs
    for wrong in ("3", "x", ""):
        with pytest.raises(UserError, match="is no strength of these runs: they have 1, 2, 4"):
            only_strengths(only_methods(configs, "beta_vae"), wrong)


def test_as_a_user(capsys):
    with pytest.raises(SystemExit) as leave:
        main(["study", "cost", "locatello2019", "--data", "dsprites", "--seeds", "0..1", "--gpus",
              "2", "--price", "3", "--methods", "beta_vae", "--json"])
    assert leave.value.code == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["total"]["runs"], record["rates"]) == (12, "NVIDIA H200")
    assert record["total"]["money"] == pytest.approx(3 * record["total"]["gpu_hours"])
