"""What works on this machine, and how to get the rest: the findings behind `unweave doctor`.

Things are tried, not just looked up: a package counts when it imports, a GPU when it has added
numbers, Triton when it has compiled a kernel whose result is right. Nothing is written or fetched.
Nothing heavy is imported above: findings can be had where torch is missing or broken.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import sys
import warnings
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from unweave.report.tables import size_of


@dataclass(frozen=True)
class Finding:
    """One thing of this machine: whether it works, what was found, what to do if it does not."""

    name: str
    works: bool
    found: str
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


OPTIONAL: tuple[tuple[str, str, str, str], ...] = (
    # what it is for, the module to import, the package to install, what is lost without it
    ("figures", "matplotlib", "matplotlib", "`unweave study analyse --out` draws no figures"),
    ("ray", "ray", "ray", "studies run on this machine only"),
    ("s3", "s3fs", "s3fs", "stores are folders, not s3:// addresses"),
    ("onnx", "onnx", "onnx", "encoders cannot be exported to ONNX"),
    ("onnxruntime", "onnxruntime", "onnxruntime", "ONNX encoders cannot be run"),
    ("h5py", "h5py", "h5py", "the published 3D Shapes cannot be read"),
    ("hugging face", "datasets", "datasets", "hf:NAME cannot be read"),
    ("page", "fastapi", "fastapi", "there is no page to play with"),
    ("widgets", "ipywidgets", "ipywidgets", "unweave.notebook.traversal has no sliders"),
)


def findings() -> Iterator[Finding]:
    """Every finding, the ones that everything stands on first."""
    for look in (_python, _torch, _gpu, _triton, _bfloat16, _cores):
        yield look()
    for name, module, package, lost in OPTIONAL:
        yield _package(name, module, package, lost)
    yield _browser()
    for name, look in (("plugins", _plugins), ("data", _data), ("disk", _disk)):
        yield _tried(name, look, "mend torch first")


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding("python", good, f"{platform.python_version()} on {platform.platform()}",
                   "" if good else "use Python 3.11, 3.12 or 3.13")


def _torch() -> Finding:
    try:
        import torch

        total = float((torch.ones(8, 8) @ torch.ones(8, 8)).sum())
    except ModuleNotFoundError:
        return Finding("torch", False, "not installed: nothing can be trained or scored",
                       "pip install torch")
    except Exception as error:  # a broken install fails in many ways
        return Finding("torch", False, _said(error), "pip install --force-reinstall torch")
    return Finding("torch", total == 512.0, torch.__version__)


def _gpu() -> Finding:
    def look() -> Finding:
        import torch

        if not torch.cuda.is_available():
            built = torch.version.cuda
            why = (f"torch was built for CUDA {built} and sees no GPU: check the driver "
                   "(nvidia-smi)" if built else "this torch is built for CPUs: with an NVIDIA GPU, "
                   "install the build that pytorch.org names for its driver")
            return Finding("gpu", False, "none: training takes the CPU", why)
        names = []
        for number in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(number)
            torch.ones(8, device=f"cuda:{number}").sum().item()
            names.append(f"{about.name}, {size_of(about.total_memory)}")
        return Finding("gpu", True, "; ".join(names))

    return _tried("gpu", look, "check torch and the driver (nvidia-smi)")


def _triton() -> Finding:
    def look() -> Finding:
        version = metadata.version("triton")
        importlib.import_module("triton")
        import torch

        if not torch.cuda.is_available():
            return Finding("triton", False, f"{version}, and no GPU to compile for",
                           "nothing to do: on a CPU, plain tensor operations are used")
        from unweave.random import Purpose, Streams

        drawn = [Streams([7], device).uniform(Purpose.NOISE, 0, 64)
                 for device in (torch.device("cpu"), torch.device("cuda"))]
        same = bool(torch.equal(drawn[0], drawn[1].cpu()))
        return Finding("triton", same, version if same else f"{version} computes wrong numbers",
                       "" if same else "upgrade triton together with torch")

    return _tried("triton", look, _how_to_get("triton"))


def _bfloat16() -> Finding:
    def look() -> Finding:
        from unweave.nn import has_bfloat16_units

        fast = has_bfloat16_units()
        return Finding("bfloat16 on the CPU", fast,
                       "native" if fast else "not native: the CPU trains in float32",
                       "" if fast else "nothing to do: another processor would be faster")

    return _tried("bfloat16 on the CPU", look, "mend torch first")


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {size_of(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))} of memory"
    return Finding("cores", True, f"{usable}{memory}")


def _package(name: str, module: str, package: str, lost: str) -> Finding:
    def look() -> Finding:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of their making, not the user's
            importlib.import_module(module)
        return Finding(name, True, f"{package} {metadata.version(package)}")

    return _tried(name, look, _how_to_get(package), missing=f"not installed: {lost}")


def _browser() -> Finding:
    known = ("firefox", "chromium", "chromium-browser", "google-chrome", "microsoft-edge")
    found = next((name for name in known if shutil.which(name)), None)
    if found is None:
        try:
            found = type(webbrowser.get()).__name__ if sys.platform != "linux" else None
        except webbrowser.Error:
            found = None
    return Finding("browser", found is not None, found or "none on this machine",
                   "" if found else "open reports and pages from another machine, or install "
                   "Firefox or Chromium")


def _plugins() -> Finding:
    from unweave.data import DATASETS
    from unweave.metrics import METRICS
    from unweave.objectives import METHODS

    with warnings.catch_warnings(record=True) as refused:
        warnings.simplefilter("always")
        brought = {f"{name} ({package})": None for known in (METHODS, METRICS, DATASETS)
                   for name in known for package in [known.origins.get(name)] if package}
    return Finding("plugins", not refused, ", ".join(brought) or "none",
                   "; ".join(str(warning.message) for warning in refused))


def _data() -> Finding:
    from unweave.data import DATASETS, data_folder
    from unweave.data.fetch import on_disk

    sizes = {name: on_disk(entry.fetch) for name, entry in DATASETS.items() if entry.fetch}
    here = [f"{name} {size_of(size)}" for name, size in sizes.items() if size is not None]
    missing = [name for name, size in sizes.items() if size is None]
    advice = (f"not fetched: {', '.join(missing)}; `unweave data fetch NAME` gets one, dsprites "
              "and shapes3d-render need none") if missing else ""
    return Finding("data", True, f"{data_folder()}: {', '.join(here) or 'no files yet'}", advice)


def _disk() -> Finding:
    from unweave.data import data_folder

    free = {}
    for where in (Path.cwd(), data_folder()):
        there = next(p for p in (where, *where.parents) if p.exists())
        free[str(where)] = shutil.disk_usage(there).free
    enough = min(free.values()) > 2e9
    return Finding("disk", enough, "; ".join(f"{size_of(n)} free at {where}"
                                             for where, n in free.items()),
                   "" if enough else "free some space, or set UNWEAVE_DATA to a larger disk")


def _tried(name: str, look: Callable[[], Finding], advice: str, missing: str = "") -> Finding:
    try:
        return look()
    except (ModuleNotFoundError, metadata.PackageNotFoundError) as error:
        return Finding(name, False, missing or _said(error), advice)
    except (Exception, SystemExit) as error:  # installed and broken: say so, and go on
        return Finding(name, False, f"broken: {_said(error)}", advice)


def _said(error: Exception) -> str:
    first = str(error).strip().splitlines()[:1]
    return f"{type(error).__name__}: {first[0]}" if first else type(error).__name__


def extras() -> dict[str, list[str]]:
    """The extras of the installed unweave, and the packages of each."""
    found: dict[str, list[str]] = {}
    try:
        required = metadata.requires("unweave") or []
    except metadata.PackageNotFoundError:  # run from a folder, never installed
        return found
    for line in required:
        package = re.match(r"[\w.-]+", line)
        for extra in re.findall(r"extra == ['\"]([\w-]+)['\"]", line):
            if package is not None:
                found.setdefault(extra, []).append(package[0].lower())
    return found


def _how_to_get(package: str) -> str:
    """The smallest extra that has a package, or the package itself."""
    fitting = [extra for extra, packages in extras().items()
               if package in packages and extra not in ("dev", "docs", "all")]
    if not fitting:
        return f"pip install {package}"
    return f"pip install 'unweave[{min(fitting, key=lambda e: len(extras()[e]))}]'"
