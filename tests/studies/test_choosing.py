"""`compare` and `select`: percentiles and ranks by hand, and honest words about trust."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unweave import cli, train
from unweave.studies.answers import read_rows
from unweave.studies.compare import compare, percentile
from unweave.studies.select import select
from unweave.studies.store import open_store
from unweave.types import UserError

ABOUT = {"convention": "study2019", "version": "1", "seed": 0, "settings": "{}",
         "overridden": "[]", "higher_is_better": True}


def stored(folder, scores, source="published", data="dsprites"):
    """A store with a run for each row of `scores` `[{key: value}]`, of two methods in turn."""
    store = open_store(folder, create=True)
    for i, row in enumerate(scores):
        method = ("beta_vae", "factor_vae")[i % 2]
        store.append("scores", [{"run_id": f"r{i}", "key": k, "metric": k, "value": v, **ABOUT}
                                for k, v in row.items()])
        store.append("runs", [{"run_id": f"r{i}", "study": source, "source": source,
                               "status": "done", "method": method, "data": data, "seed": i // 2,
                               "letter": "beta" if i % 2 == 0 else "gamma", "strength": 4.0}])
    return store


def test_percentile_counts_equals_half():
    assert percentile(np.array([1.0, 2.0, 2.0, 3.0, np.nan]), 2.0) == 50.0
    assert percentile(np.array([np.nan]), 1.0) is None


def test_compare_gives_percentiles_per_method(tmp_path, capsys):
    store = stored(tmp_path / "s", [{"mig": v} for v in (0.1, 0.2, 0.3, 0.4)])
    run = train("beta_vae", "dsprites", seeds=[0], beta=4, steps=2, batch_size=8,
                architecture="conv64-small", out=tmp_path / "runs")[0]
    with pytest.raises(UserError, match="has no scores yet: `unweave score"):
        compare(run.folder, store)
    rows = [{"key": "mig", "value": 0.25, **ABOUT}, {"key": "mig", "value": 0.9, **ABOUT,
            "convention": "paper"}, {"key": "irs", "value": 0.5, **ABOUT}]
    pq.write_table(pa.Table.from_pylist(rows), run.folder / "scores.parquet")
    record, = compare(run.folder, store)
    assert (record["name"], record["value"]) == ("mig", 0.25)
    assert [record[k] for k in ("all", "beta_vae", "factor_vae", "setting")] == [50.0] * 4
    record, = compare("r3", store)
    assert (record["all"], record["beta_vae"], record["factor_vae"]) == (87.5, 100.0, 75.0)
    store.append("runs", [{"run_id": "own", "study": "mine", "source": "unweave", "status": "done",
                           "method": "vae", "data": "dsprites:copy.npz", "seed": 0}])
    store.append("scores", [{"run_id": "own", "key": "mig", "value": 0.35, **ABOUT}])
    record, = compare("own", store)
    assert (record["all"], record["setting"]) == (75.0, None)
    with pytest.raises(SystemExit):
        cli.main(["compare", str(run.folder), "--store", str(tmp_path / "s"), "--json"])
    assert json.loads(capsys.readouterr().out)[0]["all"] == 50.0
    other = stored(tmp_path / "t", [{"mig": 0.1}], data="cars3d")
    with pytest.raises(UserError, match="published runs of cars3d only"):
        compare(run.folder, other)
    with pytest.raises(UserError, match="neither a run folder nor a run"):
        compare("nothing", store)


def test_select_ranks_and_says_what_it_is_worth(tmp_path):
    rng = np.random.default_rng(0)
    quality = rng.random(30)
    store = stored(tmp_path / "s", [{"udr": q, "elbo": -q, "tc.mean": e, "mig": q, "sap": q / 2}
                                    for q, e in zip(quality, rng.random(30))], source="unweave")
    rows = read_rows(store)
    found = select(rows, num=3)
    assert found.by == "udr"  # before the others
    best = np.argsort(-quality)[:3]
    assert [r["run"] for r in found.runs] == [f"r{i}" for i in best]
    assert [r["rank_udr"] for r in found.runs] == [1.0, 2.0, 3.0]
    assert [r["rank_elbo"] for r in found.runs] == [30.0, 29.0, 28.0]
    trust = {r["score"]: r for r in found.trust}
    assert trust["udr"]["correlation"] == pytest.approx(1.0)
    assert trust["udr"]["best_percentile"] == pytest.approx(100 * 29.5 / 30)
    assert trust["elbo"]["correlation"] == pytest.approx(-1.0)
    assert "on dsprites it can be trusted" in found.sentence
    assert "on dsprites do not trust it" in select(rows, by="elbo").sentence
    # Of total correlation less is better: the sign is turned.
    ranks = [rows.scores[k].ravel().argsort().argsort() for k in ("tc.mean", "mig")]
    assert trust["tc.mean"]["mig"] == pytest.approx(-np.corrcoef(*ranks)[0, 1])
    with pytest.raises(UserError, match="unknown score without labels 'mig'"):
        select(rows, by="mig")
    with pytest.raises(UserError, match="unknown data set 'cars3d'"):
        select(rows, data="cars3d")


def test_few_runs_say_little(tmp_path):
    scores = [{"elbo": float(i), "mig": float(i)} for i in range(6)]
    rows = read_rows(stored(tmp_path / "s", scores))
    found = select(rows)
    assert found.trust[0]["correlation"] == pytest.approx(1.0)
    assert "on dsprites 6 runs are too few to tell" in found.sentence


def test_without_labels_nothing_is_promised(tmp_path):
    rows = read_rows(stored(tmp_path / "s", [{"elbo": float(i)} for i in range(4)]))
    assert "nothing says how far" in select(rows).sentence
    rows = read_rows(stored(tmp_path / "t", [{"mig": float(i)} for i in range(4)]))
    with pytest.raises(UserError, match="no score that needs no labels"):
        select(rows)


def test_the_commands_speak(tmp_path, capsys):
    stored(tmp_path / "s", [{"elbo": float(i), "mig": float(i % 3)} for i in range(6)])
    for command in (["select", str(tmp_path / "s")], ["study", "analyse", str(tmp_path / "s")]):
        with pytest.raises(SystemExit) as leave:
            cli.main(command)
        assert leave.value.code == 0
        assert "elbo" in capsys.readouterr().out
    (tmp_path / "a.csv").write_text("dataset,model_name,model_random_seed\n")
    with pytest.raises(SystemExit) as leave:
        cli.main(["study", "import", "published", "--file", str(tmp_path / "a.csv"), "--store",
                  str(tmp_path / "new"), "--json"])
    assert (leave.value.code, json.loads(capsys.readouterr().out)[0]["new_runs"]) == (0, 0)
    with pytest.raises(SystemExit) as leave:
        cli.main(["study", "analyse", str(tmp_path / "new")])
    assert (leave.value.code, "holds no finished runs" in capsys.readouterr().err) == (2, True)


def test_scores_that_are_the_same_for_every_run_say_nothing(tmp_path):
    """Collapsed runs, for one; warnings are errors here, and an interval of NaN is none."""
    rng = np.random.default_rng(0)
    quality = [*rng.random(30), *[0.5] * 4]
    both = stored(tmp_path / "a", [{"elbo": q, "mig": q, "sap": 0.0} for q in quality])
    one, = select(read_rows(both), by="elbo").trust
    assert [one["correlation"], one["correlation_low"]] == pytest.approx([1.0, 1.0])
    assert np.isnan(one["sap"])
    for name, row in (("b", {"mig": 0.0, "sap": 0.0}), ("c", {"elbo": 1.0})):
        alike = stored(tmp_path / name, [{"elbo": q, "mig": q, **row} for q in quality])
        found = select(read_rows(alike), by="elbo")
        assert np.isnan(found.trust[0]["correlation_low"])
        assert "nothing is known, for its runs are all the same by elbo, or" in found.sentence
    # Few distinct values: a draw of runs may have one of them alone.
    rare = stored(tmp_path / "d", [{"elbo": float(i == 0), "mig": float(i == 0)}
                                   for i in range(24)])
    one, = select(read_rows(rare), by="elbo").trust
    assert [one["correlation"], one["correlation_low"]] == pytest.approx([1.0, 1.0])
