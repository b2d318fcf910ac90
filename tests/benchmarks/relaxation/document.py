"""The document as sections under their headings, of which some can be replaced."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

TITLE = """# Benchmarks of the relaxation

Made by `python -m tests.benchmarks.relaxation FOLDER`, each section on its own (`--only`). Times are single runs unless
said otherwise."""


def sections_of(text: str) -> dict[str, str]:
    """What stands under each heading of second order."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("## "):
            lines = found.setdefault(line[3:].strip(), [])
        else:
            lines.append(line)
    return {heading: "\n".join(body).strip() for heading, body in found.items()}


def with_section(text: str, heading: str, body: str, order: Sequence[str]) -> str:
    """The document with a section replaced or added; sections in the given order, unknown ones after them."""
    sections = sections_of(text) | {heading: body.strip()}
    known = [name for name in order if name in sections]
    others = [name for name in sections if name not in known]
    parts = [f"## {name}\n\n{sections[name]}" for name in known + others]
    return "\n\n".join([TITLE, *parts]) + "\n"


def filled(paragraph: str) -> str:
    """A paragraph in lines of at most 118 characters."""
    return textwrap.fill(paragraph, 118, break_long_words=False, break_on_hyphens=False)
