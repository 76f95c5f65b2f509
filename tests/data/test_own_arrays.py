"""Images in npz and npy files: types, axes, what is mapped and what is refused."""

import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from own_files import pictures

from unweave.data import load_data
from unweave.types import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def save(tmp_path, images, name="a.npy"):
    np.save(tmp_path / name, images)
    return f"npy:{tmp_path / name}"


def test_a_file_that_needs_no_change_is_mapped(tmp_path, cache):
    images = pictures(5, 64, 64)
    data = load_data(save(tmp_path, images))
    np.testing.assert_array_equal(data.images([4, 0]), images[[4, 0]])
    assert data._pixels.is_mapped
    assert not cache.exists()
    batch = data.on("cpu", resident=False).batch(torch.tensor([[3]]))
    torch.testing.assert_close(batch[0, 0], torch.from_numpy(images[3]).float() / 255)
    grey = load_data(save(tmp_path, images[..., 0], "grey.npy"))
    assert grey.image_shape == (64, 64, 1)
    assert not cache.exists()
    images[0] = 0
    np.testing.assert_array_equal(load_data(f"npy:{tmp_path / 'a.npy'}").images(0)[0] > 0,
                                  data.images(0)[0] > 0)  # the file is as it was


@pytest.mark.parametrize(("array", "options", "expected"), [
    (np.full((3, 8, 8), 0.5, dtype=np.float32), "", 128),
    (np.ones((3, 8, 8), dtype=bool), "", 255),
    (np.ones((3, 8, 8), dtype=np.uint8), ",white=1", 255),
    (np.ones((3, 8, 8), dtype=np.uint8), ",white=255", 1),
    (np.full((3, 8, 8), 7.5), ",white=15", 128),
])
def test_values(tmp_path, array, options, expected):
    data = load_data(save(tmp_path, array) + ",size=8" + options)
    assert data.image_shape == (8, 8, 1)
    assert set(data.images(range(3)).ravel()) == {expected}


def test_axes_size_and_channels(tmp_path):
    images = pictures(4, 16, 16)
    spec = save(tmp_path, np.moveaxis(images, -1, 1))
    np.testing.assert_array_equal(
        load_data(f"{spec},axes=chw,size=16").images(range(4)), images)
    small = load_data(f"{spec},axes=chw,size=8,resize=area").images(range(4))
    means = images.reshape(4, 8, 2, 8, 2, 3).mean(axis=(2, 4))
    assert np.abs(small - means).max() <= 1
    assert load_data(f"{spec},axes=chw,size=32,channels=1").image_shape == (32, 32, 1)
    grey = save(tmp_path, images[..., 0], "grey.npy")
    colour = load_data(f"{grey},size=16,channels=3").images(range(4))
    np.testing.assert_array_equal(colour, np.repeat(images[..., :1], 3, axis=-1))


def test_an_npz_with_factors(tmp_path, cache):
    images = pictures(6, 8, 8)
    rows = np.array([[1, 0], [0, 0], [0, 1], [1, 1], [0, 2], [1, 2]])
    np.savez_compressed(tmp_path / "a.npz", imgs=images, classes=rows, note=np.array("hello"))
    data = load_data(f"npz:{tmp_path / 'a.npz'},size=8,factors=classes")
    assert data.space.names == ("classes_0", "classes_1")
    assert data.space.is_complete
    np.testing.assert_array_equal(data.images(data.index(rows)), images)
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in rows))
    again = load_data(f"npz:{tmp_path / 'a.npz'},size=8,table=t.csv")
    assert again.space.names == ("x", "y")
    np.testing.assert_array_equal(again.images(range(6)), data.images(range(6)))
    assert len(list(cache.glob("*.npy"))) == 1
    np.savez(tmp_path / "b.npz", a=images, b=images)
    with pytest.raises(UserError, match=r"2 arrays that could be images \(a, b\): say which"):
        load_data(f"npz:{tmp_path / 'b.npz'}")
    assert len(load_data(f"npz:{tmp_path / 'b.npz'},array=b")) == 6
    with pytest.raises(UserError, match="no array 'c': it holds a, b"):
        load_data(f"npz:{tmp_path / 'b.npz'},array=c")
    with pytest.raises(UserError, match="no array 'c'"):
        load_data(f"npz:{tmp_path / 'b.npz'},array=a,factors=c")
    (tmp_path / "short.csv").write_text("x\n1\n")
    with pytest.raises(UserError, match="1 rows for the 6 images"):
        load_data(f"npz:{tmp_path / 'b.npz'},array=a,table=short.csv")


@pytest.mark.parametrize(("array", "options", "said"), [
    (np.zeros((2, 8)), "", "has the shape"),
    (np.zeros((0, 8, 8)), "", "has the shape"),
    (np.zeros((2, 3, 8, 8)), "", "add axes=chw"),
    (np.zeros((2, 8, 8), dtype=np.int32), "", "values of type int32"),
    (np.full((2, 8, 8), 1.5), "", "outside 0..1: rescale"),
    (np.full((2, 8, 8), np.nan), "", "outside 0..1: rescale"),
    (np.ones((2, 8, 8), dtype=np.uint8), "", "no value above 1: add white=1"),
    (np.zeros((2, 8, 8)), ",white=-1", "must be a number above 0"),
    (np.zeros((2, 8, 8)), ",axes=xyz", "write hwc or chw"),
    (np.zeros((2, 8, 8)), ",crop=9", "image 0 of .* too few for crop=9"),
    (np.asfortranarray(np.zeros((2, 8, 9))), "", "column by column"),
    (np.array([None, 1], dtype=object), "", "never opened"),
])
def test_arrays_that_are_refused(tmp_path, cache, array, options, said):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(UserError, match=said):
        load_data(f"npy:{tmp_path / 'a.npy'}{options}")
    assert not list(cache.glob("*.npy"))


def test_files_that_are_cut_short(tmp_path):
    spec = save(tmp_path, pictures(9, 9, 9))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-5])
    with pytest.raises(UserError, match="end early"):
        load_data(spec)
    np.savez(tmp_path / "a.npz", images=pictures(9, 9, 9))
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[:-100])
    with pytest.raises(UserError, match="cannot be read"):
        load_data(f"npz:{tmp_path / 'a.npz'}")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("readme.txt", "none")
    with pytest.raises(UserError, match="0 arrays that could be images"):
        load_data(f"npz:{tmp_path / 'b.npz'}")
    with pytest.raises(UserError, match="no file"):
        load_data("npz:nowhere.npz")


@pytest.mark.parametrize("shape", [(10**9, 9, 9, 3), (9, 10**6, 10**6), (2**40, 2**30, 2**30)])
def test_a_header_that_promises_too_much_is_not_believed(tmp_path, shape):
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        file.write(bytes(1000))
    with pytest.raises(UserError, match=r"cannot be read .*the images end early"):
        load_data(f"npy:{tmp_path / 'a.npy'}")


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 300), place=st.integers(0, 299), byte=st.integers(0, 255))
def test_damaged_headers_never_crash(tmp_path_factory, cut, place, byte):
    folder = tmp_path_factory.mktemp("fuzz")
    np.save(folder / "a.npy", pictures(2, 8, 8, 1)[..., 0])
    raw = bytearray((folder / "a.npy").read_bytes()[:300 - cut])
    if place < len(raw):
        raw[place] = byte
    (folder / "a.npy").write_bytes(bytes(raw))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNWEAVE_DATA", str(folder))
        try:
            found = load_data(f"npy:{folder / 'a.npy'},size=8").images(0).shape[1:3] == (8, 8)
        except UserError as error:
            found = "\n" not in str(error)
    assert found
