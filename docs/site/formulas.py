"""Turns formulas into MathML when the site is built: browsers draw it themselves, without a script or a network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(div|span) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)
_TAG = re.compile(r"\\tag\{(\w+)\}")


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs for the HTML of every page."""
    return _FORMULA.sub(lambda found: mathml(html.unescape(found.group(2)), is_block=found.group(1) == "div"), content)


def mathml(formula: str, *, is_block: bool) -> str:
    """A formula of LaTeX as MathML; the number of an equation, `\\tag{6}`, behind it."""
    tag = _TAG.search(formula)
    number = rf" \qquad ({tag.group(1)})" if tag else ""
    return convert(_TAG.sub("", formula).strip() + number, display="block" if is_block else "inline")
