"""The user's own images: which files, which pixels, what is said of those that are no good."""

import errno
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from own_files import pictures, png, save_hub, save_pictures
from PIL import Image

import unweave
from unweave.data import absolute_spec, load_data
from unweave.data import stored as stored_module
from unweave.data.framing import Framing
from unweave.types import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def area_mean(image, size):
    """Means of equal blocks, by reshaping: what `area` must be where sizes divide."""
    height, width, channels = image.shape
    blocks = image.reshape(size, height // size, size, width // size, channels)
    return np.floor(blocks.mean(axis=(1, 3)) + 0.5)


def test_a_folder_in_the_order_of_its_names(folder):
    images = pictures(5, 16, 16)
    for name, image in zip(("b/1.png", "a.bmp", "b/.hidden.png", "c.TIFF", "B.png"), images):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / name)
    for name in ("notes.txt", "notes.pdf", "factors.h5", "film.mpg"):  # Pillow knows the last three
        (folder / name).write_text("no picture")
    (folder / ".trash").mkdir()
    Image.fromarray(images[0]).save(folder / ".trash" / "x.png")
    data = load_data(f"images:{folder},size=16")
    assert len(data) == 4
    assert not data.space.has_factors
    np.testing.assert_array_equal(data.images(range(4)), images[[4, 1, 0, 3]])


@pytest.mark.parametrize(("crop", "box"), [
    ("centre", (slice(0, 32), slice(16, 48))), ("none", (slice(None), slice(None))),
    ("16", (slice(8, 24), slice(24, 40))), ("4:8:36:24", (slice(8, 24), slice(4, 36)))])
def test_crop_then_area(folder, crop, box):
    image = pictures(1, 32, 64)[0]
    save_pictures(folder, [image])
    found = load_data(f"images:{folder},size=8,crop={crop},resize=area").images(0)[0]
    assert np.abs(found - area_mean(image[box], 8)).max() <= 1


def test_lanczos_is_pillows_and_the_default(folder):
    image = pictures(1, 40, 40)[0]
    save_pictures(folder, [image])
    expected = np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS))
    data = load_data(f"images:{folder}")
    assert data.image_shape == (64, 64, 3)
    np.testing.assert_array_equal(data.images(0)[0], expected)
    assert load_data(f"images:{folder},size=128,channels=1").image_shape == (128, 128, 1)


def test_grey_colour_and_transparency_side_by_side(folder):
    Image.new("L", (8, 8), 100).save(folder / "1.png")
    Image.new("RGB", (8, 8), (200, 100, 50)).save(folder / "2.png")
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(folder / "3.png")
    Image.fromarray(np.full((8, 8), 257 * 7, dtype=np.uint16)).save(folder / "4.png")
    paletted = Image.new("P", (8, 8), 1)
    paletted.putpalette([0, 0, 0, 9, 8, 7])
    paletted.save(folder / "5.gif")
    Image.new("1", (8, 8), 1).save(folder / "6.png")
    colour = load_data(f"images:{folder},size=8").images(range(6))[:, 0, 0]
    assert colour.tolist() == [[100] * 3, [200, 100, 50], [255] * 3, [7] * 3, [9, 8, 7], [255] * 3]
    grey = load_data(f"images:{folder},size=8,channels=1,background=black").images(range(6))
    luma = round(0.299 * 200 + 0.587 * 100 + 0.114 * 50)
    assert grey[:, 0, 0, 0].tolist() == [100, luma, 0, 7, 8, 255]


def test_a_photo_is_turned_as_its_camera_says(folder):
    image = Image.fromarray(pictures(1, 8, 8)[0])
    exif = image.getexif()
    exif[0x0112] = 6  # a quarter turn clockwise
    image.save(folder / "a.png", exif=exif)
    found = load_data(f"images:{folder},size=8").images(0)[0]
    np.testing.assert_array_equal(found, np.rot90(np.asarray(image), -1))


def damage(folder, name):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:len(whole) // 2])


def test_damaged_files_are_named_and_skipped_only_if_asked(folder):
    images = pictures(6, 16, 16)
    names = save_pictures(folder, images, "{:02d}.jpg")
    damage(folder, names[2])
    (folder / names[4]).write_bytes(b"not a picture")
    with pytest.raises(UserError, match=r"2 of 6 .*02\.jpg cannot be used .*04\.jpg.*skip=unreada"):
        load_data(f"images:{folder},size=16")
    with pytest.warns(UserWarning, match=r"2 of 6 images .* left out: 02\.jpg"):
        data = load_data(f"images:{folder},size=16,skip=unreadable")
    assert len(data) == 4
    with Image.open(folder / names[3]) as third:
        np.testing.assert_array_equal(data.images(2)[0], np.asarray(third))


def test_bombs_and_odd_pixels_are_refused(folder, monkeypatch):
    monkeypatch.setattr("unweave.data.framing.MAX_PIXELS", 1000)
    Image.new("L", (40, 40)).save(folder / "bomb.png")
    Image.fromarray(np.zeros((8, 8), dtype=np.float32)).save(folder / "odd.tiff")
    with pytest.raises(UserError, match=r"40 x 40 pixels are more than.*odd\.tiff.*not known"):
        load_data(f"images:{folder}")


def test_a_wrong_option_is_told_early(folder, monkeypatch):
    monkeypatch.setattr(stored_module, "_CHUNK", 4)
    monkeypatch.setattr(stored_module, "_TOO_MANY", 3)
    save_pictures(folder, pictures(9))
    with pytest.raises(UserError, match=r"4 of the first 4 .* too few for crop=50\).*check"):
        load_data(f"images:{folder},crop=50,skip=unreadable")


def test_the_second_start_reads_no_picture(folder, cache, monkeypatch):
    save_pictures(folder, pictures())
    first = load_data(f"images:{folder},size=8").images(range(12))
    assert [p.suffix for p in sorted(cache.iterdir())] == [".json", ".lock", ".npy"]
    with monkeypatch.context() as patch:
        patch.setattr(Framing, "read", None)
        np.testing.assert_array_equal(load_data(f"images:{folder},size=8").images(range(12)), first)
    # Another option, or a changed file, is another data set.
    assert load_data(f"images:{folder},size=16").image_shape == (16, 16, 3)
    Image.fromarray(pictures(1, seed=9)[0]).save(folder / "03.png")
    again = load_data(f"images:{folder},size=8").images(range(12))
    assert (again != first).any(axis=(1, 2, 3)).tolist() == [k == 3 for k in range(12)]


def test_an_interrupted_start_goes_on(folder, cache, monkeypatch):
    monkeypatch.setattr(stored_module, "_CHUNK", 4)
    names = save_pictures(folder, pictures(11))
    damage(folder, names[1])
    read, seen = Framing.read, []

    def interrupted(self, file):
        seen.append(file.name)
        if file.name == names[9] and len(seen) < 13:
            raise KeyboardInterrupt
        return read(self, file)

    monkeypatch.setattr(Framing, "read", interrupted)
    spec = f"images:{folder},size=8,skip=unreadable"
    with pytest.raises(KeyboardInterrupt):
        load_data(spec)
    assert not list(cache.glob("*.npy"))
    (part,) = cache.glob("*.part")
    part.write_bytes(part.read_bytes() + b"half a row")
    seen[:] = ["-"] * 13
    with pytest.warns(UserWarning, match=names[1]):
        data = load_data(spec)
    assert sorted(seen[13:]) == names[8:]
    monkeypatch.setenv("UNWEAVE_DATA", str(cache.parent.parent / "fresh"))
    with pytest.warns(UserWarning, match=names[1]):
        np.testing.assert_array_equal(load_data(spec).images(range(10)), data.images(range(10)))


def test_a_cache_that_cannot_be_written(folder, tmp_path, monkeypatch):
    save_pictures(folder, pictures(2))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"cannot write .* set UNWEAVE_DATA to a folder"):
        load_data(f"images:{folder}")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "full"))

    class Full:
        free = 1000

    monkeypatch.setattr(stored_module.shutil, "disk_usage", lambda path: Full)
    with pytest.raises(UserError, match=r"no space is left .*free 1 MB,"):
        load_data(f"images:{folder}")
    assert not list((tmp_path / "full").rglob("*.npy"))


def test_two_starts_at_once_make_one_file(folder, cache, monkeypatch):
    save_pictures(folder, pictures(40))
    read, seen = Framing.read, []

    def slow(self, file):
        seen.append(file.name)
        time.sleep(0.002)
        return read(self, file)

    monkeypatch.setattr(Framing, "read", slow)
    with ThreadPoolExecutor(2) as pool:  # as two processes would
        first, second = pool.map(load_data, [f"images:{folder},size=8"] * 2)
    np.testing.assert_array_equal(first.images(range(40)), second.images(range(40)))
    assert len(seen) == 40
    assert len(list(cache.glob("*.npy"))) == 1


@pytest.mark.parametrize(("options", "said"), [
    ("size=4", r"size=4 must lie in 8\.\.1024"), ("size=big", "must be a whole number"),
    ("channels=2", "must be 1"), ("crop=left", "crop=left is not understood"),
    ("crop=4:4:4:9", "is empty"), ("resize=cubic", "unknown way to resize 'cubic'"),
    ("background=red", "unknown background"), ("skip=all", "unknown kind of pictures to skip"),
    ("colour=3", "unknown option of images 'colour'")])
def test_options_that_are_not_understood(folder, options, said):
    save_pictures(folder, pictures(1))
    with pytest.raises(UserError, match=said):
        load_data(f"images:{folder},{options}")


def test_folders_that_are_none(folder, tmp_path):
    with pytest.raises(UserError, match="holds no pictures"):
        load_data(f"images:{folder}")
    with pytest.raises(UserError, match="does not exist"):
        load_data(f"images:{tmp_path / 'nowhere'}")
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(UserError, match="is a file, not a folder"):
        load_data(f"images:{tmp_path / 'a.png'}")
    with pytest.raises(UserError, match="write images:FOLDER"):
        load_data("images")


def test_a_hub_data_set_with_factors(tmp_path, monkeypatch):
    images = pictures(6, 8, 8)
    columns = {"digit": [0, 1, 2, 0, 1, 2], "pen": ["thin"] * 3 + ["bold"] * 3}
    save_hub(tmp_path / "hub", images, columns)
    data = load_data(f"hf:{tmp_path / 'hub'},size=8,factors=pen+digit")
    assert data.space.names == ("pen", "digit")
    assert data.space.is_complete
    np.testing.assert_array_equal(data.images(range(6)), images[[3, 4, 5, 0, 1, 2]])
    assert not load_data(f"hf:{tmp_path / 'hub'},size=8").space.has_factors
    with pytest.raises(UserError, match="unknown column 'ink'"):
        load_data(f"hf:{tmp_path / 'hub'},factors=ink")
    with pytest.raises(UserError, match=r"'pen' of .* holds no images"):
        load_data(f"hf:{tmp_path / 'hub'},column=pen")
    with pytest.raises(UserError, match="'no/such-thing' cannot be loaded"):
        load_data("hf:no/such-thing")
    save_hub(tmp_path / "bad", images, {"digit": list(range(7))}, raw=[png(images[0])[:40]])
    with pytest.raises(UserError, match=r"1 of 7 .*row 6 of"):
        load_data(f"hf:{tmp_path / 'bad'}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'unweave\[hf\]'"):
        load_data("hf:mnist")


def test_names_that_runs_store(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert absolute_spec("images:mine,size=32,crop=none") == f"images:{folder},crop=none,size=32"
    assert absolute_spec("hf:ylecun/mnist,split=test") == "hf:ylecun/mnist,split=test"
    assert absolute_spec("hf:mine") == f"hf:{folder}"


def test_reading_leaves_warnings_as_they_were(folder):
    save_pictures(folder, pictures(60), "{:02d}.jpg")
    before = list(warnings.filters)
    load_data(f"images:{folder},size=8")
    assert list(warnings.filters) == before


@pytest.mark.parametrize("skip", ["", ",skip=unreadable"])
def test_a_picture_that_may_not_be_opened_is_not_kept_as_damaged(tmp_path, monkeypatch, skip):
    """Permission to read it, given later, changes neither its length nor its time."""
    folder = tmp_path / "mine"
    save_pictures(folder, pictures(3, 8, 8))
    read = Framing.read

    def refused(self, file):
        if file.name == "01.png":
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return read(self, file)

    with monkeypatch.context() as patch:
        patch.setattr(Framing, "read", refused)
        with pytest.raises(UserError, match=r"01\.png .*Permission denied.*make it readable"):
            load_data(f"images:{folder},size=8{skip}")
    data = load_data(f"images:{folder},size=8{skip}")
    np.testing.assert_array_equal(data.images(range(3)), pictures(3, 8, 8))


@pytest.mark.parametrize("spec", ["images:~nosuchuser/a", "npz:~nosuchuser/a.npz",
                                  "images:{folder},table=~nosuchuser/a.csv"])
def test_the_home_folder_of_nobody(tmp_path, spec):
    save_pictures(tmp_path / "mine", pictures(3, 8, 8))
    with pytest.raises(UserError, match="home folder that this machine does not know"):
        load_data(spec.format(folder=tmp_path / "mine"))
    with pytest.raises(UserError, match="home folder that this machine does not know"):
        unweave.train("vae", spec.format(folder=tmp_path / "mine"), out=None, progress=False)


@pytest.mark.parametrize("spec", ["images:{ring}", "npz:{ring}", "mnist:{ring}",
                                  "images:{folder},table={ring}"])
def test_a_link_to_itself(tmp_path, spec):
    save_pictures(tmp_path / "mine", pictures(3, 8, 8))
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    spec = spec.format(ring=tmp_path / "ring", folder=tmp_path / "mine")
    assert absolute_spec(spec) == spec
    with pytest.raises(UserError, match="ring"):
        load_data(spec)
