"""A painting, and the data sets by the names a user would give."""

from pathlib import Path

import numpy as np
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


@pytest.fixture
def open_data(painting: Path) -> object:
    """`load_data`, with the painting for the data set that needs one."""

    def load(name: str) -> FactorDataset:
        return load_data(f"{name}:{painting}" if name == "scream_dsprites" else name)

    return load
