import numpy as np
import torch
from scipy import stats

from unweave.random import Purpose, Streams, numpy_generator, philox


def test_philox_gives_the_published_known_answers():
    # Random123's kat_vectors for philox4x32-10: zeros, ones, and digits of pi.
    def run(counter, key):
        return [int(w) for w in philox([torch.tensor(c) for c in counter], key)]

    assert run([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert run([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert run([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
        0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_a_stream_does_not_depend_on_its_neighbours_or_its_slot():
    alone = Streams([7]).normal(Purpose.NOISE, 3, 5, 2)[0]
    among = Streams([1, 2, 7, 3]).normal(Purpose.NOISE, 3, 5, 2)[2]
    assert torch.equal(alone, among)


def test_steps_may_be_drawn_ahead():
    ahead = Streams([5, 5, 5]).uniform(Purpose.BATCH, torch.tensor([0, 1, 2]), 6)
    one_by_one = torch.cat([Streams([5]).uniform(Purpose.BATCH, s, 6) for s in range(3)])
    assert torch.equal(ahead, one_by_one)


def test_seed_purpose_and_step_all_matter():
    draws = [Streams([s]).bits(p, t, 8) for s in (0, 1, 2**40) for t in (0, 1)
             for p in (Purpose.BATCH, Purpose.NOISE)]
    assert len({tuple(d[0].tolist()) for d in draws}) == len(draws)


def test_distributions():
    streams = Streams([11])
    uniform = streams.uniform(Purpose.NOISE, 0, 20_000)[0].numpy()
    normal = streams.normal(Purpose.NOISE, 1, 20_000)[0].numpy()
    whole = streams.integers(Purpose.NOISE, 2, 7, 20_000)[0].numpy()
    assert uniform.min() >= 0.0
    assert uniform.max() < 1.0
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    assert stats.kstest(normal, "norm").pvalue > 1e-3
    assert set(whole.tolist()) == set(range(7))
    assert stats.chisquare(np.bincount(whole)).pvalue > 1e-3


def test_numpy_generators_are_keyed_alike():
    first = numpy_generator(3, Purpose.EVALUATION).random(4)
    assert np.array_equal(first, numpy_generator(3, Purpose.EVALUATION).random(4))
    assert not np.array_equal(first, numpy_generator(3, Purpose.EVALUATION, 1).random(4))
    assert not np.array_equal(first, numpy_generator(4, Purpose.EVALUATION).random(4))


def test_no_numbers_are_no_failure():
    streams = Streams([1, 2])
    assert streams.normal(Purpose.NOISE, 0, 3, 0).shape == (2, 3, 0)
    assert streams.uniform(Purpose.NOISE, 0, 0).shape == (2, 0)
    assert streams.integers(Purpose.NOISE, 0, 5, 0).shape == (2, 0)
