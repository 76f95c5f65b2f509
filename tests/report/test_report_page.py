"""The report: what is in the file, that text stays text, and how it works in a browser."""

import json
import re
import shutil
import time
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from random_runs import noise, random_run, score_row, write_run
from unweave import cli
from unweave.config import RunConfig
from unweave.report.document import page, sources, write_report
from unweave.report.document.contents import spans, study_command, train_command
from unweave.report.document.questions import box
from unweave.report.document.values import column, short
from unweave.studies.store import open_store
from unweave.training import folder as files
from unweave.training import load
from unweave.types import UserError

METHODS = {"beta_vae": "beta", "factor_vae": "gamma"}
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def fill(store, *, source="published", num_seeds=5, study="published"):
    """Made-up runs of two methods at two strengths, with scores that follow the strength."""
    rng = np.random.default_rng(0)
    runs, scores = [], []
    for method, letter in METHODS.items():
        for strength in (1.0, 4.0):
            for seed in range(num_seeds):
                name = f"{source}-{method}-{strength:g}-{seed}"
                runs.append({"run_id": name, "source": source, "study": study, "status": "done",
                             "method": method, "data": "dsprites", "letter": letter,
                             "strength": strength, "seed": seed, "steps": 10})
                for key in ("mig", "sap", "dci.disentanglement"):
                    value = 0.1 * strength / 4 + 0.05 * rng.random()
                    scores.append({"run_id": name, "key": key, "metric": key.split(".")[0],
                                   "value": value, "low": value - 0.01, "high": value + 0.01,
                                   "higher_is_better": True, "convention": "study2019",
                                   "version": "1", "seed": 0, "overridden": "[]"})
    store.append("scores", scores)
    store.append("runs", runs)


def tags_of(text):
    """Tags of a page with their attributes, as a browser would find them."""
    found = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.append((tag, dict(attributes)))

    Tags().feed(text)
    return found


def data_of(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found[1])


def values_of(contents, name):
    (found,) = [c for c in contents["runs"]["columns"] if c["name"] == name]
    return found["values"] if "values" in found else [found["words"][i] for i in found["at"]]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = open_store(tmp_path_factory.mktemp("stores") / "study", create=True)
    fill(made)
    fill(made, source="unweave", num_seeds=2, study=EVIL)
    made.append("curves", [{"run_id": "unweave-beta_vae-1-0", "step": step, "term": term,
                            "value": 100.0 / step} for step in range(1, 40)
                           for term in ("loss", "recon", "kl")])
    return made


@pytest.fixture(scope="module")
def report(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("reports") / "report.html"
    write_report(store.address, path, title=f"Study {EVIL} {{{{data}}}}")
    return path


def test_everything_is_in_one_file(report):
    text = report.read_text(encoding="utf-8")
    addresses = {attributes.get(name) for _, attributes in tags_of(text)
                 for name in ("src", "href")} - {None}
    assert addresses == {"#main"}
    # The namespace is a name, not an address.
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src &#x27;none&#x27;" in text
    assert list(report.parent.iterdir()) == [report]


def test_text_stays_text(report):
    found = tags_of(report.read_text(encoding="utf-8"))
    assert [tag for tag, _ in found].count("script") == 2
    assert not any(tag == "img" or any(name.startswith("on") for name in attributes)
                   for tag, attributes in found)
    contents = data_of(report)
    assert contents["title"] == f"Study {EVIL} {{{{data}}}}"
    assert EVIL in values_of(contents, "study")


def test_numbers_are_those_of_the_store(report, store):
    contents = data_of(report)
    assert contents["runs"]["num"] == 28
    stored = {(row["run_id"], row["key"]): row["value"] for row in store.scores()}
    ids = values_of(contents, "run_id")
    for name, value in zip(ids, values_of(contents, "mig")):
        assert value == pytest.approx(stored[name, "mig"], rel=1e-4)
    (mig,) = [c for c in contents["runs"]["columns"] if c["name"] == "mig"]
    assert mig["better"] == "higher"
    assert mig["low"][0] == pytest.approx(mig["values"][0] - 0.01, abs=1e-4)
    curve = contents["curves"]["unweave-beta_vae-1-0"]
    assert curve["step"][:2] == [1, 2]
    assert curve["terms"]["loss"][:2] == [100, 50]


def test_answers_and_published_runs(report):
    contents = data_of(report)
    answered = {a["name"] for a in contents["answers"] if not a["missing"]}
    assert {"agreement", "ranges"} <= answered
    assert all(a["missing"] or (a["sentence"] and a["tables"]) for a in contents["answers"])
    assert any(a["figures"] for a in contents["answers"])
    places = contents["published"]["table"]
    assert places["num"] == 8 * 3
    percentiles = next(c for c in places["columns"] if c["name"] == "of all")["values"]
    assert all(0 <= p <= 100 for p in percentiles)
    panels = contents["published"]["figures"][0]["panels"]
    assert {p["title"] for p in panels} == {"mig", "sap", "dci.disentanglement"}
    assert sum(len(b["points"]) for b in panels[0]["boxes"]) == 8
    commands = [command for _, command in contents["commands"]]
    assert any(command.startswith("unweave report ") for command in commands)
    assert contents["versions"][0][0] == "this report"


def test_one_source_or_study_alone(store, tmp_path):
    write_report(store.address, tmp_path / "a.html", source="published")
    contents = data_of(tmp_path / "a.html")
    assert contents["runs"]["num"] == 20
    assert contents["published"] is None
    with pytest.raises(UserError, match="unknown study"):
        write_report(store.address, tmp_path / "b.html", study="nothing")
    assert not (tmp_path / "b.html").exists()


def test_weights_that_were_kept_are_looked_at(tmp_path):
    from unweave.studies.rows import run_row
    from unweave.training import train

    (run,) = train("vae", steps=2, batch_size=4, num_latents=2, architecture="conv64-small",
                   out=tmp_path / "runs", progress=False, precision="float32")
    store = open_store(tmp_path / "store", create=True)
    store.append("runs", [run_row(run, "own")])
    store.write_file(f"weights/{run.run_id}.safetensors",
                     (run.folder / "weights.safetensors").read_bytes())
    store.append("runs", [run_row(run, "own") | {"run_id": "vae-damaged"}])
    store.write_file("weights/vae-damaged.safetensors", b"nothing")
    record = write_report(store.address, tmp_path / "kept.html")
    assert record["traversals"] == 1
    contents = data_of(tmp_path / "kept.html")
    (look,) = contents["looks"]
    assert [row["name"] for row in look["rows"]] in (["z0", "z1"], ["z1", "z0"])
    assert all(row["strip"].startswith("data:image/png;base64,") for row in look["rows"])
    assert "vae-damaged: " in contents["not_shown"][0]
    # The same run from the folder of runs, and below from its own.
    record = write_report(tmp_path / "runs", tmp_path / "run.html")
    assert (record["runs"], record["traversals"]) == (1, 1)
    contents = data_of(tmp_path / "run.html")
    assert {"kl.0", "kl.1"} <= set(contents["curves"][run.run_id]["terms"])
    assert contents["commands"][0][1] == train_command(run.config)
    with pytest.raises(SystemExit) as leave:
        cli.main(["report", str(run.folder), "-o", str(tmp_path / "cli.html"), "--json"])
    assert leave.value.code == 0
    assert (tmp_path / "cli.html").stat().st_size < 500_000


def test_traversals_of_a_folder_are_those_of_the_best_runs_that_did_not_diverge(tmp_path,
                                                                              monkeypatch):
    data = noise((64, 64, 1))
    monkeypatch.setattr(sources, "load", lambda folder, device: load(folder, data=data))
    runs = sorted((random_run(data=data, seed=seed) for seed in range(4)),
                  key=lambda run: run.run_id)
    for run, mig in zip(runs, (0.9, 0.1, 0.2, 0.7)):
        folder = write_run(run, tmp_path / "runs")
        row = score_row(run, "mig", mig) | {"low": None, "high": None, "overridden": "[]"}
        pq.write_table(pa.Table.from_pylist([row]), folder / "scores.parquet")
    files.write_json(tmp_path / "runs" / runs[0].run_id / "run.json", {
        "format": 1, "run_id": runs[0].run_id, "status": "diverged", "diverged_at": 3})
    write_report(tmp_path / "runs", tmp_path / "best.html", num_looks=2)
    shown = [look["run_id"] for look in data_of(tmp_path / "best.html")["looks"]]
    assert shown == [runs[3].run_id, runs[2].run_id]


def test_a_folder_is_reported_on_without_data_of_its_runs_and_without_damaged_ones(tmp_path):
    """What lived in memory when it was trained has scores and curves all the same."""
    first, second, third = (random_run(seed=seed) for seed in range(3))
    for run in (first, second, third):
        write_run(run, tmp_path / "runs")
    row = score_row(first, "mig", 0.5) | {"low": None, "high": None, "overridden": "[]"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "runs" / first.run_id / "scores.parquet")
    (tmp_path / "runs" / third.run_id / "config.json").write_text("{")
    record = write_report(tmp_path / "runs", tmp_path / "a.html", num_looks=1)
    assert (record["runs"], record["traversals"]) == (2, 0)
    contents = data_of(tmp_path / "a.html")
    assert sorted(values_of(contents, "run_id")) == sorted([first.run_id, second.run_id])
    assert set(contents["curves"]) == {first.run_id, second.run_id}
    left_out, not_looked_at = contents["not_shown"]
    assert left_out.startswith(f"left out: {third.run_id}/config.json cannot be read")
    assert not_looked_at.startswith(f"{first.run_id}: {first.run_id} was trained on 'noise'")
    # No command trains on what was in memory.
    assert [what for what, _ in contents["commands"]] == ["score", "make this report"]
    with pytest.raises(UserError, match=r"config\.json cannot be read"):
        write_report(tmp_path / "runs" / third.run_id, tmp_path / "b.html")


def test_options_of_stores_are_refused_for_folders_and_the_other_way_round(store, tmp_path):
    write_run(random_run(), tmp_path / "runs")
    for words in ({"study": "mine"}, {"source": "published"}):
        with pytest.raises(UserError, match="chooses among the runs of a store"):
            write_report(tmp_path / "runs", tmp_path / "a.html", **words)
    with pytest.raises(UserError, match="--published is for run folders"):
        write_report(store.address, tmp_path / "a.html", published=store.address)
    assert not (tmp_path / "a.html").exists()


def test_the_report_says_how_it_was_made_with_the_convention_and_all(store, tmp_path):
    path = tmp_path / "a.html"
    write_report(store.address, path, convention="paper", num_looks=0, seed=3, title="My $ study")
    said = data_of(path)["commands"][-1][1]
    assert said.endswith("--convention paper --traversals 0 --seed 3 --title 'My $ study'")
    with pytest.raises(UserError, match="unknown convention 'papers'"):
        write_report(store.address, path, convention="papers")


def test_commands_train_the_same_run(monkeypatch):
    import unweave.training
    from unweave.training import plan

    (config,) = plan("beta_tcvae", beta=1 / 3, steps=7, seeds=4, learning_rate=3e-4,
                     precision="float32")
    caught = []

    def instead(method, data, *, out, resume, **given):
        caught.extend(plan(method, data, **given))
        raise KeyboardInterrupt

    monkeypatch.setattr(unweave.training, "train", instead)
    with pytest.raises(SystemExit):
        cli.main(train_command(config).split()[1:])
    assert caught == [config]
    assert train_command(RunConfig("vae", adam_beta1=0.5)) is None
    record = {"name": "quick", "source": "unweave", "metrics": ["mig"], "runs": {
        str(s): {"data": "dsprites", "seed": s, "steps": 5} for s in (0, 1, 2, 5)}}
    assert study_command(record, "S") == ("unweave study run quick --data dsprites --seeds "
                                          "0..2,5 --steps 5 --metrics mig --store S")
    assert spans([3]) == "3"


def test_plain_values():
    assert short(0.123456789) == 0.12346
    assert short(float("nan")) is None
    assert short(np.float32(2.0)) == 2
    assert column("a", ["x"] * 9 + ["y", None])["at"] == [0] * 9 + [1, -1]
    five = box([*range(9), 100])
    assert five["five"] == [0, 2.25, 4.5, 6.75, 8]
    assert five["outside"] == [100]
    assert box([np.nan]) == {"num": 0}


@pytest.mark.parametrize(("target", "out", "words"), [
    ("/no/where", "a.html", "there is no store and no run at"),
    (".", "a.html", "neither a store, nor a run folder"),
    (".", "a.pdf", "must end in .html"),
])
def test_bad_targets_are_one_sentence(capsys, tmp_path, monkeypatch, target, out, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leave:
        cli.main(["report", target, "-o", out])
    err = capsys.readouterr().err
    assert leave.value.code == 2
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("needs chromium")
    with sync.sync_playwright() as started:
        made = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def opened(browser, report):
    """A page on the report that allows no request, and what it complained about."""
    view = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = []
    view.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    view.on("pageerror", lambda error: complaints.append(str(error)))
    view.on("dialog", lambda dialog: complaints.append(dialog.message))
    view.on("request", lambda r: complaints.append(r.url) if not r.url.startswith(
        ("file:", "data:")) else None)
    view.goto(f"file://{report}")
    view.wait_for_selector("#runs tbody tr")
    yield view
    view.close()
    assert complaints == []


def test_tables_sort_filter_and_open_runs(opened):
    first = "#runs tbody tr >> nth=0"
    assert "1 to 25 of 28" in opened.inner_text("#runs .pages")
    heading = opened.locator("#runs th", has_text="seed")
    heading.locator("button").focus()
    opened.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    opened.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert "-4" in opened.inner_text(first)
    opened.fill("#runs input[type=search]", "factor_vae mig>0.1")
    rows = int(re.search(r"of (\d+)", opened.inner_text("#runs .pages"))[1])
    assert 0 < rows < 14
    opened.fill("#runs input[type=search]", "no such words")
    assert "Nothing fits" in opened.inner_text("#runs .pages")
    opened.fill("#runs input[type=search]", "run_id=unweave-beta_vae-1-0")
    opened.locator("#runs td button.run").click()
    card = opened.inner_text("#runs .card")
    assert "unweave-beta_vae-1-0" in card
    assert EVIL in card
    assert "percentile here" in card
    opened.wait_for_selector("#runs .card svg")


def test_figures_tell_their_values(opened):
    opened.locator("#figure").scroll_into_view_if_needed()
    opened.wait_for_selector("#figure svg")
    opened.focus("#figure svg")
    opened.keyboard.press("ArrowRight")
    assert re.search(r"(mig|sap|dci\.disentanglement) 0\.\d+", opened.inner_text("#tip"))
    opened.keyboard.press("Escape")
    assert opened.locator("#tip").is_hidden()
    opened.locator("#figure select").nth(0).select_option(label="boxes")
    opened.wait_for_selector("#figure svg rect.box")
    assert opened.locator("#figure svg rect.box").count() == 2


def test_it_fits_a_phone_and_the_dark(opened):
    light = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.emulate_media(color_scheme="dark")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") != light
    opened.set_viewport_size({"width": 390, "height": 800})
    assert opened.evaluate("document.documentElement.scrollWidth") == 390


def test_1800_runs_are_small_and_quick(browser, tmp_path):
    store = open_store(tmp_path / "many", create=True)
    fill(store, num_seeds=450)
    began = time.process_time()
    record = write_report(store.address, tmp_path / "many.html")
    assert time.process_time() - began < 30
    assert record["runs"] == 1800
    assert record["bytes"] < 15e6
    view = browser.new_page()
    view.goto(f"file://{tmp_path / 'many.html'}")
    view.wait_for_selector("#runs tbody tr")
    # Half a second where nobody else is at work; machines of tests are shared.
    assert view.evaluate("performance.now()") < 6000
    view.close()


def test_a_page_of_nothing_still_has_its_parts():
    text = page({"title": "<b>", "runs": {"num": 0, "columns": []}})
    assert "<title>&lt;b&gt;</title>" in text
    assert "{{" not in text.split("<script>")[0]
