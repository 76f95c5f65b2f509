"""Own factors: a table beside the images, complete grid or not, and what does not fit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from own_files import pictures, save_pictures
from PIL import Image

import unweave
from unweave.data import load_data
from unweave.types import UserError

ROWS = [("blue", 1.5), ("red", 0.5), ("red", 1.5), ("blue", 0.5), ("red", 2.5)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    save_pictures(tmp_path / "mine", pictures(5, 8, 8), "sub/{}.png")
    return tmp_path / "mine"


def write(folder, header, rows, name="factors.csv"):
    lines = [header, *[",".join(map(str, row)) for row in rows]]
    (folder / name).write_text("\n".join(lines) + "\n")


def files(*rows, pattern="sub/{}.png"):
    return [(pattern.format(k), *row) for k, row in enumerate(rows)]


@pytest.mark.parametrize("pattern", ["sub/{}.png", "sub/{}", "./sub/{}.png"])
def test_a_grid_with_a_gap(folder, pattern):
    rows = files(*ROWS, pattern=pattern)
    write(folder, "file,colour,size", rows[::-1])  # rows may come in any order
    data = load_data(f"images:{folder},size=8,table=factors.csv")
    assert data.space.names == ("colour", "size")
    assert [list(v) for v in data.space.values] == [["blue", "red"], [0.5, 1.5, 2.5]]
    assert [str(t) for t in data.space.types] == ["categorical", "ordinal"]
    assert not data.space.is_complete
    # blue .5, blue 1.5, red .5, red 1.5, red 2.5 are the images 3, 0, 1, 2, 4.
    np.testing.assert_array_equal(data.images(range(5)), pictures(5, 8, 8)[[3, 0, 1, 2, 4]])
    assert data.factors([1, 4]).tolist() == [[0, 1], [1, 2]]
    assert data.index([[1, 0]]).tolist() == [2]


def test_parquet_types_and_chosen_columns(folder):
    table = pa.table({"name": [f"sub/{k}.png" for k in range(5)],
                      "angle": pa.array([0, 90, 180, 270, 0], pa.int16()),
                      "colour": pa.array(["a", "a", "b", "b", "b"]).dictionary_encode(),
                      "comment": ["x"] * 5})
    pq.write_table(table, folder / "t.parquet")
    data = load_data(f"images:{folder},size=8,table=t.parquet,file=name,factors=colour+angle,"
                     "types=angle:circular")
    assert data.space.names == ("colour", "angle")
    assert [str(t) for t in data.space.types] == ["categorical", "circular"]
    assert data.space.sizes == (2, 4)
    assert len(data) == 5


@pytest.mark.parametrize(("header", "column", "why"), [
    ("kind", [1, 2, 1, 3, 4], "several images have kind=1"),
    ("kind", [1, 2, "", 3, 4], "kind is unknown in row 3"),
    ("kind", ["a", "b", "", "c", "d"], "kind is unknown in row 3"),
])
def test_what_cannot_be_a_factor_is_a_label(folder, header, column, why):
    write(folder, f"file,{header}", files(*[(v,) for v in column]))
    spec = f"images:{folder},size=8,table=factors.csv"
    with pytest.raises(UserError, match=f"does not give factors: {why}.*as=labels"):
        load_data(f"{spec},as=factors")
    data = load_data(spec)
    assert not data.space.has_factors
    assert data.labels.names == ("kind",)
    np.testing.assert_array_equal(data.images(range(5)), pictures(5, 8, 8))
    said = data.labels.column("kind").tolist()
    assert [None if v == "" else v for v in column] == said


def test_quantities_are_labels_and_factors_may_be_taken_as_such(folder):
    save_pictures(folder, pictures(30, 8, 8))
    for path in (folder / "sub").iterdir():
        path.unlink()
    write(folder, "file,age", [(f"{k:02d}.png", k / 7) for k in range(30)])
    spec = f"images:{folder},size=8,table=factors.csv"
    assert load_data(spec).labels is not None
    with pytest.raises(UserError, match="age is a quantity, with 30 values in 30 rows"):
        load_data(f"{spec},as=factors")
    assert load_data(f"{spec},types=age:ordinal").space.sizes == (30,)
    write(folder, "file,age", [(f"{k:02d}.png", k) for k in range(30)])
    assert load_data(spec).space.sizes == (30,)
    assert load_data(f"{spec},as=labels").labels is not None


@pytest.mark.parametrize(("header", "rows", "said"), [
    ("file,a", files((1,), (2,), (3,), (4,), (5,))[:3],
     r"2 pictures in .* have no row in .*'sub/3\.png'"),
    ("file,a", [*files((1,), (2,), (3,), (4,), (5,)), ("no.png", 6), ("gone.png", 7)],
     r"names 2 files that are not .* the first is 'no\.png' in row 6"),
    ("file,a", [*files((1,), (2,), (3,), (4,), (5,)), ("sub/0", 6)],
     r"several rows for 'sub/0\.png'"),
    ("path,a", files((1,), (2,), (3,), (4,), (5,)), "no column 'file' .* which of path, a"),
    ("file", [(f"sub/{k}.png",) for k in range(5)], "no column of factors"),
    ("file,a,a", files(*[(1, 2)] * 5), "two columns 'a'"),
    ("file,a", [], "has no rows"),
    ("file,a", [("sub/0.png", 1, 2)], "cannot be read"),
])
def test_tables_that_do_not_fit(folder, header, rows, said):
    write(folder, header, rows)
    with pytest.raises(UserError, match=said):
        load_data(f"images:{folder},size=8,table=factors.csv")


def test_more_that_is_refused(folder):
    write(folder, "file,a", files((1,), (2,), (3,), (4,), (5,)))
    spec = f"images:{folder},size=8,table=factors.csv"
    for options, said in (("factors=b", "unknown column 'b'"), ("types=b:ordinal", "unknown col"),
                          ("types=a:round", "unknown factor type"), ("as=both", "unknown reading"),
                          ("table=none.csv", "no table .*none.csv")):
        with pytest.raises(UserError, match=said):
            load_data(f"{spec},{options}")
    (folder / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(UserError, match=r"the table .*bad\.parquet cannot be read"):
        load_data(f"images:{folder},size=8,table=bad.parquet")
    pq.write_table(pa.table({"file": ["a"], "box": [[1, 2]]}), folder / "list.parquet")
    with pytest.raises(UserError, match=r"'box' of .* holds values of type list"):
        load_data(f"images:{folder},size=8,table=list.parquet")


def test_a_table_in_another_encoding_is_refused_in_a_sentence(folder):
    text = "file,fläche\n" + "".join(f"sub/{k}.png,{k}\n" for k in range(5))
    (folder / "factors.csv").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"factors\.csv cannot be read .*utf-8"):
        load_data(f"images:{folder},size=8,table=factors.csv")


@pytest.mark.parametrize("num", [63, 64, 70])
def test_more_columns_than_a_grid_has_axes_are_labels(folder, num):
    rows = [(k, *[1] * (num - 1)) for k in range(5)]
    write(folder, ",".join(["file", *(f"c{k}" for k in range(num))]), files(*rows))
    spec = f"images:{folder},size=8,table=factors.csv"
    data = load_data(spec)
    assert data.space.has_factors == (num == 63)
    if num > 63:
        assert len(data.labels.names) == num
        with pytest.raises(UserError, match=f"there are {num} columns, more than the 63"):
            load_data(f"{spec},as=factors")
    else:
        assert data.index(data.factors(range(5))).tolist() == list(range(5))


def test_an_array_of_factors_without_columns(tmp_path):
    np.savez(tmp_path / "a.npz", images=pictures(5, 8, 8), none=np.zeros((5, 0)))
    with pytest.raises(UserError, match=r"has the shape \[5, 0\]"):
        load_data(f"npz:{tmp_path / 'a.npz'},array=images,size=8,factors=none")


def test_unlisted_and_unreadable_pictures_are_skipped_if_asked(folder):
    write(folder, "file,a", files((1,), (2,), (3,)))
    (folder / "sub" / "1.png").write_bytes(b"damaged")
    spec = f"images:{folder},size=8,table=factors.csv,skip="
    with pytest.raises(UserError, match="cannot be used"):
        load_data(f"{spec}unlisted")
    with pytest.warns(UserWarning, match=r"1\.png"):
        data = load_data(f"{spec}unlisted+unreadable")
    np.testing.assert_array_equal(data.images(range(2)), pictures(5, 8, 8)[[0, 2]])
    assert [list(v) for v in data.space.values] == [[1, 3]]


def test_train_and_score_own_images(tmp_path):
    """The worked example of the documentation, small: a folder, a table, a run, its scores."""
    sprites = load_data("dsprites")
    rows = [(s, 5, 0, x, y) for s in (0, 1) for x in range(2, 32, 4) for y in range(2, 32, 4)]
    folder = tmp_path / "mine"
    folder.mkdir()
    for k, image in enumerate(sprites.images(sprites.index(rows))):
        Image.fromarray(image[..., 0]).save(folder / f"{k:04d}.png")
    write(folder, "file,shape,x,y", [(f"{k:04d}.png", ("square", "ellipse")[r[0]], r[3], r[4])
                                     for k, r in enumerate(rows)])
    spec = f"images:{folder},channels=1,table=factors.csv"
    run = unweave.train("beta_vae", spec, steps=3, batch_size=8, num_latents=3, device="cpu",
                        architecture="conv64-small", out=tmp_path / "runs", progress=False)[0]
    again = unweave.load(run.folder, device="cpu")
    assert again.dataset.space.names == ("shape", "x", "y")
    assert again.config.data == f"images:{folder},channels=1,table=factors.csv"
    found = {s.key: s.value for s in unweave.score_run(again, metrics=["mig"])}
    assert 0 <= found["mig"] <= 1


@pytest.mark.parametrize(("header", "first"), [("a;b", "{};{}"), ("a\tb", "{}\t{}")])
def test_columns_that_no_comma_parts_are_not_one_factor(tmp_path, header, first):
    np.savez(tmp_path / "a.npz", images=pictures(5, 8, 8))
    write(tmp_path, header, [(first.format(k // 3, k % 3),) for k in range(5)])
    with pytest.raises(UserError, match=r"has one column, 'a.{1,2}b': separate columns"):
        load_data(f"npz:{tmp_path / 'a.npz'},size=8,table=factors.csv")


def test_row_numbers_of_pandas_are_no_factor(tmp_path, folder):
    np.savez(tmp_path / "a.npz", images=pictures(5, 8, 8))
    write(tmp_path, ",a,b", [(k, k // 3, k % 3) for k in range(5)])
    data = load_data(f"npz:{tmp_path / 'a.npz'},size=8,table=factors.csv")
    assert data.space.names == ("a", "b")
    write(folder, ",file,a,b", [(k, f"sub/{k}.png", k // 3, k % 3) for k in range(5)])
    assert load_data(f"images:{folder},size=8,table=factors.csv").space.names == ("a", "b")
    table = pa.table({"a": [0, 0, 0, 1, 1], "__index_level_0__": [4, 2, 3, 1, 0]})
    described = '{"index_columns": ["__index_level_0__"]}'
    pq.write_table(table.replace_schema_metadata({"pandas": described}), tmp_path / "t.parquet")
    data = load_data(f"npz:{tmp_path / 'a.npz'},size=8,table=t.parquet")
    assert data.labels.names == ("a",)
    # An index that is asked for is what it is said to be.
    write(folder, ",a,b", [(f"sub/{k}.png", k // 3, k % 3) for k in range(5)])
    assert load_data(f"images:{folder},size=8,table=factors.csv,file=").space.names == ("a", "b")


@pytest.mark.parametrize("text", ["a,b\ncafé,1\nthé,2\n", "é,b\n1,1\n2,2\n"])
def test_another_encoding_is_named(tmp_path, text):
    np.savez(tmp_path / "a.npz", images=pictures(2, 8, 8))
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"not in utf-8\): save the table in that encoding"):
        load_data(f"npz:{tmp_path / 'a.npz'},size=8,table=t.csv")
