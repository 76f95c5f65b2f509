"""Versions: what a bug report needs, for `unweave --version --verbose`.

Read from what is installed, without importing any of it.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

from unweave.version import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "triton", "pyarrow", "duckdb",
            "typer", "rich", "pillow", "safetensors", "matplotlib", "ray", "s3fs", "onnx",
            "onnxruntime", "h5py", "datasets", "fastapi", "uvicorn", "ipywidgets")


def versions() -> list[tuple[str, str]]:
    """Versions of unweave, Python, the system and every package that unweave may use."""
    found = [("unweave", __version__), ("installed at", str(Path(__file__).parents[1])),
             ("python", f"{platform.python_version()} ({sys.executable})"),
             ("system", platform.platform()), ("processor", _processor())]
    for package in PACKAGES:
        try:
            found.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            found.append((package, "not installed"))
    settings = [f"{k}={v}" if k in ("UNWEAVE_DATA", "UNWEAVE_RESIDENT") else f"{k} is set"
                for k, v in sorted(os.environ.items()) if k.startswith("UNWEAVE_")]
    return [*found, ("settings", ", ".join(settings) or "none")]


def _processor() -> str:
    try:
        about = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    model = re.search(r"^model name\s*:\s*(.+)$", about, re.MULTILINE)
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores"
