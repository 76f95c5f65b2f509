"""Imports run one way: cli -> report -> studies -> training -> {data, nn, objectives}."""

import ast
from pathlib import Path

import pytest

import unweave

ROOT = Path(unweave.__file__).parent
FLOOR = {"types", "factors", "random", "version", "plugins", "markup"}
BELOW_REPORT = FLOOR | {"config", "data", "nn", "objectives", "metrics", "training", "studies"}
ALLOWED = {
    "data": FLOOR,
    "nn": FLOOR,
    "objectives": {"types", "version", "plugins"},
    "metrics": FLOOR,
    "training": FLOOR | {"config", "data", "nn", "objectives"},
    "studies": FLOOR | {"config", "data", "nn", "objectives", "metrics", "training"},
    "report": BELOW_REPORT,
    "torch": BELOW_REPORT,
    "torchmetrics": BELOW_REPORT,
    "sklearn": BELOW_REPORT | {"torch"},
    "export": BELOW_REPORT | {"torch"},
    "commands": BELOW_REPORT | {"report", "export"},
    "notebook": FLOOR | {"training", "report"},
    "plugins": {"types"},
    "markup": set(),
    "types": set(),
    "factors": {"types"},
    "random": {"philox"},
    "philox": set(),
    "config": {"types"},
    "version": set(),
}


def rooms_imported(source: str, package: tuple[str, ...]) -> set[str]:
    """Rooms of unweave that a module imports, at its top or inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = ("unweave", *package)[: len(package) + 2 - node.level]
            names = [".".join((*base, node.module or "")).rstrip(".")]
        elif isinstance(node, ast.ImportFrom):
            names = ([f"unweave.{alias.name}" for alias in node.names]
                     if node.module == "unweave" else [node.module])
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("unweave.")}
    return found


def modules() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).parts[0]
                  not in ("__init__.py", "__main__.py", "cli.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_one_way(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    room = parts[0]
    assert room in ALLOWED, f"{room} is not a room of DESIGN: say here what it may import"
    wrong = rooms_imported(path.read_text(), parts[:-1]) - ALLOWED[room] - {room}
    assert not wrong, f"{path.relative_to(ROOT)} must not import {sorted(wrong)}"


def test_the_check_sees_every_form_of_import():
    source = "import unweave.nn\nfrom unweave import data\nfrom ..metrics import mig\n"
    assert rooms_imported(source, ("training",)) == {"nn", "data", "metrics"}


def test_public_names_exist_and_are_written_out():
    for name in unweave.__all__:
        assert getattr(unweave, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = unweave.nothing
