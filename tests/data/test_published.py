"""Published data sets, from small files in their own formats: what is read, and what is refused."""

import io
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from published_files import (
    NORB_GRID,
    attributes,
    car,
    chair_files,
    faces,
    idx_bytes,
    jpg_bytes,
    make_cars,
    make_celeba,
    make_chairs,
    mat_bytes,
    noise,
    norb_bytes,
    png_bytes,
    smooth,
    write_mnist,
    write_norb,
    write_tar,
)

from unweave.data import DATASETS, check_file, load_data
from unweave.data.celeba import ATTRIBUTES
from unweave.data.smallnorb import HALVES
from unweave.types import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def shrunk(image: np.ndarray, side: int = 64) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.LANCZOS))


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if entry.fetch and
                                  name != "scream_dsprites"])
def test_what_is_not_here_is_told(name: str, cache: Path) -> None:
    with pytest.raises(UserError, match="unweave data fetch") as caught:
        load_data(name)
    assert str(cache) in str(caught.value)
    with pytest.raises(UserError, match=r"is not at /no/such: give (the folder|[\w-]+\.)"):
        load_data(f"{name}:/no/such")
    assert not cache.exists()


# smallNORB

@pytest.mark.parametrize("packed", [False, True])
def test_smallnorb_with_instances(tmp_path: Path, packed: bool) -> None:
    factors, photographs = write_norb(tmp_path, packed=packed)
    data = load_data(f"smallnorb_instances:{tmp_path},part=yes")
    assert data.space.names == ("category", "instance", "elevation", "azimuth", "lighting")
    assert data.space.sizes == (5, 10, 9, 18, 6)
    assert len(data) == len(factors) == 2 * np.prod(NORB_GRID)
    assert not data.is_random
    images = data.images(data.index(factors))[..., 0]
    for k in (0, 17, 60, len(factors) - 1):
        np.testing.assert_array_equal(images[k], shrunk(photographs[k]))
    assert images.min() > 100  # bright bytes stay bright


def test_smallnorb_as_in_the_study(tmp_path: Path) -> None:
    factors, photographs = write_norb(tmp_path)
    data = load_data(f"smallnorb:{tmp_path},part=yes")
    assert data.space.names == ("category", "elevation", "azimuth", "lighting")
    assert len(data) == np.prod(NORB_GRID) // NORB_GRID[1]
    assert data.is_random
    row = (1, 0, 2, 1)
    index = int(data.index([row])[0])
    toys = photographs[(factors[:, [0, 2, 3, 4]] == row).all(axis=1)]
    assert len(toys) == 4
    allowed = {shrunk(toy).tobytes() for toy in toys}
    seen = {data.images(index, seed=seed)[0, ..., 0].tobytes() for seed in range(40)}
    assert seen == allowed
    np.testing.assert_array_equal(data.images([index, 3, index], seed=1)[2],
                                  data.images(index, seed=1)[0])


def test_smallnorb_at_another_size_and_from_the_cache(tmp_path: Path, cache: Path) -> None:
    (cache / "smallnorb").mkdir(parents=True)
    _, photographs = write_norb(cache / "smallnorb")
    data = load_data("smallnorb_instances,part=yes,size=32")
    assert data.image_shape == (32, 32, 1)
    assert any(np.array_equal(data.images(0)[0, ..., 0], shrunk(one, 32)) for one in photographs)


def test_smallnorb_that_is_not(tmp_path: Path) -> None:
    spec = f"smallnorb:{tmp_path},part=yes"
    with pytest.raises(UserError, match="has no file smallnorb-5x46789"):
        load_data(spec)
    write_norb(tmp_path)
    with pytest.raises(UserError, match="has 96 images, smallNORB has 48600"):
        load_data(f"smallnorb:{tmp_path}")
    with pytest.raises(UserError, match="yes or no"):
        load_data(f"smallnorb:{tmp_path},part=perhaps")
    good = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    num = len(good[f"{HALVES[0]}cat.mat"][20:]) // 4
    zeros = np.zeros((num, 4), np.int32)
    for kind, content, why in (
            ("dat", good[f"{HALVES[0]}dat.mat"][:-7], "cut short"),
            ("dat", norb_bytes(noise(num, 1, 96, 96)), "expected uint8 of"),
            ("cat", norb_bytes(np.zeros(num - 1, np.int32)), "expected int32 of"),
            ("cat", norb_bytes(np.full(num, 5, np.int32)), "beyond the sizes"),
            ("info", norb_bytes(zeros + 1), "odd"),
            ("info", norb_bytes(zeros - 2), "beyond the sizes"),
            ("info", norb_bytes(zeros), "two images of"),
            ("info", b"something else", "no matrix of NORB")):
        (tmp_path / f"{HALVES[0]}{kind}.mat").write_bytes(content)
        with pytest.raises(UserError, match=why):
            load_data(spec)
        (tmp_path / f"{HALVES[0]}{kind}.mat").write_bytes(good[f"{HALVES[0]}{kind}.mat"])
    assert len(load_data(spec)) == 24


def test_smallnorb_needs_the_same_toys_everywhere(tmp_path: Path) -> None:
    write_norb(tmp_path)
    info = np.array([[2, 0, 0, 0], [3, 0, 0, 0], [2, 0, 2, 0]], np.int32)
    for kind, array in (("dat", noise(3, 2, 96, 96)), ("cat", np.zeros(3, np.int32)),
                        ("info", info)):
        (tmp_path / f"{HALVES[1]}{kind}.mat").write_bytes(norb_bytes(array))
    with pytest.raises(UserError, match="use smallnorb_instances"):
        load_data(f"smallnorb:{tmp_path},part=yes")
    assert len(load_data(f"smallnorb_instances:{tmp_path},part=yes")) == 51


def test_the_sample_of_smallnorb(shared: Path) -> None:
    data = load_data(f"smallnorb_instances:{shared / 'data' / 'smallnorb'},part=yes")
    assert len(data) == 10
    assert data.image_shape == (64, 64, 1)


# Cars3D

def test_cars(tmp_path: Path) -> None:
    data = load_data(make_cars(tmp_path))
    assert data.space.names == ("elevation", "azimuth", "type")
    assert data.space.sizes == (4, 24, 2)
    for row in ((0, 0, 0), (3, 23, 1), (2, 5, 0)):
        elevation, azimuth, model = row
        expected = shrunk(car(model + 1)[..., azimuth, elevation])
        np.testing.assert_array_equal(data.images(data.index([row]))[0], expected)


def test_cars_from_a_folder_are_the_same(tmp_path: Path) -> None:
    whole = load_data(make_cars(tmp_path))
    folder = tmp_path / "unpacked" / "data" / "cars"
    folder.mkdir(parents=True)
    for k in (1, 2):
        (folder / f"car_{k}_mesh.mat").write_bytes(mat_bytes(im=car(k)))
    (folder / "list.txt").write_text("car_1_mesh\n")
    for place in (folder, tmp_path / "unpacked"):
        data = load_data(f"cars3d:{place},part=yes")
        np.testing.assert_array_equal(data.images(np.arange(192)), whole.images(np.arange(192)))
    with pytest.raises(UserError, match="has 2 models, Cars3D has 183"):
        load_data(f"cars3d:{folder}")


def test_cars_of_a_folder_are_those_in_it(tmp_path: Path) -> None:
    """Files below were read but not counted: images stood beside the factors of others."""
    for name, k in (("car_1.mat", 1), ("car_2.mat", 2), ("old/car_0.mat", 3)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(mat_bytes(im=car(k)))
    (tmp_path / "._car_1.mat").write_bytes(b"what a Mac leaves")
    data = load_data(f"cars3d:{tmp_path},part=yes")
    assert data.space.sizes == (4, 24, 2)
    for model in (0, 1):
        np.testing.assert_array_equal(data.images(data.index([[3, 23, model]]))[0],
                                      shrunk(car(model + 1)[..., 23, 3]))


def test_a_damaged_zip_of_cars(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("data/cars/car_1.mat", mat_bytes(im=car(1)))
    content = bytearray((tmp_path / "x.zip").read_bytes())
    content[2000] ^= 255
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.zip cannot be read \(Bad CRC"):
        load_data(f"cars3d:{tmp_path / 'x.zip'},part=yes")


@pytest.mark.parametrize(("content", "why"), [
    (lambda: mat_bytes(im=np.zeros((128, 128, 24, 4), np.uint8)), "expected im .* in colour"),
    (lambda: mat_bytes(im=np.zeros((128, 128, 3, 24, 4))), "expected im"),
    (lambda: mat_bytes(other=np.zeros(3)), "expected im"),
    (lambda: mat_bytes(im=car(0))[:5000], "cannot be read|expected im"),
    (lambda: b"no mat file at all, however long it may be " * 10, "cannot be read|expected im"),
])
def test_cars_that_are_not(tmp_path: Path, cache: Path, content: object, why: str) -> None:
    write_tar(tmp_path / "x.tar", {"data/cars/car_1_mesh.mat": content()})
    with pytest.raises(UserError, match=why) as caught:
        load_data(f"cars3d:{tmp_path / 'x.tar'},part=yes")
    assert "car_1_mesh.mat" in str(caught.value)
    assert not list(cache.rglob("*.npy"))


def test_an_archive_without_cars(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar.gz", {"data/sprites/x.mat": b"x"}, "w:gz")
    for option in ("", ",part=yes"):
        with pytest.raises(UserError, match="has 0 models"):
            load_data(f"cars3d:{tmp_path / 'x.tar.gz'}{option}")


# MPI3D

@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mpi3d(tmp_path: Path, cache: Path, save: object) -> None:
    images = noise(50, 64, 64, 3)
    save(tmp_path / "x.npz", other=np.zeros(3), images=images)
    data = load_data(f"mpi3d_real:{tmp_path / 'x.npz'},part=yes")
    assert data.space.sizes == (6, 6, 2, 3, 3, 40, 40)
    assert data.factors([0, 49]).tolist() == [[0] * 7, [0, 0, 0, 0, 0, 1, 9]]
    np.testing.assert_array_equal(data.images(np.arange(50)), images)
    # Only what is packed is written once more.
    assert len(list(cache.rglob("*.npy"))) == (save is np.savez_compressed)


def test_mpi3d_at_another_size(tmp_path: Path) -> None:
    images = noise(3, 64, 64, 3)
    np.savez(tmp_path / "x.npz", images=images)
    data = load_data(f"mpi3d_toy:{tmp_path / 'x.npz'},size=32,part=yes")
    np.testing.assert_array_equal(data.images(2)[0], shrunk(images[2], 32))


def test_mpi3d_as_a_grid_of_axes(tmp_path: Path) -> None:
    images = noise(80, 64, 64, 3)
    np.savez(tmp_path / "x.npz", images=images.reshape(1, 1, 1, 1, 1, 2, 40, 64, 64, 3))
    data = load_data(f"mpi3d_toy:{tmp_path / 'x.npz'},part=yes")
    np.testing.assert_array_equal(data.images(np.arange(80)), images)


def test_mpi3d_that_is_not(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "x.npz"
    for arrays, why in (({"pictures": noise(2, 64, 64, 3)}, "no array `images`"),
                        ({"images": noise(2, 64, 64)}, "in colour"),
                        ({"images": noise(2, 64, 64, 3).astype(np.int8)}, "int8"),
                        ({"images": np.array([{}])}, "of object")):
        np.savez(path, **arrays)
        with pytest.raises(UserError, match=why):
            load_data(f"mpi3d_toy:{path},part=yes")
    np.savez_compressed(path, images=noise(9, 64, 64, 3))
    with pytest.raises(UserError, match="has 9 images, MPI3D has 1036800"):
        load_data(f"mpi3d_toy:{path}")
    content = path.read_bytes()
    for damaged in (content[:-5], content[:3000], b"", b"PK nothing",
                    content[:2000] + bytes(500) + content[2500:]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"cannot be read \(|ends within"):
            load_data(f"mpi3d_toy:{path},part=yes")
    assert not list(cache.rglob("*.npy"))
    with pytest.raises(UserError, match="is a folder"):
        load_data(f"mpi3d_toy:{tmp_path}")


# 3D Chairs

def test_chairs(tmp_path: Path) -> None:
    data = load_data(make_chairs(tmp_path))
    assert data.space.names == ("model", "elevation", "azimuth")
    assert data.space.sizes == (2, 2, 31)
    assert len(data) == 12
    # Model a1 is the first by name and was the second to be written.
    expected = np.asarray(Image.fromarray(smooth(40, 40, 100 + 30 + 22)).resize(
        (64, 64), Image.Resampling.LANCZOS))
    np.testing.assert_array_equal(data.images(data.index([[0, 1, 2]]))[0], expected)
    folder = tmp_path / "unpacked"
    for name, content in chair_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    same = load_data(f"chairs3d:{folder},part=yes")
    np.testing.assert_array_equal(same.images(np.arange(12)), data.images(np.arange(12)))
    grey = load_data(f"chairs3d:{folder},channels=1,crop=20,size=16,part=yes")
    assert grey.image_shape == (16, 16, 1)


def test_a_part_of_the_chairs_keeps_the_directions_of_the_whole(tmp_path: Path) -> None:
    """Elevations are 20 and 30 degrees; azimuths are the whole degrees of k 360 / 31."""
    degrees = [k * 360 // 31 for k in range(31)]
    assert (degrees[:4], degrees[-1]) == ([0, 11, 23, 34], 348)
    chair = png_bytes(smooth(40, 40, 0))
    kept = [(1, k) for k in range(31) if k not in (0, 5)] + [(0, 30)]

    def write(angles: list[tuple[int, int]]) -> str:
        write_tar(tmp_path / "c.tar", {
            f"a/renders/image_{n:03d}_p{p:03d}_t{t:03d}_r096.png": chair
            for n, (p, t) in enumerate(angles)})
        return f"chairs3d:{tmp_path / 'c.tar'},part=yes"

    data = load_data(write([((20, 30)[p], degrees[t]) for p, t in kept]))
    assert data.factors(range(len(data)))[:, 1:].tolist() == sorted(map(list, kept))
    alone = load_data(write([(30, degrees[k]) for k in range(31)]))
    assert alone.factors(range(31))[:, 1:].tolist() == [[1, k] for k in range(31)]
    for angles, why in (([(25, 0)], "an elevation of 25 degrees"), ([(20, 5)], "an azimuth of 5 d"),
                        ([(20, 359)], "an azimuth of 359"),
                        ([(20, 11), (20, 12)], "one direction")):
        with pytest.raises(UserError, match=why):
            load_data(write(angles))


def test_chairs_that_are_not(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    for files, why in ((chair_files(), "has 12 renderings .* 3D Chairs has 86366"),
                       ({"a/renders/chair.png": b"x"}, "has 0 renderings")):
        write_tar(path, files)
        with pytest.raises(UserError, match=why):
            load_data(f"chairs3d:{path}")
    write_tar(path, chair_files(num_azimuths=32))
    with pytest.raises(UserError, match="32 azimuths"):
        load_data(f"chairs3d:{path},part=yes")
    broken = chair_files()
    broken[min(broken)] = b"no picture"
    write_tar(path, broken)
    with pytest.raises(UserError, match=f"1 of 12 renderings .* {re.escape(min(broken))} cannot"):
        load_data(f"chairs3d:{path},part=yes")


# CelebA

def test_celeba(tmp_path: Path) -> None:
    data = load_data(make_celeba(tmp_path))
    assert len(data) == 12
    assert not data.space.has_factors
    assert data.labels.names == ("Bald", "Smiling", "Young")
    assert data.labels.values[:4].tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    photograph = Image.open(io.BytesIO(faces()["000003.jpg"])).crop((0, 20, 178, 198))
    np.testing.assert_array_equal(data.images(2)[0], np.asarray(
        photograph.resize((64, 64), Image.Resampling.LANCZOS)))
    assert len(ATTRIBUTES) == len(set(ATTRIBUTES)) == 40


def test_celeba_from_folders(tmp_path: Path) -> None:
    whole = load_data(make_celeba(tmp_path))
    folder = tmp_path / "other" / "img_align_celeba"
    folder.mkdir(parents=True)
    for name, content in faces().items():
        (folder / name).write_bytes(content)
    (folder.parent / "list_attr_celeba.txt").write_text(attributes())
    for place in (folder, folder.parent, tmp_path / "img_align_celeba.zip"):
        data = load_data(f"celeba:{place},part=yes")
        np.testing.assert_array_equal(data.images(np.arange(12)), whole.images(np.arange(12)))


@pytest.mark.parametrize(("content", "why"), [
    (b"no picture", "cannot identify"),
    (faces()["000005.jpg"][:2000], "truncated|broken"),
    (jpg_bytes(smooth(218, 178, 1)[..., 0]), "not in colour"),
    (jpg_bytes(smooth(64, 64, 1)), "has 64 x 64 pixels"),
    (b"", "cannot identify"),
], ids=["foreign", "truncated", "grey", "small", "empty"])
def test_a_bad_photograph_is_named_or_left_out(tmp_path: Path, content: bytes, why: str) -> None:
    with zipfile.ZipFile(tmp_path / "img_align_celeba.zip", "w") as archive:
        for name, good in faces().items():
            archive.writestr(name, content if name == "000005.jpg" else good)
    (tmp_path / "list_attr_celeba.txt").write_text(attributes())
    with pytest.raises(UserError, match=r"1 of 12 photographs, the first: 000005\.jpg") as caught:
        load_data(f"celeba:{tmp_path},part=yes")
    assert re.search(why, str(caught.value))
    assert "skip=unreadable" in str(caught.value)
    with pytest.warns(UserWarning, match=r"left out are 1 of 12 .* 000005.jpg"):
        data = load_data(f"celeba:{tmp_path},part=yes,skip=unreadable")
    assert len(data) == len(data.labels) == 11
    np.testing.assert_array_equal(data.labels.values[4], [1, 0, 1])  # of number 6
    assert data.images(4).max() > 0
    with pytest.raises(UserError, match="unreadable is what can be said"):
        load_data(f"celeba:{tmp_path},part=yes,skip=all")


@pytest.mark.parametrize(("text", "why"), [
    ("", "does not begin"), ("two\nBald\n", "does not begin"),
    (attributes(11), "no row for 000012.jpg"), ("13" + attributes()[2:], "says 13 rows and has 12"),
    (attributes().replace("000004.jpg 1", "000004.jpg 0"), "a row that is not .* 000004.jpg"),
    (attributes() + "é", "cannot be read"),
])
def test_a_bad_table_is_told(tmp_path: Path, text: str, why: str) -> None:
    spec = make_celeba(tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_text(text)
    with pytest.raises(UserError, match=why):
        load_data(spec)
    (tmp_path / "list_attr_celeba.txt").unlink()
    with pytest.raises(UserError, match=r"put list_attr_celeba\.txt there"):
        load_data(spec)


def test_part_of_celeba_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 12 photographs, CelebA has 202599"):
        load_data(make_celeba(tmp_path).removesuffix(",part=yes"))


# MNIST and Fashion-MNIST

def test_mnist(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    data = load_data(f"mnist:{tmp_path}")
    assert len(data) == 30
    assert data.image_shape == (32, 32, 1)
    images = data.images(np.arange(30))[..., 0]
    np.testing.assert_array_equal(images[:, 2:30, 2:30], noise(30, 28, 28))
    assert not images[:, :2].any()
    assert not images[:, :, 30:].any()
    assert data.labels.column("digit").tolist() == [str(k) for k in noise(30) % 10]
    assert len(load_data(f"mnist:{tmp_path},split=test")) == 20
    both = load_data(f"mnist:{tmp_path},split=all,size=64,fit=resize")
    assert len(both) == 50
    np.testing.assert_array_equal(both.images(31)[0, ..., 0],
                                  shrunk(noise(20, 28, 28, seed=1)[1]))
    clothes = load_data(f"fashion_mnist:{tmp_path},size=29")
    assert clothes.image_shape == (29, 29, 1)
    assert "bag" in clothes.labels.column("article")


def test_mnist_that_is_not(tmp_path: Path) -> None:
    for option, why in (("split=some", "train, test or all"), ("size=2", "at least 28"),
                        ("size=x", "whole number"), ("size=64,fit=crop", "pad"),
                        ("colour=yes", "unknown option of mnist 'colour'")):
        with pytest.raises(UserError, match=why):
            load_data(f"mnist:{tmp_path},{option}")
    with pytest.raises(UserError, match="has no file train-images-idx3-ubyte"):
        load_data(f"mnist:{tmp_path}")
    write_mnist(tmp_path)
    for name, content, why in (
            ("train-labels-idx1-ubyte", idx_bytes(np.zeros(29, np.uint8)), r"expected .*\(30,\)"),
            ("train-labels-idx1-ubyte", idx_bytes(np.full(30, 10, np.uint8)), "from 0 to 9"),
            ("train-images-idx3-ubyte", idx_bytes(noise(30, 28, 28, 3)), r"\(n, 28, 28\)"),
            ("train-images-idx3-ubyte", b"", "ends early")):
        (tmp_path / name).write_bytes(content)  # plain files come before packed ones
        with pytest.raises(UserError, match=why):
            load_data(f"mnist:{tmp_path}")
        (tmp_path / name).unlink()
        write_mnist(tmp_path)
    with pytest.raises(UserError, match="give the folder"):
        load_data(f"mnist:{tmp_path / 'train-images-idx3-ubyte.gz'}")


def test_the_real_mnist(shared: Path) -> None:
    data = load_data(f"mnist:{shared / 'data' / 'mnist'}")
    assert len(data) == 60_000
    assert data.labels.column("digit")[:5].tolist() == ["5", "0", "4", "1", "9"]
    mean = data.images(np.arange(60_000)).astype(np.float32).mean() / 255
    assert mean * 32**2 / 28**2 == pytest.approx(0.1307, abs=1e-4)


# dSprites as it is published, and the cache

def test_the_sample_of_dsprites_in_hdf5(shared: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    sample = shared / "data" / "dsprites_format_sample.hdf5"
    with pytest.raises(UserError, match="pixels of 255"):  # noise, in the right container
        check_file(sample)
    path = tmp_path / "sample.hdf5"
    path.write_bytes(sample.read_bytes())
    rendered = load_data("dsprites")
    with h5py.File(path, "r+") as file:
        rows = file["latents/classes"][:, 1:]
        file["imgs"][...] = rendered.images(rendered.index(rows))[..., 0] // 255
    found = check_file(path)
    assert (found.num_images, found.complete, found.differing_pixels) == (5, False, 0)


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_chairs(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set UNWEAVE_DATA to a folder you may write"):
        load_data(spec)


def test_files_that_changed_are_read_again(tmp_path: Path) -> None:
    spec = make_chairs(tmp_path)
    before = load_data(spec).images(0)
    files = {name: content for (name, _), content in zip(
        chair_files().items(), reversed(chair_files().values()))}
    write_tar(tmp_path / "chairs.tar", files)
    os.utime(tmp_path / "chairs.tar", ns=(1, 1))
    assert not np.array_equal(load_data(spec).images(0), before)


def test_the_page_tells_of_every_set_and_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data" / "published.md").read_text()
    for name, entry in DATASETS.items():
        if not entry.fetch or name == "scream_dsprites":
            continue
        (row,) = [line for line in page.splitlines() if line.startswith("| `") and
                  f"`{name}`" in line]
        assert re.findall(r"`(\w+)`", row.split("|")[5]) == list(entry.options)
        for factor, size in zip(entry.factors, entry.sizes):
            assert f"{factor} {size}" in row


def test_a_repaired_photograph_is_read_again(tmp_path: Path) -> None:
    for name, content in faces().items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "list_attr_celeba.txt").write_text(attributes())
    (tmp_path / "000002.jpg").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"000002\.jpg"):
        load_data(f"celeba:{tmp_path},part=yes")
    (tmp_path / "000002.jpg").write_bytes(faces()["000002.jpg"])
    assert len(load_data(f"celeba:{tmp_path},part=yes")) == 12
