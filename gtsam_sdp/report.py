"""Reports for people who know GTSAM and not semidefinite programming; `gtsam_sdp.tables` has them for Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gtsam_sdp.errors import format_key

if TYPE_CHECKING:
    from gtsam_sdp.certificate import Certificate, FactorTerm


ASSUMED = "assumed: "
"""How notes begin that say what a bound rests on and no evaluation can prove."""


def percent(share: float) -> str:
    """A relative gap as a percentage that keeps its leading digits: `0.0016%`, `1.6e-06%`."""
    if share == 0:
        return "0%"
    value = 100 * share
    return f"{value:.2g}%" if value < 1e-4 else f"{float(f'{value:.2g}'):g}%"


def headline(certificate: Certificate) -> str:
    """The verdict in one sentence."""
    status = certificate.status.name
    verdict = f"{status} under an assumption" if certificate.assumptions else status
    gap = percent(certificate.relative_gap)
    if status == "CERTIFIED" and not certificate.relative_gap:
        return f"{verdict}: the cost is zero up to rounding, no solution is better"
    if status == "CERTIFIED":
        return f"{verdict}: no solution is better by more than {gap}"
    if status == "BOUNDED":
        return f"{verdict}: no solution is better by more than {gap} (asked for: {percent(certificate.tolerance)})"
    return "INCONCLUSIVE: no useful lower bound was found; this does not mean that the solution is wrong"


def proof(bound: float) -> str:
    """What a lower bound is worth: 0 needs no proof."""
    return "proven for all values" if bound > 0 else "trivial"


def _share(certificate: Certificate) -> str:
    if certificate.gap and not certificate.relative_gap:
        return "the cost is zero up to rounding"
    return f"{percent(certificate.relative_gap)} of the cost"


def certificate_rows(certificate: Certificate) -> list[tuple[str, str]]:
    """Names and texts of the report's rows; three spaces stand between a number and what it is."""
    counts = ", ".join(f"{n} {name.lower().replace('_', ' ')}" for name, n in certificate.terms.counts().items())
    stationarity = certificate.stationarity
    condition = ", under the assumption below" if certificate.assumptions and certificate.lower_bound > 0 else ""
    rows = [
        ("cost", f"{certificate.cost:.10g}   graph.error(values)"),
        ("lower bound", f"{certificate.lower_bound:.10g}   {proof(certificate.lower_bound)}{condition}"),
        ("gap", f"{certificate.gap:.3g}   {_share(certificate)}"),
        ("terms", f"{len(certificate.terms)} factors: {counts}"),
    ]
    if np.isfinite(stationarity):
        rows.append(("stationarity", f"one more optimizer step would gain {percent(stationarity)}"))
    rows.append(("method", f"{certificate.method}, {1e3 * sum(certificate.timings.values()):.0f} ms"))
    return rows


def limiting_factors(certificate: Certificate) -> list[FactorTerm]:
    """The factors that limit the gap, if factors are what limits it."""
    if certificate.gap <= 0:
        return []
    return [t for t in certificate.terms.largest(3) if t.contribution > 0.01 * certificate.gap]


def certificate_text(certificate: Certificate) -> str:
    """The report that `print(certificate)` shows."""
    lines = [headline(certificate)]
    lines += [f"  {name:<13} {text}" for name, text in certificate_rows(certificate)]
    limits = limiting_factors(certificate)
    if limits and not certificate:
        lines.append("  largest contributions to the gap:")
        lines += [
            f"    factor {t.index} ({t.type} on {', '.join(format_key(k) for k in t.keys)}): {t.contribution:.3g}, "
            f"{t.exactness.name.lower().replace('_', ' ')}"
            for t in limits
        ]
    lines += [f"  note: {note}" for note in certificate.notes]
    return "\n".join(lines)
