"""The torchmetrics wrapper: batches add up to the score of the whole."""

import pickle

import numpy as np
import pytest
import torch

from unweave.metrics import score
from unweave.types import UserError

torchmetrics = pytest.importorskip("torchmetrics")
from unweave.torchmetrics import DisentanglementScore  # noqa: E402

RNG = np.random.default_rng(0)
FACTORS = torch.from_numpy(RNG.integers(0, 3, (120, 2)))
CODES = FACTORS + 0.2 * torch.from_numpy(RNG.normal(size=(120, 2)))


def test_batches_add_up():
    metric = DisentanglementScore(["mig", "modularity"])
    for start in range(0, 120, 50):
        metric.update(CODES[start:start + 50], FACTORS[start:start + 50])
    found = metric.compute()
    expected = score(CODES, FACTORS, metrics=["mig", "modularity"])
    assert {k: v.item() for k, v in found.items()} == pytest.approx(expected)
    assert metric.higher_is_better is True
    metric.reset()
    assert metric.codes == []
    metric.update(CODES[:60], FACTORS[:60])
    assert pickle.loads(pickle.dumps(metric)).compute()["mig"] == metric.compute()["mig"]


def test_in_a_collection_and_with_options():
    both = torchmetrics.MetricCollection({
        "a": DisentanglementScore("mig", options={"num_bins": 10}),
        "b": DisentanglementScore("sap")})
    both.update(CODES, FACTORS)
    found = both.compute()
    assert found["mig"] == pytest.approx(score(CODES, FACTORS, metrics="mig", num_bins=10)["mig"])
    assert "sap" in found


def test_bad_input_is_one_sentence():
    with pytest.raises(UserError, match="did you mean 'mig'"):
        DisentanglementScore("migg")
    with pytest.raises(UserError, match="looks at a model"):
        DisentanglementScore("iwae")
    with pytest.raises(UserError, match="of as many rows"):
        DisentanglementScore().update(CODES, FACTORS[:3])
