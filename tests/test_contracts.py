"""What every method keeps when it is trained, whatever stands in METHODS.

The contracts of objectives as functions, of metrics and of data sets are in the folders of those
rooms; each runs over the whole dictionary, so that a new entry is covered by being there.
"""

import pytest
import torch

from small import same, small_plan, train_small
from unweave.objectives import METHODS
from unweave.training.stack import Stack

CPU = torch.device("cpu")


def mixed(method):
    """Five runs that may share a stack: seeds, rates and, where there is one, strengths differ."""
    from unweave.objectives import letters

    per_run = [k for k, letter in letters(method).items() if letter.per_run]
    change = {per_run[0]: letters(method)[per_run[0]].default * 1.5} if per_run else {}
    return [*small_plan(method, seeds=[0, 1]), *small_plan(method, seeds=[5], learning_rate=1e-3),
            *small_plan(method, seeds=[2, 3], **change)]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_alone_equals_the_same_run_among_four_others(method, sprites):
    configs = mixed(method)
    together = train_small(configs, sprites)
    for m in (1, 4):
        assert same(train_small([configs[m]], sprites)[0], together[m]), configs[m]


@pytest.mark.parametrize("method", METHODS)
def test_a_stack_in_one_sequence_of_operations_equals_its_runs_alone(method, sprites):
    configs = mixed(method)
    stack = Stack(configs, sprites, CPU)
    alone = [Stack([c], sprites, CPU) for c in configs]
    for _ in range(3):
        together = stack.train_step()
        for m, single in enumerate(alone):
            for name, value in single.train_step().items():
                assert torch.equal(together[name][m], value[0]), (name, m)
    for m, single in enumerate(alone):
        for name, tensor in single.run_state(0).items():
            assert torch.equal(stack.run_state(m)[name], tensor), (name, m)


@pytest.mark.parametrize("method", METHODS)
def test_a_nan_stays_in_its_run(method, sprites):
    configs = small_plan(method, seeds=[0, 1, 2])
    clean, broken = Stack(configs, sprites, CPU), Stack(configs, sprites, CPU)
    with torch.no_grad():
        next(iter(broken.params.values()))[1].fill_(float("nan"))
    for _ in range(3):
        clean.train_step()
        terms = broken.train_step()
    assert torch.isnan(terms["loss"]).tolist() == [False, True, False]
    for m in (0, 2):
        for name, tensor in clean.run_state(m).items():
            assert torch.equal(broken.run_state(m)[name], tensor), name


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_equals_an_uninterrupted_one(method, sprites, tmp_path):
    configs = small_plan(method, seeds=[0, 1])
    whole = train_small(configs, sprites)

    class Stop(Exception):
        pass

    def stop(report):
        if report.step == 3:
            raise Stop

    with pytest.raises(Stop):
        train_small(configs, sprites, out=tmp_path, listener=stop, checkpoint_seconds=0.0)
    resumed = train_small(configs, sprites, out=tmp_path, resume=True)
    assert all(same(a, b) for a, b in zip(whole, resumed))
