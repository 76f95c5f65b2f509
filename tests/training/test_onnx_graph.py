"""Every architecture as ONNX graphs, against the run's own passes in float32."""

import numpy as np
import pytest

from random_runs import random_run
from unweave.nn import ARCHITECTURES, Architecture, Conv, Dense, LayerNorm
from unweave.training.onnx_graph import decoder_onnx, encoder_onnx
from unweave.types import UserError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def assert_same(run):
    images = run.dataset.images(np.arange(5)) / np.float32(255)
    encoder, decoder = session(encoder_onnx(run)), session(decoder_onnx(run))
    names = [output.name for output in encoder.get_outputs()]
    for count in (5, 1):  # the batch is free
        found = dict(zip(names, encoder.run(None, {"images": images[:count]})))
        codes = run.encode(images[:count])
        mu, logvar = run.posterior(images[:count])
        np.testing.assert_allclose(found["codes"], codes, rtol=0, atol=1e-5)
        np.testing.assert_allclose(found["mu"], mu, rtol=0, atol=1e-5)
        np.testing.assert_allclose(found["logvar"], logvar, rtol=0, atol=1e-5)
        (decoded,) = decoder.run(None, {"codes": codes})
        assert decoded.dtype == np.float32
        np.testing.assert_allclose(decoded, run.decode(codes), rtol=0, atol=1e-5)
    assert np.ptp(decoded) > 0.1, "a grey picture would prove nothing"
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_gives_the_numbers_of_the_run(architecture):
    assert_same(random_run(architecture))


def test_images_that_are_wide_and_coloured():
    assert_same(random_run("conv64-small", shape=(32, 64, 3)))
    assert_same(random_run("kaddah2020", shape=(32, 16, 3)))
    assert_same(random_run("higgins2017-dense", shape=(5, 7, 3)))


def test_categorical_latents_come_as_classes_and_as_probabilities():
    run = random_run(method="joint_vae", categories="4,3")
    found = assert_same(run)
    assert found["codes"].shape[1] == 7
    for j, size in enumerate((4, 3)):
        probabilities = found[f"probabilities_{j}"]
        assert probabilities.shape == (1, size)
        assert probabilities.sum() == pytest.approx(1.0, abs=1e-6)
        assert probabilities.argmax() == found["codes"][0, 5 + j]
    decoder = session(decoder_onnx(run))
    codes = np.zeros((4, 7), np.float32)
    codes[:, 5] = range(4)
    (images,) = decoder.run(None, {"codes": codes})
    np.testing.assert_allclose(images, run.decode(codes), rtol=0, atol=1e-5)
    assert len({image.tobytes() for image in images}) == 4


def test_a_run_in_bfloat16_has_its_float32_weights_in_the_graph():
    coarse, fine = random_run(precision="bfloat16"), random_run()
    images = fine.dataset.images(np.arange(3)) / np.float32(255)
    codes, *_ = session(encoder_onnx(coarse)).run(None, {"images": images})
    np.testing.assert_allclose(codes, fine.encode(images), rtol=0, atol=1e-5)


def test_files_say_which_run_they_are_and_equal_runs_give_equal_bytes():
    run = random_run()
    model = onnx.load_from_string(decoder_onnx(run, metadata={"licence": "none"}))
    props = {entry.key: entry.value for entry in model.metadata_props}
    assert props == {"run_id": run.run_id, "side": "decoder", "licence": "none"}
    assert [(e.domain, e.version) for e in model.opset_import] == [("", 17)]
    assert encoder_onnx(run) == encoder_onnx(random_run())


@pytest.mark.parametrize("method", ["infogan", "infowgan_gp"])
def test_a_generator_has_its_noise_inside_or_asks_for_it(method):
    run = random_run("infowgan-mnist", method=method, shape=(28, 28, 1), num_noise=7)
    assert_same(run)  # codes alone: the one draw of the run
    decoder = session(decoder_onnx(run, noise=True))
    assert [entry.name for entry in decoder.get_inputs()] == ["codes", "noise"]
    codes, noise = run.prior_codes(4), run.generator_noise(4, seed=3)
    (images,) = decoder.run(None, {"codes": codes, "noise": noise})
    np.testing.assert_allclose(images, run.decode(codes, noise=noise), rtol=0, atol=1e-5)
    with pytest.raises(UserError, match="beta_vae decodes codes alone"):
        decoder_onnx(random_run(), noise=True)


def test_layer_normalisation_of_whole_images(monkeypatch):
    layers = (Conv("conv1", 3), LayerNorm("norm1"), Conv("conv2", 4, stride=1),
              Dense("dense1", activation="none"))
    back = (Dense("dense1", 4), LayerNorm("norm1", "tanh"), Conv("deconv1", stride=1),
            Conv("deconv2", activation="none"))
    monkeypatch.setitem(ARCHITECTURES, "tiny", Architecture("tiny", "none", layers, back))
    assert_same(random_run("tiny", shape=(6, 8, 3)))
