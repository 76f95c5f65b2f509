"""UDR and its lasso: worked numbers, scikit-learn and scipy as references, published values."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso

from small import small_plan, train_small
from unweave.metrics import METRICS, score, udr, udr_records
from unweave.metrics.lasso import lasso
from unweave.metrics.udr import udr_pairs
from unweave.studies.across import udr_of_runs, without_diverged
from unweave.studies.scoring import store_scores
from unweave.types import UserError

RNG = np.random.default_rng(0)
BASE = RNG.normal(size=(400, 4))
MIXED = [BASE @ RNG.normal(size=(4, 6)) + 0.2 * RNG.normal(size=(400, 6)) for _ in range(4)]


def standard(codes):
    return (codes - codes.mean(axis=0)) / codes.std(axis=0)


def by_the_book(similarity, pooled):
    """UDR_ij, latent by latent."""
    columns = [max(c) ** 2 / sum(c) if sum(c) else 0.0 for c in similarity.T]
    rows = [max(r) ** 2 / sum(r) if sum(r) else 0.0 for r in similarity]
    if pooled:
        return (sum(columns) + sum(rows)) / (len(columns) + len(rows))
    return (np.mean(columns) + np.mean(rows)) / 2


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
def test_the_lasso_is_that_of_scikit_learn(alpha):
    x, y = standard(MIXED[0]), standard(np.hstack(MIXED[1:]))
    made = lasso(x.T @ x / 400, x.T @ y / 400, alpha)
    said = Lasso(alpha=alpha, tol=1e-10, max_iter=100_000).fit(x, y).coef_.T
    np.testing.assert_allclose(made, said, atol=1e-5)
    assert (made == 0).any()


def test_of_equal_features_the_first_has_the_weight():
    x = standard(BASE[:, [0, 0, 1]])
    made = lasso(x.T @ x / 400, x.T @ standard(BASE[:, :1]) / 400, 0.1)
    assert made[:, 0] == pytest.approx([0.9, 0.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("pooled", [False, True])
def test_pairs_are_those_of_loops_over_latents(pooled):
    runs = [MIXED[0], MIXED[1][:, :3], MIXED[2]]
    made = udr_pairs(runs, pooled=pooled)
    for i in range(3):
        for j in range(3):
            model = Lasso(alpha=0.1, tol=1e-10, max_iter=100_000)
            weights = np.abs(model.fit(standard(runs[i]), standard(runs[j])).coef_).T
            assert made["udr"][i, j] == pytest.approx(by_the_book(weights, pooled), abs=1e-5)
            ranks = np.abs([[spearmanr(a, b)[0] for b in runs[j].T] for a in runs[i].T])
            assert made["udr.spearman"][i, j] == pytest.approx(by_the_book(ranks, pooled), abs=1e-9)
    scores = udr(runs, pooled=pooled)["udr"]
    assert scores[1] == np.median([made["udr"][0, 1], made["udr"][2, 1]])


@pytest.mark.parametrize("kind", ["lasso", "spearman"])
@pytest.mark.parametrize("part", ["", "_nofilter"])
def test_published_values(shared, golden, kind, part):
    with np.load(shared / "golden" / "problems" / "pub_udr.npz") as problem:
        made = udr(problem["codes"], problem["kl"], drop=not part)
    said = golden["pub_udr"][f"udr_{kind}{part}"]["dlib_era/arrays"]["value"]
    assert made[{"lasso": "udr"}.get(kind, "udr.spearman")] == pytest.approx(said, abs=1e-6)


def test_latents_are_dropped_by_their_kl_and_never_by_their_codes():
    runs = [np.column_stack([BASE, BASE[:, 0] * 1e-3]),
            np.column_stack([BASE[:, ::-1], BASE[:, 1]])]
    kl = [[1, 1, 1, 1, 0.005], [1, 1, 1, 1, 0.01]]
    assert udr(runs, kl)["udr"] == pytest.approx(udr([BASE, BASE[:, ::-1]])["udr"], abs=1e-9)
    assert udr(runs, np.ones((2, 5)))["udr"].max() < 0.8, "small codes with a high KL count"
    assert udr(runs, kl, kl_threshold=0.001)["udr"].max() < 0.8
    counted = udr(runs, kl, drop=False)["udr"]
    assert counted == pytest.approx(0.8 * udr(runs, kl)["udr"], abs=1e-9)
    assert udr(runs, np.zeros((2, 5)))["udr"].tolist() == [0.0, 0.0]


def test_a_constant_latent_has_no_rank_correlation():
    runs = [BASE, np.column_stack([BASE[:, :3], np.ones(400)])]
    rest = udr_pairs([BASE, BASE[:, :3]], pooled=True)["udr.spearman"][0, 1]
    zero = udr_pairs(runs, pooled=True, undefined="zero")["udr.spearman"][0, 1]
    assert zero == pytest.approx(rest * 7 / 8)
    # One side of the comparison is lost altogether, of the other a quarter.
    void = udr_pairs(runs, undefined="void")["udr.spearman"][0, 1]
    plain = udr_pairs(runs, undefined="zero")["udr.spearman"][0, 1]
    assert 0 < void < 0.6 * plain


def test_order_sign_and_scale_do_not_matter_and_rotations_do():
    moved = [BASE + 5, BASE[:, [2, 0, 3, 1]] * -3, BASE[:, ::-1] * 2]
    same = udr(moved)
    for key in ("udr", "udr.spearman"):
        assert same[key] == pytest.approx(np.full(3, same[key][0]), abs=1e-9)
        assert 0.85 < same[key][0] < 0.95
    turns = [np.linalg.qr(np.random.default_rng(i).normal(size=(4, 4)))[0] for i in range(3)]
    assert udr([BASE @ turn for turn in turns])["udr"].max() < 0.5


def test_records_have_floor_ceiling_and_interval():
    records = udr_records([BASE, BASE[:, ::-1], *MIXED], names=[f"r{i}" for i in range(6)], seed=1)
    assert len(records) == 6
    first, ranks = records[0]
    assert (first.key, ranks.key, first.metric) == ("udr", "udr.spearman", "udr")
    assert first.low <= first.value <= first.high
    assert first.low < first.high
    assert first.chance < 0.1 < first.value <= first.ceiling <= 0.91
    assert first.settings["runs"] == [f"r{i}" for i in range(6)]
    assert records == udr_records([BASE, BASE[:, ::-1], *MIXED],
                                  names=[f"r{i}" for i in range(6)], seed=1)
    assert udr_records(MIXED[:2])[0][0].low is None, "one pair has no spread"


BAD = {
    "one run": (([BASE],), {}, "at least 2 are needed, got 1"),
    "rows": (([BASE, BASE[:9]],), {}, "run 0 has 400 and run 1 has 9"),
    "kl of fewer runs": (([BASE, BASE], [[1, 1, 1, 1]]), {}, "each of the 2 runs, got 1"),
    "kl of fewer latents": (([BASE, BASE], [[1] * 4, [1] * 3]), {}, "run 1 must be 4 finite"),
    "nan": (([BASE, BASE * np.nan],), {}, "must be finite"),
    "alpha": (([BASE, BASE],), {"alpha": -1.0}, "alpha must be at least 0"),
    "undefined": (([BASE, BASE],), {"undefined": "nan"}, "void, zero"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_told_in_a_sentence(case):
    given, options, said = BAD[case]
    with pytest.raises(UserError, match=said):
        udr(*given, **options)


def test_names_are_checked():
    with pytest.raises(UserError, match="study2019"):
        udr_records(MIXED, convention="mine")
    with pytest.raises(UserError, match="did you mean 'alpha'"):
        udr_records(MIXED, alfa=0.2)
    assert "udr" not in METRICS
    with pytest.raises(UserError, match="unweave udr RUN RUN"):
        score(BASE, np.arange(400) % 3, metrics="udr")


def test_runs_of_one_data_set(sprites, tmp_path):
    runs = train_small(small_plan(seeds=[0, 1, 2], steps=2), sprites, out=tmp_path)
    found = udr_of_runs(runs, num_points=200, kl_threshold=0.0)
    codes = [run.encode_at(np.arange(256)) for run in runs]
    assert all(len(one) == 2 and one[0].num_points == 200 for one in found)
    assert [one[0].value for one in found] == pytest.approx(udr(codes)["udr"], abs=0.2)
    for run, one in zip(runs, found):
        store_scores(run, one)
        store_scores(run, one)
        rows = pq.read_table(run.folder / "scores.parquet").to_pylist()
        assert [row["key"] for row in rows] == ["udr", "udr.spearman"]
    with pytest.raises(UserError, match="given twice"):
        udr_of_runs([runs[0], runs[0]])
    with pytest.raises(UserError, match="at least 2"):
        udr_of_runs(runs[:1])


def test_runs_that_cannot_be_compared(sprites):
    (run, other) = train_small(small_plan(seeds=[0, 1], steps=1), sprites)
    (category,) = train_small(small_plan("joint_vae", steps=1), sprites)
    with pytest.raises(UserError, match="categorical latents"):
        udr_of_runs([run, category])
    elsewhere = type(other.config)(**{**vars(other.config), "data": "dsprites"})
    other.config = elsewhere
    with pytest.raises(UserError, match=r"runs of one data set: .* on sprites .* on dsprites"):
        udr_of_runs([run, other])
    run.info = {"status": "diverged", "diverged_at": 1}
    with pytest.raises(UserError, match="diverged at step 1"):
        udr_of_runs([run, other])
    with pytest.warns(UserWarning, match=f"{run.run_id} diverged and is left out"):
        assert without_diverged([run, other]) == [other]
