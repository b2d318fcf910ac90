"""Tables that Jupyter shows: is it optimal, how sure is that, what limits the gap, what to do next."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.relaxation.gram import GramLift
from gtsam_sdp.relaxation.relaxation import Relaxation
from gtsam_sdp.relaxation.tree import CliqueTree
from gtsam_sdp.relaxation.vector import VectorQcqp
from gtsam_sdp.results.certificate import Certificate, FactorTerm, FactorTerms
from gtsam_sdp.results.notes import NoteKind, percent
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.results.solution import Solution
from gtsam_sdp.show import text as report
from gtsam_sdp.show.rows import Row, certificate_rows, counts_text, proof, solution_rows, stage_cells

_MEANING = {
    "EXACT": "equal to the factor's cost everywhere",
    "TANGENT": "equal, or nearly, at these values and below it elsewhere",
    "LOWER_BOUND": "below the factor's cost, possibly far",
    "DROPPED": "left out, counts as 0",
}

_REFINE = "gtsam_sdp.refine(graph, values) searches for better values and a better bound"
_MISSING = "give the dropped factors a term, gtsam_sdp.register_term, or remove them"

_GREEN, _AMBER, _GREY, _WHITE = "#1a7f37", "#8a5c00", "#57606a", "#ffffff"
"""Grounds of verdicts, and their text: contrasts of 4.5 : 1 and more."""
_COLOURS = {"CERTIFIED": _GREEN, "BOUNDED": _AMBER, "INCONCLUSIVE": _GREY}
_LEFT = " style='text-align:left'"


def certificate_html(certificate: Certificate) -> str:
    """The verdict, its numbers, the factors that limit the gap, and the next step."""
    parts = [_headline(certificate), _facts(certificate_rows(certificate))]
    parts += _limits(certificate)
    parts += [_line("note", note) for note in certificate.notes]
    if not certificate and not any(note.kind is NoteKind.ADVICE for note in certificate.notes):
        parts.append(_line("next", _MISSING if "DROPPED" in certificate.terms.counts() else _REFINE))
    return _frame(parts)


def solution_html(solution: Solution) -> str:
    """The verdict, how the values were found, the steps, and the next one."""
    certificate = solution.certificate
    parts = [_headline(certificate), _facts(solution_rows(solution)), *_limits(certificate)]
    parts.append(_table(("stage", "time [s]", "cost", "bound", ""), stage_cells(solution)))
    parts += [_line("note", note) for note in certificate.notes]
    parts += [_line("next", solution.advice)] if solution.advice else []
    return _frame(parts)


def factor_terms_html(terms: FactorTerms) -> str:
    """How many factors of which type, and those that contribute most to the gap."""
    counts = [(name, str(count)) for name, count in terms.type_counts().items()]
    largest = [term for term in terms.largest() if term.contribution > 0]
    parts = [_title(counts_text(terms), _GREY), _table(("type", "factors"), counts)]
    if largest:
        parts += [_line("largest contributions to the gap", ""), _term_table(largest)]
    return _frame(parts)


def relaxation_html(relaxation: Relaxation) -> str:
    """What the relaxation is made of, what it will cost, and the next step."""
    cost, tree = relaxation.predicted_cost, relaxation.tree
    is_gram = isinstance(relaxation.lift, GramLift)
    rows = [
        ("lift", "Gram" if is_gram else "vector", "d columns" if is_gram else "one column"),
        ("tightened", "yes" if relaxation.tighten else "no", "with constraints that only rotations satisfy"),
        ("rows", str(relaxation.lift.size), f"of {len(relaxation.lift.layout.keys)} variables"),
        ("cliques", str(len(tree.cliques)), f"largest {cost.largest_clique} variables"),
        ("largest cone", f"{cost.largest_cone} rows", ""),
        ("an iteration", f"{cost.flops:.1e} flops", f"{cost.bytes / 1e9:.2g} GB"),
    ]
    advice = ".solve() solves it" if cost.fits else 'too large here: refine(graph, values, method="staircase")'
    title = _title(
        "Relaxation, not solved yet" if cost.fits else "Relaxation, too large for an interior-point method",
        _GREY if cost.fits else _AMBER,
    )
    return _frame([title, _facts(rows), _line("next", advice)])


def sdp_solution_html(solution: SdpSolution) -> str:
    """The verified bound, whether the relaxation is tight, and the next step."""
    ratios = solution.eigenvalue_ratios
    weakest = f"smallest eigenvalue ratio {ratios.min():.2g}" if len(ratios) else ""
    tight = int(np.count_nonzero(ratios > 1e5))
    lost = (solution.objective - solution.lower_bound) / abs(solution.objective or 1.0)
    excess = f": {percent(lost)} more than can be proven" if lost > _LOST else ""
    rows = [
        ("verified bound", f"{solution.lower_bound:.10g}", proof(solution.lower_bound)),
        ("the solver says", f"{solution.objective:.10g}", f"{solution.message}, not verified{excess}"),
        ("tight cliques", f"{tight} of {len(ratios)}", weakest),
        ("iterations", str(solution.iterations), f"{sum(solution.timings.values()):.2f} s in all"),
    ]
    if solution.is_tight:
        advice = "values = .recover(), optimise the graph from there, then certify"
    else:
        advice = '.recover() is a start for the optimizer; lift="vector" or refine may give more'
    title = _title(*(("Tight relaxation", _GREEN) if solution.is_tight else ("Relaxation that is not tight", _AMBER)))
    return _frame([title, _facts(rows), _line("next", advice)])


def tree_html(tree: CliqueTree) -> str:
    """How many cliques of which size."""
    sizes, counts = np.unique(tree.sizes, return_counts=True)
    steps = [(str(n), str(k)) for n, k in zip(sizes.tolist(), counts.tolist(), strict=True)]
    if len(steps) > _SIZES_SHOWN:
        rest = sum(counts[: len(steps) - _SIZES_SHOWN].tolist())
        steps = [(f"up to {sizes[len(steps) - _SIZES_SHOWN - 1]}", str(rest)), *steps[-_SIZES_SHOWN:]]
    roots = sum(clique.parent < 0 for clique in tree.cliques)
    rows = [
        ("cliques", str(len(tree.cliques)), f"{roots} root(s), depth {tree.depth}"),
        ("largest", f"{tree.sizes.max(initial=0)} variables", "decides what the relaxation costs"),
    ]
    return _frame([_title("Clique tree", _GREY), _facts(rows), _table(("variables", "cliques"), steps)])


def qcqp_html(qcqp: Qcqp | VectorQcqp) -> str:
    """The size of the lifted problem."""
    size, entries, field = report.qcqp_size(qcqp)
    blocks = len(qcqp.layout.blocks)
    rows = [
        ("Q", f"{size} x {size}", f"{field}, {entries} entries, {entries / max(size, 1) ** 2:.2g} of all"),
        ("Y", f"{size} x {qcqp.rank}", "lift(values), unlift(Y)"),
        ("rotations", str(blocks), "each with rows that are orthonormal: .constraints"),
        ("constant", f"{qcqp.constant:.6g}", "cost(Y) = <Q, Y Y^H> + constant"),
    ]
    return _frame([_title("Quadratically constrained quadratic problem", _GREY), _facts(rows)])


_LOST = 1e-4
"""Share of the solver's optimum that proofs usually keep: more is told."""

_SETTLED = 0.01
"""Share of the gap below which what one more optimizer step gains does not explain it."""

_SIZES_SHOWN = 12
"""Sizes of cliques that a table lists one by one, the largest ones."""


def _limits(certificate: Certificate) -> list[str]:
    """The factors that limit the gap of what is not certified, and their part of it."""
    found = report.limiting_factors(certificate)
    if certificate or not certificate.gap:
        return []
    share = min(float(certificate.terms.contribution.sum()) / certificate.gap, 1.0)
    is_settled = certificate.stationarity < _SETTLED * certificate.relative_gap
    values = "a minimum that is not the best" if is_settled else "values that are not optimal"
    parts = [
        _line(
            "what limits the gap",
            f"terms below their factor's cost {100 * share:.0f}%, "
            f"the rest {100 * (1 - share):.0f}%: {values}, multipliers, or the relaxation",
        )
    ]
    return parts + ([_term_table(found)] if found else [])


def _term_table(terms: Sequence[FactorTerm]) -> str:
    body = [
        (str(t.index), t.type, ", ".join(t.names), report.exactness_text(t), f"{t.cost:.4g}", f"{t.contribution:.3g}")
        for t in terms
    ]
    hints = [(3, _MEANING[t.exactness.name]) for t in terms]
    return _table(("factor", "type", "keys", "term", "cost", "adds to gap"), body, hints)


def _headline(certificate: Certificate) -> str:
    return _title(report.headline(certificate), _COLOURS[certificate.status.name])


def _title(text: str, colour: str) -> str:
    """A verdict on a ground of its own, so that it can be read on any theme."""
    ground = f"color:{_WHITE};background:{colour};padding:.1em .5em;border-radius:.3em"
    return f"<strong style='{ground}'>{html.escape(text)}</strong>"


def _line(name: str, text: str) -> str:
    return f"<div>{html.escape(name)}: {html.escape(text)}</div>"


def _facts(rows: Iterable[Row]) -> str:
    """A table with a name at the head of each row."""
    body = "".join(
        f"<tr><th{_LEFT}>{html.escape(name)}</th><td{_LEFT}>{html.escape(number)}</td>"
        f"<td{_LEFT}>{html.escape(remark)}</td></tr>"
        for name, number, remark in rows
    )
    return f"<table>{body}</table>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], hints: Sequence[tuple[int, str]] = ()) -> str:
    """A table with names at the head of its columns; hints are a column and what it means, for each row."""

    def cell(row: int, column: int, text: str) -> str:
        hint = hints[row][1] if row < len(hints) and hints[row][0] == column else ""
        title = f" title='{html.escape(hint, quote=True)}'" if hint else ""
        return f"<td{_LEFT}{title}>{html.escape(text)}</td>"

    head = "".join(f"<th{_LEFT}>{html.escape(h)}</th>" for h in heads)
    lines = ["".join(cell(k, column, text) for column, text in enumerate(row)) for k, row in enumerate(rows)]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table>"


def _frame(parts: Iterable[str]) -> str:
    return f"<div>{''.join(parts)}</div>"
