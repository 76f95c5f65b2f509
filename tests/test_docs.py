"""The pages of methods say what the code does: letters, commands and links are checked."""

import re
import shlex
from pathlib import Path

import pytest

import unweave
import unweave.training
from unweave import cli
from unweave.objectives import METHODS, complete, letters
from unweave.types import Range

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "methods"
SECTIONS = ["Objective", "Letters", "Source", "When to use it", "What to expect", "Try it",
            "Known mistakes elsewhere"]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(name):
    return (PAGES / f"{name}.md").read_text()


def sections(text):
    """Headings of the second level and what is below them, in order; code is not searched."""
    prose = BLOCK.sub(lambda block: block[0].replace("#", " "), text)
    parts = re.split(r"^## (.*)$", prose, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def letter_table(name):
    """{letter: (default, allowed, scope, meaning)} of a page."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in sections(text_of(name))["Letters"].splitlines() if line.startswith("|")]
    assert rows[0] == ["letter", "default", "allowed", "scope", "meaning"]
    return {row[0].strip("`"): tuple(row[1:]) for row in rows[2:]}


def blocks(text, language):
    return [body for found, body in BLOCK.findall(text) if found == language]


def commands(text):
    """The `unweave train` lines of a page's code blocks."""
    return [line for block in blocks(text, "") for line in block.splitlines()
            if line.startswith("unweave train ")]


def letters_of(command):
    """The letters in the --set parts of a command, as a mapping to lists of values."""
    words = shlex.split(command)
    pairs = [words[i + 1].partition("=") for i, word in enumerate(words) if word == "--set"]
    assert all(equals and value for _, equals, value in pairs)
    return {name: value.split(",") for name, _, value in pairs}


class Planned(Exception):
    """Training was asked for: carries the configs of the runs."""


def planned(monkeypatch, start):
    """What `start` would train, without training it."""
    def instead(method, data="dsprites", *, out=None, resume=False, **given):
        raise Planned(unweave.training.plan(method, data, **given))

    monkeypatch.setattr(unweave.training, "train", instead)
    monkeypatch.setattr(unweave, "train", instead, raising=False)
    with pytest.raises(Planned) as caught:
        start()
    return caught.value.args[0]


def test_every_method_has_a_page_and_every_page_a_method():
    assert {page.stem for page in PAGES.glob("*.md")} == {*METHODS, "index", "players"}


@EVERY_METHOD
def test_sections(method):
    text = text_of(method)
    found = sections(text)
    assert text.startswith(f"# {method}\n")
    assert list(found) == SECTIONS
    assert all(body.strip() for body in found.values())
    assert found["Objective"].count("$$") in (2, 4)
    assert all(alias in text for alias in METHODS[method].aliases)


@EVERY_METHOD
def test_letters_are_listed_with_what_they_are(method):
    table = letter_table(method)
    assert list(table) == list(letters(method))
    for name, letter in letters(method).items():
        default, allowed, scope, meaning = table[name]
        assert letter.check(method, default) == letter.default, name
        assert scope == ("per run" if letter.per_run else "shared"), name
        assert meaning, name
        if isinstance(letter.allowed, tuple):
            assert allowed == ", ".join(letter.allowed), name
        elif isinstance(letter.allowed, Range):
            assert allowed == str(letter.allowed), name
        else:
            assert str(letter.allowed).startswith(allowed), name


@EVERY_METHOD
def test_the_index_lists_the_method(method):
    (row,) = [line for line in text_of("index").splitlines() if f"]({method}.md)" in line]
    main = re.findall(r"`(\w+)`", row.split("|")[3])
    assert set(main) <= set(letters(method))
    assert bool(main) == bool(letters(method))
    assert all(f"`{alias}`" in row for alias in METHODS[method].aliases)


STARTS = {"vade": ("vae", "beta_tcvae")}
"""Other methods that a page trains, to start its own from."""


@pytest.mark.parametrize("page", ["index", *METHODS])
def test_commands_are_accepted(monkeypatch, page):
    lines = commands(text_of(page))
    assert lines
    for line in lines:
        method, given = line.split()[2], letters_of(line)
        assert page in ("index", method) or method in STARTS.get(page, ())
        for name, values in given.items():
            for value in values:
                complete(method, {name: value})
        configs = planned(monkeypatch, lambda line=line: cli.main(shlex.split(line)[1:]))
        for name, values in given.items():
            known = letters(method)[name]
            assert {c[name] for c in configs} == {known.check(method, v) for v in values}


@EVERY_METHOD
def test_python_and_command_line_are_the_same_runs(monkeypatch, method):
    text = text_of(method)
    (script,) = blocks(text, "python")
    line = commands(text.split("## Try it")[1])[0]
    typed = planned(monkeypatch, lambda: cli.main(shlex.split(line)[1:]))
    written = planned(monkeypatch, lambda: exec(compile(script, f"{method}.md", "exec"), {}))
    assert [c.run_id for c in typed] == [c.run_id for c in written]


def documents():
    readme = ROOT / "README.md"
    return sorted((ROOT / "docs").rglob("*.md")) + ([readme] if readme.exists() else [])


@pytest.mark.parametrize("path", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_resolve(path):
    prose = BLOCK.sub("", path.read_text())
    prose = re.sub(r"\$\$.*?\$\$|`[^`\n]*`", "", prose, flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)[^)]*\)", prose)
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, flags=re.MULTILINE)
    for target in targets:
        if re.match(r"[a-z][a-z0-9+.-]*:|#", target):
            continue
        assert (path.parent / target.partition("#")[0]).exists(), f"{path.name}: {target}"
