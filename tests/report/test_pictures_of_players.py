"""Pictures, report and page of runs whose prior is a mixture, and of generators."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from random_runs import random_run, write_run
from unweave.report.document.looks import look
from unweave.report.explorer.facts import run_record
from unweave.report.pictures import PICTURES, Latents, NoPicture, picture
from unweave.training import load
from unweave.types import UserError


@pytest.fixture(scope="module")
def mixture(sprites):
    """Clusters that lie far from zero, as those of an autoencoder do."""
    run = random_run(data=sprites, method="vade", num_latents=3, clusters=4)
    run.params["prior.mean"] += 30.0
    run.params["encoder.dense2.bias"][:, :3] += 30.0
    return run


@pytest.fixture(scope="module")
def generator(sprites):
    return random_run("infowgan-shapes2d", data=sprites, method="infowgan_gp", num_latents=2,
                      num_noise=4, categories="3")


def drawn(run, names):
    """Pictures that a run has, and what it says about the others."""
    latents, found, refused = Latents(run, num=300), {}, {}
    for name in names:
        try:
            found[name] = picture(run, name, latents=latents)
            assert found[name].png().startswith(b"\x89PNG")
        except NoPicture as error:
            refused[name] = str(error)
    return found, refused


NAMES = [name for name, kind in PICTURES.items() if name not in ("motion", "importances", "losses",
                                                            "seeds")]


def test_every_picture_of_a_mixture(mixture):
    found, refused = drawn(mixture, NAMES)
    assert set(refused) == {"categories", "kl", "noise"}  # this run was never trained
    assert len(found["clusters"].rows) == 4
    assert "standard deviations of the codes below their mean" in found["traversals"].footer


def test_traversals_go_where_the_codes_are(mixture):
    latents = Latents(mixture, num=300)
    centre, unit = latents.scale
    assert abs(centre).min() > 5
    codes = mixture.encode(mixture.dataset.images([latents.typical]))[0]
    assert (abs(codes - centre) < 3 * unit).all()
    walks = latents.walks(None, [1], 2.0, 3)
    at = np.tile(centre, (3, 1))
    at[:, 1] += unit[1] * np.array([-2.0, 0.0, 2.0])
    np.testing.assert_allclose(walks[0], mixture.decode(at), atol=1e-6)


@pytest.mark.parametrize(("method", "unit"), [("infogan", "nats per image"), ("infowgan_gp", "")])
def test_losses_of_generators_say_what_is_nats_and_what_a_share(generator, method, unit):
    curves = {"step": [1, 2], "loss": [3.0, 2.0], "mi": [0.1, 0.2], "mi_category": [0.1, 0.2],
              "critic_real_right": [0.4, 0.6], "critic_fake_right": [0.5, 0.7]}
    own = tuple(pair for pair in generator.config.hyper if method != "infogan" or pair[0] != "eta")
    config = replace(generator.config, method=method, hyper=own)
    run = replace(generator, curves=curves, config=config)
    first, *_, share, last = [axes for axes in picture(run, "losses").draw().axes if axes.axison]
    assert first.get_ylabel() == unit
    assert share.get_ylabel() == "share of images"
    assert share.get_ylim() == last.get_ylim()
    assert share.get_ylim()[1] > 1.0
    with pytest.raises(NoPicture, match="has no curves"):
        picture(replace(run, curves={}), "losses")


def test_every_picture_of_a_generator(generator):
    found, refused = drawn(generator, NAMES)
    assert set(refused) == {"kl"}
    assert "no KL" in refused["kl"]
    assert all(remark.startswith("MI ") for _, remark in found["traversals"].labels)
    assert "from -1 to 1" in found["traversals"].footer
    assert len(found["categories"].rows) == 3
    with pytest.raises(NoPicture, match="there is no KL"):
        _ = Latents(generator).kl
    with pytest.raises(UserError, match="no KL"):
        generator.kl_at([0])
    one, other = generator.sample(2, seed=1)
    codes = generator.prior_codes(2, seed=1)
    assert not np.allclose(np.stack([one, other]), generator.decode(codes))  # noise of their own


def test_each_class_is_walked_through_once_in_as_many_rows_as_that_takes(generator):
    latents = Latents(generator, num=100)
    start, _ = latents.start("typical")
    for num, sizes in ((2, [2, 1]), (3, [3]), (11, [3])):
        sheet = picture(generator, "traversals", latents=latents, num=num)
        mine = [i for i, (name, _) in enumerate(sheet.labels) if name == "c2"]
        assert [len(sheet.rows[i]) for i in mine] == sizes
        codes = np.tile(generator.encode(start[None]), (3, 1))
        codes[:, 2] = [0, 1, 2]
        np.testing.assert_allclose(np.concatenate([sheet.rows[i] for i in mine]),
                                   generator.decode(codes), atol=1e-6)
        assert all(len(row) == num for i, row in enumerate(sheet.rows) if i not in mine)


def test_a_generator_that_is_read_back_has_information(generator):
    latents = Latents(generator, num=200)
    assert latents.measure == "MI"
    assert latents.nats.shape == (3,)
    bound = np.array([np.log(2.0) + 4.0, np.log(2.0) + 4.0, np.log(3.0)])
    assert (latents.nats <= bound).all()
    assert sorted(latents.order) == [0, 1, 2]


def test_codes_that_are_read_with_a_variance_of_1_tell_by_their_errors(generator, monkeypatch):
    """Read to within 0.1: log 2 - log(2 pi e 0.01) / 2 nats, not the -0.23 at most of N(mu, 1)."""
    hyper = tuple(sorted((dict(generator.config.hyper) | {"least_logvar": 0.0}).items()))
    run = replace(generator, config=generator.config.replace(hyper=hyper))
    codes = run.prior_codes(300, seed=0)
    read = torch.from_numpy(codes[:, :2]).float()
    read[:, 0] += 0.1 * torch.where(torch.arange(300) % 2 == 0, 1.0, -1.0)
    read[:, 1] = 0.0  # says nothing
    head = torch.cat((read, torch.zeros(300, 2 + 3)), 1)
    monkeypatch.setattr(type(run), "heads", lambda self, images: head)
    told = Latents(run, num=300).nats
    assert told[0] == pytest.approx(np.log(2) - 0.5 * np.log(2 * np.pi * np.e * 0.01), abs=1e-4)
    assert told[1] == pytest.approx(np.log(2) - 0.5 * np.log(2 * np.pi * np.e / 3), abs=0.05)


def test_a_generator_from_before_a_letter_still_has_its_nats(generator):
    """Its folder says nothing of `least_logvar`, whose default is the bound of that time."""
    hyper = tuple((k, v) for k, v in generator.config.hyper if k != "least_logvar")
    old = replace(generator, config=generator.config.replace(hyper=hyper))
    np.testing.assert_array_equal(Latents(old, num=300).nats, Latents(generator, num=300).nats)


@pytest.mark.parametrize("kind", ["mixture", "generator"])
def test_the_page_and_the_report_know_both(kind, request, tmp_path, sprites):
    run = load(write_run(request.getfixturevalue(kind), tmp_path), data=sprites, device="cpu")
    record = run_record(run)
    assert record["measure"] == ("KL" if kind == "mixture" else "MI")
    assert np.shape(record["prior"]) == (64, 3)
    assert [latent["values"] for latent in record["latents"]] == list(run.num_values)
    codes = np.abs(run.encode(sprites.images(np.arange(20))))
    assert all(latent["reach"] >= c - 0.5 or latent["values"]
               for latent, c in zip(record["latents"], codes.max(0)))
    shown = look(run)
    assert shown["measure"] == record["measure"]
    assert len(shown["rows"]) == 3
