"""Encoders and decoders by name: a tuple of layers each.

To add an architecture, write a function that returns an `Architecture` and a line in
`ARCHITECTURES`. Kernels are 4x4 with stride 2 where nothing else is said, so images may have any
height and width that the strides divide.
"""

from __future__ import annotations

from dataclasses import replace

from unweave.nn.blueprint import Architecture, Conv, Dense, LayerNorm, Norm
from unweave.types import unknown_name


def _conv64(
    name: str, paper: str, *, late_kernel: int = 4, narrow: int = 1, dense: int = 256
) -> Architecture:
    thin, thick, dense = 32 // narrow, 64 // narrow, dense // narrow
    return Architecture(
        name=name,
        paper=paper,
        encoder=(
            Conv("conv1", thin),
            Conv("conv2", thin),
            Conv("conv3", thick, kernel=late_kernel),
            Conv("conv4", thick, kernel=late_kernel),
            Dense("dense1", dense),
            Dense("dense2", activation="none"),
        ),
        decoder=(
            Dense("dense1", dense),
            Dense("dense2", thick),
            Conv("deconv1", thick),
            Conv("deconv2", thin),
            Conv("deconv3", thin),
            Conv("deconv4", activation="none"),
        ),
    )


def conv64() -> Architecture:
    """The network of the field's papers. Locatello et al. 2019, table 2."""
    return _conv64("conv64", "Locatello et al. 2019, table 2")


def conv64_study2019() -> Architecture:
    """What produced the published runs: encoder convolutions 3 and 4 are 2x2, not 4x4."""
    paper = "Locatello et al. 2019, table 2 as it was run: encoder convolutions 3 and 4 are 2x2"
    return _conv64("conv64-study2019", paper, late_kernel=2)


def conv64_small() -> Architecture:
    """Ours: conv64 with half the channels, a quarter of its work, for CPUs and first looks."""
    return _conv64("conv64-small", "unweave: conv64 with half the channels", narrow=2)


def kim2018_shapes2d() -> Architecture:
    """FactorVAE's network for 2D Shapes. Kim & Mnih 2018, table 1.

    No activation is printed after the encoder's dense layer, in tables 2 and 3 neither. The study
    prints its table the same way, and ran a ReLU there: so do we.
    """
    return _conv64("kim2018-shapes2d", "Kim & Mnih 2018, table 1", dense=128)


def kim2018_shapes3d() -> Architecture:
    """FactorVAE's network for 3D Shapes, CelebA and Chairs. Kim & Mnih 2018, table 2.

    Layer for layer it is what the study made its own, `conv64`.
    """
    return _conv64("kim2018-shapes3d", "Kim & Mnih 2018, table 2")


def kim2018_faces() -> Architecture:
    """FactorVAE's network for 3D Faces: table 2 for grey images. Kim & Mnih 2018, table 3."""
    return _conv64("kim2018-faces", "Kim & Mnih 2018, table 3")


def _normed(layer: Conv | Dense, number: int) -> tuple[Conv | Dense, Norm]:
    return replace(layer, activation="none", bias=False), Norm(f"norm{number}")


def kaddah2020() -> Architecture:
    """The network with batch normalisation, for 3D Shapes. Kaddah 2020, table 1.

    "Each layer is followed by batch normalization then ReLU", which we read as each but the last
    of either side: a rectified head or rectified logits could not be what they are for.
    Convolutions between a 4x4 image (or what 16 leaves of another size) and a single pixel are
    written as the dense layers that they are. The table's second deconvolution, 4x4 with stride 1
    and padding 1, would give 2x2 and images of 32x32 in the end: we read padding 0.
    """
    return Architecture(
        name="kaddah2020",
        paper="Kaddah 2020, table 1",
        encoder=(
            *_normed(Conv("conv1", 32), 1),
            *_normed(Conv("conv2", 32), 2),
            *_normed(Conv("conv3", 64), 3),
            *_normed(Conv("conv4", 64), 4),
            *_normed(Dense("dense5", 512), 5),
            Dense("dense6", activation="none"),
        ),
        decoder=(
            *_normed(Dense("dense1", 512), 1),
            *_normed(Dense("dense2", 64), 2),
            *_normed(Conv("deconv3", 64), 3),
            *_normed(Conv("deconv4", 32), 4),
            *_normed(Conv("deconv5", 32), 5),
            Conv("deconv6", activation="none"),
        ),
    )


def _burgess(name: str, paper: str, num_convolutions: int) -> Architecture:
    numbers = range(1, num_convolutions + 1)
    return Architecture(
        name=name,
        paper=paper,
        encoder=(
            *(Conv(f"conv{i}", 32) for i in numbers),
            Dense("dense1", 256),
            Dense("dense2", 256),
            Dense("dense3", activation="none"),
        ),
        decoder=(
            Dense("dense1", 256),
            Dense("dense2", 256),
            Dense("dense3", 32),
            *(Conv(f"deconv{i}", 32) for i in numbers[:-1]),
            Conv(f"deconv{num_convolutions}", activation="none"),
        ),
    )


def burgess2018() -> Architecture:
    """The network of "Understanding disentangling in beta-VAE". Burgess et al. 2018, appendix A.

    Four convolutions of 32 and two dense layers of 256; the decoder is the mirror image.
    """
    return _burgess("burgess2018", "Burgess et al. 2018, appendix A", 4)


def burgess2018_32() -> Architecture:
    """The same for images of 32x32 as disentangling-vae has it: one convolution less."""
    return _burgess("burgess2018-32", "Burgess et al. 2018, appendix A, for images of 32x32 as "
                    "in disentangling-vae", 3)


def higgins2017_dense() -> Architecture:
    """The dense network of beta-VAE for 2D Shapes. Higgins et al. 2017, appendix A.1.

    ReLU in the encoder, tanh in the decoder; images of any size.
    """
    return Architecture(
        name="higgins2017-dense",
        paper="Higgins et al. 2017, appendix A.1",
        encoder=(
            Dense("dense1", 1200),
            Dense("dense2", 1200),
            Dense("dense3", activation="none"),
        ),
        decoder=(
            *(Dense(f"dense{i}", 1200, activation="tanh") for i in (1, 2, 3)),
            Dense("dense4", activation="none"),
        ),
    )


def jiang2017() -> Architecture:
    """VaDE's dense network: 500, 500, 2000, the codes, and back. Jiang et al. 2017, section 4.

    ReLU between layers; images of any size.
    """
    return Architecture(
        name="jiang2017",
        paper="Jiang et al. 2017, section 4",
        encoder=(Dense("dense1", 500), Dense("dense2", 500), Dense("dense3", 2000),
                 Dense("dense4", activation="none")),
        decoder=(Dense("dense1", 2000), Dense("dense2", 500), Dense("dense3", 500),
                 Dense("dense4", activation="none")),
    )


def _players(name: str, paper: str, *, trunk: tuple[Conv, ...], dense: int,
             generator: tuple[Dense | Conv, ...], wasserstein: bool) -> Architecture:
    """A generator and a critic whose layers an encoder shares. Kim & Mnih 2018, appendix H.

    "lReLU. batchnorm" is read as a normalisation before the activation, as elsewhere in the field.
    `wasserstein`: no batch normalisation in the critic's convolutions, and layer normalisation in
    the dense layer that follows; the encoder's own layer keeps its batch normalisation.
    """
    leaky = "leaky_relu"
    layers: list = [replace(trunk[0], activation=leaky)]
    for number, conv in enumerate(trunk[1:], start=2):
        layers += ([replace(conv, activation=leaky)] if wasserstein else
                   [replace(conv, activation="none", bias=False), Norm(f"norm{number}", leaky)])
    after = f"norm{len(trunk) + 1}"
    layers += [Dense("dense1", dense, activation="none", bias=wasserstein),
               LayerNorm(after, leaky) if wasserstein else Norm(after, leaky),
               Dense("dense2", 128, activation="none", bias=False),
               Norm(f"norm{len(trunk) + 2}", leaky),
               Dense("dense3", activation="none")]
    made = [part for number, layer in enumerate(generator[:-1], start=1)
            for part in (replace(layer, activation="none", bias=False),
                         Norm(f"norm{number}", layer.activation))]
    return Architecture(name=name, paper=paper, encoder=tuple(layers),
                        decoder=(*made, generator[-1]), trunk=after)


def _players_mnist(name: str, wasserstein: bool) -> Architecture:
    """Kim & Mnih 2018, table 4: images of 28x28."""
    return _players(
        name, "Kim & Mnih 2018, table 4", wasserstein=wasserstein, dense=1024,
        trunk=(Conv("conv1", 64), Conv("conv2", 128)),
        generator=(Dense("dense1", 1024), Dense("dense2", 128), Conv("deconv1", 64),
                   Conv("deconv2", activation="none")))


def _players_shapes2d(name: str, wasserstein: bool) -> Architecture:
    """Kim & Mnih 2018, table 5."""
    return _players(
        name, "Kim & Mnih 2018, table 5", wasserstein=wasserstein, dense=128,
        trunk=tuple(Conv(f"conv{i}", c) for i, c in enumerate((32, 32, 64, 64), start=1)),
        generator=(Dense("dense1", 128), Dense("dense2", 64),
                   *(Conv(f"deconv{i}", c, activation="leaky_relu")
                     for i, c in enumerate((64, 32, 32), start=1)),
                   Conv("deconv4", activation="none")))


def _players_big(name: str, wasserstein: bool) -> Architecture:
    """Kim & Mnih 2018, table 6: five convolutions, two of them with stride 1."""
    return _players(
        name, "Kim & Mnih 2018, table 6", wasserstein=wasserstein, dense=1024,
        trunk=(Conv("conv1", 64), Conv("conv2", 128), Conv("conv3", 256),
               Conv("conv4", 256, stride=1), Conv("conv5", 256, stride=1)),
        generator=(Dense("dense1", 1024), Dense("dense2", 256),
                   Conv("deconv1", 256, activation="leaky_relu", stride=1),
                   Conv("deconv2", 256, activation="leaky_relu", stride=1),
                   Conv("deconv3", 128, activation="leaky_relu"),
                   Conv("deconv4", 64, activation="leaky_relu"),
                   Conv("deconv5", activation="none")))


ARCHITECTURES: dict[str, Architecture] = {
    "conv64": conv64(),
    "conv64-study2019": conv64_study2019(),
    "conv64-small": conv64_small(),
    "kim2018-shapes2d": kim2018_shapes2d(),
    "kim2018-shapes3d": kim2018_shapes3d(),
    "kim2018-faces": kim2018_faces(),
    "kaddah2020": kaddah2020(),
    "burgess2018": burgess2018(),
    "burgess2018-32": burgess2018_32(),
    "higgins2017-dense": higgins2017_dense(),
    "jiang2017": jiang2017(),
    "infogan-mnist": _players_mnist("infogan-mnist", False),
    "infowgan-mnist": _players_mnist("infowgan-mnist", True),
    "infogan-shapes2d": _players_shapes2d("infogan-shapes2d", False),
    "infowgan-shapes2d": _players_shapes2d("infowgan-shapes2d", True),
    "infogan-shapes2d-big": _players_big("infogan-shapes2d-big", False),
    "infowgan-shapes2d-big": _players_big("infowgan-shapes2d-big", True),
}


def architecture(name: str) -> Architecture:
    """The architecture of that name; an unknown one raises, with the near misses."""
    if name not in ARCHITECTURES:
        raise unknown_name("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]
