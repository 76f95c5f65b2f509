"""Correlated and incomplete training: how often each cell is drawn, and what may be said."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import unweave
from small import same, small_plan
from unweave.data import load_data
from unweave.data.cells import TrainingCells, training_cells
from unweave.factors import FactorSpace
from unweave.random import Purpose, Streams, numpy_generator
from unweave.studies.scoring import score_run, store_scores
from unweave.training import train_runs
from unweave.types import UserError

SPACE = FactorSpace(("colour", "size", "turn"), (3, 5, 2),
                    (np.array(["red", "green", "blue"]), np.arange(5), np.arange(2)))
CPU = torch.device("cpu")


def drawn(cells, num=200_000):
    index = cells.draw_on(CPU)(Streams([7]), Purpose.BATCH, 3, num)
    return np.bincount(index[0].numpy(), minlength=30)


def test_correlated_cells_are_drawn_as_their_weights_say():
    cells = training_cells(SPACE, {"correlate": "colour:size:0.3"})
    factors = SPACE.factors(np.arange(30))
    # The formula by hand, for one pair after the other.
    expected = np.array([np.exp(-((c / 2 - s / 4) ** 2) / (2 * 0.3**2)) for c, s, _ in factors])
    expected /= expected.sum()
    found = drawn(cells)
    assert len(cells) == 30
    assert np.abs(found / found.sum() - expected).max() < 0.003
    assert np.corrcoef(*np.repeat(factors[:, :2], found, axis=0).T)[0, 1] > 0.6


def test_what_is_left_out_is_never_drawn():
    cells = training_cells(SPACE, {"leave_out": "colour:green+size:3-4/turn:1+size:0"})
    out = [(c == 1 and s >= 3) or (t == 1 and s == 0) for c, s, t in SPACE.factors(np.arange(30))]
    found = drawn(cells)
    assert np.array_equal(found == 0, out)
    assert np.array_equal(~cells.seen, out)
    assert len(cells) == 23
    rest = found[~np.array(out)] / found.sum()
    assert np.abs(rest - 1 / 23).max() < 0.003


def test_both_at_once_and_the_very_ends():
    cells = training_cells(SPACE, {"correlate": "colour:size:0.5/size:turn:0.5",
                                   "leave_out": "colour:0/colour:2"})
    assert set(np.flatnonzero(drawn(cells))) <= set(range(10, 20))
    # The first and last word a stream can give fall on the first and last cell with weight.
    class Extremes(Streams):
        def bits(self, purpose, step, count):
            return torch.tensor([[0, 2**32 - 1]])

    found = TrainingCells(np.array([0.0, 0.0, 1.0, 2.0, 0.0])).draw_on(CPU)(
        Extremes([0]), Purpose.BATCH, 0, 2)
    assert found.tolist() == [[2, 3]]


@pytest.mark.parametrize(("options", "said"), [
    ({"correlate": "colour:size"}, "write FACTOR:FACTOR:STRENGTH"),
    ({"correlate": "colour:size:0"}, "strength above 0"),
    ({"correlate": "colour:size:nan"}, "strength above 0"),
    ({"correlate": "color:size:1"}, "did you mean 'colour'"),
    ({"correlate": "size:size:1"}, "names one factor twice"),
    ({"leave_out": "size"}, "write FACTOR:CLASSES"),
    ({"leave_out": "size:5"}, r"size has the classes 0\.\.4"),
    ({"leave_out": "size:3-2"}, r"size has the classes 0\.\.4"),
    ({"leave_out": "colour:pink"}, "red, green, blue"),
    ({"leave_out": "colour:0/colour:1-2"}, "no combination of factors is left"),
    ({"leave_out": "turn:0+turn:1"}, "leaves nothing out"),
])
def test_what_is_not_understood(options, said):
    with pytest.raises(UserError, match=said):
        training_cells(SPACE, options)


def test_images_without_factors_have_no_cells():
    with pytest.raises(UserError, match="needs factors, and this data set has none"):
        training_cells(FactorSpace.without_factors(9), {"leave_out": "a:1"})


def test_a_run_keeps_its_cells_in_its_name(monkeypatch):
    name = "dsprites,correlate=scale:position_x:0.2,leave_out=shape:heart"
    data = load_data(name)
    assert data.name == name
    assert len(data) == 737_280  # whole, for scores
    assert data.num_training == 737_280 * 2 // 3
    assert load_data("dsprites").cells is None
    config = small_plan(steps=3, architecture="conv64-small")[0].replace(data=name)
    resident = train_runs([config], out=None, device="cpu")[0]
    assert resident.curves["step"] == [1, 2, 3]
    monkeypatch.setenv("UNWEAVE_RESIDENT", "no")
    assert same(train_runs([config], out=None, device="cpu")[0], resident)
    plain = train_runs([config.replace(data="dsprites")], out=None, device="cpu")[0]
    assert not same(plain, resident)


def test_scores_of_seen_and_unseen_cells(sprites, tmp_path):
    options = {"leave_out": "scale:1+position_x:4-7"}
    data = sprites.trained_on(training_cells(sprites.space, options))
    run = train_runs(small_plan(architecture="conv64-small"), out=tmp_path, device="cpu",
                     datasets={"sprites": data})[0]
    seen, unseen = data.part("seen"), data.part("unseen")
    assert (len(seen[0]), len(unseen[0])) == (192, 64)
    assert np.array_equal(data.factors(unseen[1]), unseen[0].factors(np.arange(64)))
    assert set(data.factors(unseen[1])[:, 1]) == {1}
    found = {cells: score_run(run, metrics=["mig", "modularity"], cells=cells, num_points=3000)
             for cells in ("all", "seen", "unseen")}
    rows = {cells: scores[0].num_rows for cells, scores in found.items()}
    assert rows == {"all": 256, "seen": 192, "unseen": 64}
    assert found["unseen"][0].settings["cells"] == "unseen"
    assert "cells" not in found["all"][0].settings
    # By hand: the codes of the unseen images alone.
    codes = run.encode_at(unseen[1])
    index = unseen[0].draw(3000, numpy_generator(0, Purpose.EVALUATION, 0))
    factors = unseen[0].factors(index)[:, [0, 2, 3]]  # scale is constant there
    plain = unweave.score(codes[index], factors, metrics=["mig"])
    assert found["unseen"][0].value == pytest.approx(plain["mig"], abs=1e-9)
    for scores in found.values():
        store_scores(run, scores)
    stored = pq.read_table(run.folder / "scores.parquet").to_pylist()
    assert sum(row["key"] == "mig" for row in stored) == 3


def test_parts_that_are_not_there(sprites):
    with pytest.raises(UserError, match="sees every combination"):
        sprites.part("unseen")
    with pytest.raises(UserError, match="unknown part of a data set 'held'"):
        sprites.part("held")
    assert sprites.part("seen")[0] is sprites.space
