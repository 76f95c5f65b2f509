"""Python on the pages runs as it stands: the blocks of a page in order, in one namespace.

Each page runs in an empty folder. Trainings are cut to two steps. `<!-- needs: package -->` above a
block runs it where that package is installed, `<!-- not run: why -->` nowhere.
Pages of methods are checked in `test_docs.py`, whose trainings are long.
"""

import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import unweave

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n|<!-- needs: (?P<needs>\w+) -->\n)?"
                   r"```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def pages():
    return [path for path in sorted(DOCS.rglob("*.md")) if path.parent != DOCS / "methods"
            and BLOCK.search(path.read_text())]


def given(path):
    """Names that a reader of the pages of metrics is supposed to have already."""
    if path.parent != DOCS / "metrics":
        return {}
    rng = np.random.default_rng(0)
    classes = rng.integers(0, [3, 4, 5, 6], size=(240, 4))
    factors = classes.astype(float)
    factors[:, 3] *= 60.0  # degrees
    return {"codes": classes + 0.1 * rng.normal(size=classes.shape), "factors": factors,
            "codes_per_run": rng.normal(size=(3, 200, 4)), "kl_per_run": np.ones((3, 4)),
            "unweave": unweave}


@pytest.fixture
def registers():
    """What a page adds to the dictionaries goes when the page is done."""
    known = (unweave.METHODS, unweave.METRICS, unweave.DATASETS)
    before = [dict(entries) for entries in known]
    yield
    for entries, old in zip(known, before):
        for name in set(entries) - set(old):
            del entries[name]


@pytest.mark.parametrize("path", pages(), ids=lambda p: str(p.relative_to(DOCS)))
def test_the_blocks_of_a_page_run(path, tmp_path, monkeypatch, registers):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    text, namespace = path.read_text(), {"__name__": "page"} | given(path)
    for found in BLOCK.finditer(text):
        if found["reason"] or (found["needs"] and find_spec(found["needs"]) is None):
            continue
        code = re.sub(r"\bsteps=[\d_]+", "steps=2", found["code"])
        line = text.count("\n", 0, found.start("code"))
        compiled = compile("\n" * line + code, str(path), "exec")  # errors name the page's line
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compiled, namespace)


def test_a_block_that_is_not_run_says_why():
    text = ("<!-- not run: takes a day -->\n```python\nx\n```\n\n```python\ny\n```\n"
            "<!-- needs: ray -->\n```python\nz\n```\n")
    said = [(found["reason"], found["needs"]) for found in BLOCK.finditer(text)]
    assert said == [("takes a day", None), (None, None), (None, "ray")]


def test_few_blocks_are_left_out():
    found = [match for path in pages() for match in BLOCK.finditer(path.read_text())]
    assert sum(match["reason"] is not None for match in found) <= len(found) // 5
