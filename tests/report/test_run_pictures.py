"""Pictures of a run: every name draws, says what it shows, and shows what the model makes."""

import copy
import io
import json
import shutil
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from random_runs import random_run
from small import small_plan, train_small
from unweave import cli
from unweave.data import table_dataset
from unweave.report.pictures import PICTURES, Latents, NoPicture, options_of, picture
from unweave.report.pictures.picture import SCALE
from unweave.report.pictures.sheets import told_apart
from unweave.training import Run
from unweave.types import UserError

pytest.importorskip("matplotlib", reason="charts need the extra `pictures`")

ORDINARY = [name for name in PICTURES
            if name not in ("categories", "clusters", "noise", "seeds", "motion")]


@pytest.fixture(scope="module")
def run(sprites):
    (made,) = train_small(small_plan(steps=30, architecture="conv64-small"), sprites)
    return made


@pytest.fixture(scope="module")
def latents(run):
    return Latents(run, num=300)


@pytest.mark.parametrize("name", ORDINARY)
def test_every_picture_is_a_png_and_an_svg(run, latents, name, tmp_path):
    options = {"num_stages": 2} if name == "importances" else {}
    made = picture(run, name, latents=latents, **options)
    png, svg = made.save(tmp_path / "a.png"), made.save(tmp_path / "a.SVG")
    with Image.open(png) as image:
        assert image.width > 600
        assert image.height > 200
        assert np.asarray(image.convert("L")).std() > 5
    root = ET.parse(svg).getroot()
    assert root.tag.endswith("svg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "a.svg"]
    payload, size = made._repr_png_()
    assert payload[:4] == b"\x89PNG"
    assert size["width"] == Image.open(io.BytesIO(payload)).width // SCALE
    assert made.caption
    with pytest.raises(UserError, match=r"must end in \.png or \.svg"):
        made.save(tmp_path / "a.pdf")


def test_traversals_are_what_the_decoder_makes(run, latents):
    sheet = picture(run, "traversals", latents=latents, image=7, span=1.5, num=5)
    order = np.argsort(-run.kl_at(latents.index))
    assert [name for name, _ in sheet.labels] == [f"z{j}" for j in order]
    start = run.encode(run.dataset.images([7]))[0]
    start[order[0]] = 1.5
    wanted = np.round(run.decode(start[None])[0, ..., 0] * 255)
    layout = sheet._layout()
    left = layout.left + 4 * (layout.width + 3)
    tile = np.asarray(sheet.image(scale=1))[layout.tops[0]:layout.tops[0] + 64, left:left + 64]
    np.testing.assert_allclose(tile[..., 0], wanted, atol=1)
    assert all(f"KL {latents.kl[j]:.2f}" in remark for j, (_, remark)
               in zip(order, sheet.labels))
    words = " ".join(" ".join(ET.fromstring(sheet.svg()).itertext()).split())
    assert "-1.5 to 1.5; the others stay at the code of image 7" in words
    zero = picture(run, "traversals", latents=latents, image="zero", num=3)
    np.testing.assert_allclose(zero.rows[0][1], run.decode(np.zeros((1, 4)))[0], atol=1e-6)


def test_reconstructions_are_originals_reconstructions_and_walks(run, latents):
    sheet = picture(run, "reconstructions", latents=latents, image=3, num=4)
    assert [name for name, _ in sheet.labels[:2]] == ["original", "reconstruction"]
    assert len(sheet.rows) == 2 + 4
    np.testing.assert_array_equal(np.round(sheet.rows[0][0] * 255), run.dataset.images([3])[0])
    images = np.round(sheet.rows[0] * 255).astype(np.uint8)
    np.testing.assert_array_equal(sheet.rows[1], run.reconstruct(images))


def test_kl_and_information_are_those_of_the_metrics(run, latents, sprites):
    np.testing.assert_allclose(latents.kl, run.kl_at(latents.index), rtol=1e-5)
    codes = sprites.factors(latents.index).astype(np.float32)
    known = Latents(run, num=300)
    known.__dict__["codes"] = codes
    shared = known.information
    np.testing.assert_allclose(np.diag(shared), 1.0)
    known.__dict__["kl"] = np.full(4, 2.0)
    assert known.follows(2) == "position_x 100 %"
    assert known.remark(2) == "KL 2.00  position_x 100 %"


def test_responses_average_the_codes_of_a_cell(run, latents, sprites):
    from unweave.report.pictures.responses import _chosen, _means

    index = _chosen(latents, 2, 3)
    factors = sprites.factors(index)
    counts = np.bincount(factors[:, 2] * 8 + factors[:, 3])
    assert len(counts) == 64
    assert len(set(counts)) == 1
    assert _means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 2]), 3)[0] == 2.0
    figure = picture(run, "responses", latents=latents, factors=["shape", "scale"]).draw()
    assert any("across: shape" in axes.get_xlabel() for axes in figure.axes)
    with pytest.raises(NoPicture, match="two different factors"):
        picture(run, "responses", latents=latents, factors=["shape", "shape"])
    with pytest.raises(UserError, match="did you mean 'scale'"):
        picture(run, "responses", latents=latents, factors=["shape", "scal"])


def test_correlations_of_codes_that_are_the_factors(run, sprites):
    known = Latents(run, num=300)
    known.__dict__["codes"] = sprites.factors(known.index).astype(np.float32)
    figure = picture(run, "correlations", latents=known).draw()
    shades = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(np.abs(shades).max(axis=0), 1.0, atol=1e-6)


def test_titles_do_not_tell_where_files_lie(run):
    dataset = copy.copy(run.dataset)
    dataset.name = "images:/home/me/faces,size=64"
    title = picture(replace(run, dataset=dataset), "traversals").title
    assert title.endswith("on images:faces,size=64")


def test_losses_and_kl_show_every_curve(run):
    titles = {axes.get_title(loc="left") for axes in picture(run, "losses").draw().axes}
    assert {"loss", "recon", "kl"} <= titles
    words = [text.get_text() for text in picture(run, "kl").draw().axes[0].texts]
    assert sum(word.count("z") for word in words) == 4


def test_names_with_dollars_are_words_and_not_mathematics():
    from matplotlib.text import Text

    names = ("cost in $^", "$\\nothing$", "größe_ü")
    factors = np.stack(np.meshgrid(range(3), range(4), range(2), indexing="ij"), -1).reshape(-1, 3)
    images = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 1), np.uint8)
    own = random_run(data=table_dataset(images, factors, names, name="images:$\\nothing$"))
    seen = Latents(own, num=24)
    for name in ("correlations", "information", "importances", "histograms", "losses"):
        drawn = picture(own, name, latents=seen).svg().decode()
        assert ET.fromstring(drawn) is not None
    drawn = picture(own, "responses", latents=seen, factors=names[:2])
    words = [text.get_text() for text in drawn.draw().findobj(Text)]
    assert names[2] in words
    assert f"across: {names[0]}\ndown: {names[1]}" in words
    assert drawn.png()


def test_motion_is_a_gif_and_a_webp(run, latents, tmp_path):
    moving = picture(run, "motion", latents=latents, frames=6)
    for ending in ("gif", "webp"):
        with Image.open(moving.save(tmp_path / f"m.{ending}")) as image:
            assert image.n_frames >= 3
            assert image.format == ending.upper()
    assert moving._repr_html_().startswith("<img alt=")
    with pytest.raises(UserError, match=r"must end in \.gif or \.webp"):
        moving.save(tmp_path / "m.png")


def test_categories_of_a_joint_vae(sprites):
    (run,) = train_small(small_plan("joint_vae", categories="3,2", steps=3), sprites)
    own = Latents(run, num=60)
    sheet = picture(run, "categories", latents=own, num=4)
    assert [name for name, _ in sheet.labels] == ["c4 = 0", "c4 = 1", "c4 = 2", "c5 = 0", "c5 = 1"]
    code = np.zeros((1, 6), np.float32)
    code[0, 4] = 2
    np.testing.assert_allclose(sheet.rows[2][0], run.decode(code)[0], atol=1e-6)
    np.testing.assert_allclose(own.kl, run.kl_at(own.index), rtol=1e-4, atol=1e-6)
    for name in ("traversals", "histograms", "correlations", "information"):
        assert picture(run, name, latents=own).png()


def test_clusters_of_a_run_that_has_some(run):
    class Mixture(Run):
        num_clusters = 3

        def clusters(self, images):
            return (np.arange(len(images)) % 4 == 0).astype(int)

        def sample_cluster(self, k, num=16, *, seed=0):
            return self.sample(num, seed=k)

    made = Mixture(**run.__dict__)
    sheet = picture(made, "clusters", latents=Latents(made, num=40), num=2)
    assert [name for name, _ in sheet.labels] == ["cluster 0", "cluster 1", "cluster 2"]
    assert sheet.labels[1][1].startswith("25% of images")
    assert [len(row) for row in sheet.rows] == [4, 4, 2]


def test_what_a_run_cannot_show_is_a_sentence(run, latents, sprites):
    for name, words in (("categories", "no categorical latents"), ("clusters", "no clusters"),
                        ("noise", "no noise beside its codes"), ("seeds", "one run only")):
        with pytest.raises(NoPicture, match=words):
            picture(run, name, latents=latents)
    with pytest.raises(UserError, match="did you mean 'traversals'"):
        picture(run, "traversal")
    lost = Run(run.config, run.params, run.curves, run.info | {
        "status": "diverged", "diverged_at": 5}, sprites)
    assert picture(lost, "losses").png()
    with pytest.raises(NoPicture, match="diverged at step 5"):
        picture(lost, "samples")
    assert options_of("traversals") == {"image", "span", "num"}
    assert options_of("kl") == set()


def run_command(capsys, *arguments):
    with pytest.raises(SystemExit) as leave:
        cli.main([str(a) for a in arguments])
    shown = capsys.readouterr()
    return leave.value.code, shown.out, shown.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from unweave.training import train

    (made,) = train("vae", steps=2, batch_size=4, num_latents=3, architecture="conv64-small",
                    out=tmp_path_factory.mktemp("runs"), progress=False, precision="float32")
    return made.folder


def test_the_command_draws_one_picture_or_a_folder(capsys, folder, tmp_path):
    code, out, _ = run_command(capsys, "show", folder, "samples", "-o", tmp_path / "s.svg",
                               "--json")
    assert code == 0
    assert json.loads(out)[0]["file"] == str(tmp_path / "s.svg")
    code, out, _ = run_command(capsys, "show", folder, "kl", "samples", "--json")
    assert [r["name"] for r in json.loads(out)] == ["kl", "samples"]
    assert sorted(p.name for p in (folder / "pictures").iterdir()) == ["kl.png", "samples.png"]
    shutil.rmtree(folder / "pictures")
    code, out, _ = run_command(capsys, "show", "--help")
    assert "Example: unweave show" in out


def test_runs_are_drawn_beside_each_other(capsys, folder, tmp_path):
    from unweave.training import train

    train("vae", steps=2, batch_size=4, num_latents=3, architecture="conv64-small", seeds="1,2",
          out=tmp_path / "runs", progress=False, precision="float32")
    code, out, _ = run_command(capsys, "show", folder, "seeds", "--beside", tmp_path / "runs",
                               "--beside", folder, "-o", tmp_path / "s.png", "--json")
    assert code == 0
    assert json.loads(out)[0]["shows"] == "traversals of several runs below each other"
    with Image.open(tmp_path / "s.png") as image:
        assert image.height > 3 * 64  # a row of each at least; a run is not beside itself


def test_runs_beside_each_other_are_named_by_what_differs():
    assert told_apart(small_plan("vae", seeds="0,1")) == ["seed 0", "seed 1"]
    betas = small_plan("beta_vae", beta=[1.0, 4.0])
    assert told_apart(betas) == ["beta=1", "beta=4"]
    assert told_apart(small_plan("beta_vae", beta=[1.0, 4.0], seeds="0,1"))[1::2] == [
        "beta=1 seed 1", "beta=4 seed 1"]
    assert told_apart([*betas, *small_plan("vae")]) == [
        "beta_vae beta=1", "beta_vae beta=4", "vae seed 0"]
    assert told_apart(small_plan("vae") * 2) == ["seed 0", "seed 0"]
    wide = small_plan("beta_vae", beta=4.0, num_latents=3, learning_rate=1e-3)
    narrow = small_plan("beta_vae", beta=4.0, num_latents=2, learning_rate=1e-3)
    assert told_apart([*wide, *narrow]) == ["num_latents=3", "num_latents=2"]


def test_sheets_do_without_matplotlib(capsys, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = run_command(capsys, "show", folder, "-o", tmp_path / "all", "--json")
    assert code == 0
    assert [r["name"] for r in json.loads(out)] == ["traversals", "reconstructions", "samples"]
    assert err == "unweave: no kl: charts need matplotlib: pip install 'unweave[pictures]'\n"
    code, _, err = run_command(capsys, "show", folder, "kl", "-o", tmp_path / "kl.png")
    assert code == 2
    assert "unweave[pictures]" in err
    assert not (tmp_path / "kl.png").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    ("travesals", "did you mean 'traversals'"),
    ("categories", "no categorical latents"),
    ("seeds", "name others, or a folder of runs, with --beside"),
    ("seeds --beside nowhere", "neither a run folder nor a folder of finished runs"),
    ("samples kl -o x.png", "one file: name one picture"),
    ("samples -o x.gif", "must end in .png or .svg"),
    ("samples --format pdf", "unknown format"),
    ("traversals --image 99999999", "outside 0..737279"),
    ("traversals --image some", "typical or zero"),
    ("traversals --span 0", "must be a number above 0"),
    ("traversals --span nan", "must be a number above 0"),
    ("traversals --span inf", "must be a number above 0"),
    ("kl -o figure.pdf", "must end in .png or .svg"),
    ("responses --factors shape", "two different factors"),
])
def test_bad_wishes_are_one_sentence(capsys, folder, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_command(capsys, "show", folder, *arguments.split())
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
