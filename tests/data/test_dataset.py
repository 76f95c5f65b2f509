"""What every data set promises, and the one made from arrays."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from unweave.data import DATASETS, FactorDataset, load_data, table_dataset
from unweave.random import Purpose, Streams
from unweave.types import UserError

Open = Callable[[str], FactorDataset]
ALL = pytest.mark.parametrize("name", DATASETS)
INDEX = np.array([0, 17, 5000, 17, 400_000, 737_279])


def draw(*shape: int) -> torch.Tensor:
    return Streams([3, 4]).uniform(Purpose.OBSERVATION, 9, *shape)


@ALL
def test_images(open_data: Open, name: str) -> None:
    data = open_data(name)
    images = data.images(INDEX)
    assert images.dtype == np.uint8
    assert images.shape == (6, *data.image_shape)
    assert data.image_shape == DATASETS[name].image_shape
    assert images.min() < 128 <= images.max()
    assert data.images([]).shape == (0, *data.image_shape)
    assert data.images(3).shape == (1, *data.image_shape)


@ALL
def test_an_image_is_a_function_of_index_and_seed(open_data: Open, name: str) -> None:
    data = open_data(name)
    images = data.images(INDEX, seed=1)
    np.testing.assert_array_equal(images[1], images[3])
    np.testing.assert_array_equal(data.images(INDEX[::-1].copy(), seed=1), images[::-1])
    assert np.array_equal(images, data.images(INDEX, seed=2)) != data.is_random


@ALL
def test_index_and_factors(open_data: Open, name: str) -> None:
    data = open_data(name)
    assert len(data) == len(data.space) == np.prod(DATASETS[name].sizes)
    assert data.space.names == DATASETS[name].factors
    rows = data.factors(INDEX)
    assert rows.shape == (6, len(data.space.names))
    np.testing.assert_array_equal(data.index(rows), INDEX)


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
    index = torch.from_numpy(INDEX.reshape(2, 3))
    batch = resident.batch(index, draw)
    assert batch.shape == (2, 3, *data.image_shape)
    assert batch.dtype == torch.float32
    assert 0 <= float(batch.min()) <= float(batch.max()) <= 1
    assert torch.equal(batch, resident.batch(index, draw))
    if not data.is_random:
        def refuse(*shape: int) -> torch.Tensor:
            raise AssertionError("drawn without need")

        expected = data.images(INDEX).reshape(batch.shape).astype(np.float32) / 255
        np.testing.assert_array_equal(resident.batch(index, refuse).numpy(), expected)


@ALL
def test_a_run_in_a_stack_sees_what_it_sees_alone(open_data: Open, name: str) -> None:
    resident = open_data(name).on("cpu")
    index = torch.from_numpy(INDEX.reshape(2, 3))

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
    index.copy_(torch.from_numpy(INDEX.reshape(2, 3)))
    graph.replay()
    expected = data.on("cpu").batch(index.cpu(), lambda *shape: numbers_on_device(*shape).cpu())
    torch.testing.assert_close(batch.cpu(), expected)


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
