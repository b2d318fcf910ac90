"""Pictures of results, and the page that `--report` writes: one file with all in it."""

from __future__ import annotations

import base64
import html
import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gtsam

from gtsam_sdp.cli.answer import Answer
from gtsam_sdp.errors import DatasetError, MatplotlibNotInstalledError
from gtsam_sdp.files.datasets import PoseGraphFile
from gtsam_sdp.progress import report_now

_PICTURES = (".png", ".svg", ".pdf")

_STYLE = """\
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; background: #fff;
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0; display: block; overflow-x: auto; }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #d0d7de; text-align: left; white-space: nowrap; }
img { max-width: 100%; height: auto; }
pre { overflow-x: auto; }
.error { color: #b3261e; }
summary { cursor: pointer; font-weight: 600; }
"""


def check_pictures(path: Path | None) -> None:
    """Raises where pictures cannot be drawn, or not with this name.

    Raises:
        DatasetError, MatplotlibNotInstalledError: says what to do.
    """
    if path is not None and path.suffix.lower() not in _PICTURES:
        raise DatasetError(f"--plot {path}: the name has to end with {', '.join(_PICTURES)}.")
    try:
        importlib.import_module("matplotlib").use("Agg")  # no window
    except ImportError:
        raise MatplotlibNotInstalledError('Pictures need matplotlib: pip install "gtsam-sdp[plot]".') from None


def save_picture(path: Path, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, found: Any) -> None:
    """The trajectory, coloured by the share of each factor in the cost."""
    from gtsam_sdp.plot import plot_trajectory

    _save(plot_trajectory(graph, values, found), path, path.suffix[1:].lower())


def _save(axes: Any, target: Path | io.BytesIO, kind: str) -> None:
    figure = axes.figure
    try:
        figure.savefig(target, format=kind, dpi=150)
    finally:
        importlib.import_module("matplotlib.pyplot").close(figure)


def section(start: str, file: PoseGraphFile, values: gtsam.Values, found: Any) -> str:
    """The part of the page about one file: where its values come from, verdict, tables, pictures."""
    from gtsam_sdp.plot import plot_comparison, plot_stages, plot_trajectory

    report_now("drawing")
    graph, certificate = file.graph, getattr(found, "certificate", found)
    drawn = [("What the factors cost", plot_trajectory(graph, values, found))]
    if certificate is not None and certificate.gap > 0 and not certificate:
        drawn.append(("Where the gap is", plot_trajectory(graph, values, found, by="gap")))
    if file.has_values:
        drawn.append(("The file's values and the result", plot_comparison(graph, file.initial, values)))
    if hasattr(found, "stages"):
        drawn.append(("Cost and bound over the time", plot_stages(found)))
    result = "" if found is None else found._repr_html_()
    return f"<pre>{html.escape(start)}</pre>{result}{''.join(_picture(*each) for each in drawn)}"


def _picture(title: str, axes: Any) -> str:
    content = io.BytesIO()
    _save(axes, content, "png")
    data = base64.b64encode(content.getvalue()).decode()
    return f'<figure><figcaption>{title}</figcaption><img alt="{title}" src="data:image/png;base64,{data}"></figure>'


def page(title: str, answers: Sequence[Answer], heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The page about some files: a table of all where they are many, and a section each.

    Args:
        title: of the page.
        answers: with their sections.
        heads: of the table of all.
        rows: of this table, one for each answer.
    """
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if len(answers) > 1:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(f"<table><tr>{head}</tr>{body}</table>")
    for answer in answers:
        told = "".join(f'<p class="error">{html.escape(error)}</p>' for error in answer.errors)
        name, is_open = html.escape(answer.name), " open" if len(answers) == 1 else ""
        parts.append(f"<details{is_open}><summary>{name}</summary>{told}{answer.section}</details>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )
