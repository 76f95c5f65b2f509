"""Answers from rows: worked numbers by other routes, small stores, and the published runs."""

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from unweave.studies.answers import QUESTIONS, analyse, read_rows
from unweave.studies.answers.grid import KEYS, METRICS, Rows, Setting
from unweave.studies.answers.selection import cells, contest, exact, trials
from unweave.studies.answers.uncertainty import (
    draw_counts,
    means,
    medians,
    pooled,
    rank_correlations,
)
from unweave.studies.answers.variance import shares
from unweave.studies.published import import_published
from unweave.studies.store import open_store
from unweave.types import UserError

DATA, SEEDS = ("dsprites", "cars3d"), range(4)
SETTINGS = [("beta_vae", "beta", 1.0), ("beta_vae", "beta", 4.0), ("factor_vae", "gamma", 10.0),
            ("vae", None, None)]


def fill(store, keys=KEYS, seed=0):
    """A small study of made-up scores, with curves."""
    rng = np.random.default_rng(seed)
    for d in DATA:
        for method, letter, strength in SETTINGS:
            for s in SEEDS:
                run_id = f"{method}-{d}-{strength}-{s}"
                store.append("scores", [
                    {"run_id": run_id, "key": k, "value": float(rng.random()), "metric": k,
                     "convention": "study2019", "version": "1", "seed": 0, "settings": "{}"}
                    for k in keys])
                store.append("curves", [{"run_id": run_id, "step": t, "term": "recon",
                                         "value": 100.0 - t + s} for t in (1, 2)])
                store.append("runs", [{"run_id": run_id, "study": "small", "source": "unweave",
                                       "status": "done", "method": method, "data": d, "seed": s,
                                       "letter": letter, "strength": strength}])
    return store


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return read_rows(fill(open_store(tmp_path_factory.mktemp("small") / "s", create=True)))


@pytest.fixture(scope="module")
def published(shared, tmp_path_factory):
    """The grid of the 10,800 published runs."""
    store = open_store(tmp_path_factory.mktemp("published") / "s", create=True)
    done = import_published(store, sorted((shared / "published").glob("*.csv.gz")))
    assert done["new_runs"] == 10_800
    return read_rows(store)


def rows_of(scores, **more):
    """A grid of arrays `[data, setting, seed]` by key."""
    shape = next(iter(scores.values())).shape
    ids = np.array([f"r{i}" for i in range(np.prod(shape))], dtype=object).reshape(shape)
    settings = tuple(Setting("beta_vae", "beta", float(i)) for i in range(shape[1]))
    return Rows(tuple(f"d{i}" for i in range(shape[0])), more.get("settings", settings),
                tuple(range(shape[2])), ids, scores, "unweave", "study2019", 0)


def answer_of(rows, name):
    (_, found), = analyse(rows, [name])
    return found


def test_every_question_has_an_answer_where_rows_have_the_scores(small):
    assert [str(s) for s in small.settings] == [
        "beta_vae beta=1", "beta_vae beta=4", "factor_vae gamma=10", "vae"]
    for question, found in analyse(small):
        assert found.missing is None, question.name
        assert found.sentence.endswith("."), question.name
        assert found.summary, question.name
        assert any(found.tables.values()), question.name
        assert found.figures, question.name
        for records in found.tables.values():
            for r in records:
                if "value" in r:
                    assert {"low", "high"} <= set(r)
                    assert not r["low"] > r["high"]


def test_a_question_whose_rows_are_missing_says_so(tmp_path):
    store = fill(open_store(tmp_path / "s", create=True), keys=("mig", "sap"))
    rows = read_rows(store)
    for name in ("total_correlation", "unsupervised", "downstream", "efficiency", "tradeoff"):
        assert "the rows have no scores for this: it needs" in answer_of(rows, name).missing
    assert answer_of(rows, "agreement").missing is None
    with pytest.raises(UserError, match="did you mean 'selection'"):
        list(analyse(rows, ["selction"]))


def test_ranges_of_one_method_alone_have_a_sentence_without_a_number():
    found = answer_of(rows_of({"mig": np.random.default_rng(0).random((1, 3, 2))}), "ranges")
    assert found.sentence.startswith("No data set has runs of two methods")
    assert "nan" not in found.sentence


def test_reading_chooses_runs_and_scores(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    with pytest.raises(UserError, match="holds no finished runs"):
        read_rows(store)
    run = {"run_id": "a", "study": "one", "source": "unweave", "status": "done",
           "method": "beta_vae", "data": "dsprites", "letter": "beta", "strength": 1.0, "seed": 0}
    score = {"run_id": "a", "key": "mig", "convention": "study2019", "version": "1", "seed": 0,
             "settings": "{}", "overridden": "[]", "value": 0.5}
    store.append("runs", [run, run | {"run_id": "b", "study": "two"},
                          run | {"run_id": "c", "status": "diverged", "seed": 1},
                          run | {"run_id": "p", "source": "published", "study": "released",
                                 "seed": 7}])
    store.append("scores", [score, score | {"seed": 1, "value": 0.1},
                            score | {"overridden": '["num_bins"]', "settings": "x", "value": 0.2},
                            score | {"convention": "paper", "value": 0.3}])
    rows = read_rows(store)
    assert (rows.source, rows.seeds, rows.num_runs, rows.left_out) == ("unweave", (0,), 1, 1)
    assert rows.scores["mig"].tolist() == [[[0.5]]]
    assert read_rows(store, convention="paper").scores["mig"].item() == 0.3
    assert read_rows(store, study="two").run_ids.item() == "b"
    assert read_rows(store, source="published").seeds == (7,)
    store.append("scores", [score | {"run_id": "b", "convention": "paper", "value": 0.4}])
    only = read_rows(store, study="two")
    assert (only.convention, only.scores["mig"].item()) == ("paper", 0.4)
    with pytest.raises(UserError, match="unknown convention 'papr': did you mean 'paper'"):
        read_rows(store, convention="papr")
    with pytest.raises(UserError, match="unknown study 'three'"):
        read_rows(store, study="three")
    with pytest.raises(UserError, match="drop --source or --study"):
        read_rows(store, source="published", study="one")


def test_rank_correlations_of_redrawn_rows_are_spearmans():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, (30, 3)).astype(float)  # with ties
    counts = draw_counts(np.repeat([0, 1, 2], 10), rng, 5)
    assert (counts.reshape(5, 3, 10).sum(-1) == 10).all()  # within groups
    for drawn, found in zip(counts, rank_correlations(values, counts)):
        expected = stats.spearmanr(np.repeat(values, drawn, axis=0)).statistic
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_medians_and_means_leave_out_what_is_missing():
    values = np.array([[1.0, 2.0, 7.0, np.nan], [np.nan] * 4, [4.0, 1.0, 2.0, 3.0]])
    middle, again = medians(values, np.random.default_rng(0), 50)
    np.testing.assert_array_equal(middle, [2.0, np.nan, 2.5])
    assert set(again[:, 0]) <= {1.0, 2.0, 7.0}
    assert np.isnan(again[:, 1]).all()
    mean, again = means(values, np.random.default_rng(0), 2000)
    np.testing.assert_allclose(mean, [10 / 3, np.nan, 2.5])
    assert again[:, 2].std() == pytest.approx(np.std([4, 1, 2, 3]) / 2, rel=0.1)


def test_pooled_mean_and_median_are_those_of_the_repeated_rows():
    rng = np.random.default_rng(1)
    values, counts = rng.random(11), rng.integers(0, 4, (6, 11))
    mean, median = pooled(values, counts)
    for i, drawn in enumerate(counts):
        again = np.repeat(values, drawn)
        assert mean[i] == pytest.approx(again.mean())
        assert median[i] == pytest.approx(np.median(again))


def test_shares_of_variance_are_r2_of_linear_models():
    rng = np.random.default_rng(0)
    settings, methods = np.repeat(np.arange(4), 5), np.array([0, 0, 1, 1])
    values = rng.normal(size=20) + settings + 3 * methods[settings] + 1e4
    found = shares(values, settings, methods, np.ones((1, 20)))[0]

    def r2(groups):
        design = np.eye(4)[groups]
        fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
        return 1 - ((values - fitted) ** 2).sum() / ((values - values.mean()) ** 2).sum()

    assert found[0] == pytest.approx(r2(methods[settings]))
    assert found[0] + found[1] == pytest.approx(r2(settings))
    assert found.sum() == pytest.approx(1.0)


def by_hand(scores, num, seed):
    """Table 1 as the paper tells it, one trial after another; `[metric][data][setting][seed]`."""
    draw = random.Random(seed)
    wins = {("same", "same"): 0, ("same", "different"): 0, ("different", "same"): 0,
            ("different", "different"): 0}
    metrics, data = range(len(scores)), range(len(scores[0]))
    settings, seeds = range(len(scores[0][0])), range(len(scores[0][0][0]))

    def at(m, d, h, s):
        value = scores[m][d][h][s]
        return -1.0 if value != value else value

    for _ in range(num):
        m, d, s = draw.choice(metrics), draw.choice(data), draw.choice(seeds)
        best = max(settings, key=lambda h: at(m, d, h, s))
        rival, later = draw.choice(settings), draw.choice([t for t in seeds if t != s])
        for metric, other in wins:
            n = m if metric == "same" else draw.choice([k for k in metrics if k != m])
            e = d if other == "same" else draw.choice([k for k in data if k != d])
            wins[metric, other] += at(n, e, best, later) >= at(n, e, rival, later)
    return {k: v / num for k, v in wins.items()}


def test_table_1_of_made_up_scores_is_the_same_by_three_routes():
    rng = np.random.default_rng(0)
    scores = rng.random((3, 2, 5, 4)) + np.linspace(0, 0.5, 5)[:, None]
    scores[0, 0, 0, 0] = np.nan
    sure = cells(exact(contest(scores), np.ones(4)))
    drawn, told = trials(scores, rng, 40_000), by_hand(scores.tolist(), 40_000, 0)
    for cell, value in sure.items():
        assert drawn[cell] == pytest.approx(value, abs=0.012)
        assert told[cell] == pytest.approx(value, abs=0.012)
    # Seeds that are drawn twice do not meet themselves: as if two of three seeds were all.
    twice = exact(contest(scores), np.array([1.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(twice, exact(contest(scores[..., :2]), np.ones(2)))


def test_transfer_is_spearmans_of_medians():
    rng = np.random.default_rng(0)
    rows = rows_of({"mig": rng.random((2, 6, 5))})
    found = answer_of(rows, "transfer").tables["pairs"][0]
    middle = np.median(rows.scores["mig"], -1)
    assert found["value"] == pytest.approx(stats.spearmanr(*middle).statistic)
    assert found["settings"] == 6


def test_training_follows_the_curves(small):
    first = answer_of(small, "training").tables["curves"][0]
    assert (first["step"], first["value"]) == (1, 99.0 + 1.5)  # the mean over four seeds


# -- the published runs ------------------------------------------------------------------------


def test_published_table_1(published):
    found = {(r["metric"], r["data"]): r for r in answer_of(published, "selection").summary}
    same = found["same", "same"]
    assert 0.75 < same["low"] < same["value"] < same["high"] < 0.85
    assert all(found[cell]["high"] < 0.66 for cell in found if cell != ("same", "same"))
    assert all(abs(r["drawn"] - r["value"]) < 0.025 for r in found.values())
    told = by_hand(np.stack([published.scores[k] for k in METRICS]).tolist(), 10_000, 1)
    for cell, value in told.items():
        assert value == pytest.approx(found[cell]["value"], abs=0.02)  # four standard errors


def test_published_models_are_in_hartmanns_order(published):
    found = answer_of(published, "models")
    assert [r["method"] for r in found.summary][:3] == ["beta_tcvae", "factor_vae", "beta_vae"]
    by_median = sorted(found.summary, key=lambda r: -r["median"])
    assert [r["method"] for r in by_median][:3] == ["beta_tcvae", "factor_vae", "beta_vae"]
    assert by_median[0]["median_low"] > by_median[1]["median_high"]
    best = {r["data"]: r["best"] for r in answer_of(published, "best_strengths").summary}
    assert best["dsprites"] == best["color_dsprites"] == best["cars3d"] == 16
    assert best["smallnorb"] == 1


def test_published_metrics_agree_in_a_block_on_dsprites(published):
    pairs = {(r["score"], r["other"]): r for r in answer_of(published, "agreement").tables["pairs"]
             if r["data"] == "dsprites"}
    block = [("beta_vae", "factor_vae"), ("beta_vae", "mig"), ("factor_vae", "mig")]
    assert min(pairs[pair]["low"] for pair in block) > 0.65
    expected = stats.spearmanr(published.scores["mig"][0].ravel(),
                               published.scores["beta_vae"][0].ravel()).statistic
    assert pairs["beta_vae", "mig"]["value"] == pytest.approx(expected)
    assert max(abs(r["value"]) for pair, r in pairs.items() if "modularity" in pair) < 0.2
    together = answer_of(published, "transfer").summary[0]
    assert {together["data"], together["other"]} == {"dsprites", "color_dsprites"}


# -- files ---------------------------------------------------------------------------------------


def test_tables_and_figures_are_written(small, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from unweave.report.answers import report_answers

    names = ["selection", "seeds", "variance"]
    report_answers(small, names, out=tmp_path / "out", seed=0, as_json=True)
    documents = json.loads(capsys.readouterr().out)
    assert [d["name"] for d in documents] == names
    files = {Path(f).name for d in documents for f in d["files"]}
    assert {"selection.png", "selection.svg", "seeds.png", "variance.svg",
            "selection-summary.csv", "seeds-spread.csv"} <= files
    assert all((tmp_path / "out" / f).stat().st_size > 0 for f in files)
    with (tmp_path / "out/selection-summary.csv").open() as handle:
        assert float(next(csv.DictReader(handle))["value"]) == documents[0]["summary"][0]["value"]
    report_answers(small, None, out=None, seed=0, as_json=False)
    shown = capsys.readouterr().out
    assert "32 runs: 2 data sets, 4 settings, 4 seeds" in shown
    assert all(f"\n{name}: " in shown for name in QUESTIONS)


def test_two_runs_are_too_few_to_correlate_and_say_so(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    for seed in (0, 1):
        store.append("scores", [{"run_id": str(seed), "key": key, "value": 0.1 * seed, "seed": 0,
                                 "convention": "study2019", "version": "1", "settings": "{}",
                                 "overridden": "[]"} for key in ("mig", "elbo")])
        store.append("runs", [{"run_id": str(seed), "source": "unweave", "status": "done",
                               "data": "dsprites", "method": "vae", "seed": seed}])
    for _, answer in analyse(read_rows(store)):
        assert answer.missing or answer.sentence
