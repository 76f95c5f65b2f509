"""Loggers: the same points under the same names as in a run's curves, wherever they go."""

import sys
from types import SimpleNamespace

import pytest

from small import small_plan, train_small
from unweave.training.loggers import open_logger
from unweave.types import UserError


def test_tensorboard_reads_back_the_curves(sprites, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = train_small(small_plan(seeds=[0, 1], steps=4), sprites, out=tmp_path,
                       log="tensorboard")
    for run in runs:
        events = EventAccumulator(str(run.folder))
        events.Reload()
        assert set(events.Tags()["scalars"]) == set(run.curves) - {"step"}
        for term in ("loss", "kl.3"):
            points = events.Scalars(term)
            assert [p.step for p in points] == run.curves["step"]
            assert [p.value for p in points] == pytest.approx(run.curves[term], rel=1e-5)
        assert {"config/text_summary", "status/text_summary"} <= set(events.Tags()["tensors"])


class FakeRun:
    def __init__(self, **given):
        self.given, self.rows, self.summary, self.ended = given, [], {}, None

    def log(self, terms, *, step):
        self.rows.append({"step": step} | terms)

    def finish(self, *, exit_code):
        self.ended = exit_code


@pytest.fixture
def fake_wandb(monkeypatch):
    """The calls that are made of wandb, whose real service runs a process of its own."""
    made = []

    def init(**given):
        made.append(FakeRun(**given))
        return made[-1]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(
        init=init, errors=SimpleNamespace(Error=RuntimeError)))
    return made


def test_wandb_gets_a_run_for_each_of_ours(sprites, fake_wandb, tmp_path):
    runs = train_small(small_plan(seeds=[0, 1], steps=3), sprites, out=tmp_path,
                       log="wandb:sprites")
    assert [made.given["id"] for made in fake_wandb] == [run.run_id for run in runs]
    for made, run in zip(fake_wandb, runs):
        assert made.given["project"] == "sprites"
        assert made.given["reinit"] == "create_new"  # several at once
        assert made.given["config"]["beta"] == run.config["beta"]
        assert [row["loss"] for row in made.rows] == run.curves["loss"]
        assert [row["step"] for row in made.rows] == run.curves["step"]
        assert made.summary == {"status": "done"}
        assert made.ended == 0


def test_the_real_package_takes_these_arguments():
    wandb = pytest.importorskip("wandb", reason="needs the extra `wandb`")
    import inspect

    known = inspect.signature(wandb.init).parameters
    assert {"project", "id", "name", "resume", "reinit", "group", "config", "dir"} <= set(known)
    assert issubclass(wandb.errors.Error, Exception)


def test_runs_that_are_broken_off_are_closed(sprites, fake_wandb):
    def stop(report):
        if report.step >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_small(small_plan(steps=4), sprites, log="wandb", listener=stop)
    assert fake_wandb[0].ended == 1
    assert fake_wandb[0].given["project"] == "unweave"


def test_an_unreachable_service_is_a_sentence(sprites, monkeypatch, fake_wandb):
    def init(**_given):
        raise RuntimeError("no API key\nmore")

    monkeypatch.setattr(sys.modules["wandb"], "init", init)
    with pytest.raises(UserError, match=r"cannot be reached \(no API key\): log in with"):
        train_small(small_plan(steps=2), sprites, log="wandb")


def test_bad_loggers_are_refused_before_training(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="did you mean 'tensorboard'"):
        open_logger("tensorbord", tmp_path)
    with pytest.raises(UserError, match="no folder for TensorBoard"):
        open_logger("tensorboard", None)
    for name, module in (("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UserError, match=rf"unweave\[{name}\]"):
            open_logger(name, tmp_path)
