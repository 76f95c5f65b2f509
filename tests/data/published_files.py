"""Small files in the formats of the published ones, made here: noise, but in the right places."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from unweave.data.shapes3d import SPACE as SHAPES3D
from unweave.data.smallnorb import HALVES

NORB_MAGIC = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54, "int16": 0x1E3D4C56,
              "float32": 0x1E3D4C51, "float64": 0x1E3D4C53}
IDX_KIND = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D,
            "float64": 0x0E}


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.Generator(np.random.Philox(seed)).integers(256, size=shape, dtype=np.uint8)


def smooth(height: int, width: int, seed: int) -> np.ndarray:
    """A picture that survives shrinking and JPEG: four by four patches of colour."""
    patches = noise(4, 4, 3, seed=seed)
    return np.asarray(Image.fromarray(patches).resize((width, height), Image.Resampling.NEAREST))


def norb_bytes(array: np.ndarray) -> bytes:
    lengths = [*array.shape, *[1] * (3 - array.ndim)]
    head = struct.pack(f"<Ii{len(lengths)}i", NORB_MAGIC[str(array.dtype)], array.ndim, *lengths)
    return head + array.astype(array.dtype.newbyteorder("<")).tobytes()


def idx_bytes(array: np.ndarray) -> bytes:
    head = struct.pack(f">HBB{array.ndim}I", 0, IDX_KIND[str(array.dtype)], array.ndim,
                       *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


NORB_GRID = (2, 2, 2, 3, 2)
"""Of each half: categories, toys, elevations, azimuths, lightings."""


def write_norb(folder: Path, *, packed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """All six files; factors of all images, with the azimuth's class, and camera 0 of them."""
    rng = np.random.Generator(np.random.Philox(5))
    factors, images = [], []
    for k, half in enumerate(HALVES):
        rows = np.stack(np.unravel_index(rng.permutation(np.prod(NORB_GRID)), NORB_GRID), axis=1)
        rows[:, 1] += 2 * k
        # Bright pixels everywhere: read as signed bytes they would be dark.
        both = 128 + noise(len(rows), 2, 96, 96, seed=k) // 2
        files = {"dat": both, "cat": rows[:, 0].astype(np.int32),
                 "info": (rows[:, 1:] * [1, 1, 2, 1]).astype(np.int32)}
        for kind, array in files.items():
            content = norb_bytes(array)
            if packed:
                (folder / f"{half}{kind}.mat.gz").write_bytes(gzip.compress(content, 1))
            else:
                (folder / f"{half}{kind}.mat").write_bytes(content)
        factors.append(rows)
        images.append(both[:, 0])
    return np.concatenate(factors), np.concatenate(images)


def make_norb(folder: Path) -> str:
    write_norb(folder)
    return f"smallnorb:{folder},part=yes"


def make_norb_instances(folder: Path) -> str:
    write_norb(folder, packed=True)
    return f"smallnorb_instances:{folder},part=yes"


def car(seed: int) -> np.ndarray:
    """`im` of one model: every direction has a shade of its own."""
    image = smooth(128, 128, seed) // 2
    shade = np.arange(96, dtype=np.uint8).reshape(24, 4)
    return image[..., None, None] + shade


def mat_bytes(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, arrays, do_compression=True)
    return buffer.getvalue()


def write_tar(path: Path, files: dict[str, bytes], mode: str = "w") -> None:
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def make_cars(folder: Path) -> str:
    files = {f"data/cars/car_{k}_mesh.mat": mat_bytes(im=car(k), mask=np.zeros((4, 4)))
             for k in (2, 1)}
    files["data/shapes48.mat"] = b"not a car"
    write_tar(folder / "cars.tar.gz", files, "w:gz")
    return f"cars3d:{folder / 'cars.tar.gz'},part=yes"


def make_mpi3d(folder: Path) -> str:
    np.savez(folder / "toy.npz", images=noise(50, 64, 64, 3))
    return f"mpi3d_toy:{folder / 'toy.npz'},part=yes"


def png_bytes(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()


def chair_files(models: Sequence[str] = ("b2", "a1"), num_azimuths: int = 3) -> dict[str, bytes]:
    return {f"rendered_chairs/{model}/renders/image_{7 * p + t:03d}_p{p:03d}_t{t:03d}_r096.png":
            png_bytes(smooth(40, 40, 100 * m + p + t)) for m, model in enumerate(models)
            for p in (20, 30) for t in range(0, 11 * num_azimuths, 11)}


def make_chairs(folder: Path) -> str:
    write_tar(folder / "chairs.tar", chair_files() | {"rendered_chairs/all_chair_names.mat": b"x"})
    return f"chairs3d:{folder / 'chairs.tar'},part=yes"


def jpg_bytes(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()


def faces(num: int = 12) -> dict[str, bytes]:
    return {f"{k + 1:06d}.jpg": jpg_bytes(smooth(218, 178, k)) for k in range(num)}


def attributes(num: int = 12, names: Sequence[str] = ("Bald", "Smiling", "Young")) -> str:
    rows = [f"{k + 1:06d}.jpg " + " ".join("1" if (k >> j) % 2 else "-1"
                                           for j in range(len(names))) for k in range(num)]
    return "\n".join([str(num), " ".join(names) + " ", *rows]) + "\n"


def make_celeba(folder: Path) -> str:
    with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as archive:
        for name, content in faces().items():
            archive.writestr(f"img_align_celeba/{name}", content)
    (folder / "list_attr_celeba.txt").write_text(attributes())
    return f"celeba:{folder},part=yes"


def write_mnist(folder: Path, num_train: int = 30, num_test: int = 20) -> None:
    for half, num, seed in (("train", num_train, 0), ("t10k", num_test, 1)):
        images, labels = noise(num, 28, 28, seed=seed), noise(num, seed=seed) % 10
        (folder / f"{half}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images), 1))
        (folder / f"{half}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))


def make_mnist(name: str) -> object:
    def make(folder: Path) -> str:
        write_mnist(folder)
        return f"{name}:{folder}"

    return make


def shapes3d_labels(index: np.ndarray) -> np.ndarray:
    """What 3dshapes.h5 says of images: the values of their factors, the shape as a number."""
    rows = SHAPES3D.factors(index)
    columns = [np.arange(4) if v.dtype.kind == "U" else v for v in SHAPES3D.values]
    return np.stack([v[rows[:, k]] for k, v in enumerate(columns)], axis=1).astype(np.float64)


def write_shapes3d(path: Path, images: np.ndarray, labels: np.ndarray, **how: object) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, **how)
        file.create_dataset("labels", data=labels)
    return path


def make_shapes3d(folder: Path) -> str:
    index = np.arange(0, len(SHAPES3D), 9999)[::-1]
    path = write_shapes3d(folder / "3dshapes.h5", noise(len(index), 64, 64, 3),
                          shapes3d_labels(index), chunks=(10, 64, 64, 3), compression="gzip")
    return f"shapes3d:{path},part=yes"


MAKERS = {
    "shapes3d": make_shapes3d,
    "smallnorb": make_norb, "smallnorb_instances": make_norb_instances, "cars3d": make_cars,
    "mpi3d_toy": make_mpi3d,
    "mpi3d_realistic": lambda folder: make_mpi3d(folder).replace("_toy", "_realistic"),
    "mpi3d_real": lambda folder: make_mpi3d(folder).replace("_toy", "_real"),
    "chairs3d": make_chairs, "celeba": make_celeba, "mnist": make_mnist("mnist"),
    "fashion_mnist": make_mnist("fashion_mnist"),
}
