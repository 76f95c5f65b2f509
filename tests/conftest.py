"""Shapes in types are checked here: the hook turns jaxtyping annotations into assertions."""

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

_hook = install_import_hook("unweave", "beartype.beartype")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference material that lies beside a maintainer's checkout; tests that need it skip."""
    if not SHARED.is_dir():
        pytest.skip("reference material is not here")
    return SHARED
