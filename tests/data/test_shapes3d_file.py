"""The format of 3dshapes.h5: reading, and a sentence for each way it can be bad."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from published_files import shapes3d_labels as labels_of
from published_files import write_shapes3d as save

from unweave.data import load_data, shapes3d_file
from unweave.data.shapes3d import SPACE
from unweave.factors import FactorSpace
from unweave.types import UserError

h5py = pytest.importorskip("h5py")

INDEX = np.random.Generator(np.random.Philox(7)).choice(len(SPACE), 12, replace=False)


def pictures(num: int) -> np.ndarray:
    rng = np.random.Generator(np.random.Philox(3))
    return rng.integers(256, size=(num, 64, 64, 3), dtype=np.uint8)


def test_the_published_grid() -> None:
    assert SPACE.sizes == (10, 10, 10, 8, 4, 15)
    np.testing.assert_allclose(labels_of(np.array([0, 14, 15, 60, 480, 479_999])), [
        [0, 0, 0, 0.75, 0, -30], [0, 0, 0, 0.75, 0, 30], [0, 0, 0, 0.75, 1, -30],
        [0, 0, 0, 0.75 + 0.5 / 7, 0, -30], [0, 0, 0.1, 0.75, 0, -30],
        [0.9, 0.9, 0.9, 1.25, 3, 30]])


@pytest.mark.parametrize("how", [{}, {"chunks": (5, 64, 64, 3), "compression": "gzip"}],
                         ids=["plain", "packed"])
def test_part_of_the_set_in_any_order(tmp_path: Path, how: dict[str, object]) -> None:
    images = pictures(12)
    path = save(tmp_path / "some.h5", images, labels_of(INDEX), **how)
    data = load_data(f"shapes3d:{path},part=yes")
    assert data.name == f"shapes3d:{path},part=yes"
    assert len(data) == 12
    order = np.argsort(INDEX)
    np.testing.assert_array_equal(data.factors(np.arange(12)), SPACE.factors(INDEX[order]))
    np.testing.assert_array_equal(data.images(np.arange(12)), images[order])
    batch = data.on("cpu").batch(torch.tensor([[3, 0, 11]]))
    np.testing.assert_array_equal(batch[0].numpy(),
                                  images[order][[3, 0, 11]].astype(np.float32) / 255)


def test_a_complete_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The set is cut to 1 x 1 x 1 x 2 x 4 x 3 images, so that a complete file is small.
    sizes = (1, 1, 1, 2, 4, 3)
    space = FactorSpace(SPACE.names, sizes, tuple(v[:s] for v, s in zip(SPACE.values, sizes)))
    monkeypatch.setattr(shapes3d_file, "SPACE", space)
    rows = space.factors(np.arange(24))
    labels = labels_of(SPACE.index(rows))
    images = pictures(24)
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    with pytest.raises(UserError, match="unweave data fetch shapes3d"):
        load_data("shapes3d")
    save(tmp_path / "3dshapes.h5", images, labels)
    data = load_data("shapes3d")
    assert data.name == "shapes3d"
    assert data.space.is_complete
    np.testing.assert_array_equal(data.images([0, 23]), images[[0, 23]])


def test_another_size(tmp_path: Path) -> None:
    images = np.repeat(np.repeat(pictures(12)[:, ::8, ::8], 8, axis=1), 8, axis=2)
    path = save(tmp_path / "some.h5", images, labels_of(np.sort(INDEX)))
    data = load_data(f"shapes3d:{path},size=128,part=yes")
    assert data.image_shape == (128, 128, 3)
    middle = data.images(np.arange(12))[:, 8::16, 8::16].astype(int)  # of patches of 16 pixels
    assert np.abs(middle - images[:, 4::8, 4::8]).mean() < 8


def test_a_foreign_sample_of_the_format(shared: Path) -> None:
    path = shared / "data" / "shapes3d" / "format_sample.h5"
    with pytest.raises(UserError, match="holds 5 of the 480000 images"):
        load_data(f"shapes3d:{path}")
    data = load_data(f"shapes3d:{path},part=yes")
    with h5py.File(path, "r") as file:
        first = data.index(SPACE.factors(data.space.cells[:1]))
        at = np.flatnonzero(np.isclose(file["labels"][:, 0], 0.0))
        assert len(data) == len(file["images"])
        assert any(np.array_equal(data.images(first)[0], file["images"][i]) for i in at)


def test_bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, images = labels_of(INDEX), pictures(12)

    def refused(match: str, path: Path) -> None:
        with pytest.raises(UserError, match=match):
            load_data(f"shapes3d:{path},part=yes")

    refused("give 3dshapes.h5", tmp_path / "none.h5")
    refused("is a folder", tmp_path)
    (tmp_path / "text.h5").write_text("no h5")
    refused("cannot be read", tmp_path / "text.h5")
    refused("`images` of uint8 and the shape", save(tmp_path / "grey.h5", images[..., 0], labels))
    refused("of float32", save(tmp_path / "float.h5", images.astype(np.float32), labels))
    refused("for 12 images", save(tmp_path / "short.h5", images, labels[:5]))
    for value in (0.05, np.nan):
        wrong = labels.copy()
        wrong[4, 1] = value
        refused("wall_hue .* in row 4", save(tmp_path / "hue.h5", images, wrong))
    labels[3] = labels[9]
    refused("2 images with the factors", save(tmp_path / "twice.h5", images, labels))
    with h5py.File(tmp_path / "void.h5", "w") as file:
        file["labels"] = labels
    refused("no array `images`", tmp_path / "void.h5")
    good = save(tmp_path / "good.h5", images, labels_of(INDEX))
    cut = tmp_path / "cut.h5"
    cut.write_bytes(good.read_bytes()[:100_000])
    refused("damaged or cut short", cut)
    packed = save(tmp_path / "packed.h5", images, labels_of(INDEX), chunks=(4, 64, 64, 3),
                  compression="gzip", fletcher32=True)
    damaged = bytearray(packed.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    packed.write_bytes(damaged)
    refused("damaged or cut short", packed)
    with pytest.raises(UserError, match="part=maybe"):
        load_data(f"shapes3d:{good},part=maybe")
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused("needs the package h5py", good)
