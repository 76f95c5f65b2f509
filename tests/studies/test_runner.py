"""Running a study: rows of every run once, resumed after any kill, shared by two runners."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

from small import SMALL, make_sprites, train_small
from unweave.factors import FactorSpace, LabelTable
from unweave.metrics import plan_scores
from unweave.studies import catalog, runner, tally
from unweave.studies.adding import prune_weights
from unweave.studies.catalog import STUDIES, Study, find_study, strength_of
from unweave.studies.claims import Runner, _started, claimed
from unweave.studies.memory import recall, remember
from unweave.studies.merge import merge
from unweave.studies.rows import ScoreJob, prepare, score_and_store
from unweave.studies.runner import _scorers, run_study
from unweave.studies.scoring import score_run
from unweave.studies.store import open_store
from unweave.training import plan
from unweave.types import UserError


def make(data, seeds, device="cpu"):
    """Four tiny runs."""
    return [config for name in data
            for method in ("beta_vae", "dip_vae_i")
            for config in plan(method, name, seeds=seeds, device="cpu", **SMALL)]


STUDY = Study("tiny", make, "Four tiny runs.", data=("sprites",), seeds="0..1",
              metrics=("mig", "tc"))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished store, and the data set."""
    sprites, folder = make_sprites(), tmp_path_factory.mktemp("study") / "s"
    store = open_store(folder, create=True)
    said = []
    outcome = run_study(STUDY, STUDY.runs(), store, device="cpu", num_workers=1, details=False,
                        datasets={"sprites": sprites}, say=said.append, weights="all")
    assert outcome.done == 4, outcome
    assert "2 runs trained, 2 of 4 in all" in said[0]
    return store, sprites


def values(store):
    """What a study found, without what differs from call to call."""
    scores = {(row["run_id"], row["key"]): row["value"] for row in store.scores()}
    runs = sorted((row["run_id"], row["status"], row["method"], row["strength"], row["seed"])
                  for row in store.runs())
    curves = sorted((row["run_id"], row["term"], row["step"], row["value"])
                    for row in store.read("curves").to_pylist())
    return scores, runs, sorted(set(curves))


def test_every_run_has_its_rows(done):
    store, _ = done
    scores, runs, curves = values(store)
    assert len(runs) == 4
    assert {key for _, key in scores} == {"mig", "mig.posterior", "tc.mean", "tc.sampled"}
    assert len({run for run, _ in scores}) == 4
    assert {run for run, *_ in curves} == {run for run, *_ in runs}
    assert all(np.isfinite(list(scores.values())))
    row = store.runs()[0]
    assert (row["letter"], row["strength"]) == ("beta", 4.0)
    assert row["study"] == "tiny"
    assert len(store.files("weights")) == 4
    assert store.files("claims") == []
    assert not any((store.folder / "work").iterdir())  # nothing is left behind
    assert len(recall(store, "tiny")["runs"]) == 4


def test_what_is_scored_while_a_stack_trains_is_counted_at_once(done, tmp_path, monkeypatch):
    _, sprites = done
    monkeypatch.setattr(runner, "_LOOK_EVERY", -1.0)
    store, heard = open_store(tmp_path / "s", create=True), []

    def listen(report):
        heard.append((report.label, report.step))
        if ("all runs", 1) not in heard and heard.count(("all runs", 0)) == 2:  # the second trains
            until = time.monotonic() + 60.0
            while not store.files("runs") and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(0.5)  # the row is there a moment before its process has answered

    configs = STUDY.runs(seeds="0")
    run_study(STUDY, configs, store, device="cpu", num_workers=1, details=False, weights="none",
              datasets={"sprites": sprites}, say=lambda line: None, listener=listen, most_runs=1)
    trained = [i for i, (label, step) in enumerate(heard)
               if label != "all runs" and step == configs[0].steps]
    assert heard.index(("all runs", 1)) < trained[-1]


def test_a_second_call_does_nothing_and_more_seeds_add_their_runs(done, tmp_path):
    store, sprites = done
    again = run_study(STUDY, STUDY.runs(), store, device="cpu", datasets={"sprites": sprites})
    assert (again.skipped, again.done) == (4, 0)
    parts = len(store.files("runs"))
    more = run_study(STUDY, STUDY.runs(seeds="2"), store, device="cpu", num_workers=1,
                     details=False, datasets={"sprites": sprites}, say=lambda line: None)
    assert more.done == 2
    assert len(store.files("runs")) == parts + 2
    assert len(recall(store, "tiny")["runs"]) == 6


def test_runs_that_another_has_claimed_are_left_to_it(done, tmp_path):
    _, sprites = done
    store = open_store(tmp_path / "s", create=True)
    configs = STUDY.runs()
    other = Runner(store, "somebody-else")
    other.beat()
    assert other.take([configs[0].run_id])
    outcome = run_study(STUDY, configs, store, device="cpu", num_workers=1, details=False,
                        datasets={"sprites": sprites}, say=lambda line: None)
    assert (outcome.done, outcome.elsewhere) == (3, 1)


def test_what_a_killed_runner_left_of_finished_runs_goes(done, tmp_path):
    """A row is stored by another process: a runner may be killed before it hears of it."""
    finished, sprites = done
    store = open_store(tmp_path / "s", create=True)
    merge(store, [finished])
    configs = STUDY.runs(seeds="0")
    gone, busy = (config.run_id for config in configs)
    for owner, run_id in (("killed", gone), ("at work", busy)):
        other = Runner(store, owner)
        other.beat()
        assert other.take([run_id])
        (store.folder / "work" / run_id).mkdir(parents=True)
        (store.folder / "work" / run_id / "weights.safetensors").write_bytes(b"large")
    silent = {"owner": "killed", "time": time.time() - 1000.0, "machine": "elsewhere"}
    store.write_file("runners/killed.json", json.dumps(silent).encode())
    old, new = (store.folder / "weights" / f".{name}.safetensors.0.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 1000.0,) * 2)

    run_study(STUDY, configs, store, device="cpu", datasets={"sprites": sprites})
    assert store.files("claims") == [f"{busy}.0.json"]
    assert store.files("runners") == ["at work.json"]
    assert [path.name for path in (store.folder / "work").iterdir()] == [busy]
    assert not old.exists()
    assert new.exists()
    assert values(store)[0] == values(finished)[0]


def test_stop_keeps_what_is_there(done, tmp_path, monkeypatch):
    finished, sprites = done
    store = open_store(tmp_path / "s", create=True)
    monkeypatch.setattr(runner, "watching", lambda store, listener, began, also: _stopping())

    def _stopping():
        def listen(report):
            raise runner.StopRequested
        return listen

    outcome = run_study(STUDY, STUDY.runs(), store, device="cpu", num_workers=1,
                        datasets={"sprites": sprites}, say=lambda line: None)
    assert outcome.stopped
    assert claimed(store) == {}
    monkeypatch.undo()
    outcome = run_study(STUDY, STUDY.runs(), store, device="cpu", num_workers=1, details=False,
                        datasets={"sprites": sprites}, say=lambda line: None)
    assert outcome.done == 4
    mine = {row["run_id"] for row in store.runs()}
    theirs = values(finished)[0]
    assert values(store)[0] == {k: v for k, v in theirs.items() if k[0] in mine}


def test_stop_is_heard_between_stacks_too_short_to_look(done, tmp_path, monkeypatch):
    _, sprites = done
    monkeypatch.setattr(runner, "_LOOK_EVERY", 1e9)
    store = open_store(tmp_path / "s", create=True)

    def listen(report):
        if report.label == tally.ALL_RUNS and report.text:  # the first stack is trained
            runner.request_stop(store)

    outcome = run_study(STUDY, STUDY.runs(seeds="0"), store, device="cpu", num_workers=1,
                        details=False, listener=listen, datasets={"sprites": sprites},
                        say=lambda line: None)
    assert (outcome.stopped, outcome.done) == (True, 1)


def test_a_run_that_failed_is_not_being_scored(tmp_path):
    heard, outcome = [], tally.Outcome()
    store = open_store(tmp_path / "s", create=True)
    counts = tally.Tally(store, "me", 3, outcome, listener=heard.append, say=lambda line: None)
    counts.stack(STUDY.runs()[:3])
    assert heard[-1].text.startswith("3 being scored")
    outcome.done += 1
    counts.failed("a", "no memory")
    counts.scored(["b"])
    assert heard[-1].text.startswith("1 being scored, 1 failed")
    outcome.diverged += 1
    counts.scored([])
    assert heard[-1].text.startswith("1 diverged, 1 failed")
    log = (store.folder / "log" / "me.log").read_text()
    assert log.count("stored") == log.count("stored b") == 1


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from small import make_sprites
from test_runner import STUDY
from unweave.studies.rows import prepare, score_and_store
from unweave.studies.runner import _scorers, run_study
from unweave.studies.scoring import score_run
from unweave.studies.store import open_store
if __name__ == "__main__":
    store = open_store(sys.argv[1], create=True)
    print(run_study(STUDY, STUDY.runs(), store, device="cpu", num_workers=1, details=False,
                    datasets={{"sprites": make_sprites()}}, say=lambda line: None))
"""


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_anywhere_it_goes_on_to_the_same_result(done, tmp_path, kills):
    """Kill -9 at random moments, then once to the end: the rows of an uninterrupted study."""
    finished, _ = done
    here = os.path.dirname(os.path.abspath(__file__))
    script = tmp_path / "go.py"
    script.write_text(SCRIPT.format(paths=[here, os.path.dirname(here)]))
    draw = random.Random(0)
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, str(script), str(tmp_path / "s")],
                                   start_new_session=True, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(1.0, 12.0))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, str(script), str(tmp_path / "s")], check=True, timeout=240,
                   stdout=subprocess.DEVNULL)
    store = open_store(tmp_path / "s")
    mine = {row["run_id"] for row in store.runs()}
    assert mine == {config.run_id for config in STUDY.runs()}
    scores, runs, curves = values(finished)
    assert values(store) == ({k: v for k, v in scores.items() if k[0] in mine},
                             [row for row in runs if row[0] in mine],
                             [row for row in curves if row[0] in mine])


def test_the_best_weights_of_each_cell_stay(done, tmp_path):
    _, sprites = done
    store = open_store(tmp_path / "s", create=True)
    configs = STUDY.runs(seeds="0..2")[:3]  # one method, three seeds
    run_study(STUDY, configs, store, device="cpu", num_workers=1, details=False, weights="best",
              datasets={"sprites": sprites}, say=lambda line: None, metrics=["mig"])
    values = {row["run_id"]: row["value"] for row in store.scores() if row["key"] == "mig"}
    assert store.files("weights") == [f"{max(values, key=values.get)}.safetensors"]
    log, = [store.read_file(f"log/{name}").decode() for name in store.files("log")]
    assert "tiny: 3 runs to make, 0 complete" in log
    assert "3 runs trained, 3 of 3 in all" in log
    assert log.splitlines()[-1].split(" ", 2)[2].startswith("end: 3 done, 0 diverged, 0 failed")
    with pytest.raises(UserError, match="'sap' is none: name one of mig, tc"):
        run_study(STUDY, configs, store, weights="best", best="sap", device="cpu")


def test_pruned_by_cell_or_over_all(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    for seed, beta, value in ((0, 1, 0.1), (1, 1, 0.3), (0, 2, 0.2), (1, 2, 0.05)):
        config, = plan("beta_vae", "dsprites", seeds=seed, beta=float(beta), device="cpu")
        store.append("scores", [{"run_id": config.run_id, "key": "mig", "value": value,
                                 "higher_is_better": True}])
        store.append("runs", [{"run_id": config.run_id, "config": config.to_json()}])
        store.write_file(f"weights/{config.run_id}.safetensors", b"x")
    assert prune_weights(store, keep=1, best="mig", per_cell=True) == {"kept": 2, "removed": 2}
    assert prune_weights(store, keep=1, best="mig") == {"kept": 1, "removed": 1}
    assert prune_weights(store, keep=0, best="mig") == {"kept": 0, "removed": 1}


def test_weights_of_other_studies_stay_where_one_keeps_its_best(tmp_path):
    """The first keeps all, and its runs have no score by which the second chooses."""
    store, finished = open_store(tmp_path / "s", create=True), []
    for name, method, key in (("one", "vae", "sap"), ("tiny", "dip_vae_i", "mig")):
        configs = plan(method, "sprites", seeds=[0, 1], device="cpu")
        remember(store, Study(name, make, "", data=("sprites",)), configs, (key,))
        for config, value in zip(configs, (float("nan"), 0.2)):
            store.append("scores", [{"run_id": config.run_id, "key": key, "value": value,
                                     "higher_is_better": True}])
            store.append("runs", [{"run_id": config.run_id, "config": config.to_json()}])
            store.write_file(f"weights/{config.run_id}.safetensors", b"x")
        finished.append(configs)
    # All is done: an earlier call was killed just before it removed what is not the best.
    run_study(STUDY, finished[1], store, metrics=["mig"], weights="best", device="cpu")
    assert set(store.files("weights")) == {f"{config.run_id}.safetensors" for config in (
        *finished[0], finished[1][1])}  # of the second study the one with a number


def test_two_studies_of_one_name_are_refused(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    remember(store, STUDY, STUDY.runs(), ("mig",))
    other = Study("tiny", make, "Others.", data=("sprites",), source="/elsewhere.py")
    with pytest.raises(UserError, match="has a study 'tiny' from unweave"):
        remember(store, other, other.runs(), ("mig",))


def test_metrics_that_ask_the_model_are_refused(done, tmp_path):
    """Before anything is trained or claimed."""
    _, sprites = done
    store, said = open_store(tmp_path / "s", create=True), []
    with pytest.raises(UserError, match="iwae asks the model itself"):
        run_study(STUDY, STUDY.runs(seeds="0")[:1], store, metrics=["mig", "iwae"], device="cpu",
                  datasets={"sprites": sprites}, say=said.append)
    assert said == []
    assert claimed(store) == {}
    assert store.files("runners") == []


def test_the_published_grid():
    configs = STUDIES["locatello2019"].runs(data=["dsprites"], seeds="0..49", device="cpu")
    assert len(configs) == 1800
    assert 7 * len(configs) == 12_600
    assert len({c.run_id for c in configs}) == 1800
    assert {c.architecture for c in configs} == {"conv64-study2019"}
    grid = {}
    for config in configs:
        letter, strength = strength_of(config)
        grid.setdefault((config.method, letter), set()).add(strength)
    assert grid == {(m, letter): set(map(float, values))
                    for m, letter, values, _ in catalog.LOCATELLO_GRID}
    first = next(c for c in configs if c.method == "dip_vae_i")
    assert first["lambda_d"] == 10 * first["lambda_od"]


@pytest.mark.parametrize("name", STUDIES)
def test_studies_that_ship_say_where_they_come_from(name):
    study = STUDIES[name]
    assert study.name == name
    for word in ("Command:", "Time:", "Result:", "Source:"):
        assert word in study.make.__doc__
    configs = study.runs(data=["dsprites"], seeds="0", device="cpu")
    assert bool(configs) == (name != "hartmann2021")


def test_a_study_from_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from unweave.training import plan\nMETRICS = ('mig',)\n"
                    "CONVENTION = 'paper'\nSETTINGS = {'num_points': 500}\n"
                    "def mine(data, seeds):\n    \"Two VAEs.\"\n"
                    "    return plan('vae', data[0], seeds=seeds, device='cpu', steps=3)\n"
                    "def wrong(data, seeds):\n    return [1]\n")
    study = find_study(f"{file}:mine")
    assert (study.summary, study.metrics) == ("Two VAEs.", ("mig",))
    assert (study.convention, study.settings) == ("paper", {"num_points": 500})
    assert len(study.runs(seeds="0..1")) == 2
    with pytest.raises(UserError, match="must return RunConfigs"):
        find_study(f"{file}:wrong").runs()
    file.write_text(file.read_text() + "SETTINGS = 5\n")
    with pytest.raises(UserError, match=r"SETTINGS of .* must be a dictionary"):
        find_study(f"{file}:mine")
    with pytest.raises(UserError, match="no function 'other'"):
        find_study(f"{file}:other")
    with pytest.raises(UserError, match="does not exist"):
        find_study(f"{tmp_path}/no.py:mine")
    with pytest.raises(UserError, match="unknown study 'locatelo2019': did you mean"):
        find_study("locatelo2019")
    with pytest.raises(UserError, match="does not take another number of steps"):
        study.runs(steps=5)


def test_a_study_may_change_settings_of_its_convention(done, tmp_path):
    """Kumar et al.'s machines in place of the convention's regressions: rows say so."""
    finished, sprites = done
    study = Study("tiny", make, "", data=("sprites",), metrics=("beta_vae", "mig"),
                  settings={"classifier": "svm", "num_train_votes": 300})
    (config, *_) = study.runs(seeds="0")
    store = open_store(tmp_path / "s", create=True)
    run_study(study, [config], store, device="cpu", num_workers=1, details=False, weights="all",
              datasets={"sprites": sprites}, say=lambda line: None)
    (own,) = [row for row in store.scores() if row["key"] == "beta_vae"]
    assert sorted(json.loads(own["overridden"])) == ["classifier", "num_train_votes"]
    assert json.loads(own["settings"])["classifier"] == "svm"
    (other,) = [row for row in store.scores() if row["key"] == "mig"]
    assert json.loads(other["overridden"]) == []
    assert recall(store, "tiny")["settings"] == dict(study.settings)
    kept = open_store(tmp_path / "t", create=True)
    run_study(study, [config], kept, metrics=["mig"], device="cpu", num_workers=1, details=False,
              datasets={"sprites": sprites}, say=lambda line: None)
    assert {row["key"] for row in kept.scores()} == {"mig", "mig.posterior"}
    with pytest.raises(UserError, match=r"settings is None, and that of .* is .*svm"):
        merge(finished, [store])


@pytest.mark.parametrize(("changed", "words"), [
    ({"settings": {"classifer": "svm"}}, "unknown setting of the metrics of tiny 'classifer': did"),
    ({"convention": "papers"}, "unknown convention 'papers': did you mean 'paper'"),
    ({"metrics": ("beta_va",)}, "unknown metric 'beta_va': did you mean 'beta_vae'")])
def test_what_cannot_be_scored_is_refused_before_training(tmp_path, changed, words):
    given = {"data": ("sprites",), "metrics": ("beta_vae",)} | changed
    store = open_store(tmp_path / "s", create=True)
    with pytest.raises(UserError, match=words):
        run_study(Study("tiny", make, "", **given), STUDY.runs(), store, device="cpu")
    assert recall(store, "tiny") is None


@pytest.mark.parametrize("changed", [{"convention": "paper"}, {"settings": {"num_points": 9}}])
def test_a_study_whose_scores_are_made_otherwise_wants_another_store(tmp_path, changed):
    store = open_store(tmp_path / "s", create=True)
    remember(store, STUDY, STUDY.runs(), ("mig",))
    other = Study("tiny", make, "", data=("sprites",), **changed)
    with pytest.raises(UserError, match=r"has a study 'tiny' whose .* use another store"):
        remember(store, other, other.runs(), ("mig",))
    remember(store, STUDY, STUDY.runs(seeds="2"), ("mig",))
    assert len(recall(store, "tiny")["runs"]) == 6


@pytest.mark.parametrize(("name", "networks", "settings"), [
    ("kim2018", {"kim2018-shapes2d"}, {}), ("kumar2018", {"higgins2017-dense"},
                                            {"classifier": "svm"}),
    ("kaddah2020", {"burgess2018"}, {})])
def test_papers_have_their_networks_and_metrics(name, networks, settings):
    study = STUDIES[name]
    assert {c.architecture for c in study.runs(data=["dsprites"], seeds="0")} == networks
    assert study.settings == settings
    assert "elbo" in study.metrics


def test_kaddahs_runs_are_those_that_its_paper_points_to():
    """Weights as PyTorch begins them; rates and strengths of the programs it names."""
    rates = {"beta_vae": 5e-4, "annealed_vae": 1e-3, "factor_vae": 1e-4, "beta_tcvae": 5e-4,
             "joint_vae": 5e-4}
    for data, shapes in (("dsprites", 3), ("shapes3d-render", 4)):
        runs = STUDIES["kaddah2020"].runs(data=[data], seeds="0")
        assert {c.method: c.learning_rate for c in runs} == rates
        assert {c.init for c in runs} == {"pytorch"}
        assert {c.steps for c in runs} == {30 * 737_280 // 64}  # 30 epochs of dSprites
        (joint,) = [c for c in runs if c.method == "joint_vae"]
        letters = dict(joint.hyper)
        assert letters["categories"] == str(shapes)
        assert letters["c_max_c"] == pytest.approx(np.log(shapes), abs=0.01)
        assert joint.num_latents == 6  # Dupont's, whose category comes on top
    assert STUDIES["kaddah2020"].convention == "paper"


def test_a_run_scored_apart_from_its_model_has_the_scores_it_has_beside_it(sprites, tmp_path):
    """Sampled codes, moments and reconstructions travel in a file, for the drawn rows alone."""
    metrics, few = ("mig", "elbo", "tc"), {"seeds": 0, "device": "cpu"}
    (run,) = train_small(plan("joint_vae", "sprites", **few, **SMALL), sprites, out=tmp_path)
    store = open_store(tmp_path / "s", create=True)
    (job,) = prepare([run], store, study="tiny", metrics=metrics, convention="study2019")
    assert score_and_store(job).error is None
    apart = {row["key"]: row["value"] for row in store.scores()}
    beside = {score.key: score.value for score in score_run(run, metrics=list(metrics))}
    assert apart == pytest.approx(beside, rel=1e-12)
    assert {"tc.sampled", "elbo.reconstruction"} <= set(apart)
    with np.load(job.inputs) as held:
        assert len(held["sampled"]) == len(held["sampled.rows"]) <= len(held["codes"])


def test_runs_are_scored_against_the_labels_of_their_own_data_set(tmp_path):
    """Digits and clothes are 60,000 images each; spaces with gaps may differ in the gaps alone."""
    rng, store = np.random.default_rng(0), open_store(tmp_path / "s", create=True)
    digits, clothes = rng.integers(3, size=(2, 400, 1))
    images = FactorSpace.without_factors(400)
    cells = rng.permutation(1_000)
    worlds = [(images, LabelTable(("what",), digits)), (images, LabelTable(("what",), clothes)),
              *((FactorSpace(("a", "b"), (40, 25), cells=part), None)
                for part in (cells[:400], cells[400:800]))]
    for number, (space, labels) in enumerate(worlds):
        rows = plan_scores(space, labels=labels, metrics="mig").index
        codes = space.factors(rows) if labels is None else labels.values[rows]
        np.savez(tmp_path / f"{number}.npz", codes=codes.astype(np.float64))
        job = ScoreJob(f"run{number}", store.address, {"status": "finished"}, None,
                       tmp_path / f"{number}.npz", space, labels, ("mig",), "study2019", (),
                       (0,) * codes.shape[1], "none", details=False)
        assert score_and_store(job, only_scores=True).error is None
    found = {row["run_id"]: row["value"] for row in store.scores()}
    assert found["run0"] == found["run1"] == pytest.approx(1.0)
    for number, (space, _) in enumerate(worlds[2:], 2):
        made = plan_scores(space, metrics="mig")
        (score,) = made.score(space.factors(made.index).astype(np.float64), details=False)
        assert found[f"run{number}"] == score.value


def test_a_scoring_process_that_is_killed_is_replaced_for_the_next_stack(tmp_path):
    """Ended from outside, for want of memory perhaps, it breaks its pool for good."""
    store = open_store(tmp_path / "s", create=True)
    row = {"run_id": "lost", "study": "tiny", "status": "diverged", "method": "vae"}
    job = ScoreJob("lost", store.address, row, None, None, FactorSpace(("a",), (2,)), None, (),
                   "study2019", (), (), "none")
    with _scorers(1) as scorers:
        broken = scorers._pools[-1].submit(os._exit, 1)
        assert isinstance(broken.exception(), BrokenProcessPool)
        result = scorers.submit(job).result()
    assert (result.error, result.status) == (None, "diverged")
    assert [found["run_id"] for found in store.runs()] == ["lost"]


ALONE = """
import os, sys
from unweave.studies.runner import _scorers
if __name__ == "__main__":
    with _scorers(1) as scorers:
        print(scorers._pools[-1].submit(os.getpid).result(), flush=True)
        sys.stdin.read()
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="asks /proc whether it runs")
def test_processes_that_score_end_with_the_runner_that_is_killed(tmp_path):
    (tmp_path / "go.py").write_text(ALONE)
    runs = subprocess.Popen([sys.executable, str(tmp_path / "go.py")], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    pid = int(runs.stdout.readline())
    runs.kill()
    runs.communicate()
    until = time.monotonic() + 20.0
    while (there := _started(pid) is not None) and time.monotonic() < until:
        time.sleep(0.1)
    if there:
        os.kill(pid, signal.SIGKILL)
    assert not there
