"""Images that stay on the host: the same runs bit for bit; the thread leaves with its feed."""

import gc
import threading
import time

import numpy as np
import pytest
import torch

from small import same, small_plan, train_small
from unweave.data import load_data
from unweave.data.cells import training_cells
from unweave.data.dataset import BytePixels, FactorDataset
from unweave.data.streaming import DEPTH, Feed, StreamedImages, is_resident
from unweave.factors import FactorSpace
from unweave.training import train_runs
from unweave.types import UserError


@pytest.fixture
def streamed(monkeypatch):
    monkeypatch.setenv("UNWEAVE_RESIDENT", "no")


def feeds():
    return [t for t in threading.enumerate() if t.name == "unweave-feed"]


@pytest.mark.parametrize(("method", "steps"), [("beta_vae", 34), ("factor_vae", 3)])
def test_a_streamed_run_is_the_resident_run(sprites, monkeypatch, method, steps):
    # More steps than are made ready at once, and than one block of indices has.
    configs = small_plan(method, steps=steps, batch_size=4, architecture="conv64-small")
    resident = train_small(configs, sprites)
    monkeypatch.setenv("UNWEAVE_RESIDENT", "no")
    assert isinstance(sprites.on("cpu"), StreamedImages)
    streamed = train_small(configs, sprites)
    assert all(same(a, b) for a, b in zip(resident, streamed))
    index = np.arange(20)
    assert np.array_equal(resident[0].encode_at(index), streamed[0].encode_at(index))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", ["beta_vae", "factor_vae"])
def test_a_streamed_graph_is_the_resident_graph(sprites, monkeypatch, method):
    data = sprites.trained_on(training_cells(sprites.space, {"leave_out": "shape:1+scale:0"}))
    configs = small_plan(method, seeds=[0, 1, 2], steps=60)
    resident = train_runs(configs, out=None, device="cuda", datasets={"sprites": data})
    monkeypatch.setenv("UNWEAVE_RESIDENT", "no")
    streamed = train_runs(configs, out=None, device="cuda", datasets={"sprites": data})
    for one, other in zip(resident, streamed):
        np.testing.assert_allclose(one.curves["loss"], other.curves["loss"], rtol=1e-5)


def test_a_streamed_run_goes_on_from_the_middle(sprites, streamed):
    from unweave.training.stack import Stack

    configs, cpu = small_plan(), torch.device("cpu")
    whole = Stack(configs, sprites, cpu)
    for _ in range(6):
        expected = whole.train_step()
    first, second = Stack(configs, sprites, cpu), Stack(configs, sprites, cpu)
    for _ in range(4):
        first.train_step()
    second.restore(0, first.run_state(0), 4)
    second.train_step()
    assert torch.equal(second.train_step()["loss"], expected["loss"])


def test_random_looks_are_streamed_too(streamed):
    data = load_data("noisy_dsprites")
    index, numbers = torch.tensor([[5, 70_000]]), torch.rand(1, 2, 64, 64, 3)

    def draw(*shape):
        return numbers

    there = data.on("cpu", resident=True).batch(index, draw)
    assert torch.equal(data.on("cpu").batch(index, draw), there)
    with pytest.raises(UserError, match="give batch a draw"):
        data.on("cpu").batch(index)


class Counted:
    """Images that know how often they were asked for; row 99 cannot be read."""

    def __init__(self):
        self.shape, self.asked = (2, 2, 1), 0

    def gather_on(self, device):
        raise AssertionError("these images stay where they are")

    def rows(self, index):
        self.asked += 1
        if 99 in index:
            raise UserError("row 99 is gone")
        return np.broadcast_to(index[:, None, None, None], (len(index), 2, 2, 1)).astype(np.uint8)


def make_feed(pixels, bad=1000):
    def indices(step, num):
        steps = torch.arange(step, step + num)
        return torch.where(steps == bad, 99, steps % 90)[:, None, None].expand(num, 1, 3)

    return Feed(pixels, torch.device("cpu"), None, indices)


def test_a_feed_runs_ahead_but_not_away():
    pixels = Counted()
    feed = make_feed(pixels)
    feed.fill(3)
    assert torch.equal(feed.batch() * 255, torch.full((1, 3, 2, 2, 1), 3.0))
    deadline = time.monotonic() + 5
    while pixels.asked < DEPTH and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert pixels.asked == DEPTH  # one of them in use
    for step in (4, 5, 40, 41, 0):  # jumps start anew
        feed.fill(step)
        assert round(float(feed.batch()[0, 0, 0, 0, 0]) * 255) == step


def test_an_error_of_the_thread_is_told_at_its_step():
    feed = make_feed(Counted(), bad=2)
    feed.fill(0)
    feed.fill(1)
    with pytest.raises(UserError, match="row 99 is gone"):
        feed.fill(2)


def test_the_thread_ends_with_its_feed():
    feed = make_feed(Counted())
    feed.fill(0)
    (thread,) = feeds()[-1:]
    assert thread.is_alive()
    del feed
    gc.collect()
    thread.join(timeout=5)
    assert not thread.is_alive()


def test_what_is_resident(monkeypatch, tmp_path):
    images = np.zeros((4, 8, 8, 1), dtype=np.uint8)
    np.save(tmp_path / "a.npy", images)
    mapped = BytePixels(np.load(tmp_path / "a.npy", mmap_mode="c"))
    cpu = torch.device("cpu")
    monkeypatch.setattr("unweave.data.streaming._free_memory", lambda: 511)
    assert is_resident(BytePixels(images), 4, cpu, None)  # in memory as it is
    assert not is_resident(mapped, 4, cpu, None)
    assert is_resident(mapped, 3, cpu, None)  # 192 bytes, at most half of 511
    assert is_resident(mapped, 4, cpu, True)
    monkeypatch.setenv("UNWEAVE_RESIDENT", "perhaps")
    data = FactorDataset("a", FactorSpace.without_factors(4), mapped)
    with pytest.raises(UserError, match="set it to yes or no"):
        data.on("cpu")


def test_an_order_of_rows(tmp_path):
    images = np.arange(6 * 16, dtype=np.uint8).reshape(6, 4, 4, 1)
    pixels = BytePixels(images, np.array([4, 0, 2]))
    data = FactorDataset("a", FactorSpace.without_factors(3), pixels)
    np.testing.assert_array_equal(data.images([0, 1, 2]), images[[4, 0, 2]])
    for resident in (True, False):
        batch = data.on("cpu", resident=resident).batch(torch.tensor([[2, 0]]))
        torch.testing.assert_close(batch[0], torch.from_numpy(images[[2, 4]]).float() / 255)
