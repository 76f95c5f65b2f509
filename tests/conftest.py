"""Shapes in types are checked here: the hook turns jaxtyping annotations into assertions."""

from importlib.util import find_spec
from pathlib import Path

import pytest

import unweave.cli  # noqa: F401 - first: typer reads the signatures that the hook would wrap

if find_spec("beartype") and find_spec("jaxtyping"):  # `make test` installs both
    from jaxtyping import install_import_hook

    _hook = install_import_hook("unweave", "beartype.beartype")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference material that lies beside a maintainer's checkout; tests that need it skip."""
    if not SHARED.is_dir():
        pytest.skip("reference material is not here")
    return SHARED


@pytest.fixture(scope="session")
def sprites():
    """256 real sprites as a small data set: 2 shapes x 2 scales x 8 x 8 positions."""
    import numpy as np

    from unweave.data import load_data, table_dataset

    whole = load_data("dsprites")
    sizes = (2, 2, 8, 8)
    rows = np.stack(np.unravel_index(np.arange(256), sizes), axis=-1)
    picked = np.stack([rows[:, 0], rows[:, 1] * 5, rows[:, 0] * 0, rows[:, 2] * 4 + 2,
                       rows[:, 3] * 4 + 2], axis=-1)
    names = ("shape", "scale", "position_x", "position_y")
    return table_dataset(whole.images(whole.index(picked)), rows, names, name="sprites")
