"""Shapes in types are checked here: the hook turns jaxtyping annotations into assertions.

Without a GPU, Triton's interpreter runs the kernels, on tensors of the CPU.
"""

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import unweave.cli

# A script's background jobs ignore Ctrl-C, and so would the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("beartype") and find_spec("jaxtyping"):  # `make test` installs both
    from jaxtyping import install_import_hook

    def _checked() -> list[str]:
        """Modules with types to check: not those of Triton, which compiles a function's source."""
        root = Path(unweave.cli.__file__).parent
        found = [path for path in root.rglob("*.py") if path.name != "__init__.py"
                 and "import triton" not in path.read_text()]
        return [".".join(("unweave", *path.relative_to(root).with_suffix("").parts))
                for path in found]

    _hook = install_import_hook(_checked(), "beartype.beartype")

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
    from small import make_sprites

    return make_sprites()
