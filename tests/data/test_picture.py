"""Sheets and PNG files."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unweave.data import contact_sheet, factor_walks, load_data, save_png, table_dataset
from unweave.types import UserError


def test_contact_sheet() -> None:
    data = load_data("dsprites")
    sheet = contact_sheet(data, num=5, seed=1)
    assert sheet.shape == (2 * 66 + 2, 3 * 66 + 2, 1)
    assert (sheet[:2] == 128).all()
    np.testing.assert_array_equal(sheet, contact_sheet(data, num=5, seed=1))
    assert not np.array_equal(sheet, contact_sheet(data, num=5, seed=2))
    assert contact_sheet(load_data("color_dsprites"), num=1).shape == (68, 68, 3)
    with pytest.raises(UserError, match="at least 1"):
        contact_sheet(data, num=0)


def test_walks_change_one_factor() -> None:
    data = load_data("dsprites")
    sheet = factor_walks(data, seed=3, num_columns=6)
    assert sheet.shape == (5 * 66 + 2, 6 * 66 + 2, 1)
    tiles = sheet[2:, 2:].reshape(5, 66, 6, 66)[:, :64, :, :64].swapaxes(1, 2)
    assert (tiles[0, 3:] == 128).all()
    areas = (tiles == 255).sum(axis=(2, 3))
    assert (np.diff(areas[1]) > 0).all()
    columns = [np.flatnonzero((t == 255).any(axis=0)).mean() for t in tiles[3]]
    assert (np.diff(columns) > 0).all()


def test_walks_leave_out_what_does_not_exist() -> None:
    images = np.arange(3, dtype=np.uint8)[:, None, None] + np.zeros((3, 4, 4), dtype=np.uint8)
    data = table_dataset(images, np.array([[0, 0], [0, 1], [1, 0]]), ("a", "b"))
    assert set(np.unique(factor_walks(data)).tolist()) <= {0, 1, 2, 128}


@pytest.mark.parametrize("channels", [1, 3])
def test_png(tmp_path: Path, channels: int) -> None:
    sheet = np.arange(12 * channels, dtype=np.uint8).reshape(3, 4, channels)
    path = save_png(sheet, tmp_path / "new" / "sheet.png")
    with Image.open(path) as image:
        np.testing.assert_array_equal(np.array(image).reshape(sheet.shape), sheet)
    assert [p.name for p in path.parent.iterdir()] == ["sheet.png"]


def test_bad_png(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 or 3 channels"):
        save_png(np.zeros((2, 2, 2), dtype=np.uint8), tmp_path / "a.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        save_png(np.zeros((2, 2, 1), dtype=np.uint8), tmp_path / "file" / "a.png")
