"""Reports for people who know GTSAM and not semidefinite programming: text and HTML."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from gtsam_sdp.errors import format_key

if TYPE_CHECKING:
    from gtsam_sdp.certificate import Certificate, FactorTerm

_MEANING = {
    "EXACT": "equal to the factor's cost everywhere",
    "TANGENT": "equal, or nearly, at these values and below it elsewhere",
    "LOWER_BOUND": "below the factor's cost, possibly far",
    "DROPPED": "left out, counts as 0",
}


def percent(share: float) -> str:
    """A relative gap as a percentage that keeps its leading digits: `0.0016%`, `1.6e-06%`."""
    if share == 0:
        return "0%"
    value = 100 * share
    return f"{value:.2g}%" if value < 1e-4 else f"{float(f'{value:.2g}'):g}%"


def headline(certificate: Certificate) -> str:
    """The verdict in one sentence."""
    status = certificate.status.name
    gap = percent(certificate.relative_gap)
    if status == "CERTIFIED" and not certificate.relative_gap:
        return "CERTIFIED: the cost is zero up to rounding, no solution is better"
    if status == "CERTIFIED":
        return f"CERTIFIED: no solution is better by more than {gap}"
    if status == "BOUNDED":
        return f"BOUNDED: no solution is better by more than {gap} (asked for: {percent(certificate.tolerance)})"
    return "INCONCLUSIVE: no useful lower bound was found; this does not mean that the solution is wrong"


def _proof(certificate: Certificate) -> str:
    return "proven for all values" if certificate.lower_bound > 0 else "trivial"


def _share(certificate: Certificate) -> str:
    if certificate.gap and not certificate.relative_gap:
        return "the cost is zero up to rounding"
    return f"{percent(certificate.relative_gap)} of the cost"


def _rows(certificate: Certificate) -> list[tuple[str, str]]:
    counts = ", ".join(f"{n} {name.lower().replace('_', ' ')}" for name, n in certificate.terms.counts().items())
    stationarity = certificate.stationarity
    rows = [
        ("cost", f"{certificate.cost:.10g}   graph.error(values)"),
        ("lower bound", f"{certificate.lower_bound:.10g}   {_proof(certificate)}"),
        ("gap", f"{certificate.gap:.3g}   {_share(certificate)}"),
        ("terms", f"{len(certificate.terms)} factors: {counts}"),
    ]
    if np.isfinite(stationarity):
        rows.append(("stationarity", f"one more optimizer step would gain {percent(stationarity)}"))
    rows.append(("method", f"{certificate.method}, {1e3 * sum(certificate.timings.values()):.0f} ms"))
    return rows


def _limits(certificate: Certificate) -> list[FactorTerm]:
    """The factors that limit the gap, if factors are what limits it."""
    if certificate.gap <= 0:
        return []
    return [t for t in certificate.terms.largest(3) if t.contribution > 0.01 * certificate.gap]


def certificate_text(certificate: Certificate) -> str:
    """The report that `print(certificate)` shows."""
    lines = [headline(certificate)]
    lines += [f"  {name:<13} {text}" for name, text in _rows(certificate)]
    limits = _limits(certificate)
    if limits and not certificate:
        lines.append("  largest contributions to the gap:")
        lines += [
            f"    factor {t.index} ({t.type} on {', '.join(format_key(k) for k in t.keys)}): {t.contribution:.3g}, "
            f"{t.exactness.name.lower().replace('_', ' ')}"
            for t in limits
        ]
    lines += [f"  note: {note}" for note in certificate.notes]
    return "\n".join(lines)


def _html_row(name: str, text: str) -> str:
    """A row of the table: the number, and what it is, in cells of their own."""
    number, _, remark = text.partition("   ")
    cells = (
        f"<td style='text-align:left'>{html.escape(number)}</td><td style='text-align:left'>{html.escape(remark)}</td>"
    )
    return f"<tr><th style='text-align:left'>{name}</th>{cells}</tr>"


def certificate_html(certificate: Certificate) -> str:
    """The table that Jupyter shows."""
    colour = {"CERTIFIED": "#1a7f37", "BOUNDED": "#9a6700", "INCONCLUSIVE": "#57606a"}[certificate.status.name]
    rows = "".join(_html_row(name, text) for name, text in _rows(certificate))
    parts = [
        f"<div><strong style='color:{colour}'>{html.escape(headline(certificate))}</strong>",
        f"<table>{rows}</table>",
    ]
    limits = _limits(certificate)
    if limits and not certificate:
        body = "".join(
            f"<tr><td>{t.index}</td><td>{html.escape(t.type)}</td>"
            f"<td>{html.escape(', '.join(format_key(k) for k in t.keys))}</td>"
            f"<td title='{html.escape(_MEANING[t.exactness.name], quote=True)}'>"
            f"{t.exactness.name.lower().replace('_', ' ')}</td>"
            f"<td>{t.cost:.4g}</td><td>{t.contribution:.3g}</td></tr>"
            for t in limits
        )
        heads = "".join(f"<th>{h}</th>" for h in ("factor", "type", "keys", "term", "cost", "adds to gap"))
        parts.append(f"<table><tr>{heads}</tr>{body}</table>")
    parts += [f"<div>note: {html.escape(note)}</div>" for note in certificate.notes]
    return "".join(parts) + "</div>"
