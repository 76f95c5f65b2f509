"""What happens when a GPU is too small for a stack, or fails: nothing is lost, one sentence."""

import functools
import operator

import pytest
import torch

from small import same, small_plan, train_small
from unweave.training import loop
from unweave.training.packing import in_pieces, stack_bytes
from unweave.types import UserError


def at_most(num, monkeypatch):
    """A device on which more than `num` runs at a time do not fit; the sizes that were tried."""
    together, tried = loop._train_together, []

    def train(jobs, *rest):
        tried.append(len(jobs))
        if len(jobs) > num:
            raise torch.OutOfMemoryError("CUDA out of memory")
        together(jobs, *rest)

    monkeypatch.setattr(loop, "_train_together", train)
    return tried


def test_a_stack_that_does_not_fit_is_halved_and_the_runs_are_the_same(sprites, monkeypatch):
    configs = small_plan(seeds=range(5), steps=2)
    whole = train_small(configs, sprites)
    tried = at_most(2, monkeypatch)
    halved = train_small(configs, sprites)
    assert tried == [5, 2, 3, 2, 1] or sorted(tried, reverse=True) == [5, 3, 2, 2, 1]
    assert all(same(a, b) for a, b in zip(whole, halved))


def test_halving_goes_on_from_the_checkpoint(sprites, monkeypatch, tmp_path):
    configs = small_plan(seeds=[0, 1])
    whole = train_small(configs, sprites)

    def stop(report):
        if report.step == 4:
            raise torch.OutOfMemoryError("CUDA out of memory")

    first = []

    def listener(report):
        first.append(report.step)
        if first.count(4) == 1:
            stop(report)

    runs = train_small(configs, sprites, out=tmp_path, listener=listener, checkpoint_seconds=0.0)
    assert all(same(a, b) for a, b in zip(whole, runs))
    # Both halves start at the checkpoint of step 3, not at the beginning.
    assert first[first.index(4) + 1] == 3


def test_a_run_that_does_not_fit_alone_is_refused_in_a_sentence(sprites, monkeypatch):
    at_most(0, monkeypatch)
    with pytest.raises(UserError, match="does not fit into the memory of cpu: use a smaller batch"):
        train_small(small_plan(seeds=[0, 1], steps=2), sprites)


def test_a_gpu_that_fails_is_reported_in_a_sentence(monkeypatch, sprites):
    def fail(*_):
        raise RuntimeError("CUDA error: uncorrectable ECC error\nMore lines for developers.")

    monkeypatch.setattr(loop, "_train_together", fail)
    with pytest.raises(UserError, match=r"the GPU failed \(CUDA error: uncorrectable ECC error\): "
                                        "what was checkpointed is kept"):
        loop.train_group([], sprites, torch.device("cuda"), "x", None, 60.0)
    with pytest.raises(RuntimeError, match="CUDA error"):  # on a CPU this is a bug, not a device
        loop.train_group([], sprites, torch.device("cpu"), "x", None, 60.0)


def test_pieces_are_nearly_equal_and_cover_the_group():
    for num, most in ((1, 1), (7, 3), (128, 36), (256, 256), (257, 256)):
        pieces = in_pieces(list(range(num)), most)
        assert functools.reduce(operator.iadd, pieces, []) == list(range(num))
        assert max(map(len, pieces)) <= most
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


def test_memory_of_a_run_is_estimated_from_its_shapes():
    def mb(method="beta_vae", shape=(64, 64, 1), by_kernels=True, **changes):
        given = {"precision": "bfloat16", "batch_size": 64, "num_latents": 10} | changes
        return stack_bytes(small_plan(method, **given)[0], shape, by_kernels=by_kernels) / 1e6

    assert 25 < mb() < 60  # 28 MB measured in a stack of 128
    assert mb(precision="float32") > 1.2 * mb()
    assert mb(by_kernels=False) > 3 * mb()
    assert mb(batch_size=128) > 1.4 * mb()
    assert mb("factor_vae") > mb() + 18 * 5.0  # five million weights of the critic
    assert mb(shape=(128, 128, 3)) > 2 * mb()
