"""What every data set promises, and the one made from arrays."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unweave.data import (
    DATASETS,
    FactorDataset,
    absolute_spec,
    factor_walks,
    load_data,
    parse_spec,
    split_specs,
    table_dataset,
)
from unweave.data.dataset import BytePixels
from unweave.factors import FactorSpace, LabelTable
from unweave.random import Purpose, Streams
from unweave.types import UserError

Open = Callable[[str], FactorDataset]
ALL = pytest.mark.parametrize("name", DATASETS)


def places(data: FactorDataset) -> np.ndarray:
    """Six indices from the first to the last, one of them twice."""
    return (np.array([0.0, 0.2, 0.4, 0.2, 0.7, 1.0]) * (len(data) - 1)).astype(np.int64)


def draw(*shape: int) -> torch.Tensor:
    return Streams([3, 4]).uniform(Purpose.OBSERVATION, 9, *shape)


@ALL
def test_images(open_data: Open, name: str) -> None:
    data = open_data(name)
    images = data.images(places(data))
    assert images.dtype == np.uint8
    assert images.shape == (6, *data.image_shape)
    assert DATASETS[name].image_shape in (data.image_shape, None)
    assert images.min() < 128 <= images.max()
    assert data.images([]).shape == (0, *data.image_shape)
    assert data.images(3).shape == (1, *data.image_shape)


@ALL
def test_an_image_is_a_function_of_index_and_seed(open_data: Open, name: str) -> None:
    data = open_data(name)
    index = places(data)
    images = data.images(index, seed=1)
    np.testing.assert_array_equal(images[1], images[3])
    np.testing.assert_array_equal(data.images(index[::-1].copy(), seed=1), images[::-1])
    assert np.array_equal(images, data.images(index, seed=2)) != data.is_random


@ALL
def test_index_and_factors(open_data: Open, name: str) -> None:
    data = open_data(name)
    assert len(data) == len(data.space)
    if DATASETS[name].space is not None:
        assert data.space.names == DATASETS[name].factors
    index = places(data)
    rows = data.factors(index)
    assert rows.shape == (6, len(data.space.names))
    if data.space.has_factors:
        np.testing.assert_array_equal(data.index(rows), index)
        assert data.labels is None
    else:
        with pytest.raises(UserError, match="no factors"):
            data.index([[0]])


@ALL
def test_indices_outside_are_refused(open_data: Open, name: str) -> None:
    data = open_data(name)
    for bad in (-1, len(data)):
        with pytest.raises(UserError, match="outside"):
            data.images([0, bad])
        with pytest.raises(UserError, match="outside"):
            data.factors([bad])


@ALL
def test_batch(open_data: Open, name: str) -> None:
    data = open_data(name)
    resident = data.on("cpu")
    index = torch.from_numpy(places(data).reshape(2, 3))
    batch = resident.batch(index, draw)
    assert batch.shape == (2, 3, *data.image_shape)
    assert batch.dtype == torch.float32
    assert 0 <= float(batch.min()) <= float(batch.max()) <= 1
    assert torch.equal(batch, resident.batch(index, draw))
    if not data.is_random:
        def refuse(*shape: int) -> torch.Tensor:
            raise AssertionError("drawn without need")

        expected = data.images(places(data)).reshape(batch.shape).astype(np.float32) / 255
        np.testing.assert_array_equal(resident.batch(index, refuse).numpy(), expected)


@ALL
def test_a_run_in_a_stack_sees_what_it_sees_alone(open_data: Open, name: str) -> None:
    data = open_data(name)
    resident, index = data.on("cpu"), torch.from_numpy(places(data).reshape(2, 3))

    def alone(*shape: int) -> torch.Tensor:
        return Streams([4]).uniform(Purpose.OBSERVATION, 9, *shape)

    assert torch.equal(resident.batch(index, draw)[1:], resident.batch(index[1:], alone))


@ALL
def test_an_entry_describes_itself(name: str) -> None:
    entry = DATASETS[name]
    assert all((entry.summary, entry.licence, entry.source, entry.size, entry.obtained))
    assert len(entry.factors) == len(entry.sizes)


def test_copies_on_a_device_are_shared() -> None:
    one, two = load_data("dsprites").on("cpu"), load_data("color_dsprites").on("cpu")
    held = [r._gather.__closure__ for r in (one, two)]
    tensors = [{c.cell_contents.data_ptr() for c in cells
                if isinstance(c.cell_contents, torch.Tensor) and c.cell_contents.ndim == 2}
               for cells in held]
    assert tensors[0] == tensors[1]


def test_names() -> None:
    assert load_data("color_dsprites").name == "color_dsprites"
    with pytest.raises(UserError, match="did you mean 'dsprites'"):
        load_data("dsprite")
    with pytest.raises(UserError, match="takes no file"):
        load_data("color_dsprites:x.npz")
    with pytest.raises(UserError, match="names no file"):
        load_data("dsprites:")
    with pytest.raises(UserError, match="dsprites has no options, got size=64"):
        load_data("dsprites,size=64")


@pytest.mark.parametrize(("spec", "parts"), [
    ("mnist", ("mnist", None, {})),
    ("mnist,size=64", ("mnist", None, {"size": "64"})),
    ("npz:a/b.npz", ("npz", "a/b.npz", {})),
    ("npz:C:\\x, y.npz,size=32,crop=none", ("npz", "C:\\x, y.npz", {"size": "32",
                                                                 "crop": "none"})),
    ("npz:", ("npz", "", {})),
    ("mine, and free", ("mine, and free", None, {})),
])
def test_specs(spec: str, parts: tuple[object, ...]) -> None:
    assert parse_spec(spec) == parts


@pytest.mark.parametrize(("text", "specs"), [
    ("dsprites", ["dsprites"]),
    ("dsprites, cars3d", ["dsprites", "cars3d"]),
    ("mnist,size=28", ["mnist,size=28"]),
    ("mnist:/a/b,size=28,split=all,dsprites", ["mnist:/a/b,size=28,split=all", "dsprites"]),
    ("npz:a, b.npz,size=32,npz:c.npz", ["npz:a, b.npz,size=32", "npz:c.npz"]),
])
def test_several_specs(text: str, specs: list[str]) -> None:
    assert split_specs(text) == specs
    with pytest.raises(UserError, match="unknown data set 'nope'"):
        split_specs("dsprites,nope")
    with pytest.raises(UserError, match="unknown data set 'size=28'"):
        split_specs("size=28")


def test_absolute_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_spec("dsprites:x.npz") == f"dsprites:{tmp_path / 'x.npz'}"
    assert absolute_spec("dsprites,size=64") == "dsprites,size=64"
    assert absolute_spec("in memory:x") == "in memory:x"
    entry = replace(DATASETS["dsprites"], options={"table": "a file"}, file_options=("table",))
    monkeypatch.setitem(DATASETS, "dsprites", entry)
    assert absolute_spec("dsprites:x,table=t.csv") == (
        f"dsprites:{tmp_path / 'x'},table={tmp_path / 't.csv'}")


def test_images_without_factors() -> None:
    labels = LabelTable(("digit",), np.array([[3], [3], [1], [3], [0]]), ("categorical",))
    images = pictures(5, 4, 4, 1)
    data = FactorDataset("mine", FactorSpace.without_factors(5), BytePixels(images), labels=labels)
    assert len(data) == 5
    assert not data.is_random
    np.testing.assert_array_equal(data.images([4, 0]), images[[4, 0]])
    assert data.factors([1, 2]).shape == (2, 0)
    assert data.labels is labels
    assert labels.column("digit").tolist() == [3, 3, 1, 3, 0]
    with pytest.raises(UserError, match="unknown label 'colour'"):
        labels.column("colour")
    with pytest.raises(ValueError, match="one row to each"):
        FactorDataset("mine", FactorSpace.without_factors(4), BytePixels(images), labels=labels)
    with pytest.raises(UserError, match="no factors to walk along"):
        factor_walks(data)


def test_one_of_several_images_is_drawn() -> None:
    images = np.arange(60, dtype=np.uint8).reshape(60, 1, 1, 1)
    data = FactorDataset("mine", FactorSpace(("a", "b"), (2, 3)), BytePixels(images), num_each=10)
    assert data.is_random
    index = np.repeat(np.arange(6), 200)
    batch = data.on("cpu").batch(torch.from_numpy(index)[None].expand(2, -1), draw)
    seen = (batch[..., 0, 0, 0] * 255).round().long()
    assert torch.equal(seen // 10, torch.from_numpy(index).expand(2, -1))
    counts = torch.bincount(seen[0], minlength=60)
    assert counts.min() > 5
    assert not torch.equal(seen[0], seen[1])
    drawn = np.concatenate([data.images(np.arange(6), seed=s) for s in range(40)])[:, 0, 0, 0]
    np.testing.assert_array_equal(drawn // 10, np.tile(np.arange(6), 40))
    assert len(np.unique(drawn)) > 40


GRID = np.array([[a, b] for a in range(2) for b in range(3)])


def pictures(num: int, *shape: int) -> np.ndarray:
    rng = np.random.Generator(np.random.Philox(0))
    return rng.integers(256, size=(num, *shape), dtype=np.uint8)


@pytest.mark.parametrize("shape", [(8, 8), (8, 12, 3)])
@pytest.mark.parametrize("keep", [range(6), (5, 0, 4)], ids=["grid", "some, shuffled"])
def test_table(shape: tuple[int, ...], keep: list[int]) -> None:
    images, rows = pictures(6, *shape)[list(keep)], GRID[list(keep)]
    data = table_dataset(images, rows, ("a", "b"), name="mine")
    assert data.name == "mine"
    assert data.image_shape == (*shape, 1)[:3]
    assert data.space.is_complete == (len(rows) == 6)
    index = data.index(rows)
    expected = images.reshape(len(rows), *data.image_shape)
    np.testing.assert_array_equal(data.images(index), expected)
    batch = data.on("cpu").batch(torch.from_numpy(index)[None])
    torch.testing.assert_close(batch[0], torch.from_numpy(expected).float() / 255)


def test_a_table_may_be_read_only() -> None:
    images = pictures(6, 4, 4)
    images.flags.writeable = False
    data = table_dataset(images, GRID, ("a", "b"))
    assert data.on("cpu").batch(torch.tensor([[0]])).shape == (1, 1, 4, 4, 1)


def test_bad_tables() -> None:
    with pytest.raises(UserError, match=r"several images have the factors \(1, 0\)"):
        table_dataset(pictures(3, 4, 4), np.array([[0, 0], [1, 0], [1, 0]]), ("a", "b"))
    with pytest.raises(UserError, match="5 images for 6 rows"):
        table_dataset(pictures(5, 4, 4), GRID, ("a", "b"))
    with pytest.raises(UserError, match="images must be"):
        table_dataset(pictures(6, 4), GRID, ("a", "b"))
    with pytest.raises(UserError, match="names a"):
        table_dataset(pictures(6, 4, 4), GRID, ("a",))


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool"])
def test_what_is_no_bytes_is_refused_not_divided_by_255(kind: str) -> None:
    """Fractions trained as images that are nearly black."""
    images = pictures(6, 4, 4).astype(kind)
    with pytest.raises(UserError, match=rf"must be bytes.* got values of type {kind}: make them"):
        table_dataset(images, GRID, ("a", "b"))
    with pytest.raises(UserError, match="must be bytes"):
        BytePixels(images[..., None])


def test_a_table_of_lists() -> None:
    with pytest.raises(UserError, match="got values of type int64"):
        table_dataset(pictures(6, 4, 4).tolist(), GRID.tolist(), ("a", "b"))
    data = table_dataset(pictures(6, 4, 4), GRID.tolist(), ("a", "b"))
    np.testing.assert_array_equal(data.images(range(6))[..., 0], pictures(6, 4, 4))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@ALL
def test_a_cuda_graph_holds_a_batch(open_data: Open, name: str) -> None:
    data = open_data(name)
    resident, index = data.on("cuda"), torch.zeros(2, 3, dtype=torch.int64, device="cuda")
    numbers = draw(3, 64, 64, 3).cuda()

    def numbers_on_device(*shape: int) -> torch.Tensor:
        return numbers.flatten(1)[:, :int(np.prod(shape))].reshape(2, *shape)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        resident.batch(index, numbers_on_device)  # warm up outside the graph
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch = resident.batch(index, numbers_on_device)
    index.copy_(torch.from_numpy(places(data).reshape(2, 3)))
    graph.replay()
    expected = data.on("cpu").batch(index.cpu(), lambda *shape: numbers_on_device(*shape).cpu())
    torch.testing.assert_close(batch.cpu().float(), expected)  # packed images come as bfloat16


def test_a_table_may_declare_the_types_of_its_factors():
    images, factors = np.zeros((4, 8, 8), np.uint8), np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    plain = table_dataset(images, factors, ["a", "b"]).space.types
    assert [str(kind) for kind in plain] == ["ordinal", "ordinal"]
    said = table_dataset(images, factors, ["a", "b"], types=["categorical", "circular"]).space.types
    assert [str(kind) for kind in said] == ["categorical", "circular"]
    with pytest.raises(UserError, match="cannot be continuous"):
        table_dataset(images, factors, ["a", "b"], types=["ordinal", "continuous"])
    rendered = [str(kind) for kind in load_data("dsprites").space.types]
    assert rendered == ["categorical", "ordinal", "circular", "ordinal", "ordinal"]
