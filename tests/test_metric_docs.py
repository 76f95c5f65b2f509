"""The pages of metrics say what the code declares: keys, settings, pictures and numbers agree."""

import ast
import re
from pathlib import Path

import pytest
from PIL import Image

from unweave.metrics import ACROSS_RUNS, CONVENTIONS
from unweave.metrics import METRICS as OF_ONE_RUN

METRICS = {**OF_ONE_RUN, **ACROSS_RUNS}
ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "metrics"
PICTURES = ROOT / "docs" / "pictures" / "metrics"
SECTIONS = ["Formula", "Paper", "Range", "What it rewards", "What fools it", "Conventions", "Cost"]
EVERY_METRIC = pytest.mark.parametrize("name", METRICS)


def text_of(name):
    return (PAGES / f"{name}.md").read_text()


def sections(text):
    """Headings of the second level and what is below them, in order."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def tables(text, first):
    """Rows, as {first cell: {column: cell}}, of the tables whose first column has this heading."""
    found, heads = {}, None
    for line in text.splitlines():
        if not line.startswith("|"):
            heads = None
            continue
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if heads is None:
            heads = cells
        elif heads[0] == first and not cells[1].startswith("---"):
            found[cells[0]] = dict(zip(heads[1:], cells[1:]))
    return found


def test_every_metric_has_a_page_and_every_page_a_metric():
    assert {page.stem for page in PAGES.glob("*.md")} == {*METRICS, "index"}
    assert {picture.stem for picture in PICTURES.glob("*.png")} == set(METRICS)


@EVERY_METRIC
def test_sections(name):
    text = text_of(name)
    found = sections(text)
    assert text.startswith(f"# {name}\n")
    assert list(found) == SECTIONS
    assert all(body.strip() for body in found.values())
    assert found["Formula"].count("$$") in (2, 4)
    assert all(f"`{key}`" in text for key in METRICS[name].keys)


@EVERY_METRIC
def test_settings_are_those_of_the_conventions(name):
    table = tables(sections(text_of(name))["Conventions"], "setting")
    for convention in CONVENTIONS:
        said = {setting: ast.literal_eval(row[convention]) for setting, row in table.items()}
        assert said == dict(METRICS[name].conventions[convention]), convention


@EVERY_METRIC
def test_the_picture_is_there_and_small(name):
    path = PICTURES / f"{name}.png"
    assert f"](../pictures/metrics/{name}.png)" in sections(text_of(name))["What fools it"]
    assert path.stat().st_size < 25_000
    with Image.open(path) as picture:
        assert picture.size == (700, 300)


@EVERY_METRIC
def test_scores_are_those_of_the_table(name):
    whole = tables(text_of("index"), "key")
    own = tables(sections(text_of(name))["What fools it"], "key")
    assert own
    assert set(own) == set(whole) & set(METRICS[name].keys)
    for key, row in own.items():
        assert {"perfect", "entangled"} <= set(row)
        assert row.items() <= whole[key].items()
        said = METRICS[name].keys[key].range
        assert all(said.low <= float(value) <= said.high for value in whole[key].values())


@EVERY_METRIC
def test_the_index_lists_the_metric(name):
    (row,) = [line for line in text_of("index").splitlines() if f"[{name}]({name}.md)" in line]
    metric = METRICS[name]
    better = {True: "higher", False: "lower", None: "-"}[metric.higher_is_better]
    assert all(f"`{key}`" in row for key in metric.keys)
    assert metric.summary in row
    assert f"| {better} |" in row
    assert metric.paper in row
    assert name in tables(sections(text_of("index"))["Cost"], "metric")
