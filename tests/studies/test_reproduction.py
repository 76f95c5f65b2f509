"""The released rows of our own runs of the published study, and the page that shows them."""

import importlib.util
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from unweave.studies.catalog import LOCATELLO_GRID
from unweave.studies.reproduction import agreement
from unweave.studies.store import open_store

NAMES = {"beta_vae": "beta-VAE", "annealed_vae": "AnnealedVAE", "factor_vae": "FactorVAE",
         "dip_vae_i": "DIP-VAE-I", "dip_vae_ii": "DIP-VAE-II", "beta_tcvae": "beta-TCVAE"}
SCORES = ("elbo.reconstruction", "elbo.kl", "beta_vae", "factor_vae", "mig", "sap",
          "dci.disentanglement", "dci.completeness", "modularity", "explicitness.test")
ROOT = Path(__file__).resolve().parents[2]
RELEASED = ROOT / "results" / "locatello2019"


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a file of bench/ with words, in this process; what it prints."""

    def run(file, *words):
        spec = importlib.util.spec_from_file_location(f"bench_{file}", ROOT / "bench" / file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setattr(sys, "argv", [file, *map(str, words)])
        module.main()
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def store():
    if not RELEASED.exists():
        pytest.skip("this copy has no results")
    return open_store(RELEASED)


def test_released_rows_are_whole_runs_of_the_study(store):
    runs = store.runs()
    grid = {(method, float(v)) for method, _, values, _ in LOCATELLO_GRID for v in values}
    assert {(row["method"], row["strength"]) for row in runs} <= grid
    for row in runs:
        assert (row["steps"], row["batch_size"], row["num_latents"]) == (300_000, 64, 10)
        assert (row["data"], row["architecture"]) == ("dsprites", "conv64-study2019")
        assert set(json.loads(row["versions"])) <= {"unweave", "torch", "numpy", "python"}
    scores = {}
    for row in store.scores():
        assert math.isfinite(row["value"]), row
        scores.setdefault(row["run_id"], set()).add(row["key"])
    assert set(scores) == {row["run_id"] for row in runs}
    assert len(set(map(frozenset, scores.values()))) == 1
    assert store.files("curves") == store.files("weights") == []


def test_released_again_nothing_changes(store, tmp_path, command):
    folder = tmp_path / "again"
    said = command("release.py", folder, RELEASED)
    assert said.startswith(f"{len(store.runs())} runs, {len(store.scores())} scores")
    again = command("release.py", folder, RELEASED)
    assert again == said
    key = lambda row: (row["run_id"], row.get("key", ""))  # noqa: E731
    for table in ("runs", "scores"):
        ours, theirs = (sorted(s.read(table).to_pylist(), key=key)
                        for s in (store, open_store(folder)))
        assert ours == theirs


def test_the_page_has_the_tables_of_its_command(store, shared, command):
    """Every line that bench/reproduction.py prints from the released rows stands in the page."""
    published = shared / "published" / "dsprites_full.csv.gz"
    made = command("reproduction.py", RELEASED, "--published", published)
    page = (ROOT / "docs" / "reproduction.md").read_text()
    for line in made.splitlines():
        assert line in page, line
    assert len(made.splitlines()) > 40


def test_the_first_page_has_the_released_medians(store, shared):
    """The README's first table: reconstructions of both sides, and how many scores are inside."""
    records = agreement(store, [shared / "published" / "dsprites_full.csv.gz"])
    readme = (ROOT / "README.md").read_text()
    for method, name in NAMES.items():
        own = [record for record in records if record["method"] == method]
        recon = sorted((r for r in own if r["score"] == "elbo.reconstruction"),
                       key=lambda r: r["strength"])
        row = [", ".join(f"{r[side]:.1f}" for r in recon)
               for side in ("published_median", "median")]
        inside = sum(r["inside"] for r in own if r["score"] in SCORES)
        assert f"| {name} | {row[0]} | {row[1]} | {inside}" in readme


def test_the_page_has_the_answers_of_both_sides(store, shared, command, tmp_path):
    """What bench/figures.py prints stands in the page, and it draws what the page shows."""
    published = shared / "published" / "dsprites_full.csv.gz"
    made = command("figures.py", RELEASED, "--published", published, "--out", tmp_path)
    page = (ROOT / "docs" / "reproduction.md").read_text()
    answers = [line for line in made.splitlines() if line.startswith("- ")]
    assert len(answers) == 10
    for line in answers:
        assert line in page, line
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == set(re.findall(r"pictures/studies/(\S+-beside.png)", page))


def test_tables_of_papers_from_a_store(tmp_path, command):
    """Made-up rows: means and deviations over seeds, and the best strength beside the paper's."""
    store = open_store(tmp_path / "s", create=True)
    made = [("kim2018", "factor_vae", 40.0, {"factor_vae": (0.8, 0.9)}),
            ("kumar2018", "vae", None, {"beta_vae": (0.8, 0.82)}),
            ("kumar2018", "dip_vae_i", 1.0, {"beta_vae": (0.7, 0.7)}),
            ("kumar2018", "dip_vae_i", 50.0, {"beta_vae": (0.9, 1.0)}),
            ("kaddah2020", "joint_vae", 30.0, {"factor_vae": (0.7, 0.8),
                                               "factor_vae.train": (0.75, 0.85)})]
    for study, method, strength, scores in made:
        for seed in (0, 1):
            run = {"run_id": f"{study}-{method}-{strength}-{seed}"}
            store.append("runs", [run | {"study": study, "source": "unweave", "status": "done",
                                         "method": method, "data": "dsprites", "seed": seed,
                                         "strength": strength}])
            store.append("scores", [run | {"key": key, "value": pair[seed]} for key, pair in
                                    (scores | {"elbo.reconstruction": (40.0, 44.0)}).items()])
    said = command("papers.py", store.folder)
    assert "| `factor_vae` 40 | 2 | 0.850 ± 0.071 | 0.82 | 42.0 ± 2.8 | 45 |" in said
    assert "| `vae` | 2 | 81.0 ± 1.4 | 81.3 | 42.0 ± 2.8 | 1.00 | 1.00 |" in said
    assert "| `dip_vae_i` 1 | 2 | 70.0 ± 0.0 |  | 42.0 ± 2.8 | 1.00 |  |" in said
    assert "| `dip_vae_i` 50 | 2 | 95.0 ± 7.1 | 98.7, its best |" in said
    assert "| `joint_vae` 30 | 2 | 0.800 ± 0.071 | 0.801 | 0.750 ± 0.071 | 0.792 |" in said


def test_the_pages_have_the_released_rows_of_papers(command):
    """Every row of bench/papers.py stands in a page."""
    said = command("papers.py", ROOT / "results" / "papers")
    pages = "\n".join((ROOT / "docs" / name).read_text()
                      for name in ("reproduction.md", "methods/infowgan_gp.md"))
    rows = [line for line in said.splitlines() if line.startswith("| `")]
    assert len(rows) >= 16
    for row in rows:
        assert row in pages, row


def test_the_page_has_what_the_published_study_says_of_kim_and_mnih(shared, command):
    published = shared / "published" / "dsprites_full.csv.gz"
    said = command("papers.py", ROOT / "results" / "papers", "--published", published)
    page = (ROOT / "docs" / "reproduction.md").read_text()
    rows = [line for line in said.splitlines() if line.startswith("| `") and "Locatello" in line]
    assert len(rows) == 2
    assert all(row in page for row in rows), rows
    largest, = re.findall(r"factor_vae` 40, Loc.* of its runs the largest is (.*)\.", said)
    assert f"Of 10,000 means of ten of those FactorVAEs the largest is {largest}" in page


def test_the_page_has_how_much_of_the_shift_votes_explain(store, shared, command):
    said = command("reproduction.py", RELEASED, "--published",
                   shared / "published" / "dsprites_full.csv.gz", "--add", "factor_vae=0.005")
    before, after = re.search(r"methods (\S+ \S+), and (\S+ \S+) with 0.005 added", said).groups()
    assert before != after
    page = " ".join((ROOT / "docs" / "reproduction.md").read_text().split())
    assert f" has {before}, the smallest of ten such numbers" in page
    assert f"with so much added we have {after} " in page


def test_a_script_tells_a_missing_store_in_a_sentence_and_writes_nothing(tmp_path):
    ended = subprocess.run([sys.executable, ROOT / "bench" / "release.py", tmp_path / "rows",
                            tmp_path / "nothing"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.strip().endswith(f"there is no store at {tmp_path / 'nothing'}: "
                                         "`unweave study run` makes one")
    assert "Traceback" not in ended.stderr
    assert not any(tmp_path.iterdir())


def test_a_release_that_was_killed_while_it_changed_folders_loses_no_rows(tmp_path):
    row = {"study": "s", "source": "unweave", "status": "done", "method": "vae"}
    for name in ("rows.old", "more"):
        open_store(tmp_path / name, create=True).append("runs", [{"run_id": name, **row}])
    subprocess.run([sys.executable, ROOT / "bench" / "release.py", tmp_path / "rows",
                    tmp_path / "more"], capture_output=True, check=True)
    assert {run["run_id"] for run in open_store(tmp_path / "rows").runs()} == {"rows.old", "more"}
    assert [path.name for path in tmp_path.iterdir() if "rows" in path.name] == ["rows"]
