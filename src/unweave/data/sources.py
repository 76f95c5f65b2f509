"""Where published files come from: addresses, checksums where they are known, terms.

Several addresses of a file are mirrors, tried in order. Where nobody publishes a checksum the file
is checked for what it is, and what was fetched is recorded beside it.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unweave.data.painting import read_painting
from unweave.types import UserError


@dataclass(frozen=True)
class Source:
    """Where a file comes from. The addresses are tried in order."""

    urls: tuple[str, ...]
    """Empty where a person has to accept terms first, on `page`."""
    file: str
    """Its name below the data folder."""
    licence: str
    summary: str
    sha256: str | None = None
    md5: str | None = None
    """Where it is what was published; the file's SHA-256 is recorded all the same."""
    num_bytes: int | None = None
    check: Callable[[Path], object] | None = None
    """For files without a checksum: reads the file and raises a UserError if it is no good."""
    more: tuple[Source, ...] = ()
    """Files that belong to it."""
    page: str = ""

    @property
    def files(self) -> tuple[Source, ...]:
        """All files, this one first."""
        return self, *self.more


def holds_images(array: str) -> Callable[[Path], None]:
    """A check that a file is an npz with an array of that name; no array is read."""

    def check(path: Path) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                there = f"{array}.npy" in archive.namelist()
        except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
            raise UserError(f"it is not a whole npz file ({error})") from error
        if not there:
            raise UserError(f"it is an npz without an array `{array}`")

    return check


def is_tar(path: Path) -> None:
    """A check that a file begins as a tar, packed or not; the loader finds out about its end."""
    try:
        with tarfile.open(path, "r|*") as archive:
            if archive.next() is None:
                raise UserError("it is an empty tar")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"it is not a tar ({error})") from error


def _family(parts: list[Source]) -> Source:
    first = parts[0]
    return Source(first.urls, first.file, first.licence, first.summary, first.sha256, first.md5,
                  first.num_bytes, first.check, tuple(parts[1:]))


def _norb() -> Source:
    known = {
        "46789x9x18x6x2x96x96-training-dat": (
            131_896_188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
        "46789x9x18x6x2x96x96-training-cat": (
            348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
        "46789x9x18x6x2x96x96-training-info": (
            71_052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
        "01235x9x18x6x2x96x96-testing-dat": (
            130_799_817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
        "01235x9x18x6x2x96x96-testing-cat": (
            347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
        "01235x9x18x6x2x96x96-testing-info": (
            10_428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
    }
    return _family([Source(
        (f"https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/smallnorb-5x{name}.mat.gz",
         f"http://www.cs.nyu.edu/~ylclab/data/norb-v1.0-small/smallnorb-5x{name}.mat.gz"),
        f"smallnorb/smallnorb-5x{name}.mat.gz", "for research, with citation; not for sale",
        "smallNORB, six files", sha256=sha256, num_bytes=num_bytes)
        for name, (num_bytes, sha256) in known.items()])


def _idx(folder: str, mirrors: tuple[str, ...], licence: str, sums: tuple[str, ...]) -> Source:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return _family([Source(tuple(f"{mirror}{name}-ubyte.gz" for mirror in mirrors),
                           f"{folder}/{name}-ubyte.gz", licence, f"{folder}, four idx files",
                           md5=md5) for name, md5 in zip(names, sums)])


def _mpi3d(kind: str, *others: str) -> Source:
    bucket = "https://storage.googleapis.com/mpi3d_disentanglement_dataset/data/"
    return Source(tuple(f"{bucket}{name}" for name in (f"mpi3d_{kind}.npz", *others)),
                  f"mpi3d_{kind}.npz", "CC BY 4.0", f"MPI3D, {kind}", check=holds_images("images"))


_CELEBA = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
_CELEBA_TERMS = "for research that is not commercial, by agreement"

SOURCES: dict[str, Source] = {
    "scream": Source(
        urls=(
            # The address in disentanglement_lib's download script, then another scan.
            "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg",
            "https://upload.wikimedia.org/wikipedia/commons/c/c5/Edvard_Munch%2C_1893%2C_The_"
            "Scream%2C_oil%2C_tempera_and_pastel_on_cardboard%2C_91_x_73_cm%2C_National_Gallery_"
            "of_Norway.jpg",
        ),
        file="scream.jpg", licence="public domain", check=read_painting,
        summary="Edvard Munch, The Scream, 1893: the background of scream_dsprites"),
    "dsprites": Source(
        urls=tuple(f"https://github.com/{owner}/dsprites-dataset/raw/master/"
                   "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
                   for owner in ("google-deepmind", "deepmind")),
        file="dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz", licence="Apache-2.0",
        summary="dSprites as published, for `unweave data check` and dsprites:FILE",
        check=holds_images("imgs")),
    "shapes3d": Source(
        urls=("https://storage.googleapis.com/3d-shapes/3dshapes.h5",), file="3dshapes.h5",
        licence="Apache-2.0", summary="3D Shapes, 480,000 images",
        md5="099a2078d58cec4daad0702c55d06868"),
    "smallnorb": _norb(),
    "cars3d": Source(
        urls=("http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
              "http://www-personal.umich.edu/~reedscot/files/nips2015-analogy-data.tar.gz"),
        file="nips2015-analogy-data.tar.gz", licence="not stated; for research",
        summary="Cars3D, within the data of Reed et al. 2015", check=is_tar),
    "mpi3d_toy": _mpi3d("toy"),
    "mpi3d_realistic": _mpi3d("realistic"),
    "mpi3d_real": _mpi3d("real", "real.npz"),
    "celeba": Source(
        urls=(), page=_CELEBA, file="celeba/img_align_celeba.zip", licence=_CELEBA_TERMS,
        summary="CelebA, aligned and cropped", num_bytes=1_443_490_838,
        sha256="46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
        more=(Source(
            urls=(), page=_CELEBA, file="celeba/list_attr_celeba.txt", licence=_CELEBA_TERMS,
            summary="CelebA, attributes", num_bytes=26_721_026,
            sha256="f0e5da289d5ccf75ffe8811132694922b60f2af59256ed362afa03fefba324d0"),)),
    "chairs3d": Source(
        urls=("https://www.di.ens.fr/willow/research/seeing3Dchairs/data/rendered_chairs.tar",
              "http://www.di.ens.fr/willow/research/seeing3Dchairs/data/rendered_chairs.tar"),
        file="rendered_chairs.tar", licence="not stated; for research",
        summary="3D Chairs, all renderings", check=is_tar),
    "mnist": _idx("mnist", ("https://ossci-datasets.s3.amazonaws.com/mnist/",
                            "https://storage.googleapis.com/cvdf-datasets/mnist/"), "CC BY-SA 3.0",
                  ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                   "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c")),
    "fashion_mnist": _idx(
        "fashion_mnist",
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
         "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"),
        "MIT", ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310")),
}
