"""Codes and factors from tables and arrays in files, together or apart."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from unweave import cli
from unweave.metrics import score
from unweave.studies.tables import read_scored
from unweave.types import UserError

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, 3, (90, 2))
CODES = FACTORS + 0.1 * RNG.normal(size=(90, 2))
SHAPES = np.array(["disc", "ring", "star"])


def table():
    return pa.table({"z0": CODES[:, 0], "z_1": CODES[:, 1], "size": FACTORS[:, 0],
                     "shape": SHAPES[FACTORS[:, 1]]})


@pytest.fixture(params=["csv", "tsv", "parquet"])
def file(request, tmp_path):
    path = tmp_path / f"t.{request.param}"
    if request.param == "parquet":
        pq.write_table(table(), path)
    else:
        pa.csv.write_csv(table(), path, pa.csv.WriteOptions(
            delimiter="\t" if request.param == "tsv" else ","))
    return path


def test_columns_are_told_apart_by_their_names(file):
    held = read_scored(file)
    np.testing.assert_allclose(held.codes, CODES)
    assert held.names == ("size", "shape")
    expected = score(CODES, FACTORS, metrics=["mig"])["mig"]
    assert score(held.codes, held.factors, metrics=["mig"])["mig"] == pytest.approx(expected)


def test_columns_are_chosen_by_patterns(file):
    held = read_scored(file, codes="z_*", factors="shape,size")
    assert held.codes.shape == (90, 1)
    assert held.names == ("size", "shape")
    for options, said in (({"codes": "q*"}, "no column of"), ({"codes": "z*,size",
                          "factors": "size"}, "both a code and a factor")):
        with pytest.raises(UserError, match=said):
            read_scored(file, **options)


def test_files_apart_vectors_in_cells_and_missing_labels(tmp_path):
    np.save(tmp_path / "codes.npy", CODES)
    names = [None, *SHAPES[FACTORS[1:, 1]]]
    pq.write_table(pa.table({"shape": names}), tmp_path / "factors.parquet")
    held = read_scored(tmp_path / "codes.npy", factors=str(tmp_path / "factors.parquet"))
    assert held.factors[0, 0] is None
    assert held.names == ("shape",)
    pq.write_table(pa.table({"embedding_0": list(CODES), "size": FACTORS[:, 0]}),
                   tmp_path / "v.parquet")
    np.testing.assert_allclose(read_scored(tmp_path / "v.parquet").codes, CODES)
    np.savez(tmp_path / "a.npz", h=CODES, labels=FACTORS)
    held = read_scored(tmp_path / "a.npz", codes="h", factors="labels")
    assert np.array_equal(held.factors, FACTORS)


@pytest.mark.parametrize(("name", "text", "said"), [
    ("a.csv", "x,y\n1,2\n", "looks like a code"), ("a.csv", "z0,z1\n1,2\n", "has codes alone"),
    ("a.csv", "", "not a readable table"), ("a.parquet", "no", "not a readable table"),
    ("a.npy", "no", "name the file of the other"),
    ("a.csv", "z0,z0,size\n1,2,3\n2,3,4\n", "several columns called 'z0'"),
])
def test_what_cannot_be_read_is_one_sentence(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=said):
        read_scored(tmp_path / name)


def test_the_command_reads_tables(file, capsys):
    with pytest.raises(SystemExit) as leave:
        cli.main(["score", str(file), "--metric", "mig", "--factors", "size", "--json"])
    assert leave.value.code == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["value"] == pytest.approx(score(CODES, FACTORS[:, :1], metrics=["mig"])["mig"])


def test_names_that_are_not_in_utf8_and_lists_that_are_not_there_are_one_sentence(tmp_path):
    (tmp_path / "a.csv").write_bytes("z0,größe\n1,2\n2,3\n".encode("latin-1"))
    with pytest.raises(UserError, match="not a readable table"):
        read_scored(tmp_path / "a.csv")
    for rows in ([None, None], [[1.0], None], []):
        lists = pa.array(rows, pa.list_(pa.float64()))
        pq.write_table(pa.table({"z0": lists, "size": pa.array([0, 1][:len(rows)], pa.int64())}),
                       tmp_path / "a.parquet")
        with pytest.raises(UserError, match="the column z0 h"):
            read_scored(tmp_path / "a.parquet")


def test_row_numbers_of_pandas_are_no_factor(tmp_path):
    """`DataFrame.to_csv` writes them without a name; parquet says in the schema where they are."""
    plain = score(*fields(read_scored(written(tmp_path / "p.csv", table()))), metrics="mig")
    numbers = pa.array(np.arange(90) * 2)
    numbered = table().add_column(0, "", numbers)
    held = read_scored(written(tmp_path / "n.csv", numbered))
    assert held.names == ("size", "shape")
    assert score(*fields(held), metrics="mig") == plain
    said = json.dumps({"index_columns": ["__index_level_0__"]})
    table_ = table().append_column("__index_level_0__", numbers)
    pq.write_table(table_.replace_schema_metadata({"pandas": said}), tmp_path / "n.parquet")
    assert read_scored(tmp_path / "n.parquet").names == ("size", "shape")
    said = json.dumps({"index_columns": [{"kind": "range", "start": 0}]})
    pq.write_table(table().replace_schema_metadata({"pandas": said}), tmp_path / "r.parquet")
    assert read_scored(tmp_path / "r.parquet").names == ("size", "shape")


def test_factors_between_semicolons_are_not_one_factor(tmp_path):
    np.save(tmp_path / "codes.npy", CODES)
    lines = ["a;b", *[f"{a};{b}" for a, b in FACTORS]]
    (tmp_path / "f.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match="has one column, 'a;b': separate columns with commas"):
        read_scored(tmp_path / "codes.npy", factors=str(tmp_path / "f.csv"))


def written(path, columns):
    pa.csv.write_csv(columns, path)
    return path


def fields(held):
    return held.codes, held.factors
