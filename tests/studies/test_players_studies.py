"""Studies and sheets of generators and clusters."""

import io
from copy import copy

import numpy as np
import pytest
from PIL import Image

from small import small_letters, small_plan, train_small
from unweave.data.dataset import BytePixels, FactorDataset
from unweave.factors import FactorSpace, LabelTable
from unweave.report.pictures import Latents, NoPicture, picture
from unweave.studies.catalog import STRENGTHS, STUDIES, Study, strength_of
from unweave.studies.clusters import can_score, score_clusters
from unweave.studies.runner import run_study
from unweave.studies.scoring import score_run
from unweave.studies.store import open_store
from unweave.types import UserError

OURS = ("infogan_seeds", "infogan_codes", "infogan_lambda", "infogan_stability", "jiang2017")


def runs_of(name, **given):
    return STUDIES[name].runs(device="cpu", **given)


def test_the_grids_are_those_of_the_paper():
    grid = runs_of("infogan_lambda", seeds="0..9")
    assert len(grid) == 2 * 11 * 10
    assert sorted({c["lambda_mi"] for c in grid}) == pytest.approx(np.arange(11) / 10)
    assert {(c.num_latents, c["categories"], c["num_noise"], c.architecture) for c in grid} == {
        (4, "3", 5, "infowgan-shapes2d"), (4, "3", 128, "infowgan-shapes2d-big")}
    codes = runs_of("infogan_codes", seeds="0")
    assert {(c.num_latents, c["categories"]) for c in codes} == {
        (2, "10"), (3, "10"), (2, "2"), (2, "20")}
    stable = runs_of("infogan_stability", seeds="0")
    assert {(c.method, c.data, c.num_latents, c["categories"], c["num_noise"], c.architecture)
            for c in stable} == {
        (method, *settings, f"{network}-{table}")
        for method, network in (("infogan", "infogan"), ("infowgan_gp", "infowgan"))
        for *settings, table in (("mnist,size=28", 2, "10", 62, "mnist"),
                                 ("dsprites", 4, "3", 5, "shapes2d"))}
    assert len(stable) == 6  # InfoGAN with a slower discriminator, too
    for name in OURS[:4]:
        for config in runs_of(name, seeds="0"):
            assert (config.learning_rate, config["beta1"], config["beta2"]) == (1e-3, 0.5, 0.999)
    (vade,) = runs_of("jiang2017", seeds="3")
    assert (vade.batch_size, vade.learning_rate, vade.architecture) == (100, 2e-3, "jiang2017")
    assert vade["decay_steps"] == 10 * 70_000 / vade.batch_size


@pytest.mark.parametrize("name", OURS)
def test_a_study_says_its_command_and_source(name):
    text = STUDIES[name].make.__doc__
    assert f"unweave study run {name}" in text
    assert "Source: " in text
    assert all(c.method in STRENGTHS for c in runs_of(name, seeds="0"))


def test_strengths():
    config, *_ = runs_of("infogan_lambda", seeds="0")
    assert strength_of(config) == ("lambda_mi", 0.0)
    (vade,) = runs_of("jiang2017", seeds="0")
    assert strength_of(vade) == ("", None)


@pytest.fixture(scope="module")
def runs(sprites):
    game = small_plan("infogan", categories="3", **small_letters("infogan"))
    vade = small_plan("vade", architecture="conv64-small", **small_letters("vade"))
    return train_small([*game, *vade], sprites)


def test_sheets(runs):
    game, vade = runs
    noise = picture(game, "noise", num_images=2, num=3)
    assert [len(row) for row in noise.rows] == [4, 4]
    assert not np.array_equal(noise.rows[0][1], noise.rows[0][2]), "other noise, another image"
    code = game.encode((noise.rows[1][:1] * 255).round().astype(np.uint8))
    same = game.decode(np.repeat(code, 3, 0), noise=game.generator_noise(3))
    np.testing.assert_allclose(noise.rows[1][1:], same, atol=1e-5)
    seeds = picture(game, "seeds", beside=[vade], latents=Latents(game, num=100), num=3)
    assert len(seeds.rows) >= len(game.num_values) + 1
    assert {len(row) for row in seeds.rows} == {3}
    assert [name.split("  ")[1] for name, _ in seeds.labels][::len(seeds.labels) - 1] == [
        f"infogan seed {game.config.seed}", f"vade seed {vade.config.seed}"]
    assert seeds.breaks == (len(game.num_values),)
    with Image.open(io.BytesIO(seeds.png())) as drawn:
        assert drawn.size[1] > len(seeds.rows) * 64
    with pytest.raises(NoPicture, match="vade has no noise"):
        picture(vade, "noise")
    with pytest.raises(NoPicture, match="one run only: name others"):
        picture(game, "seeds")


def test_clusters_are_scored_against_a_label_of_choice(runs):
    for run in runs:
        assert can_score(run)
        best, chosen = score_clusters(run), score_clusters(run, factor="scale")
        assert [s.key for s in best] == ["clusters.accuracy", "clusters.nmi", "clusters.ari"]
        assert chosen[0].settings["factor"] == "scale"
        assert best[1].value >= chosen[1].value
        assert all(s.low <= s.value <= s.high for s in best)
    with pytest.raises(UserError, match="unknown label 'scael': did you mean 'scale'"):
        score_clusters(runs[0], factor="scael")


def test_clusters_of_images_without_a_label_do_not_count(runs):
    """Ten images of twelve have a label and a cluster that agree, whatever the other two are."""
    clusters = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 0, 1])
    what = np.array([*"aaabbbcccc", None, ""], dtype=object)
    labels = LabelTable(("what", "nothing"), np.stack([what, np.full(12, None)], axis=1))
    data = FactorDataset("toy", FactorSpace.without_factors(12),
                         BytePixels(np.zeros((12, 8, 8, 1), np.uint8)), labels=labels)
    run = copy(runs[1])
    run.dataset, run.heads_at = data, lambda index, seed: index
    run.clusters_of = lambda heads: clusters[heads]
    found = score_clusters(run)
    assert [score.value for score in found] == [1.0, pytest.approx(1.0), 1.0]
    assert (found[0].num_points, found[0].settings["factor"]) == (10, "what")
    with pytest.raises(UserError, match="no image has a known nothing"):
        score_clusters(run, factor="nothing")
    assert score_clusters(run, rows=np.arange(3, 7))[0].num_points == 4


def test_clusters_are_scored_where_and_how_they_are_asked_for(runs):
    vade = runs[1]
    assert [s.metric for s in score_run(vade, metrics="clusters")] == ["clusters"] * 3
    with pytest.raises(UserError, match="unknown convention"):
        score_run(vade, metrics=["clusters"], convention="nobody's")
    with pytest.raises(UserError, match="there are no unseen"):
        score_run(vade, metrics=["clusters"], cells="unseen")


def test_a_study_stores_scores_of_clusters(sprites, tmp_path):
    configs = small_plan("vade", architecture="conv64-small", **small_letters("vade"))
    study = Study("one", lambda: configs, "One short run.", metrics=("clusters", "tc"))
    store = open_store(tmp_path / "s", create=True)
    outcome = run_study(study, configs, store, device="cpu", num_workers=1, details=False,
                        datasets={"sprites": sprites}, say=lambda line: None)
    assert not outcome.failed
    keys = {row["key"] for row in store.scores()}
    assert {"clusters.accuracy", "clusters.nmi", "clusters.ari", "tc.mean"} <= keys
