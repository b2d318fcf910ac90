"""Puts sections of other documents into pages, or all of one: `{{ README.md # Limits }}`, `{{ CONTRIBUTING.md }}`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent.parent
_PLACE = re.compile(r"^\{\{ (\S+)(?: # (.+?))? \}\}$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page."""
    return _PLACE.sub(lambda place: section(place.group(1), place.group(2)), markdown)


def section(name: str, heading: str | None) -> str:
    """A document without its title, or what stands below one of its headings; links are as seen from `docs/`."""
    text = (_ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
    title = "# " if heading is None else f"## {heading}\n"
    if f"\n{title}" not in f"\n{text}":
        raise ValueError(f"{name} has no heading {heading!r}")
    body = f"\n{text}".split(f"\n{title}", 1)[1]
    return body.split("\n", 1)[1] if heading is None else re.split(r"\n## ", body, maxsplit=1)[0]
