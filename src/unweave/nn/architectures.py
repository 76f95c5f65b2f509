"""Encoders and decoders by name: a tuple of layers each.

To add an architecture, write a function that returns an `Architecture` and a line in
`ARCHITECTURES`. Kernels are 4x4 with stride 2 where nothing else is said, so images may have any
height and width that the strides divide.
"""

from __future__ import annotations

from dataclasses import replace

from unweave.nn.blueprint import Architecture, Conv, Dense, Norm
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


def burgess2018() -> Architecture:
    """The network of "Understanding disentangling in beta-VAE". Burgess et al. 2018, appendix A.

    Four convolutions of 32 and two dense layers of 256; the decoder is the mirror image.
    """
    return Architecture(
        name="burgess2018",
        paper="Burgess et al. 2018, appendix A",
        encoder=(
            *(Conv(f"conv{i}", 32) for i in (1, 2, 3, 4)),
            Dense("dense1", 256),
            Dense("dense2", 256),
            Dense("dense3", activation="none"),
        ),
        decoder=(
            Dense("dense1", 256),
            Dense("dense2", 256),
            Dense("dense3", 32),
            *(Conv(f"deconv{i}", 32) for i in (1, 2, 3)),
            Conv("deconv4", activation="none"),
        ),
    )


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


ARCHITECTURES: dict[str, Architecture] = {
    "conv64": conv64(),
    "conv64-study2019": conv64_study2019(),
    "conv64-small": conv64_small(),
    "kim2018-shapes2d": kim2018_shapes2d(),
    "kim2018-shapes3d": kim2018_shapes3d(),
    "kim2018-faces": kim2018_faces(),
    "kaddah2020": kaddah2020(),
    "burgess2018": burgess2018(),
    "higgins2017-dense": higgins2017_dense(),
}


def architecture(name: str) -> Architecture:
    """The architecture of that name; an unknown one raises, with the near misses."""
    if name not in ARCHITECTURES:
        raise unknown_name("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]
