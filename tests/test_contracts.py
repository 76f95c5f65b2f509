"""What every method keeps when it is trained, whatever stands in METHODS.

The contracts of objectives as functions, of metrics and of data sets are in the folders of those
rooms; each runs over the whole dictionary, so that a new entry is covered by being there.
"""

import pytest
import torch

from small import same, small_letters, small_plan, train_small
from unweave.objectives import METHODS, letters
from unweave.training.stack import Stack

CPU = torch.device("cpu")


# Variants with another path through the trainer than a method's defaults.
SMALL_CRITIC = small_letters("factor_vae")
VARIANTS = [(method, small_letters(method)) for method in METHODS] + [
    ("factor_vae", SMALL_CRITIC | {"convention": "study2019"}),
    ("factor_vae", SMALL_CRITIC | {"convention": "printed"}),
    ("dip_vae_i", {"estimate": "running"}),
    ("beta_tcvae", {"sampling": "stratified"}),
    ("joint_vae", {"categories": "3,2"}),
    ("vae", {"architecture": "kaddah2020"}),
    ("factor_vae", SMALL_CRITIC | {"architecture": "kaddah2020"}),
    ("vade", small_letters("vade") | {"pretrain_loss": "likelihood"}),
    # Adam turns gradients that are rounding alone into full steps; a larger eps does not.
    ("infogan", {"num_noise": 5, "architecture": "infogan-shapes2d", "categories": "3,2",
                 "batch_size": 4, "adam_eps": 1e-4}),
    ("infogan", small_letters("infogan") | {"game": "printed"}),
]
over_variants = pytest.mark.parametrize(
    ("method", "given"), VARIANTS,
    ids=["-".join([m, *(str(v) for k, v in g.items() if g != small_letters(m)
                        and k not in SMALL_CRITIC)]) for m, g in VARIANTS])


def mixed(method, given):
    """Five runs that may share a stack: seeds, rates and, where there is one, strengths differ."""
    per_run = [k for k, letter in letters(method).items() if letter.per_run]
    change = {k: letters(method)[k].default * 0.75 for k in per_run if k not in given}
    return [*small_plan(method, seeds=[0, 1], **given),
            *small_plan(method, seeds=[5], learning_rate=1e-3, **given),
            *small_plan(method, seeds=[2, 3], **given, **change)]


@over_variants
def test_a_run_alone_equals_the_same_run_among_four_others(method, given, sprites):
    configs = mixed(method, given)
    together = train_small(configs, sprites)
    for m in (1, 4):
        assert same(train_small([configs[m]], sprites)[0], together[m]), configs[m]


@over_variants
def test_a_stack_in_one_sequence_of_operations_agrees_with_its_runs_alone(method, given, sprites):
    # As on a GPU. Rounding may depend on the size of a tensor there, so not bit for bit.
    configs = mixed(method, given)
    stack = Stack(configs, sprites, CPU)
    alone = [Stack([c], sprites, CPU) for c in configs]
    for _ in range(3):
        together = stack.train_step()
        for m, single in enumerate(alone):
            for name, value in single.train_step().items():
                torch.testing.assert_close(together[name][m], value[0], rtol=1e-4, atol=1e-4,
                                           msg=lambda text, n=name, m=m: f"{n} of run {m}: {text}")
    for m, single in enumerate(alone):
        for name, tensor in single.run_state(0).items():
            torch.testing.assert_close(stack.run_state(m)[name], tensor, rtol=1e-3, atol=1e-4,
                                       msg=lambda text, n=name: f"{n}: {text}")


@over_variants
def test_a_nan_stays_in_its_run(method, given, sprites):
    configs = small_plan(method, seeds=[0, 1, 2], **given)
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


@over_variants
def test_a_resumed_run_equals_an_uninterrupted_one(method, given, sprites, tmp_path):
    # Steps count the updates of both networks there: twice as many for as many updates.
    steps = 12 if given.get("convention") == "study2019" else 6
    configs = small_plan(method, seeds=[0, 1], steps=steps, **given)
    whole = train_small(configs, sprites)

    class Stop(Exception):
        pass

    def stop(report):
        if report.step >= 4:
            raise Stop

    with pytest.raises(Stop):
        train_small(configs, sprites, out=tmp_path, listener=stop, checkpoint_seconds=0.0)
    resumed = train_small(configs, sprites, out=tmp_path, resume=True)
    assert all(same(a, b) for a, b in zip(whole, resumed))
