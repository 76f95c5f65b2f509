"""The documentation site: every page is in it, links and anchors lead somewhere, it builds."""

import importlib
import importlib.util
import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages():
    return sorted(DOCS.rglob("*.md"))


def prose(path):
    """A page without its code and its comments."""
    return re.sub(r"<!--.*?-->", "", CODE.sub("", path.read_text()), flags=re.DOTALL)


def headings(path):
    """The headings of a page, with the text of their links."""
    return [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
            for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)]


def anchors(path):
    """Anchors of the headings of a page, as the site makes them."""
    found = []
    for heading in headings(path):
        plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
        found.append(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


def github_anchors(path):
    """The same as GitHub makes them: every space is a hyphen, also those around a sign."""
    return [re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
            for heading in headings(path)]


def test_the_navigation_has_every_page_once():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = re.findall(r"[\w/-]+\.md", nav)
    assert sorted(listed) == sorted(str(p.relative_to(DOCS)) for p in pages())


@pytest.mark.parametrize("path", pages(), ids=lambda p: str(p.relative_to(DOCS)))
def test_links_lead_to_pages_and_headings_that_exist(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(path))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{path.name}: {target}"
        assert DOCS in there.parents, f"{path.name}: {target} is outside the site"
        if anchor:
            assert anchor in anchors(there), f"{path.name}: {target}"
            assert anchor in github_anchors(there), f"{path.name}: {target} (on GitHub)"


def test_the_reference_names_what_exists():
    names = re.findall(r"^::: ([\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert len(names) > 20
    for name in names:
        module, _, thing = name.rpartition(".")
        found = getattr(importlib.import_module(module), thing)
        assert found.__doc__, name


def test_every_public_name_is_in_the_reference():
    import unweave

    text = (DOCS / "api.md").read_text()
    listed = {name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)}
    dictionaries = {"ARCHITECTURES", "DATASETS", "METHODS", "METRICS"}
    assert set(unweave.__all__) - dictionaries - {"__version__"} <= listed


def test_formulas_can_be_drawn():
    pytest.importorskip("latex2mathml")
    spec = importlib.util.spec_from_file_location("formulas", DOCS / "assets" / "formulas.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    for path in pages():
        text = re.sub(r"`[^`\n]*`", "", prose(path))
        for formula in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL):
            drawn = hook.on_page_content(f'<div class="arithmatex">\\[{formula}\\]</div>')
            assert "<math" in drawn, f"{path}: {formula}"
    with pytest.raises(ValueError, match="cannot draw"):
        hook.on_page_content(r'<span class="arithmatex">\(\nonsense x\)</span>')


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("latex2mathml")
    import os
    import subprocess
    import sys

    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, built.stderr
    for page in ("index", "guide/quick/index", "methods/beta_vae/index", "api/index"):
        assert (tmp_path / f"{page}.html").is_file()
    formula = (tmp_path / "methods" / "beta_vae" / "index.html").read_text()
    assert "<math" in formula
    assert "arithmatex" not in formula
    reference = (tmp_path / "api" / "index.html").read_text()
    assert "Train a method on a data set, one run for each seed" in reference
