"""A hook of the site: formulas become MathML when it is built; no script is loaded for them.

The Markdown extension `arithmatex` marks what stands between dollar signs; browsers draw MathML.
"""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

_MARKED = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)
_SPACE = "http://www.w3.org/1998/Math/MathML"
_BAR = "―"  # what `\overline` becomes
_OPERATORS = {"log", "exp", "max", "min", "arg"}

ElementTree.register_namespace("", _SPACE)


def on_page_content(page_html: str, /, **_: object) -> str:
    """The page with every marked formula drawn."""
    return _MARKED.sub(_drawn, page_html)


def _drawn(found: re.Match[str]) -> str:
    block = found[2] == "["
    formula = html.unescape(found[3]).strip().replace(r"\arg", r"\operatorname{arg}")
    drawn = convert(formula, display="block" if block else "inline")
    if unknown := re.search(r">\\(\w+)", drawn):
        raise ValueError(f"the site cannot draw \\{unknown[1]} in {formula!r}: write it otherwise")
    root = ElementTree.fromstring(drawn)
    for element in list(root.iter()):
        _improve(element)
    drawn = ElementTree.tostring(root, encoding="unicode")
    return f'<div class="formula">{drawn}</div>' if block else drawn


def _improve(element: ElementTree.Element) -> None:
    """Bars as wide as what is below them, in any font; a gap between `log` and its argument."""
    if element.tag == f"{{{_SPACE}}}mover" and element[1].text == _BAR:
        element.tag = f"{{{_SPACE}}}mrow"
        element.set("class", "bar")
        element.remove(element[1])
    for place in range(len(element) - 2, -1, -1):
        after = element[place + 1]
        if element[place].text in _OPERATORS and after.text not in ("(", "[", ")"):
            element.insert(place + 1, ElementTree.Element(f"{{{_SPACE}}}mspace", width="0.17em"))
