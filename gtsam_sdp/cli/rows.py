"""Answers about many files: a row each, as CSV or in a table."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from gtsam_sdp.cli.answer import BAD_INPUT, CERTIFIED, INTERRUPTED, Answer
from gtsam_sdp.cli.streams import table_text
from gtsam_sdp.results.notes import percent

Row = Mapping[str, Any]

_RESULT = ("file", "keys", "factors", "cost", "lower_bound", "relative_gap", "status", "seconds", "error")
_INFO = ("file", "dimension", "keys", "factors", "components", "cost_at_start", "error")
COLUMNS: Mapping[str, Sequence[str]] = {
    "certify": _RESULT,
    "solve": _RESULT,
    "info": _INFO,
    "list": ("name", "dimension", "keys", "factors", "format"),
}
_TEXTS = {"file", "name", "status", "error", "format"}


def row_of(answer: Answer) -> Row:
    """The facts that a row shows."""
    facts = dict(answer.facts)
    certificate = facts.get("certificate") or {}
    for name in ("keys", "factors"):
        if isinstance(facts.get(name), Mapping):
            facts[name] = sum(facts[name].values())
    facts |= {name: certificate[name] for name in ("cost", "lower_bound", "relative_gap", "status") if certificate}
    if "certificate" in facts and not certificate:
        facts["status"] = "interrupted"
    if answer.errors:
        facts = {"status": "error", **facts}
    return {**facts, "file": answer.name, "error": "; ".join(answer.errors)}


def done_text(row: Row) -> str:
    """A row as a line of progress."""
    gap = f", gap {_cell('relative_gap', row['relative_gap'])}" if "relative_gap" in row else ""
    seconds = f", {row['seconds']:.2f} s" if "seconds" in row else ""
    return f"{row['file']}: {row.get('status', 'read')}{gap}{seconds}"


def csv_line(cells: Iterable[object]) -> str:
    """A line of a CSV file, without its end."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def cells(row: Row, columns: Sequence[str]) -> list[str]:
    """A row for people."""
    return [_cell(name, row.get(name)) for name in columns]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "relative_gap":
        return percent(value)
    if name == "seconds":
        return f"{value:.2f}"
    if name == "error":
        return str(value).split("\n")[0]
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Rows below each other; columns in which nothing is are left out."""
    shown = [name for name in columns if any(row.get(name) not in (None, "") for row in rows)]
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in shown:
        drawn.add_column(
            name.replace("_", " "), justify="left" if name in _TEXTS else "right", no_wrap=name not in _TEXTS,
            overflow="fold",
        )  # fmt: skip
    for row in rows:
        drawn.add_row(*cells(row, shown))
    return table_text(drawn)


def summary(answers: Sequence[Answer]) -> str:
    """How many files ended how: `12 certified, 3 not certified, 1 with an error`."""
    names = {CERTIFIED: "certified", BAD_INPUT: "with an error", INTERRUPTED: "interrupted"}
    counts = Counter(names.get(answer.status, "not certified") for answer in answers)
    return ", ".join(f"{count} {name}" for name, count in counts.items())
