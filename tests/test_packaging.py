"""The package as it is given away: what a wheel and an sdist hold, and what they say."""

import re
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import unweave

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A wheel and an sdist of this checkout."""
    backend = pytest.importorskip("hatchling.build")
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return (folder / backend.build_wheel(str(folder)),
                folder / backend.build_sdist(str(folder)))


def test_the_wheel_holds_the_package_and_nothing_else(build):
    with zipfile.ZipFile(build[0]) as wheel:
        names = set(wheel.namelist())
        (about,) = [n for n in names if n.endswith("dist-info/METADATA")]
        said = Parser().parsestr(wheel.read(about).decode())
    source = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "unweave").rglob("*.py")}
    assert source <= names
    assert "unweave/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"unweave"}
    assert not [name for name in names if name.endswith(".pyc")]
    assert said["Version"] == unweave.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert set(PROJECT["optional-dependencies"]) <= set(said.get_all("Provides-Extra"))


def test_the_sdist_holds_what_tests_and_docs_need(build):
    with tarfile.open(build[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile",
            "constraints.txt", "mkdocs.yml", "src/unweave/__init__.py", "tests/conftest.py",
            "docs/index.md"} <= names
    assert not [name for name in names if name.startswith((".git/", ".venv", "site/"))]


def test_the_version_is_semantic_and_the_same_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", unweave.__version__)
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {unweave.__version__}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation
    assert "cff-version: 1.2.0" in citation


def test_the_core_brings_none_of_the_extras():
    def names(lines):
        return {re.match(r"[\w.-]+", line)[0] for line in lines}

    core = names(PROJECT["dependencies"])
    for extra, lines in PROJECT["optional-dependencies"].items():
        if extra != "dev":
            assert not names(lines) & core, extra


def test_every_extra_is_documented():
    page = (ROOT / "docs" / "install.md").read_text()
    for extra in PROJECT["optional-dependencies"]:
        assert f"`{extra}`" in page, f"docs/install.md does not say what {extra} is for"
