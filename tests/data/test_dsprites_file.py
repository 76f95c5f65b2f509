"""The published file's format: reading, comparing, and a sentence for each way it can be bad."""

import sys
from pathlib import Path

import numpy as np
import pytest

from unweave.data import check_file, dsprites, load_data
from unweave.types import UserError

ROWS = np.random.Generator(np.random.Philox(5)).integers(len(dsprites.SPACE), size=40)


def members(index: np.ndarray = ROWS) -> dict[str, np.ndarray]:
    """What the published npz holds, for some images; `metadata` is a pickle there."""
    colour = np.zeros((len(index), 1), dtype=np.int64)
    return {"imgs": np.unpackbits(dsprites.render(index), axis=-1),
            "latents_classes": np.hstack([colour, dsprites.SPACE.factors(index)]),
            "metadata": np.array({"title": "dSprites"}, dtype=object)}


def save(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def test_part_of_the_set_is_compared_row_by_row(tmp_path: Path) -> None:
    arrays = members()
    record = check_file(save(tmp_path / "part.npz", arrays))
    assert (record.num_images, record.differing_images, record.differing_pixels) == (40, 0, 0)
    assert not record.complete
    assert "every pixel" in str(record)
    arrays["imgs"][3, 5, 6:9] ^= 1
    arrays["imgs"][30, 0, 0] ^= 1
    record = check_file(str(save(tmp_path / "changed.npz", arrays)))
    assert (record.differing_images, record.differing_pixels) == (2, 4)
    assert record.first == (int(ROWS[3]), int(ROWS[30]))
    assert "4 pixels in 2 images" in str(record)


def test_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    arrays, path = members(), tmp_path / "part.hdf5"
    with h5py.File(path, "w") as file:
        file["imgs"] = arrays["imgs"]
        file["latents/classes"] = arrays["latents_classes"]
    assert check_file(path).differing_pixels == 0
    with pytest.raises(UserError, match="40 images, training needs all 737280"):
        load_data(f"dsprites:{path}")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UserError, match="pip install h5py"):
        check_file(path)


def test_a_foreign_sample_of_the_format(shared: Path) -> None:
    pytest.importorskip("h5py")
    path = shared / "data" / "dsprites_format_sample.hdf5"
    with pytest.raises(UserError, match="pixels of 255"):
        check_file(path)
    with pytest.raises(UserError, match="5 images, training needs all"):
        load_data(f"dsprites:{path}")


def test_a_complete_file_is_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The set is cut to 2 x 3 images, so that a complete file is small.
    from unweave.factors import FactorSpace

    images = np.random.Generator(np.random.Philox(2)).integers(2, size=(6, 64, 64), dtype=np.uint8)
    space = FactorSpace(("a", "b"), (2, 3))
    monkeypatch.setattr(dsprites, "SPACE", space)
    monkeypatch.setattr(dsprites, "_whole", np.packbits(images, axis=-1))
    path = save(tmp_path / "all.npz", {"imgs": images})
    data = load_data(f"dsprites:{path}")
    assert data.name == f"dsprites:{path}"
    np.testing.assert_array_equal(data.images(np.arange(6))[..., 0], images * 255)
    images[4, 1, 2] ^= 1
    record = check_file(save(tmp_path / "changed.npz", {"imgs": images}))
    assert record.complete
    assert record.first == (4,)


def test_a_shuffled_file_is_not_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unweave.factors import FactorSpace

    space = FactorSpace(dsprites.SPACE.names, (1, 1, 1, 2, 2))
    arrays = members(np.array([1, 0, 32, 33]))
    monkeypatch.setattr(dsprites, "SPACE", space)
    with pytest.raises(UserError, match="another order"):
        load_data(f"dsprites:{save(tmp_path / 'shuffled.npz', arrays)}")


def bad_files(tmp: Path) -> dict[str, tuple[Path, str]]:
    """Files that cannot be used, and what the sentence must say."""
    good = members()
    whole = save(tmp / "good.npz", good).read_bytes()
    (tmp / "cut.npz").write_bytes(whole[:len(whole) // 2])
    broken = bytearray(whole)
    broken[200:400] = bytes(200)
    (tmp / "broken.npz").write_bytes(broken)
    broken = bytearray(whole)
    broken[900] ^= 255
    (tmp / "flipped.npz").write_bytes(broken)
    (tmp / "words.npz").write_text("not an archive")
    (tmp / "cut.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    (tmp / "empty.npz").write_bytes(b"")
    classes = good["latents_classes"]
    columns = np.asfortranarray(good["imgs"])
    return {
        "missing": (tmp / "none.npz", "no file"),
        "folder": (tmp, "no file"),
        "cut": (tmp / "cut.npz", "damaged or cut short"),
        "broken": (tmp / "broken.npz", "damaged or cut short"),
        "flipped": (tmp / "flipped.npz", "damaged or cut short"),
        "cut hdf5": (tmp / "cut.hdf5", "damaged or cut short|h5py"),
        "words": (tmp / "words.npz", "neither an npz nor an hdf5"),
        "empty": (tmp / "empty.npz", "neither an npz nor an hdf5"),
        "no images": (save(tmp / "a.npz", {"x": classes}), "no array `imgs`"),
        "shape": (save(tmp / "b.npz", {"imgs": good["imgs"][:, :32]}), r"shape \(40, 32, 64\)"),
        "type": (save(tmp / "c.npz", good | {"imgs": good["imgs"].astype("f4")}), "type float32"),
        "pickle": (save(tmp / "d.npz", {"imgs": np.array([None])}), "shape|type"),
        "range": (save(tmp / "e.npz", good | {"imgs": good["imgs"] * 255}), "pixels of 255"),
        "order": (save(tmp / "f.npz", {"imgs": good["imgs"]}), "no latents_classes|training needs"),
        "fortran": (save(tmp / "g.npz", good | {"imgs": columns}), "C order"),
        "classes": (save(tmp / "h.npz", good | {"latents_classes": classes + 40}), "classes"),
        "sizes": (save(tmp / "i.npz", good | {"latents_classes": classes * 9}), "beyond the sizes"),
    }


@pytest.mark.parametrize("kind", ["missing", "folder", "cut", "broken", "flipped", "cut hdf5",
                                  "words", "empty", "no images", "shape", "type", "pickle", "range",
                                  "order", "fortran", "classes", "sizes"])
def test_a_bad_file_is_told_in_a_sentence(tmp_path: Path, kind: str) -> None:
    files = bad_files(tmp_path)
    path, says = files[kind]
    for act in (check_file, lambda p: load_data(f"dsprites:{p}")):
        if kind in ("range", "broken", "flipped", "classes") and act is not check_file:
            continue  # too few images is told first
        with pytest.raises(UserError, match=says) as caught:
            act(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
