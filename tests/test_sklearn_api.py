"""Disentangler among scikit-learn's own: its checks, pipelines, clones, pickles."""

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from unweave.objectives import METHODS
from unweave.sklearn import Disentangler
from unweave.types import UserError

TINY = {"n_components": 3, "n_steps": 20, "hidden_sizes": (8,), "batch_size": 16,
        "random_state": 0, "device": "cpu"}
EXPECTED_FAILED: dict[str, str] = {}
"""Checks of scikit-learn that do not apply, and why."""


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(60, 5))


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return (rng.random((24, 16, 32)) < 0.3).astype(np.uint8) * 255


def test_the_checks_of_scikit_learn_pass():
    estimator = Disentangler("factor_vae", letters={"critic_width": 8, "critic_depth": 1},
                             **TINY | {"n_steps": 3})
    results = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILED,
                              on_skip=None, on_fail="raise")
    statuses = {row["check_name"]: row["status"] for row in results}
    assert set(statuses.values()) <= {"passed", "skipped", "xfail"}
    # Those skipped need array-API libraries or an environment variable, nothing of ours.
    assert sum(status == "passed" for status in statuses.values()) >= 40


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_transforms_and_scores(vectors, method):
    record = METHODS[method]
    letters = {"critic_width": 8, "critic_depth": 1} if record.critic else {}
    model = Disentangler(method, letters=letters, **TINY).fit(vectors)
    codes = model.transform(vectors)
    assert codes.shape == (60, 4 if method == "joint_vae" or record.game else 3)
    assert list(model.get_feature_names_out())[:1] == ["disentangler0"]
    assert model.inverse_transform(codes).shape == vectors.shape
    assert len(model.loss_curve_) == model.n_steps_ == 20
    if record.game:
        with pytest.raises(UserError, match="no bound to score by"):
            model.score(vectors)
        return
    assert np.isfinite(model.score(vectors))
    assert model.score(vectors) == model.score(vectors)


def test_clusters_are_found_after_an_autoencoder():
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = 3.0 * np.eye(3, 5)[truth] + 0.1 * rng.normal(size=(90, 5))
    settings = TINY | {"n_steps": 200, "hidden_sizes": (16,), "learning_rate": 5e-3}
    model = Disentangler("vade", letters={"clusters": 3}, **settings).fit(X)
    heads = model.model_.encoder(torch.from_numpy(X).float())
    found = model.model_.objective.clusters(heads).numpy()
    assert len(set(zip(truth, found))) == 3
    part = Disentangler("vade", letters={"clusters": 3}, **TINY).partial_fit(X)
    spread = part.model_.objective.prior["mean"].detach()
    assert spread.std(0).min() > 0, "the first pass ends with a fit"


def test_generators_of_images(images):
    square = images[:, :, :16]
    model = Disentangler("infowgan_gp", architecture="infowgan-shapes2d", letters={
        "critic_steps": 1, "num_noise": 4}, **TINY | {"n_steps": 2}).fit(square)
    made = model.inverse_transform(model.transform(square))
    assert made.shape == square.shape
    assert 0 <= made.min() <= made.max() <= 1


def test_training_learns(vectors):
    settings = TINY | {"n_steps": 250, "hidden_sizes": (32,), "learning_rate": 5e-3}
    short, long = Disentangler(**TINY).fit(vectors), Disentangler("vae", **settings).fit(vectors)
    assert long.score(vectors) > short.score(vectors) + 0.5
    back = long.inverse_transform(long.transform(vectors))
    assert np.mean((back - vectors) ** 2) < 0.5 * vectors.var()


@pytest.mark.parametrize("kind", ["bytes", "fractions", "flat", "colour"])
def test_images_come_and_go_in_the_same_shape(images, kind):
    X, options = {
        "bytes": (images, {}), "fractions": (images / 255.0, {}),
        "flat": (images.reshape(24, -1), {"image_shape": (16, 32)}),
        "colour": (np.stack([images] * 3, -1), {"architecture": "conv64-small"})}[kind]
    model = Disentangler(**TINY | {"n_steps": 2}, **options).fit(X)
    assert model.image_shape_ == (16, 32, 3 if kind == "colour" else 1)
    codes = model.transform(X)
    made = model.inverse_transform(codes)
    assert made.shape == X.shape
    assert 0 <= made.min() <= made.max() <= 1
    np.testing.assert_allclose(model.transform(X[3:5]), codes[3:5], atol=1e-5)


def test_images_of_any_size_take_dense_networks():
    X = np.random.default_rng(0).random((8, 9, 7))
    model = Disentangler(**TINY | {"n_steps": 2}).fit(X)
    assert model.inverse_transform(model.transform(X)).shape == X.shape


def test_pipeline_grid_clone_and_pickle(vectors, tmp_path):
    pipe = make_pipeline(StandardScaler(), Disentangler(**TINY)).set_output(transform="default")
    codes = pipe.fit_transform(vectors)
    assert pipe.inverse_transform(codes).shape == vectors.shape
    joblib.dump(pipe, tmp_path / "pipe.joblib")
    loaded = joblib.load(tmp_path / "pipe.joblib")
    assert np.array_equal(loaded.transform(vectors), codes)
    again = clone(pipe).fit(vectors)
    assert np.array_equal(again.transform(vectors), codes)
    grid = GridSearchCV(Disentangler(**TINY), {"letters": [{"beta": 1}, {"beta": 8}]}, cv=2)
    assert "letters" in grid.fit(vectors).best_params_


def test_partial_fit_goes_on_also_after_a_pickle(vectors, tmp_path):
    model = Disentangler(**TINY).partial_fit(vectors)
    assert (model.n_steps_, model.n_samples_seen_) == (3, 60)
    joblib.dump(model, tmp_path / "m.joblib")
    one, other = model.partial_fit(vectors), joblib.load(tmp_path / "m.joblib")
    other.partial_fit(vectors)
    assert np.array_equal(one.transform(vectors), other.transform(vectors))
    assert one.n_steps_ == other.n_steps_ == 6


def test_the_users_random_numbers_are_left_alone(vectors):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Disentangler(**TINY).fit(vectors).score(vectors)
    assert torch.equal(torch.rand(3), expected)


def test_scores_against_factors(vectors):
    model = Disentangler(**TINY).fit(vectors)
    found = model.disentanglement(vectors, (vectors[:, :2] > 0).astype(int), metrics=["mig"])
    assert 0 <= found["mig"] <= 1


@pytest.mark.parametrize(("change", "said"), [
    ({"method": "beta_va"}, "did you mean"), ({"n_components": 0}, "at least 1"),
    ({"likelihood": "bernoulli"}, r"wants values in \[0, 1\]"),
    ({"likelihood": "poisson"}, "known are auto"), ({"image_shape": (2, 2)}, "does not make 5"),
    ({"letters": {"gamma": 1}}, "unknown letter"), ({"learning_rate": 1e30}, "diverged at step"),
])
def test_bad_input_is_one_sentence(vectors, change, said):
    with pytest.raises(UserError, match=said):
        Disentangler(**TINY | change).fit(vectors)
