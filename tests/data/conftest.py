"""A painting, and the data sets by the names a user would give."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import own_files
import published_files
import pytest
from PIL import Image

from unweave.data import FactorDataset, load_data


@pytest.fixture(scope="session")
def painting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A portrait picture in which every pixel of a small neighbourhood differs."""
    y, x = np.mgrid[0:400, 0:300]
    picture = np.stack([x * 255 // 299, y * 255 // 399, (x + y) % 256], axis=-1).astype(np.uint8)
    path = tmp_path_factory.mktemp("painting") / "painting.png"
    Image.fromarray(picture).save(path)
    return path


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What tests keep goes into a folder of their own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNWEAVE_DATA", str(folder))
        yield folder


MAKERS: dict[str, Callable[[Path], str]] = own_files.MAKERS | published_files.MAKERS
"""For data sets that need files: from an empty folder to what `load_data` takes."""


@pytest.fixture(scope="session")
def open_data(painting: Path, tmp_path_factory: pytest.TempPathFactory) -> object:
    """`load_data`, with small files in the real format for the data sets that need them."""
    made = {"scream_dsprites": f"scream_dsprites:{painting}"}

    def load(name: str) -> FactorDataset:
        if name in MAKERS and name not in made:
            made[name] = MAKERS[name](tmp_path_factory.mktemp(name))
        return load_data(made.get(name, name))

    return load
