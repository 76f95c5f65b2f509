"""Stores joined without loss or doubles, and set beside published scores."""

import csv
import json

import numpy as np
import pytest

from unweave.cli import main
from unweave.studies.catalog import Study
from unweave.studies.memory import recall, remember
from unweave.studies.merge import merge
from unweave.studies.reproduction import agreement, as_group, shares_draws, trained_alike
from unweave.studies.store import open_store
from unweave.training import plan
from unweave.types import UserError

COLUMNS = ("dataset", "model_name", "model_random_seed", "vae_beta", "mig_discrete_mig",
           "sap_score")


def study(source="unweave"):
    return Study("mine", lambda: [], "Runs.", source=source)


def fill(folder, seeds, value=0.5, method="beta_vae", **given):
    store = open_store(folder, create=True)
    given = {"architecture": "conv64-study2019", "beta": 4.0} | given
    configs = plan(method, "dsprites", seeds=seeds, device="cpu", **given)
    remember(store, study(), configs, ("mig",))
    for config in configs:
        store.append("scores", [{"run_id": config.run_id, "key": "mig", "value": value + 0.01
                                 * config.seed, "metric": "mig", "convention": "study2019",
                                 "version": "1", "seed": 0, "settings": "{}",
                                 "overridden": "[]"}])
        store.append("curves", [{"run_id": config.run_id, "step": 1, "term": "loss",
                                 "value": 1.0}])
        store.write_file(f"weights/{config.run_id}.safetensors", b"x")
        store.append("runs", [{"run_id": config.run_id, "source": "unweave", "status": "done",
                               "data": "dsprites", "method": method, "letter": "beta",
                               "strength": 4.0, "seed": config.seed,
                               "config": config.to_json()}])
    return store


def test_rows_of_two_machines(tmp_path):
    a, b = fill(tmp_path / "a", [0, 1]), fill(tmp_path / "b", [1, 2], value=0.9)
    b.append("scores", [{"run_id": "unfinished", "key": "mig", "value": 0.1}])
    into = open_store(tmp_path / "all", create=True)
    first, second = merge(into, [a, b])
    assert [first[k] for k in ("runs", "scores", "curves", "weights")] == [2, 2, 2, 2]
    assert [second[k] for k in ("runs", "scores", "curves", "weights")] == [1, 1, 1, 1]
    assert into.read("runs").num_rows == len(into.runs()) == 3
    assert {row["value"] for row in into.scores()} == {0.5, 0.51, 0.92}  # its own rows stay
    assert len(recall(into, "mine")["runs"]) == 3
    again = merge(into, [a, b])
    assert all(record[k] == 0 for record in again
               for k in ("runs", "scores", "curves", "weights"))
    assert into.read("scores").num_rows == 3
    with pytest.raises(UserError, match="into itself"):
        merge(into, [into])


def test_two_studies_of_one_name_are_not_joined(tmp_path):
    a, b = (open_store(tmp_path / name, create=True) for name in "ab")
    configs = plan("vae", "dsprites", device="cpu")
    remember(a, study(), configs, ())
    remember(b, study("/other.py"), configs, ())
    b.append("runs", [{"run_id": "x"}])
    with pytest.raises(UserError, match="two studies of one name"):
        merge(a, [b])
    assert a.runs() == []
    into = open_store(tmp_path / "into", create=True)
    with pytest.raises(UserError, match="two studies of one name"):
        merge(into, [a, b])  # the two that are read do not agree
    assert recall(into, "mine") is None


def published(folder):
    path = folder / "dsprites_full.csv"
    with path.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(COLUMNS)
        for seed in range(21):
            writer.writerow(["dsprites_full", "beta_vae", seed, 4.0, 0.4 + 0.01 * seed, 0.1])
    return path


def made_cells(random, num, shift=0.0, of_seed=0.0):
    """Six cells; runs of one seed have something in common."""
    common = of_seed * random.normal(size=num) + shift
    return {("dsprites", "vae", float(i), "mig"): list(enumerate(common + random.normal(size=num)))
            for i in range(6)}


def test_groups_of_cells_are_tested_together():
    random = np.random.default_rng(0)
    theirs = made_cells(random, 50)
    off = as_group(made_cells(random, 3, shift=2.0), theirs)
    assert off.place > 0.85
    assert off.p < 0.001
    once = {cell: [(0, 99.0 if cell[2] == 0.0 else -99.0)] for cell in theirs}
    often = once | {("dsprites", "vae", 0.0, "mig"): [(seed, 99.0) for seed in range(6)]}
    assert as_group(often, theirs).place == pytest.approx(1 / 6)  # one cell of six, in both
    assert as_group(once, theirs).place == pytest.approx(1 / 6)
    with pytest.raises(UserError, match="50 seeds in common, fewer than the 60 of ours"):
        as_group(made_cells(random, 60), theirs)
    with pytest.raises(UserError, match="no cell is in both"):
        as_group({}, theirs)


def test_bands_tell_whether_runs_had_the_same_test_points():
    random = np.random.default_rng(2)
    own = [list(enumerate(random.binomial(5_000, 0.6, size=50) / 5_000)) for _ in range(500)]
    assert np.mean([shares_draws(runs) for runs in own]) < 0.01
    closer = [(seed, 0.6 + 0.4 * (value - 0.6)) for seed, value in own[0]]
    assert shares_draws(closer)
    assert not shares_draws(closer, num_test=500_000)
    assert shares_draws([(seed, 0.6008) for seed in range(50)])
    assert not shares_draws([(0, 0.6)])


@pytest.mark.parametrize(("num", "of_seed"), [(2, 0.0), (2, 1.0), (6, 1.0), (20, 1.0)])
def test_seeds_that_share_something_do_not_count_as_many(num, of_seed):
    """A p below a tenth comes in a tenth of the cases, whether cells are independent or not."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(200):
        theirs, ours = (made_cells(random, some, of_seed=of_seed) for some in (50, num))
        found.append(as_group(ours, theirs, draws=400).p)
    assert 0.05 < np.mean(np.array(found) < 0.1) < 0.165


def test_beside_the_published(tmp_path, capsys):
    path = published(tmp_path)
    record, = agreement(fill(tmp_path / "a", [0, 1, 2]), [path])
    assert (record["runs"], record["published_runs"], record["score"]) == (3, 21, "mig")
    assert record["median"] == pytest.approx(0.51)
    assert record["published_median"] == pytest.approx(0.5)
    assert (record["published_5"], record["published_95"]) == pytest.approx((0.41, 0.59))
    assert record["inside"]
    far, = agreement(fill(tmp_path / "b", [0], value=0.7), [path])
    assert not far["inside"]
    assert far["place"] == 1.0
    assert record["place"] == pytest.approx(11.5 / 21, abs=0.5 / 21)  # equal but for rounding
    assert 0.0 < far["p"] < record["p"] <= 1.0
    with pytest.raises(UserError, match="no cell is in both"):
        agreement(fill(tmp_path / "c", [0], method="beta_tcvae"), [path])
    with pytest.raises(UserError, match="no finished runs of its own"):
        agreement(open_store(tmp_path / "d", create=True), [path])
    for arguments, key in ((["agreement", tmp_path / "a", "--published", path], "cells"),
                           (["merge", tmp_path / "all", tmp_path / "a", tmp_path / "b"], None)):
        with pytest.raises(SystemExit) as leave:
            main(["study", *map(str, arguments), "--json"])
        assert leave.value.code == 0
        said = json.loads(capsys.readouterr().out)
        assert said[key] if key else [r["runs"] for r in said] == [3, 0]


@pytest.mark.parametrize("given", [{"steps": 2_000}, {"architecture": "conv64"},
                                   {"learning_rate": 5e-4}, {"beta": 5.0}, {"init": "pytorch"}])
def test_runs_with_other_settings_are_no_part_of_a_published_cell(tmp_path, capsys, given):
    """Another study of the same method, at a strength of the same name, is another model."""
    path = published(tmp_path)
    store = fill(tmp_path / "s", [0, 1, 2])
    alone, = agreement(store, [path])
    fill(tmp_path / "s", [3, 4], value=0.9, **given)
    assert agreement(store, [path]) == [alone]
    both, = agreement(store, [path], every=True)
    assert (both["runs"], both["median"]) == (5, pytest.approx(0.52))
    with pytest.raises(SystemExit):
        main(["study", "agreement", str(tmp_path / "s"), "--published", str(path)])
    assert "Left out: 2 runs with other settings" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"no run of .* has the settings of the published ones"):
        agreement(fill(tmp_path / "t", [0], **given), [path])


def test_runs_on_other_data_and_in_other_arithmetic_are_the_same_study(tmp_path):
    """Letters that came after a run was stored have their defaults."""
    config, = plan("annealed_vae", "smallnorb:folder", seeds=7, c_max=5.0, gamma=1000.0,
                   device="cpu", precision="bfloat16", architecture="conv64-study2019")
    record = json.loads(config.to_json())
    del record["hyper"]["anneal_steps"]
    assert trained_alike({"config": json.dumps(record)})
    record["hyper"]["gamma"] = 100.0
    assert not trained_alike({"config": json.dumps(record)})
    assert not trained_alike({"config": None})


def test_runs_that_saw_a_part_of_the_data_are_no_part_of_a_published_cell():
    config, = plan("beta_vae", "dsprites", device="cpu", beta=4.0, architecture="conv64-study2019")
    assert trained_alike({"config": config.to_json()})
    for data, alike in (("dsprites:FILE", True), ("dsprites:FILE,leave_out=shape:0", False)):
        assert trained_alike({"config": config.replace(data=data).to_json()}) == alike
