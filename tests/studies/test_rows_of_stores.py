"""Stores joined, runs beside published ones, and what a study costs."""

import json

import pytest

from unweave import cli
from unweave.studies.agreement import agreement, published_rows, summary
from unweave.studies.catalog import STUDIES
from unweave.studies.cost import H200, Rates, cost, measured_rates, read_rates
from unweave.studies.memory import add_record, recall
from unweave.studies.merging import merge
from unweave.studies.store import open_store
from unweave.training import plan
from unweave.types import UserError

HEADER = ("model_num,dataset,model_name,vae_beta,factor_vae_gamma,dip_vae_lambda_od,"
          "beta_tc_vae_beta,annealed_vae_c_max,model_random_seed,elbo,kl_loss,reconstruction_loss,"
          "mig_discrete_mig")


def released(path):
    """Twenty-one runs of two settings: MIG 0.00 to 0.20, reconstruction 100 to 120."""
    lines = [f"{i},'dsprites_full','beta_vae',{beta},,,,,{i},-130,10,{100 + i},{i / 100}"
             for beta in (1.0, 4.0) for i in range(21)]
    path.write_text("\n".join([HEADER, *lines]))
    return path


def filled(folder, *, seeds=(0, 1, 2), mig=0.1, beta=4.0, weights=False):
    """A store of runs that were not really trained."""
    store = open_store(folder, create=True)
    configs = plan("beta_vae", "dsprites", seeds=seeds, steps=1000, beta=beta, device="cpu")
    for i, config in enumerate(configs):
        store.append("scores", [{"run_id": config.run_id, "key": "mig", "value": mig + 0.01 * i,
                                 "convention": "study2019", "version": "1", "seed": 0,
                                 "settings": "{}", "overridden": "[]", "metric": "mig"}])
        store.append("curves", [{"run_id": config.run_id, "step": step, "term": "recon",
                                 "value": value} for step, value in ((500, 300.0), (1000, 90.0))])
        store.append("runs", [{"run_id": config.run_id, "study": "own", "source": "unweave",
                               "status": "done", "method": "beta_vae", "data": "dsprites",
                               "letter": "beta", "strength": beta, "seed": config.seed,
                               "seconds": 2.0, "device": "a GPU", "config": config.to_json()}])
        if weights:
            store.write_file(f"weights/{config.run_id}.safetensors", b"weights")
    add_record(store, {"name": "own", "source": "unweave", "convention": "study2019",
                       "metrics": ["mig"], "runs": {c.run_id: json.loads(c.to_json())
                                                    for c in configs}})
    return store


def rows_of(store):
    return (sorted(r["run_id"] for r in store.runs()),
            sorted((r["run_id"], r["key"], r["value"]) for r in store.scores()),
            store.read("curves").num_rows)


def test_merged_stores_hold_every_row_once(tmp_path):
    left, right = filled(tmp_path / "a", seeds=(0, 1)), filled(tmp_path / "b", seeds=(1, 2),
                                                               weights=True)
    whole = open_store(tmp_path / "whole", create=True)
    merge(whole, [left])
    assert merge(whole, [right]) == {"runs": 1, "scores": 1, "curves": 2, "weights": 2}
    once = rows_of(whole)
    assert [len(once[0]), len(once[1]), once[2]] == [3, 3, 6]
    again = merge(whole, [left, right])
    assert not any(again.values())
    assert rows_of(whole) == once
    assert len(recall(whole, "own")["runs"]) == 3
    assert whole.read_file(f"weights/{once[0][-1]}.safetensors") in (b"weights", None)


def test_a_merge_that_cannot_be_done_changes_nothing(tmp_path):
    good, bad = filled(tmp_path / "good"), filled(tmp_path / "bad")
    (tmp_path / "bad" / "scores" / "part-zz.parquet").write_bytes(b"PAR1 half a file")
    whole = open_store(tmp_path / "whole", create=True)
    with pytest.raises(UserError, match=r"part-zz\.parquet is damaged"):
        merge(whole, [good, bad])
    assert whole.runs() == []
    with pytest.raises(UserError, match="cannot be merged into itself"):
        merge(good, [good])
    add_record(whole, {"name": "own", "source": "mine.py", "convention": "paper", "metrics": [],
                       "runs": {}})
    with pytest.raises(UserError, match=r"has a study 'own' from mine\.py"):
        merge(whole, [good])


def test_medians_are_set_beside_the_published_band(tmp_path):
    theirs = published_rows([released(tmp_path / "dsprites.csv")])
    records = agreement(filled(tmp_path / "s", mig=0.1), theirs)
    by_key = {r["key"]: r for r in records}
    assert set(by_key) == {"mig", "elbo.reconstruction"}, "no KL curve, no other score"
    mig = by_key["mig"]
    assert (mig["runs"], mig["strength"], mig["inside"]) == (3, 4.0, True)
    assert mig["median"] == pytest.approx(0.11)
    assert mig["published"] == pytest.approx(0.10)
    assert (mig["low"], mig["high"]) == pytest.approx((0.01, 0.19))
    # Not scored, so read off the last point of the curve: 90, below all published ones.
    loss = by_key["elbo.reconstruction"]
    assert loss["median"] == 90.0
    assert not loss["inside"]
    assert loss["p"] < 0.01 < mig["p"]


def test_a_method_that_is_off_as_a_group_is_named():
    cell = {"key": "mig", "runs": 2, "published": 0.5, "p": 0.5}
    cells = [cell | {"method": "vae", "median": m, "inside": i} for m, i in
             ((0.1, False), (0.2, False), (0.5, True))]
    cells += [cell | {"method": "aae", "median": m, "inside": i} for m, i in
              ((0.1, False), (0.9, False), (0.5, True))]
    (line,) = summary(cells)
    assert (line["cells"], line["inside"], line["off"]) == (6, 2, "vae")


def test_cells_that_nobody_published_are_one_sentence(tmp_path):
    theirs = published_rows([released(tmp_path / "dsprites.csv")])
    with pytest.raises(UserError, match="no run whose data set, method and strength"):
        agreement(filled(tmp_path / "s", beta=3.0), theirs)


def test_cost_is_steps_over_rates():
    configs = plan("beta_vae", "dsprites", seeds=range(4), steps=1000, beta=4.0, device="cpu")
    rates = Rates("a test", {"beta_vae": 100.0, "other": 50.0}, colour=0.5, score_seconds=360.0,
                  encode_seconds=0.0)
    (record,) = cost(configs, rates, num_gpus=2, num_cores=1, price=3.0)
    assert record["gpu_hours"] == pytest.approx(40 / 3600)
    assert record["core_hours"] == pytest.approx(0.4)
    assert record["days"] == pytest.approx(0.2 / 24), "scoring takes longer here"
    assert record["money"] == pytest.approx(0.4 * 3.0)
    coloured = plan("vae", "color_dsprites", seeds=0, steps=1000, device="cpu")
    *_, total = cost([*configs, *coloured], rates)
    assert total["gpu_hours"] == pytest.approx((40 + 1000 / 25) / 3600)


def test_the_published_study_fits_into_days_on_one_gpu():
    configs = STUDIES["locatello2019"].runs(seeds="0", device="cpu")
    assert len(configs) == 252
    *_, total = cost(configs, H200)
    # 210 runs of 300,000 and 42 FactorVAEs of 150,000 updates, five of seven sets in colour.
    steps = 1 / 7 * (2 + 5 / 0.77)
    wanted = steps * (168 * 300_000 / 19_000 + 42 * 300_000 / 20_434 + 42 * 150_000 / 5_947)
    assert total["gpu_hours"] * 3600 == pytest.approx(wanted + 252 * 0.2, rel=1e-6)


def test_rates_of_a_user(tmp_path):
    file = tmp_path / "rates.json"
    file.write_text('{"beta_vae": 10, "aae": 4, "colour": 0.9}')
    rates = read_rates(file)
    assert (rates.steps["other"], rates.colour) == (4.0, 0.9)
    found = measured_rates(filled(tmp_path / "s"))
    assert found.steps["beta_vae"] == pytest.approx(500.0), "1,000 steps in 2 seconds"
    assert "a GPU" in found.source
    for text, problem in (("[1]", "not a JSON object"), ('{"vae": -1}', "above zero"),
                          ('{"colour": 0.5}', "names no method"), ("{", "not a JSON object")):
        file.write_text(text)
        with pytest.raises(UserError, match=problem):
            read_rates(file)
    with pytest.raises(UserError, match="does not exist"):
        read_rates(tmp_path / "none.json")


def test_the_commands(tmp_path, capsys):
    def run(*words):
        with pytest.raises(SystemExit) as ended:
            cli.main(list(map(str, words)))
        return ended.value.code, capsys.readouterr()

    filled(tmp_path / "a", seeds=(0,))
    code, printed = run("study", "merge", tmp_path / "new", tmp_path / "a", "--json")
    assert code == 0
    assert json.loads(printed.out)[0]["runs"] == 1
    assert run("study", "merge", tmp_path / "other", tmp_path / "nothing")[0] == 2
    assert not (tmp_path / "other").exists()
    file = released(tmp_path / "dsprites.csv")
    code, printed = run("study", "agreement", tmp_path / "new", "--published", file, "--json")
    assert code == 0
    assert {line["key"] for line in json.loads(printed.out)["summary"]} == {
        "mig", "elbo.reconstruction"}
    code, printed = run("study", "cost", "quick", "--price", "2", "--json")
    assert code == 0
    assert json.loads(printed.out)[0]["runs"] == 8
    code, printed = run("study", "cost", "hartmann2021")
    assert (code, printed.err.count("\n")) == (2, 1)
