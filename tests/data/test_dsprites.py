"""The renderer against real images, the published checksum and an independent rasteriser."""

from pathlib import Path

import numpy as np
import pytest

from unweave.data import dsprites, load_data


def by_hand(row: list[int]) -> np.ndarray:
    """One image the slow way: for each pixel count the edges to its left, in whole numbers."""
    shape, scale, orientation, pos_x, pos_y = row
    size, a = np.linspace(0.5, 1, 6)[scale] * 9.6, np.linspace(0, 2 * np.pi, 40)[orientation]
    if shape == 0:
        points = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
    elif shape == 1:
        points = [(1.33 * np.cos(p), np.sin(p) / 1.33) for p in 2 * np.pi * np.arange(100) / 100]
    else:
        points = [(np.sin(t) ** 3, -((13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t)
                                      - np.cos(4 * t)) / 14.5 + 0.15))
                  for t in 2 * np.pi * np.arange(150) / 150]
    cx, cy = 16 + 32 * pos_x / 31, 16 + 32 * pos_y / 31
    snapped = [(int(np.floor(256 * (np.cos(a) * x * size + np.sin(a) * y * size + cx) + 0.5)),
                int(np.floor(256 * (-np.sin(a) * x * size + np.cos(a) * y * size + cy) + 0.5)))
               for x, y in points]
    image = np.zeros((64, 64), dtype=np.uint8)
    for j in range(64):
        yc = 256 * j + 128
        for (xa, ya), (xb, yb) in zip(snapped, snapped[1:] + snapped[:1], strict=True):
            if min(ya, yb) < yc <= max(ya, yb):
                (x0, y0), (x1, y1) = sorted([(xa, ya), (xb, yb)], key=lambda v: v[1])
                for i in range(64):
                    image[j, i] ^= (256 * i + 128 - x0) * (y1 - y0) >= (x1 - x0) * (yc - y0)
    return image


@pytest.mark.parametrize("row", [[0, 0, 0, 0, 0], [0, 5, 5, 31, 31], [1, 3, 17, 9, 30],
                                 [2, 5, 0, 16, 3], [2, 4, 33, 25, 12]])
def test_an_image_agrees_with_counting_edges(row: list[int]) -> None:
    data = load_data("dsprites")
    image = data.images(data.index([row]))[0, :, :, 0]
    np.testing.assert_array_equal(image, by_hand(row) * 255)


def test_real_images(shared: Path) -> None:
    with np.load(shared / "data" / "dsprites_real_samples.npz", allow_pickle=False) as real:
        images, factors = real["images"], real["factors"].astype(np.int64)
    np.testing.assert_array_equal(dsprites.render(dsprites.SPACE.index(factors)), images)


def test_few_images_are_those_of_the_whole_set(monkeypatch: pytest.MonkeyPatch) -> None:
    index = np.random.Generator(np.random.Philox(1)).integers(len(dsprites.SPACE), size=500)
    expected = dsprites.packed()[index]
    monkeypatch.setattr(dsprites, "_whole", None)
    np.testing.assert_array_equal(dsprites.render(index), expected)
    assert dsprites._whole is None
    assert dsprites.render(index[:0]).shape == (0, 64, 8)


def test_the_whole_set_has_the_known_checksum() -> None:
    assert dsprites.digest() == dsprites.SHA256
    assert int(np.bitwise_count(dsprites.packed()).sum(dtype=np.int64)) == 128_328_864


def test_the_whole_set_is_rendered_once_and_not_for_writing() -> None:
    assert np.shares_memory(dsprites.packed(), dsprites.packed())
    with pytest.raises(ValueError, match="read-only"):
        dsprites.packed()[0, 0, 0] = 1


def test_factors_mean_what_they_say() -> None:
    data = load_data("dsprites")
    assert data.space.values[1].tolist() == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    left, right = data.images(data.index([[0, 5, 0, 0, 10], [0, 5, 0, 31, 10]]))[..., 0]
    assert np.flatnonzero(left.any(axis=0)).mean() < 17
    assert np.flatnonzero(right.any(axis=0)).mean() > 46
    high, low = data.images(data.index([[1, 5, 0, 3, 0], [1, 5, 0, 3, 31]]))[..., 0]
    assert np.flatnonzero(high.any(axis=1)).mean() < 17
    assert np.flatnonzero(low.any(axis=1)).mean() > 46
    areas = (data.images(data.index([[2, s, 7, 3, 3] for s in range(6)])) > 0).sum(axis=(1, 2, 3))
    assert (np.diff(areas) > 0).all()
