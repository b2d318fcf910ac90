"""Reports for people who know GTSAM and not semidefinite programming; `gtsam_sdp.show.html` has them for Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gtsam_sdp.errors import format_factor
from gtsam_sdp.tolerances import SAME_COST

if TYPE_CHECKING:
    from gtsam_sdp.lift.qcqp import Qcqp
    from gtsam_sdp.relaxation.vector import VectorQcqp
    from gtsam_sdp.results.certificate import Certificate, FactorTerm, FactorTerms
    from gtsam_sdp.results.solution import Solution


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
    if certificate.zero_cost:
        return f"{verdict}: the cost is zero to the digits of the data: {certificate.cost:.1g}"
    if status == "CERTIFIED" and not certificate.gap:
        return f"{verdict}: no solution is better by more than rounding"
    if status == "CERTIFIED":
        return f"{verdict}: no solution is better by more than {gap}"
    if status == "BOUNDED":
        return f"{verdict}: no solution is better by more than {gap} (asked for: {percent(certificate.tolerance)})"
    return "INCONCLUSIVE: no useful lower bound was found; this does not mean that the solution is wrong"


def proof(bound: float) -> str:
    """What a lower bound is worth: 0 needs no proof."""
    return "proven for all values" if bound > 0 else "trivial"


def _share(certificate: Certificate) -> str:
    if certificate.zero_cost:
        return "the cost is zero to the digits of the data"
    return f"{percent(certificate.relative_gap)} of the cost"


def certificate_rows(certificate: Certificate) -> list[tuple[str, str]]:
    """Names and texts of the report's rows; three spaces stand between a number and what it is."""
    stationarity = certificate.stationarity
    condition = ", under the assumption below" if certificate.assumptions and certificate.lower_bound > 0 else ""
    rows = [
        ("cost", f"{certificate.cost:.10g}   graph.error(values)"),
        ("lower bound", f"{certificate.lower_bound:.10g}   {proof(certificate.lower_bound)}{condition}"),
        ("gap", f"{certificate.gap:.3g}   {_share(certificate)}"),
        ("terms", counts_text(certificate.terms)),
    ]
    if np.isfinite(stationarity):
        rows.append(("stationarity", f"one more optimizer step would gain {percent(stationarity)}"))
    rows.append(("method", f"{certificate.method}, {1e3 * sum(certificate.timings.values()):.0f} ms"))
    return rows


def gain_text(solution: Solution) -> str:
    """How much better a solution is than the values given; empty if that is rounding."""
    is_better = solution.improvement > SAME_COST * solution.cost
    return f"{solution.improvement:.6g} below the values given" if is_better else ""


def limiting_factors(certificate: Certificate) -> list[FactorTerm]:
    """The factors that limit the gap, if factors are what limits it."""
    if certificate.gap <= 0:
        return []
    return [t for t in certificate.terms.largest(3) if t.contribution > 0.01 * certificate.gap]


def exactness_text(term: FactorTerm) -> str:
    """How exact a term is: `lower bound`."""
    return term.exactness.name.lower().replace("_", " ")


def _contribution_text(term: FactorTerm) -> str:
    return f"{format_factor(term.index, term.type, term.keys)}: {term.contribution:.3g}, {exactness_text(term)}"


def term_text(term: FactorTerm) -> str:
    """What `print` shows of one factor's term."""
    return (
        f"{format_factor(term.index, term.type, term.keys)}: cost {term.cost:.4g}, "
        f"adds {term.contribution:.3g} to the gap, {exactness_text(term)}"
    )


def counts_text(terms: FactorTerms) -> str:
    """How many factors there are, and how exact their terms: `25 factors: 20 tangent, 5 exact`."""
    counts = ", ".join(f"{n} {name.lower().replace('_', ' ')}" for name, n in terms.counts().items())
    return f"{len(terms)} factors: {counts}" if counts else "no factors"


def terms_text(terms: FactorTerms) -> str:
    """What `print(certificate.terms)` shows: counts by exactness and type, and the largest contributions."""
    lines = [counts_text(terms)]
    lines += [f"  {count} {name}" for name, count in terms.type_counts().items()]
    largest = [term for term in terms.largest() if term.contribution > 0]
    if largest:
        lines.append("  largest contributions to the gap:")
        lines += [f"    {_contribution_text(term)}" for term in largest]
    return "\n".join(lines)


def qcqp_text(qcqp: Qcqp | VectorQcqp) -> str:
    """The size of a lifted problem: rows and entries of Q, columns of Y, constraints, constant."""
    size, entries = qcqp_size(qcqp)
    field = "complex" if np.iscomplexobj(qcqp.Q.data) else "real"
    return (
        f"{type(qcqp).__name__}: Q {size} x {size}, {field}, {entries} entries; Y {size} x {qcqp.rank}; "
        f"{qcqp.constraint_count} constraints; constant {qcqp.constant:.6g}"
    )


def qcqp_size(qcqp: Qcqp | VectorQcqp) -> tuple[int, int]:
    """Rows of Q, and its entries."""
    return len(qcqp.Q.indptr) - 1, len(qcqp.Q.indices)


def certificate_text(certificate: Certificate) -> str:
    """The report that `print(certificate)` shows."""
    lines = [headline(certificate)]
    lines += [f"  {name:<13} {text}" for name, text in certificate_rows(certificate)]
    limits = limiting_factors(certificate)
    if limits and not certificate:
        lines.append("  largest contributions to the gap:")
        lines += [f"    {_contribution_text(t)}" for t in limits]
    lines += [f"  note: {note}" for note in certificate.notes]
    return "\n".join(lines)
