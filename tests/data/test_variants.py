"""Colour, noise and painting: what a sample is made of."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unweave.data import load_data
from unweave.data.painting import read_painting
from unweave.random import Purpose, Streams
from unweave.types import UserError

INDEX = torch.tensor([[0, 700_000, 300_000], [5, 5, 123_456]])


def sample(spec: str, index: torch.Tensor = INDEX) -> tuple[torch.Tensor, ...]:
    """A batch, the sprites behind it, the uniform numbers used, and how often they were asked."""
    drawn = []

    def draw(*shape: int) -> torch.Tensor:
        drawn.append(Streams([1, 2]).uniform(Purpose.OBSERVATION, 0, *shape))
        return drawn[-1]

    batch = load_data(spec).on("cpu").batch(index, draw)
    assert len(drawn) == 1
    return batch, load_data("dsprites").on("cpu").batch(index), drawn[0]


def test_colour_is_one_shade_between_half_and_one_on_black() -> None:
    batch, sprites, uniform = sample("color_dsprites")
    expected = sprites * (0.5 + uniform / 2)[:, :, None, None, :]
    torch.testing.assert_close(batch, expected)
    assert batch[sprites.expand_as(batch) == 1].min() >= 0.5
    assert not torch.equal(batch[1, 0], batch[1, 1])


def test_noise_is_behind_a_white_sprite() -> None:
    batch, sprites, uniform = sample("noisy_dsprites")
    inside = sprites.expand_as(batch) == 1
    assert (batch[inside] == 1).all()
    assert torch.equal(batch[~inside], uniform[~inside])
    assert abs(float(batch[~inside].mean()) - 0.5) < 0.01


def test_scream_inverts_a_patch_inside_the_sprite(painting: Path) -> None:
    batch, sprites, uniform = sample(f"scream_dsprites:{painting}")
    picture = read_painting(painting).astype(np.float64) / 255
    for run, place in np.ndindex(2, 3):
        u = uniform[run, place].numpy().astype(np.float64)
        top, left = (int(u[0] * (picture.shape[0] - 64)), int(u[1] * (picture.shape[1] - 64)))
        expected = (picture[top:top + 64, left:left + 64] + u[2:]) / 2
        on = sprites[run, place, :, :, 0].numpy() == 1
        expected[on] = 1 - expected[on]
        np.testing.assert_allclose(batch[run, place].numpy(), expected, atol=1e-6)


def test_patch_positions_stay_in_the_painting(painting: Path) -> None:
    data = load_data(f"scream_dsprites:{painting}")
    last = 1 - 2.0**-24
    batch = data.on("cpu").batch(torch.tensor([[0]]), lambda *shape: torch.full((1, *shape), last))
    assert torch.isfinite(batch).all()


def test_the_painting_is_shrunk_to_fit(painting: Path) -> None:
    assert read_painting(painting).shape == (274, 205, 3)


def test_a_scan_of_the_painting(shared: Path) -> None:
    assert read_painting(shared / "data" / "scream" / "scream_darknet.jpg").shape == (274, 215, 3)


def test_the_painting_comes_from_the_data_folder(
        painting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    with pytest.raises(UserError, match="unweave data fetch scream") as caught:
        load_data("scream_dsprites")
    assert str(tmp_path / "scream.jpg") in str(caught.value)
    (tmp_path / "scream.jpg").write_bytes(painting.read_bytes())
    stored, named = load_data("scream_dsprites"), load_data(f"scream_dsprites:{painting}")
    np.testing.assert_array_equal(stored.images([4]), named.images([4]))
    assert stored.name == "scream_dsprites"


def test_a_bad_painting_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not at"):
        load_data(f"scream_dsprites:{tmp_path / 'none.jpg'}")
    (tmp_path / "words.jpg").write_text("not an image")
    with pytest.raises(UserError, match="not an image"):
        load_data(f"scream_dsprites:{tmp_path / 'words.jpg'}")
    Image.new("RGB", (1000, 100)).save(tmp_path / "narrow.png")
    with pytest.raises(UserError, match="350 x 35 pixels"):
        load_data(f"scream_dsprites:{tmp_path / 'narrow.png'}")


def test_noise_needs_a_draw() -> None:
    with pytest.raises(UserError, match="give batch a draw"):
        load_data("noisy_dsprites").on("cpu").batch(INDEX)
