"""InfoGAN's and InfoWGAN-GP's terms, by hand."""

import math

import pytest
import torch

from unweave.objectives.game import infogan, information, infowgan_gp, make_codes
from unweave.types import Play

LOG2 = math.log(2.0)


def a_play(**changes):
    given = {
        "real": torch.tensor([0.0, LOG2]), "fake": torch.tensor([LOG2, -LOG2]),
        "codes": torch.tensor([[0.5], [-1.0]]), "mu": torch.tensor([[0.5], [0.0]]),
        "logvar": torch.tensor([[0.0], [0.0]]),
        "category_logits": (torch.tensor([[LOG2, 0.0], [0.0, 0.0]]),),
        "categories": (torch.tensor([[1.0, 0.0], [0.0, 1.0]]),),
        "slope": torch.tensor([1.0, 3.0])}
    return Play(**{k: _double(v) for k, v in (given | changes).items()})


def _double(value):
    return tuple(v.double() for v in value) if isinstance(value, tuple) else value.double()


def test_information_by_hand():
    """Errors 0 and 1 under N(mu, 1); class probabilities 2/3 and 1/2."""
    terms = information(a_play())
    code = LOG2 - 0.5 * math.log(2 * math.pi) - 0.25
    category = LOG2 + 0.5 * (math.log(2 / 3) + math.log(0.5))
    assert terms["mi_latent"].tolist() == pytest.approx([code])
    assert terms["mi_category"].item() == pytest.approx(category)
    assert terms["mi"].item() == pytest.approx(code + category)
    assert terms["mi"].item() == pytest.approx(-0.331950316, abs=1e-7)


def test_infogan_by_hand():
    """D is 1/2 and 2/3 on real images, 2/3 and 1/3 on made ones."""
    terms = infogan(a_play(), lambda_mi=0.5)
    critic = -0.5 * (math.log(1 / 2) + math.log(2 / 3)) - 0.5 * (math.log(1 / 3) + math.log(2 / 3))
    generator = -0.5 * (math.log(2 / 3) + math.log(1 / 3))
    mi = terms["mi"].item()
    assert terms["critic_loss"].item() == pytest.approx(critic - 0.5 * mi)
    assert terms["loss"].item() == pytest.approx(generator - 0.5 * mi)
    assert terms["generator_loss"].item() == pytest.approx(generator)
    assert terms["critic_value"].item() == pytest.approx(-critic)
    assert (terms["critic_real_right"].item(), terms["critic_fake_right"].item(),
            terms["critic_accuracy"].item()) == (1.0, 0.5, 0.75)


def test_games_by_hand():
    """Where D is fooled (2/3) or is not (1/3): what players minimise, and their slopes."""
    slopes = {}
    for game in ("non_saturating", "minimax", "printed"):
        fake = torch.tensor([LOG2, -LOG2], dtype=torch.float64, requires_grad=True)
        terms = infogan(a_play()._replace(fake=fake), lambda_mi=0.5, game=game)
        mi, half = terms["mi"].item(), 0.5 * math.log(1 / 3 * 2 / 3)
        generator = {"non_saturating": -half, "minimax": half, "printed": -half}[game]
        critic = -0.5 * math.log(1 / 2 * 2 / 3) + {"printed": half}.get(game, -half)
        assert terms["generator_loss"].item() == pytest.approx(generator)
        assert terms["loss"].item() == pytest.approx(generator - 0.5 * mi)
        assert terms["critic_loss"].item() == pytest.approx(critic - 0.5 * mi)
        assert terms["critic_value"].item() == pytest.approx(-critic)
        slopes[game] = [torch.autograd.grad(terms[k], fake, retain_graph=True)[0].tolist()
                        for k in ("generator_loss", "critic_loss")]
    # A batch of two: slopes are 1 - D or D, halved.
    assert slopes["non_saturating"] == [pytest.approx([-1 / 6, -2 / 6]),
                                        pytest.approx([2 / 6, 1 / 6])]
    assert slopes["minimax"] == [pytest.approx([-2 / 6, -1 / 6]), pytest.approx([2 / 6, 1 / 6])]
    assert slopes["printed"] == [pytest.approx([-1 / 6, -2 / 6]), pytest.approx([1 / 6, 2 / 6])]


def test_infowgan_gp_by_hand():
    """The means are log 2 / 2 and 0, the slopes 1 and 3 cost 0 and 4."""
    terms = infowgan_gp(a_play(), lambda_mi=0.5, eta=10.0)
    mi = terms["mi"].item()
    assert terms["critic_value"].item() == pytest.approx(0.5 * LOG2)
    assert terms["critic_penalty"].item() == pytest.approx(2.0)
    assert terms["critic_loss"].item() == pytest.approx(20.0 - 0.5 * LOG2 - 0.5 * mi)
    assert terms["loss"].item() == pytest.approx(-0.5 * mi, abs=1e-12)
    assert infowgan_gp(a_play(), eta=0.0)["critic_loss"].item() == pytest.approx(-0.5 * LOG2 - mi)


def test_a_sure_reader_is_worth_a_bounded_number_of_nats():
    sure = a_play(mu=torch.tensor([[0.5], [-1.0]]), logvar=torch.full((2, 1), -300.0))
    assert information(sure)["mi_latent"].item() == pytest.approx(
        LOG2 - 0.5 * math.log(2 * math.pi) + 4.0)


@pytest.mark.parametrize("objective", [infogan, infowgan_gp])
def test_each_run_has_its_least_variance(objective):
    """Q claims a log-variance of -2 in both runs; the second may not go below 0."""
    one = a_play(logvar=torch.full((2, 1), -2.0))
    both = Play(*(None if v is None else tuple(torch.stack([p, p]) for p in v)
                  if isinstance(v, tuple) else torch.stack([v, v]) for v in one))
    terms = objective(both, least_logvar=torch.tensor([-8.0, 0.0], dtype=torch.float64))
    at_one = information(a_play())["mi_latent"].item()
    free = LOG2 - 0.5 * math.log(2 * math.pi) - 0.25 * math.exp(2.0) + 1.0
    assert terms["mi_latent"][:, 0].tolist() == pytest.approx([free, at_one])
    alone = objective(one, least_logvar=0.0)
    assert alone["loss"].item() == pytest.approx(terms["loss"][1].item())


def test_information_never_says_more_than_there_is():
    """Codes and readings as far apart as chance puts them: the best reader gets nothing."""
    g = torch.Generator().manual_seed(0)
    codes = 2.0 * torch.rand(20_000, 1, generator=g, dtype=torch.float64) - 1.0
    play = Play(codes[:, 0], codes[:, 0], codes, torch.zeros_like(codes),
                torch.full_like(codes, math.log(1 / 3)))
    # The Gaussian that is nearest to a uniform code: the gap of its entropy remains.
    gap = 0.5 * math.log(2 * math.pi * math.e / 3) - LOG2
    assert information(play)["mi"].item() == pytest.approx(-gap, abs=0.01)


def test_codes_that_are_made():
    uniform = torch.tensor([[0.0, 0.75, 0.999999, 0.4]])
    made = make_codes(uniform, torch.tensor([[9.0, 8.0]]), (3, 2))
    assert made.codes.tolist() == [[-1.0, 0.5]]
    assert [c.tolist() for c in made.categories] == [[[0.0, 0.0, 1.0]], [[1.0, 0.0]]]
    assert made.given.tolist() == [[-1.0, 0.5, 0.0, 0.0, 1.0, 1.0, 0.0, 9.0, 8.0]]
