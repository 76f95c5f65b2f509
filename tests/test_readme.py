"""The README a newcomer reads first: its tree is complete and its code runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_tree_has_a_line_for_every_file():
    tree = README.split("## The house")[1]
    for path in sorted((ROOT / "src" / "unweave").rglob("*.py")):
        if path.name == "__init__.py" and path.parent.name != "unweave":
            continue
        line = re.search(rf"^\s*{re.escape(path.name)}\s+\S", tree, re.MULTILINE)
        assert line, f"{path.relative_to(ROOT)} is not in the README's tree"


def test_the_tree_has_a_line_for_every_script():
    scripts = README.split("\nbench/\n")[1].split("\ndocs/")[0]
    assert re.findall(r"^  (\w+\.py) +\S", scripts, re.MULTILINE)
    for path in (ROOT / "bench").glob("*.py"):
        assert f"\n  {path.name} " in f"\n{scripts}", f"{path.name} is not in the README's tree"


def test_the_eight_lines_of_python_run(tmp_path, monkeypatch):
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) <= 8
    short = re.sub(r"steps=[\d_]+", "steps=2", block)
    assert short != block
    monkeypatch.chdir(tmp_path)
    exec(compile(short, "README.md", "exec"), {})
    assert list((tmp_path / "runs").glob("*/run.json"))


def test_the_two_commands_are_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in README
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("picture", re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README))
def test_pictures_are_there(picture):
    assert (ROOT / picture).is_file()
