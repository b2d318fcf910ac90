"""Reports for people who know GTSAM and not semidefinite programming; `gtsam_sdp.show.html` has them for Jupyter."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gtsam_sdp.errors import format_factor
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.real import reals_per_number
from gtsam_sdp.relaxation.gram import GramLift
from gtsam_sdp.relaxation.relaxation import Relaxation
from gtsam_sdp.relaxation.tree import CliqueTree
from gtsam_sdp.relaxation.vector import VectorQcqp
from gtsam_sdp.remedies import Remedy
from gtsam_sdp.results.certificate import Certificate, FactorTerm, FactorTerms
from gtsam_sdp.results.notes import percent
from gtsam_sdp.results.region import RobustRegion
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.results.solution import Solution
from gtsam_sdp.show.rows import (
    certificate_rows,
    change_text,
    counts_text,
    region_row,
    row_lines,
    solution_rows,
    stage_cells,
)

_NO_WORDS: Mapping[Remedy, str] = {}


def headline(certificate: Certificate) -> str:
    """The verdict in one sentence."""
    status = certificate.status.name
    verdict = f"{status} under an assumption" if certificate.assumptions else status
    gap, region = percent(certificate.relative_gap), certificate.region
    if certificate.zero_cost:
        return f"{verdict}: the cost is zero to the digits of the data: {certificate.cost:.1g}"
    if status != "INCONCLUSIVE" and region is not None and not region.is_unconditional:
        asked = f" (asked for: {percent(certificate.tolerance)})" if status == "BOUNDED" else ""
        radius = f" up to {region.radius:.3g} sigmas" if math.isfinite(region.radius) else ""
        return f"{verdict}{radius}: no solution is better by more than {gap}{asked}, unless it {change_text(region)}"
    if status == "CERTIFIED" and not certificate.gap:
        return f"{verdict}: no solution is better by more than rounding"
    if status == "CERTIFIED":
        return f"{verdict}: no solution is better by more than {gap}"
    if status == "BOUNDED":
        return f"{verdict}: no solution is better by more than {gap} (asked for: {percent(certificate.tolerance)})"
    return "INCONCLUSIVE: no useful lower bound was found; this does not mean that the solution is wrong"


def limiting_factors(certificate: Certificate) -> list[FactorTerm]:
    """The factors that limit the gap, if factors are what limits it."""
    if certificate.gap <= 0:
        return []
    return [t for t in certificate.terms.largest(3) if t.contribution > 0.01 * certificate.gap]


def region_text(region: RobustRegion) -> str:
    """The region in one line."""
    _, count, what = region_row(region)
    radius = f"up to {region.radius:.3g} sigmas: " if math.isfinite(region.radius) else ""
    return f"{count}, {radius}{what}"


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
    size, entries, field = qcqp_size(qcqp)
    return (
        f"{type(qcqp).__name__}: Q {size} x {size}, {field}, {entries} entries; Y {size} x {qcqp.rank}; "
        f"{qcqp.constraint_count} constraints; constant {qcqp.constant:.6g}"
    )


def qcqp_size(qcqp: Qcqp | VectorQcqp) -> tuple[int, int, str]:
    """Rows of Q, its entries, and whether they are real or complex."""
    return len(qcqp.Q.indptr) - 1, len(qcqp.Q.indices), ("real", "complex")[reals_per_number(qcqp.Q) - 1]


def certificate_text(certificate: Certificate, words: Mapping[Remedy, str] = _NO_WORDS) -> str:
    """The report that `print(certificate)` shows, with other words for remedies if there are any."""
    lines = [headline(certificate), *row_lines(certificate_rows(certificate)), *_remarks(certificate, words)]
    return "\n".join(lines)


def _remarks(certificate: Certificate, words: Mapping[Remedy, str]) -> list[str]:
    """What limits the gap, and the notes."""
    lines, limits = [], limiting_factors(certificate)
    if limits and not certificate:
        lines.append("  largest contributions to the gap:")
        lines += [f"    {_contribution_text(t)}" for t in limits]
    return lines + [f"  note: {note.said(words)}" for note in certificate.notes]


def solution_text(solution: Solution, words: Mapping[Remedy, str] = _NO_WORDS) -> str:
    """The report that `print(solution)` shows: the certificate's, and the steps."""
    *rows, found_by = solution_rows(solution)
    lines = [headline(solution.certificate), *row_lines(rows), *_remarks(solution.certificate, words)]
    lines += row_lines([found_by])
    for name, seconds, cost, bound, note in stage_cells(solution):
        cost, bound = f"cost {cost:<12}" if cost else " " * 17, f"bound {bound:<12}" if bound else " " * 18
        lines.append(f"    {name:<26} {seconds:>6} s   {cost} {bound} {note}".rstrip())
    lines += [f"  {solution.advice.said(words)}"] if solution.advice else []
    return "\n".join(lines)


def sdp_solution_text(solution: SdpSolution) -> str:
    """What `print` shows of a solved relaxation."""
    return (
        f"SdpSolution: {solution.summary}, after {solution.iterations} iterations\n"
        f"  verified bound {solution.lower_bound:.10g} "
        f"(the solver's own objective {solution.objective:.4g}, not a bound)\n"
        f"  {', '.join(f'{name} {seconds:.2f} s' for name, seconds in solution.timings.items())}"
    )


def relaxation_text(relaxation: Relaxation) -> str:
    """What `print` shows of a relaxation."""
    name = "Gram" if isinstance(relaxation.lift, GramLift) else "vector"
    extra = "tightened" if relaxation.tighten else "plain"
    return (
        f"Relaxation: {name} lift, {extra}, {relaxation.lift.size} rows\n"
        f"  {tree_text(relaxation.tree)}\n  {relaxation.predicted_cost}"
    )


_SIZE_STEPS = (3, 5, 8, 15, 30, 60)
"""Sizes of cliques that the summary counts apart."""


def tree_text(tree: CliqueTree) -> str:
    """What `print` shows of a clique tree: how many cliques of which size."""
    roots = sum(c.parent < 0 for c in tree.cliques)
    ends = np.array([0, *_SIZE_STEPS, max(_SIZE_STEPS[-1] + 1, tree.sizes.max(initial=0))])
    counts = np.histogram(tree.sizes, bins=ends + 0.5)[0]
    parts = [f"{n} of {low + 1} to {high}" for n, low, high in zip(counts, ends[:-1], ends[1:], strict=True) if n]
    return (
        f"CliqueTree: {len(tree.cliques)} cliques, {roots} root(s), depth {tree.depth}, "
        f"largest {tree.sizes.max(initial=0)} variables\n  cliques by variables: {', '.join(parts)}"
    )
