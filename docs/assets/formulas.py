"""A hook of the site: formulas become MathML when it is built; no script is loaded for them.

The Markdown extension `arithmatex` marks what stands between dollar signs; browsers draw MathML.
"""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_MARKED = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(page_html: str, /, **_: object) -> str:
    """The page with every marked formula drawn."""
    return _MARKED.sub(_drawn, page_html)


def _drawn(found: re.Match[str]) -> str:
    block = found[2] == "["
    formula = html.unescape(found[3]).strip().replace(r"\arg", r"\operatorname{arg}")
    drawn = convert(formula, display="block" if block else "inline")
    if unknown := re.search(r">\\(\w+)", drawn):
        raise ValueError(f"the site cannot draw \\{unknown[1]} in {formula!r}: write it otherwise")
    return f'<div class="formula">{drawn}</div>' if block else drawn
