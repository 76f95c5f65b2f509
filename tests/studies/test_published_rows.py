"""Released scores become rows, in either form, once; what cannot be read is one sentence."""

import gzip
import json
import shutil

import pytest

from unweave.studies.published import import_published, read_published
from unweave.studies.store import open_store
from unweave.types import UserError

HEADER = ("model_num,dataset,model_name,vae_beta,factor_vae_gamma,dip_vae_lambda_od,"
          "beta_tc_vae_beta,annealed_vae_c_max,model_random_seed,elbo,kl_loss,reconstruction_loss,"
          "beta_vae_eval_accuracy,mig_discrete_mig,dci_disentanglement")
LINES = ("0,'dsprites_full','beta_vae',4.0,,,,,3,-30.5,10.5,20.0,0.8,0.1,0.2",
         "9,'cars3d','beta_tc_vae',,,,6.0,,0,-31.0,11.0,20.0,0.9,0.3,",
         "7,'smallnorb','factor_vae',,20.0,,,,1,,11.0,20.0,0.7,0.2,0.4")


def table(path, lines=LINES):
    payload = "\n".join([HEADER, *lines]).encode()
    path.write_bytes(gzip.compress(payload) if path.suffix == ".gz" else payload)
    return path


def evaluation(name, results, *, post="mean", method="'beta_tc_vae'", seed=0, **config):
    return {"train_config.model.name": method, "train_config.dataset.name": "'dsprites_full'",
            "train_config.model.random_seed": str(seed), "train_config.beta_tc_vae.beta": "6.0",
            "train_results.reconstruction_loss": 20.0, "train_results.kl_loss": 5.0,
            "postprocess_config.postprocess.postprocess_fn": f"@{post}_representation",
            "evaluation_config.evaluation.evaluation_fn": f"@{name}",
            **{f"evaluation_config.{k}": v for k, v in config.items()},
            **{f"evaluation_results.{k}": v for k, v in results.items()}}


EVALUATIONS = [
    evaluation("mig", {"discrete_mig": 0.25}),
    evaluation("mig", {"discrete_mig": 0.9}, post="sampled"),
    evaluation("beta_vae_sklearn", {"eval_accuracy": 0.8, "train_accuracy": 0.85}),
    evaluation("factor_vae_score", {"eval_accuracy": 0.7, "train_accuracy": 0.75,
                                    "num_active_dims": 6}),
    evaluation("unsupervised_metrics", {"gaussian_total_correlation": 3.0}),
    evaluation("unsupervised_metrics", {"gaussian_total_correlation": 1.0}, post="sampled"),
    evaluation("downstream_task", {"100:mean_test_accuracy": 0.4, "10000:mean_test_accuracy": 0.5},
               **{"predictor.predictor_fn": "@gradient_boosting_classifier"}),
]
EXPECTED = {"mig": 0.25, "beta_vae": 0.8, "beta_vae.train": 0.85, "factor_vae": 0.7,
            "factor_vae.train": 0.75, "factor_vae.num_active": 6.0, "tc.mean": 3.0,
            "tc.sampled": 1.0, "downstream.boosting.100": 0.4, "downstream.boosting.10000": 0.5,
            "downstream.boosting.efficiency_100": 0.8, "elbo": -25.0, "elbo.kl": 5.0,
            "elbo.reconstruction": 20.0}


def values(store):
    return {(row["run_id"], row["key"]): row["value"] for row in store.scores()}


def test_the_table_becomes_rows_under_our_names(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    done = import_published(store, [table(tmp_path / "a.csv.gz")])
    assert done == {"runs": 3, "scores": 17, "new_runs": 3, "new_scores": 17}
    rows = {row["run_id"]: row for row in store.runs()}
    row = rows["published-cars3d-beta_tcvae-beta=6-0"]
    assert (row["method"], row["data"], row["letter"], row["strength"], row["seed"]) == (
        "beta_tcvae", "cars3d", "beta", 6.0, 0)
    assert (row["source"], row["status"], row["study"]) == ("published", "done", "published")
    found = values(store)
    assert found["published-dsprites-beta_vae-beta=4-3", "mig"] == 0.1
    assert ("published-cars3d-beta_tcvae-beta=6-0", "dci.disentanglement") not in found
    # The study's FactorVAE did not log the bound: it is the sum of its parts.
    assert found["published-smallnorb-factor_vae-gamma=20-1", "elbo"] == -31.0
    score = next(r for r in store.scores() if r["key"] == "elbo.reconstruction")
    assert (score["metric"], score["convention"], score["version"], score["higher_is_better"]) == (
        "elbo", "study2019", "published", False)


def test_importing_twice_changes_nothing_and_more_adds_what_is_missing(tmp_path):
    store = open_store(tmp_path / "s", create=True)
    import_published(store, [table(tmp_path / "a.csv", LINES[:2])])
    before, parts = values(store), store.files("scores")
    again = import_published(store, [tmp_path / "a.csv", tmp_path / "a.csv"])
    assert (again["new_runs"], again["new_scores"]) == (0, 0)
    assert store.files("scores") == parts
    more = import_published(store, [table(tmp_path / "b.csv")])
    assert (more["new_runs"], more["new_scores"]) == (1, 6)
    assert before.items() <= values(store).items()


@pytest.mark.parametrize("form", ["rows", "columns", "folders", "parts"])
def test_the_json_form(tmp_path, form):
    target = tmp_path / "results.json"
    if form == "rows":
        target.write_text(json.dumps(EVALUATIONS))
    elif form == "columns":
        names = {k for row in EVALUATIONS for k in row}
        target.write_text(json.dumps({k: {str(i): row.get(k) for i, row in enumerate(EVALUATIONS)}
                                      for k in names}))
    else:
        target = tmp_path / "models"
        for i, row in enumerate(EVALUATIONS):
            results = target / f"0/metrics/{i}/results"
            if form == "folders":
                (results / "aggregate").mkdir(parents=True)
                (results / "aggregate/evaluation.json").write_text(json.dumps(row))
                continue
            (results / "json").mkdir(parents=True)
            for stem in {k.partition(".")[0] for k in row}:
                (results / f"json/{stem}.json").write_text(json.dumps(
                    {k.partition(".")[2]: v for k, v in row.items() if k.startswith(f"{stem}.")}))
    store = open_store(tmp_path / "s", create=True)
    import_published(store, [target])
    assert {key: value for (_, key), value in values(store).items()} == pytest.approx(EXPECTED)
    assert [row["run_id"] for row in store.runs()] == ["published-dsprites-beta_tcvae-beta=6-0"]


@pytest.mark.parametrize(("name", "payload", "words"), [
    ("a.csv", "x,y\n1,2\n", "has no column 'dataset'"),
    ("a.csv", "\n".join([HEADER, LINES[0].replace("beta_vae'", "gan'")]), "'gan' is none of the"),
    ("a.csv", "\n".join([HEADER, LINES[0].replace("dsprites_full", "mnist")]), "'mnist' is none"),
    ("a.csv", "\n".join([HEADER, LINES[0].replace("4.0", "")]), "line 2: the seed '3' or vae.beta"),
    ("a.csv", "\n".join([HEADER, LINES[0].replace("0.1", "good")]), "mig is 'good', not a number"),
    ("a.csv.gz", "not gzip", "cannot be read"),
    ("a.json", "{", "is not JSON"),
    ("a.json", "3", "neither a list of evaluations"),
    ("a.json", '[{"x": 1}]', "has no train_config.model.name"),
    ("a.txt", "", "must end in .csv"),
    ("nothing.csv", None, "does not exist"),
    ("folder", None, "does not exist|has no result files"),
])
def test_bad_files_are_one_sentence_and_rows_are_safe(tmp_path, name, payload, words):
    store = open_store(tmp_path / "s", create=True)
    if payload is not None:
        (tmp_path / name).write_text(payload)
    elif name == "folder":
        (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=words):
        import_published(store, [table(tmp_path / "good.csv"), tmp_path / name])
    assert store.runs() == []


def write_models(folder):
    """Two models as the study's library leaves them: one evaluated, one only trained."""
    for number, row in ((0, EVALUATIONS[0]), (1, evaluation("mig", {}, seed=1))):
        trained = {k: v for k, v in row.items() if k.startswith("train_")}
        steps = {"train": trained} | ({"evaluation": row} if number == 0 else {})
        for step, held in steps.items():
            part = "metrics/mean/mig" if step == "evaluation" else "model"
            for name, record in ({f"aggregate/{step}": held} | {
                    f"json/{stem}": {k.partition(".")[2]: v for k, v in held.items()
                                     if k.startswith(f"{stem}.")}
                    for stem in {k.partition(".")[0] for k in held}}).items():
                path = folder / f"{number}/{part}/results/{name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(record))
    (folder / "0/model/results/gin").mkdir()
    (folder / "0/model/results/gin/train.gin").write_text("model.name = 'beta_tc_vae'")


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "gztar"])
def test_folders_of_models_also_in_archives_and_without_evaluations(tmp_path, form):
    target = tmp_path / "models"
    write_models(target)
    if form != "folder":
        target = shutil.make_archive(str(tmp_path / "packed"), form, target)
    store = open_store(tmp_path / "s", create=True)
    assert import_published(store, [target])["runs"] == 2
    found = values(store)
    stem = "published-dsprites-beta_tcvae-beta=6"
    assert found[f"{stem}-0", "mig"] == 0.25
    assert {key for run, key in found if run == f"{stem}-1"} == {"elbo", "elbo.kl",
                                                                 "elbo.reconstruction"}


def test_a_damaged_archive_is_one_sentence(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK no")
    with pytest.raises(UserError, match="cannot be read"):
        import_published(open_store(tmp_path / "s", create=True), [tmp_path / "a.zip"])


@pytest.mark.parametrize(("seed", "number"), [("inf", ""), ("0", "inf"), ("0", "x")])
def test_seeds_and_numbers_of_models_that_are_none_are_one_sentence(tmp_path, seed, number):
    path = tmp_path / "table.csv"
    path.write_text("dataset,model_name,model_random_seed,vae_beta,model_num\n"
                    f"cars3d,beta_vae,{seed},1,{number}\n")
    with pytest.raises(UserError, match=r"line 2: the .* is not a number"):
        read_published([path])
