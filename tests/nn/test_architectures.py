"""Architectures and initial weights: shapes, counts worked by hand, streams."""

import math

import pytest
import torch
from stacks import narrowed, setup

from unweave import nn
from unweave.nn.architectures import architecture as by_name
from unweave.nn.init import crc32
from unweave.random import Purpose, Streams
from unweave.types import UserError

# A convolution has 16 * in * out + out weights, a dense layer in * out + out.
TRUNK = 544 + 16_416 + 32_832 + 65_600, 65_600 + 32_800 + 16_416 + 513
CONV64 = sum(TRUNK) + 262_400 + 5_140 + 2_816 + 263_168
COLOUR = 2 * 16 * 32 * 2 + 2
# Two numbers for every channel that is normalised, which replace the bias of the layer before.
PLAYERS_MNIST = ((1_088 + 131_072 + 256) + (33_554_432 + 2_048) + (131_072 + 256 + 2_580)
                 + (10_240 + 2_048) + (33_554_432 + 256) + (131_072 + 128) + 1_025)
PLAYERS_SHAPES2D = (
    (544 + 16_384 + 64 + 32_768 + 128 + 65_536 + 128) + (131_072 + 256) + (16_384 + 256 + 2_580)
    + (1_280 + 256) + (131_072 + 128) + (65_536 + 128 + 32_768 + 64 + 16_384 + 64) + 513)
PLAYERS_BIG = (
    (1_088 + 131_072 + 256 + 524_288 + 512 + 2 * (1_048_576 + 512)) + (16_777_216 + 2_048)
    + (131_072 + 256 + 2_580) + (10_240 + 2_048) + (16_777_216 + 512)
    + (2 * (1_048_576 + 512) + 524_288 + 256 + 131_072 + 128) + 1_025)
COUNTS = {
    ("conv64", 1): CONV64,
    ("conv64", 3): CONV64 + COLOUR,
    ("conv64-study2019", 1): CONV64 - 12 * 32 * 64 - 12 * 64 * 64,
    ("conv64-small", 1): (272 + 4_112 + 8_224 + 16_416 + 65_664 + 2_580)
                         + (1_408 + 66_048 + 16_416 + 8_208 + 4_112 + 257),
    ("kim2018-shapes2d", 1): sum(TRUNK) + 131_200 + 2_580 + 1_408 + 132_096,
    ("kim2018-shapes3d", 3): CONV64 + COLOUR,
    ("kim2018-faces", 1): CONV64,
    # Without biases but with a scale and a shift for every channel, 704 of them on each side.
    ("kaddah2020", 3): (1_536 + 16_384 + 32_768 + 65_536 + 524_288 + 10_260)
                       + (5_120 + 524_288 + 65_536 + 32_768 + 16_384 + 1_539) + 2 * 2 * 704,
    ("burgess2018", 1): (544 + 3 * 16_416 + 131_328 + 65_792 + 5_140)
                        + (2_816 + 65_792 + 131_584 + 3 * 16_416 + 513),
    # On images of 64x64 the first dense layer sees 8x8: it is meant for 32x32, where it sees 4x4.
    ("burgess2018-32", 1): (544 + 2 * 16_416 + 524_544 + 65_792 + 5_140)
                           + (2_816 + 65_792 + 526_336 + 2 * 16_416 + 513),
    ("higgins2017-dense", 1): (4_916_400 + 1_441_200 + 24_020)
                              + (13_200 + 2 * 1_441_200 + 4_919_296),
    ("jiang2017", 1): (2_048_500 + 250_500 + 1_002_000 + 40_020)
                      + (22_000 + 1_000_500 + 250_500 + 2_052_096),
    ("infogan-mnist", 1): PLAYERS_MNIST,
    ("infogan-shapes2d", 1): PLAYERS_SHAPES2D,
    ("infogan-shapes2d-big", 1): PLAYERS_BIG,
    # Convolutions have biases and no normalisation; the dense layer after them has both.
    ("infowgan-mnist", 1): PLAYERS_MNIST - 128 + 1_024,
    ("infowgan-shapes2d", 1): PLAYERS_SHAPES2D - 160 + 128,
    ("infowgan-shapes2d-big", 1): PLAYERS_BIG - 896 + 1_024,
}
MULTIPLES = {"infogan-mnist": 4, "infowgan-mnist": 4, "infogan-shapes2d-big": 8,
             "infowgan-shapes2d-big": 8, "burgess2018-32": 8, "higgins2017-dense": 1,
             "jiang2017": 1}



@pytest.mark.parametrize(("name", "channels"), COUNTS)
def test_parameter_counts(name, channels):
    specs = nn.ARCHITECTURES[name].parameters((64, 64, channels), 20, 10)
    assert sum(math.prod(spec.shape) for spec in specs.values()) == COUNTS[name, channels]
    # The draw of a weight is numbered by the checksum of its name.
    assert len({crc32(k.encode()) for k in specs}) == len(specs)


def test_every_architecture_is_counted_and_named():
    assert {name for name, _ in COUNTS} == set(nn.ARCHITECTURES)
    assert all(made.name == name and made.paper for name, made in nn.ARCHITECTURES.items())
    assert by_name("burgess2018") is nn.ARCHITECTURES["burgess2018"]
    with pytest.raises(UserError, match="did you mean 'kaddah2020'"):
        by_name("kadah2020")


@pytest.mark.parametrize("name", nn.ARCHITECTURES)
@pytest.mark.parametrize("image", [(64, 64, 3), (32, 48, 1), (16, 16, 1)])
@pytest.mark.parametrize("precision", nn.PRECISIONS)
def test_shapes_and_types(name, image, precision):
    architecture = narrowed(nn.ARCHITECTURES[name], 8)
    head_size, code_size = 17, 9
    streams = Streams([0, 1])
    params = nn.init_params(architecture, image, head_size, code_size, streams)
    buffers = nn.init_buffers(architecture, image, head_size, code_size, 2)
    assert all(v.shape[0] == 2 and v.dtype == torch.float32 for v in params.values())
    x = streams.uniform(Purpose.BATCH, 0, 3, *image)
    rest = {"precision": precision, "buffers": buffers}
    head = nn.encode_head(architecture, params, x, **rest)
    logits = nn.decode(architecture, params, head[..., :9], image_shape=image, **rest)
    assert head.shape == (2, 3, head_size)
    assert logits.shape == (2, 3, *image)
    assert head.dtype == logits.dtype == torch.float32
    if image[0] == image[1]:
        assert torch.equal(nn.decode(architecture, params, head[..., :9], **rest), logits)


@pytest.mark.parametrize("name", nn.ARCHITECTURES)
def test_only_batch_normalisation_has_buffers(name):
    buffers = nn.init_buffers(nn.ARCHITECTURES[name], (64, 64, 3), 20, 10, 2)
    norms = [layer for side in (nn.ARCHITECTURES[name].encoder, nn.ARCHITECTURES[name].decoder)
             for layer in side if isinstance(layer, nn.Norm)]
    assert len(buffers) == 2 * len(norms)
    if name != "kaddah2020":
        return
    assert len(buffers) == 20
    assert buffers["encoder.norm1.mean"].shape == (2, 32)
    assert buffers["encoder.norm5.var"].shape == (2, 512)
    assert buffers["decoder.norm2.var"].shape == (2, 64)
    assert all((v == (1 if k.endswith("var") else 0)).all() for k, v in buffers.items())


@pytest.mark.parametrize("name", [n for n in nn.ARCHITECTURES if MULTIPLES.get(n) != 1])
def test_image_sizes_that_do_not_fit_are_refused(name):
    number = MULTIPLES.get(name, 16)
    size = 64 - number // 2
    with pytest.raises(UserError, match=rf"{size}x64 do not fit '{name}': .* of {number}$"):
        nn.ARCHITECTURES[name].parameters((size, 64, 1), 20, 10)


def test_critics_share_the_layers_that_the_tables_say():
    sizes = {name: nn.ARCHITECTURES[name].trunk_size(shape) for name, shape in (
        ("infogan-mnist", (28, 28, 1)), ("infowgan-shapes2d", (64, 64, 1)),
        ("infowgan-shapes2d-big", (64, 64, 1)), ("conv64", (64, 64, 1)))}
    assert sizes == {"infogan-mnist": 1024, "infowgan-shapes2d": 128,
                     "infowgan-shapes2d-big": 1024, "conv64": 256}
    for name, made in nn.ARCHITECTURES.items():
        shared = made.encoder[:made.num_shared]
        assert any(isinstance(layer, nn.LayerNorm) for layer in shared) == (
            name.startswith("infowgan"))
        if name.startswith("infowgan"):
            assert not any(isinstance(layer, nn.Norm) for layer in shared)


def test_a_convolution_of_stride_1_is_torchs():
    g = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(*shape, generator=g, dtype=torch.float64)
                       for shape in ((2, 3, 5, 6, 4), (2, 4, 4, 4, 7), (2, 7)))
    found = nn.conv_same(x, weight, bias, activation="relu")
    for m in range(2):
        padded = torch.nn.functional.pad(x[m].permute(0, 3, 1, 2), (1, 2, 1, 2))
        wanted = torch.relu(torch.nn.functional.conv2d(padded, weight[m].permute(3, 2, 0, 1),
                                                       bias[m]))
        torch.testing.assert_close(found[m], wanted.permute(0, 2, 3, 1))


def test_layer_normalisation_is_torchs():
    g = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(*shape, generator=g, dtype=torch.float64)
                       for shape in ((2, 3, 7), (2, 7), (2, 7)))
    for m in range(2):
        torch.testing.assert_close(
            nn.layer_norm(x, weight, bias)[m],
            torch.nn.functional.layer_norm(x[m], (7,), weight[m], bias[m]))


@pytest.mark.parametrize("name", ["conv64-small", "higgins2017-dense"])
def test_images_and_codes_of_another_size_than_the_weights_are_refused(name):
    architecture = narrowed(nn.ARCHITECTURES[name], 4)
    params, _, x, noise = setup(architecture, 1, (32, 48, 1))
    with pytest.raises(UserError, match="32x32x1 do not fit these weights"):
        nn.encode_head(architecture, params, x[:, :, :, :32])
    with pytest.raises(UserError, match="32x48x3 do not fit these weights"):
        nn.encode_head(architecture, params, x.expand(-1, -1, -1, -1, 3))
    with pytest.raises(UserError, match=r"codes of 9 numbers .* made for 10"):
        nn.decode(architecture, params, noise[..., :9])
    with pytest.raises(UserError, match="not square: pass the image_shape"):
        nn.decode(architecture, params, noise)
    with pytest.raises(UserError, match="do not make images of 64x64x1"):
        nn.decode(architecture, params, noise, image_shape=(64, 64, 1))


def test_glorot_statistics():
    architecture = nn.ARCHITECTURES["conv64-small"]
    specs = architecture.parameters((64, 64, 1), 20, 10)
    params = nn.init_params(architecture, (64, 64, 1), 20, 10, Streams([0, 1]))
    for name, spec in specs.items():
        value = params[name]
        if spec.is_bias:
            assert not value.any()
            continue
        bound = math.sqrt(6 / (spec.fan_in + spec.fan_out))
        assert value.abs().max() <= bound
        assert abs(value.mean()) < 5 * bound / math.sqrt(3 * value.numel())
        assert value.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.06)
    spec = specs["encoder.conv2.weight"]
    assert (spec.fan_in, spec.fan_out) == (16 * 16, 16 * 16)


def test_pytorch_scheme_has_the_bounds_of_torch_modules():
    torch.manual_seed(0)  # of 16 numbers none is beyond 0.7 of the bound once in 300 draws
    architecture = nn.ARCHITECTURES["conv64-small"]
    params = nn.init_params(architecture, (64, 64, 1), 20, 10, Streams([0]), "pytorch")
    modules = {"encoder.conv3": torch.nn.Conv2d(16, 32, 4),
               "encoder.dense1": torch.nn.Linear(512, 128),
               "decoder.deconv2": torch.nn.ConvTranspose2d(32, 16, 4)}
    for name, module in modules.items():
        for kind in ("weight", "bias"):
            found, wanted = params[f"{name}.{kind}"], getattr(module, kind)
            assert found.numel() == wanted.numel()
            bound = 1 / math.sqrt(module.weight[0].numel())
            assert 0.7 * bound < found.abs().max().item() <= bound
            assert 0.7 * bound < wanted.abs().max().item() <= bound
    with pytest.raises(UserError, match="glorot"):
        nn.init_params(architecture, (64, 64, 1), 20, 10, Streams([0]), "gloro")


@pytest.mark.parametrize("scheme", ["glorot", "pytorch"])
def test_normalisation_starts_as_the_identity(scheme):
    params = nn.init_params(
        narrowed(nn.ARCHITECTURES["kaddah2020"], 8), (16, 16, 1), 4, 2, Streams([0, 1]), scheme)
    assert (params["encoder.norm3.weight"] == 1).all()
    assert (params["encoder.norm3.bias"] == 0).all()
    assert "encoder.conv3.bias" not in params


def test_init_does_not_depend_on_neighbours_or_on_other_layers():
    architecture, seeds = nn.ARCHITECTURES["conv64-small"], [3, 1, 4, 15, 9]
    stack = nn.init_params(architecture, (16, 16, 1), 20, 10, Streams(seeds), "pytorch")
    alone = nn.init_params(architecture, (16, 16, 1), 20, 10, Streams(seeds[3:4]), "pytorch")
    assert all(torch.equal(stack[k][3], alone[k][0]) for k in stack)
    assert not torch.equal(stack["encoder.conv2.weight"][0], stack["encoder.conv2.weight"][1])
    wider = nn.init_params(architecture, (16, 16, 1), 30, 20, Streams(seeds[3:4]), "pytorch")
    assert torch.equal(wider["encoder.dense1.weight"], alone["encoder.dense1.weight"])
