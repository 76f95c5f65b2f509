"""Encoders of every kind give the codes they would give by hand, and score."""

import json
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import unweave.data
from small import small_plan, train_small
from unweave import cli
from unweave.data.dataset import BytePixels, FactorDataset
from unweave.factors import FactorSpace
from unweave.metrics.arrays import as_array
from unweave.studies import encoders
from unweave.studies.encoders import chosen_output, open_encoder, score_encoder
from unweave.studies.preparing import IMAGENET, Preparation, from_shape
from unweave.training import load
from unweave.types import UserError

SHAPE = (64, 64, 1)


class Small(nn.Module):
    """Averages of quarters of an image, and something else beside."""

    def __init__(self, channels=1):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.channels = channels

    def forward(self, x):
        assert x.shape[1] == self.channels, "channels"
        means = self.pool(x).flatten(1)
        return means, torch.zeros_like(means)


def quarters(images):
    """What `Small` gives, for images channels last."""
    halves = images.reshape(len(images), 2, 32, 2, 32, -1).mean((2, 4))
    return halves.transpose(0, 3, 1, 2).reshape(len(images), -1)



@pytest.fixture(scope="module")
def images(sprites):
    return sprites.images(np.arange(10))


def onnx_model(path, *, layout="nchw", batch="n", size=64, channels=1, kind=1):
    """An ONNX file that averages the rows of each channel."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import helper

    shape = [batch, channels, size, size] if layout == "nchw" else [batch, size, size, channels]
    nodes, x = [], "pixels"
    if kind != 1:
        nodes, x = [helper.make_node("Cast", ["pixels"], ["cast"], to=1)], "cast"
    axes = [1, 3] if layout == "nchw" else [2, 3]
    nodes += [helper.make_node("ReduceMean", [x], ["mu"], axes=axes, keepdims=0),
              helper.make_node("Neg", ["mu"], ["first"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("pixels", kind, shape)],
        [helper.make_tensor_value_info(name, 1, [batch, size]) for name in ("first", "mu")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)
    return str(path)


@pytest.mark.parametrize(("layout", "kind", "scale"), [("nchw", 1, 255), ("nhwc", 1, 255),
                                                       ("nhwc", 2, 1)])
def test_onnx_layouts_and_types_are_found_out(tmp_path, images, layout, kind, scale):
    encode = open_encoder(onnx_model(tmp_path / "m.onnx", layout=layout, kind=kind), SHAPE)
    expected = images.mean((2, 3)) / scale
    np.testing.assert_allclose(encode(images), expected, rtol=1e-5)  # `mu`, not the first output
    other = open_encoder(str(tmp_path / "m.onnx"), SHAPE, output="first")
    np.testing.assert_allclose(other(images), -expected, rtol=1e-5)


def test_onnx_with_a_fixed_batch_colour_and_another_size(tmp_path, images):
    path = onnx_model(tmp_path / "m.onnx", batch=4, channels=3, size=32)
    with pytest.raises(UserError, match="add --size 32x32"):
        open_encoder(path, SHAPE)
    encode = open_encoder(path, SHAPE, preparation=Preparation(size=(32, 32)))
    assert encode(images).shape == (10, 32)
    assert (encode.batch, encode.fixed, encode.preparation.channels) == (4, True, 3)


def test_torchscript_and_exported_programs(tmp_path, images):
    example = torch.zeros(3, 1, 64, 64)
    with warnings.catch_warnings():  # TorchScript is deprecated, and users still have it
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(Small(), example), str(tmp_path / "m.pt"))
        batch = torch.export.Dim("batch", min=1, max=4096)
        torch.export.save(torch.export.export(Small().eval(), (example,),
                                              dynamic_shapes=({0: batch},)), tmp_path / "m.pt2")
    for name in ("m.pt", "m.pt2"):
        encode = open_encoder(str(tmp_path / name), SHAPE)
        np.testing.assert_allclose(encode(images), quarters(images / 255.0), atol=1e-6)
    torch.save({"weight": torch.zeros(2)}, tmp_path / "state.pt")
    with pytest.raises(UserError, match="neither TorchScript nor"):
        open_encoder(str(tmp_path / "state.pt"), SHAPE)


def test_python_functions_and_modules(tmp_path, monkeypatch, images):
    (tmp_path / "my_encoders.py").write_text(
        "import torch\n"
        "def rows(images):\n    assert images.shape[1:] == (64, 64, 1)\n"
        "    return images.mean((2, 3))\n"
        "class Holder:\n    module = torch.nn.Flatten()\n")
    monkeypatch.chdir(tmp_path)
    rows = open_encoder("my_encoders:rows", SHAPE)
    np.testing.assert_allclose(rows(images), images.mean((2, 3)) / 255, rtol=1e-5)
    flat = open_encoder("my_encoders:Holder.module", SHAPE)
    np.testing.assert_allclose(flat(images), images.reshape(10, -1) / 255, rtol=1e-6)
    assert str(tmp_path) not in sys.path
    with pytest.raises(UserError, match="cannot be imported"):
        open_encoder("my_encoders:columns", SHAPE)
    with pytest.raises(UserError, match="is no function of images"):
        open_encoder("my_encoders:Holder", SHAPE)


def test_a_vision_model_of_transformers(tmp_path, images):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                                    intermediate_size=8, image_size=16, patch_size=8)
    torch.manual_seed(0)
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(
        {"size": {"height": 16, "width": 16}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    encode = open_encoder(str(tmp_path), SHAPE)
    assert encode.preparation.size == (16, 16)
    assert encode.preparation(images).shape == (10, 3, 16, 16)
    assert encode.preparation(images).min() == -1
    codes = encode(images)
    assert codes.shape == (10, 8)
    assert np.ptp(codes) > 0
    assert open_encoder(f"hf:{tmp_path}", SHAPE)(images).shape == (10, 8)
    with pytest.raises(UserError, match="no model that transformers can load"):
        open_encoder(f"hf:{tmp_path / 'nothing'}", SHAPE)


def test_a_run_on_images_it_was_not_trained_on(tmp_path, images, sprites, monkeypatch):
    run = train_small(small_plan("beta_vae", steps=2), sprites, out=tmp_path)[0]
    monkeypatch.setattr(encoders, "load", lambda path, device: load(path, device=device,
                                                                    data=sprites))
    assert np.array_equal(open_encoder(str(run.folder), SHAPE)(255 - images),
                          run.encode(255 - images))


def test_preparations_by_hand():
    bytes_ = np.arange(2 * 4 * 6 * 3, dtype=np.uint8).reshape(2, 4, 6, 3)
    assert np.array_equal(Preparation("nhwc", "bytes", dtype="uint8")(bytes_), bytes_)
    assert Preparation("nchw", "symmetric")(bytes_).shape == (2, 3, 4, 6)
    assert Preparation("flat", "unit")(bytes_).shape == (2, 72)
    np.testing.assert_allclose(Preparation("nhwc", "imagenet")(bytes_)[0, 0, 0],
                               (np.array([0, 1, 2]) / 255 - IMAGENET[0]) / IMAGENET[1], rtol=1e-5)
    grey = Preparation("nhwc", "bytes", channels=1)(np.full((1, 2, 2, 3), 77, np.uint8))
    assert (grey == 77).all()
    assert Preparation("nhwc", "bytes", size=(8, 12))(bytes_).shape == (2, 8, 12, 3)


@pytest.mark.parametrize(("shape", "expected"), [
    (["n", 1, 64, 64], ("nchw", 1, (64, 64))), (["n", 64, 64, 1], ("nhwc", 1, (64, 64))),
    ([None, 3, None, None], ("nchw", 3, None)), ([None, None, None, 3], ("nhwc", 3, None)),
    (["n", "c", "h", "w"], ("nchw", None, None)), (["n", 4096], ("flat", None, None)),
])
def test_what_a_shape_says(shape, expected):
    found = from_shape(shape, SHAPE, "float32")
    assert (found.layout, found.channels, found.size) == expected


def test_outputs_are_chosen_by_name_number_or_place():
    assert chosen_output({"a": 1, "mu": 2}, None) == 2
    assert chosen_output((5, 6), None) == 5
    assert chosen_output([5, 6], "1") == 6
    with pytest.raises(UserError, match="it gives a, mu"):
        chosen_output({"a": 1, "mu": 2}, "b")


def test_a_perfect_encoder_scores_as_such(sprites):
    codes = {image.tobytes(): sprites.factors(i)[0] for i, image in
             enumerate(sprites.images(np.arange(256)))}
    found = score_encoder(lambda x: np.array([codes[image.tobytes()] for image in x], float),
                          sprites, metrics=["mig"], num_points=256)
    assert found[0].value > 0.9
    assert found[0].low is not None


def test_images_without_factors_are_scored_as_far_as_they_can_be():
    pictures = np.random.default_rng(0).integers(0, 256, (200, 8, 8, 1), dtype=np.uint8)
    data = FactorDataset("plain", FactorSpace.without_factors(200), BytePixels(pictures))
    found = score_encoder(lambda x: x.reshape(len(x), -1)[:, :3].astype(float), data)
    assert {record.metric for record in found} == {"tc", "wasserstein", "mutual_info_score"}


def test_what_only_a_model_can_be_asked_is_told_to_an_encoder(sprites):
    for metric in ("path_length", "elbo"):  # the first draws no image at all
        with pytest.raises(UserError, match=f"{metric} looks at a model"):
            score_encoder(lambda x: x.reshape(len(x), -1)[:, :3], sprites, metrics=[metric])


def run_cli(capsys, *words):
    with pytest.raises(SystemExit) as leave:
        cli.main([str(word) for word in words])
    return leave.value.code, capsys.readouterr()


def test_the_command_scores_encoders(tmp_path, monkeypatch, capsys, sprites):
    monkeypatch.setattr(unweave.data, "load_data", lambda spec: sprites)
    path = onnx_model(tmp_path / "m.onnx")
    code, said = run_cli(capsys, "score", "--encoder", path, "--metric", "mig", "--json")
    (record,) = json.loads(said.out)
    assert (code, record["key"], record["encoder"]) == (0, "mig", path)
    for words, sentence in (((), "give one thing"), (("--encoder", path, "--size", "a"), "--size"),
                            (("--encoder", path, "--layout", "hwc"), "layout"),
                            (("--encoder", "m.keras"), "is no encoder"),
                            (("--encoder", tmp_path / "n.onnx"), "does not exist")):
        code, said = run_cli(capsys, "score", *words)
        assert code == 2
        assert sentence in said.err
        assert "Traceback" not in said.err


class Foreign:
    """An array of a framework that offers DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **more):
        return self.values.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_arrays_of_other_frameworks():
    values = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(as_array(Foreign(values)), values)
    assert np.array_equal(as_array(torch.tensor(values, requires_grad=True)), values)


def test_arrays_of_jax():
    jax, values = pytest.importorskip("jax"), np.arange(6.0).reshape(3, 2)
    assert np.array_equal(as_array(jax.numpy.asarray(values, dtype="bfloat16")), values)
