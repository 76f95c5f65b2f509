"""What notebooks show: tables and pictures of runs, data, scores and stores; bars; sliders."""

import base64
import io
import re
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import unweave
from small import small_plan, train_small
from unweave import markup
from unweave.metrics import Score, Scores
from unweave.metrics.scoring import score_records
from unweave.studies.catalog import STUDIES
from unweave.studies.standing import Standing
from unweave.studies.store import open_store
from unweave.training import progress
from unweave.types import UserError


@pytest.fixture(scope="module")
def run(sprites):
    return train_small(small_plan(), sprites)[0]


def pictures(html):
    """The pictures inside a piece of HTML, as arrays."""
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(found))))
            for found in re.findall(r'src="data:image/png;base64,([^"]+)"', html)]


def test_a_run_shows_what_it_is_and_eight_reconstructions(run):
    html = run._repr_html_()
    for said in (run.run_id, "beta_vae", "beta=4", "sprites", "done", "recon"):
        assert said in html
    (strip,) = pictures(html)
    assert strip.shape == (2 * 66, 8 * 66)
    index = np.linspace(0, len(run.dataset) - 1, 8).astype(int)
    np.testing.assert_array_equal(strip[1:65, 1:65], run.dataset.images(index)[0, :, :, 0])
    np.testing.assert_allclose(strip[67:131, 67:131] / 255.0,
                               run.reconstruct(run.dataset.images(index))[1, :, :, 0], atol=0.003)


def test_a_diverged_run_shows_no_pictures(run):
    lost = unweave.Run(run.config, run.params, {"loss": [1.0, float("nan")]},
                       run.info | {"status": "diverged"}, run.dataset)
    html = lost._repr_html_()
    assert "diverged" in html
    assert pictures(html) == []


def test_a_data_set_shows_its_factors_and_images(sprites):
    html = sprites._repr_html_()
    for said in ("sprites", "256", "position_x", "ordinal"):
        assert said in html
    assert pictures(html)[0].shape == (66, 8 * 66)
    part = sprites.trained_on(unweave.load_data("dsprites,leave_out=shape:heart").cells)
    assert "training sees" in part._repr_html_()


def test_colour_and_labels(sprites):
    images = np.zeros((3, 4, 4, 3), np.uint8)
    data = unweave.table_dataset(images, np.arange(3)[:, None], ["<b>bold</b>"], name="a & b")
    html = data._repr_html_()
    assert "&lt;b&gt;bold" in html
    assert "a &amp; b" in html
    assert pictures(html)[0].shape == (6, 48, 3)


def test_scores_are_a_list_that_shows_a_table():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (300, 2))
    found = score_records(factors + 0.1 * rng.normal(size=(300, 2)), factors, metrics=["mig", "tc"],
                          num_bins=8)
    assert isinstance(found, Scores)
    assert all(isinstance(score, Score) for score in found)
    html = found._repr_html_()
    assert "mig" in html
    assert f"{found[0].low:.3f} to {found[0].high:.3f}" in html
    assert "changed from the convention: num_bins" in html
    assert html.count("<tr>") == 1 + len(found)
    assert found[0]._repr_html_().count("<tr>") == 2


def test_studies_and_stores(tmp_path):
    assert "unweave study run quick" in STUDIES["quick"]._repr_html_()
    store = open_store(str(tmp_path / "store"), create=True)
    assert "<td" in store._repr_html_()
    store.append("runs", [{"run_id": str(i), "data": "dsprites", "method": "vae", "status": "done",
                           "source": "unweave"} for i in range(3)])
    html = store._repr_html_()
    assert "dsprites" in html
    assert ">3<" in html
    numbers = {field.name: 2 for field in fields(Standing)} | {
        "study": "s", "models_per_hour": 2.5, "hours_left": 0.4}
    assert "models_per_hour" in Standing(**numbers)._repr_html_()


def test_curves_have_gaps_where_numbers_are_not_finite():
    drawn = markup.curve([3.0, 2.0, float("nan"), 1.0], caption="loss")
    assert re.search(r'd="M[\d.,]+L[\d.,]+M', drawn)
    assert markup.curve([float("nan")] * 5, caption="loss") == ""
    assert "<path" in markup.curve([1.0, 1.0], caption="flat")


@pytest.fixture
def kernel(monkeypatch):
    """The parts of a notebook's kernel that progress looks at; what is displayed is kept."""
    shown = []

    def display(thing, display_id=False):
        shown.append(thing)
        return SimpleNamespace(update=shown.append)

    page = SimpleNamespace(HTML=lambda text: text, display=display)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()), display=page)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    return shown


def test_progress_in_a_notebook_is_one_place_that_changes(kernel, capsys):
    with progress.display() as bar:
        assert isinstance(bar, progress.NotebookBar)
        for step in range(0, 1000):
            bar(progress.Report("<vae> x 2", step, 1000, "fast"))
        bar(progress.Report("encoding", 5, 1000, ""))
    assert len(kernel) < 20  # not one for each report
    assert "&lt;vae&gt; x 2" in kernel[-1]
    assert 'value="999" max="1000"' in kernel[-1]
    assert 'value="5"' in kernel[-1]
    assert capsys.readouterr() == ("", "")


def test_training_in_a_notebook_shows_bars(kernel, sprites):
    unweave.train("vae", sprites, steps=4, batch_size=4, num_latents=2, out=None, device="cpu",
                  architecture="conv64-small")
    assert "4/4" in kernel[-1]


def test_elsewhere_it_is_not_a_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook()
    assert isinstance(progress.display(False), progress.Silence)


def test_sliders_move_the_picture(run):
    pytest.importorskip("ipywidgets")
    from unweave.notebook import Traversal, traversal

    panel = traversal(run, index=3, num=64)
    made = panel.traversal
    assert isinstance(made, Traversal)
    assert sorted(made.sliders) == [0, 1, 2, 3]
    original = np.asarray(Image.open(io.BytesIO(made.original.value)))
    np.testing.assert_array_equal(original, run.dataset.images([3])[0, :, :, 0])
    np.testing.assert_allclose(made.codes, run.encode(run.dataset.images([3])), atol=0.07)
    before = made.decoded.value
    made.sliders[2].value = 3.0
    assert made.codes[0, 2] == 3.0
    assert made.decoded.value != before
    shown = np.asarray(Image.open(io.BytesIO(made.decoded.value))) / 255.0
    np.testing.assert_allclose(shown, run.decode(made.codes)[0, :, :, 0], atol=0.003)
    made.image.value = 200
    np.testing.assert_allclose(made.codes, run.encode(run.dataset.images([200])), atol=0.07)
    made.sliders[0].value = -3.0
    made.start.click()
    np.testing.assert_allclose(made.codes, run.encode(run.dataset.images([200])), atol=0.07)


def test_classes_have_whole_numbers(sprites):
    pytest.importorskip("ipywidgets")
    from unweave.notebook import traversal

    (joint,) = train_small(small_plan("joint_vae", num_latents=2, categories="3"), sprites)
    made = traversal(joint, num=32).traversal
    assert made.sliders[2].description == "c2"
    assert made.sliders[2].max == 2
    made.sliders[2].value = 1
    assert made.codes[0, 2] == 1.0


def test_bad_requests_are_sentences(run, monkeypatch):
    pytest.importorskip("ipywidgets")
    from unweave.notebook import traversal

    with pytest.raises(UserError, match="index=256 must be from 0 to 255"):
        traversal(run, index=256)
    with pytest.raises(UserError, match=r"span=0.0 must be above 0"):
        traversal(run, span=0.0)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(UserError, match=r"pip install 'unweave\[notebook\]'"):
        traversal(run)


def test_an_executed_notebook(tmp_path, monkeypatch):
    """A real kernel: the bar stays in one output, and a run, its data and scores are HTML."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(unweave.__file__).parents[1]))
    cells = [
        "import numpy as np, unweave\n"
        "images = np.random.default_rng(0).integers(0, 255, (64, 64, 64), np.uint8)\n"
        "rows = np.stack(np.unravel_index(np.arange(64), (8, 8)), 1)\n"
        "data = unweave.table_dataset(images, rows, ['a', 'b'])\n"
        "data",
        "run, = unweave.train('vae', data, steps=20, batch_size=4, num_latents=2, out=None,\n"
        "                     architecture='conv64-small', device='cpu')\n"
        "run",
        "unweave.score_run(run, metrics=['mig'])",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client = nbclient.NotebookClient(book, timeout=120, kernel_name="python3",
                                     resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [[out.get("data", {}) for out in cell["outputs"]] for cell in book["cells"]]
    assert "text/html" in outputs[0][-1]
    bars = [data for data in outputs[1] if "<progress" in data.get("text/html", "")]
    assert len(bars) == 1
    assert "20/20" in bars[0]["text/html"]
    assert "reconstructions below" in outputs[1][-1]["text/html"]
    assert "mig" in outputs[2][-1]["text/html"]


def test_a_run_that_cannot_reconstruct_shows_images_alone(run, monkeypatch):
    def refuse(self, images):
        raise UserError("this method has no codes of images")

    monkeypatch.setattr(unweave.Run, "reconstruct", refuse)
    html = run._repr_html_()
    assert pictures(html)[0].shape == (66, 8 * 66)
    assert "reconstructions" not in html
