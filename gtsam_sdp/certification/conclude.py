"""From a reading to the certificate: terms, evidence, and what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import gtsam
import numpy as np

from gtsam_sdp.backends.choose import BackendChoice
from gtsam_sdp.certification.evidence import Evidence, Method, Question, gather
from gtsam_sdp.certification.exact_data import is_zero
from gtsam_sdp.certification.robust import certified_region
from gtsam_sdp.errors import InvalidTermError
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.progress import Clock
from gtsam_sdp.proof.bound import NO_BOUND
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.remedies import Remedy
from gtsam_sdp.results.certificate import Certificate, CertificateStatus, FactorTerms
from gtsam_sdp.results.notes import Note, NoteKind, percent
from gtsam_sdp.terms.terms import Exactness, Terms
from gtsam_sdp.tolerances import ABOVE_COST, FAR_FROM_OPTIMUM, LARGE_GAP, SAME_COST, TERM_VIOLATION, WORTH_A_STEP


def certify_problem(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    problem: Problem,
    clock: Clock,
    *,
    tolerance: float,
    method: Method = "multipliers",
    backend: BackendChoice = "clarabel",
    region: float | None = None,
) -> Certificate:
    """`certify` of a graph that was read and lifted already."""
    reading, held = problem.reading, None
    table = _factor_terms(reading, problem.terms)
    clock.done("terms", ", ".join(f"{n} {name}" for name, n in table.counts().items()))
    question = Question(graph, problem, values, tolerance, backend, clock)
    if reading.robust:
        question, evidence, held = certified_region(question, method, region)
        table = _factor_terms(reading, question.problem.terms)
    else:
        evidence = gather(question, method)
    found = _conclude(question, table, evidence)
    return replace(found, region=held)


def _factor_terms(reading: Reading, terms: Sequence[Terms]) -> FactorTerms:
    """Costs, exactness and contributions by factor; raises where a term is above its factor's cost."""
    world = reading.layout.world
    places = reading.table.index
    total = np.zeros(int(places[-1]) + 1)
    exactness = np.full(len(total), int(Exactness.EXACT))
    exactness[[o.index for o in reading.dropped]] = int(Exactness.DROPPED)
    for batch in terms:
        total += np.bincount(batch.factor, batch.value(reading.estimate, world), minlength=len(total))
        np.maximum.at(exactness, batch.factor, batch.exactness)
    contribution = reading.costs - total[places]
    for group in reading.hard:
        contribution[np.searchsorted(places, group.index)] = 0.0
    _check_terms(reading, terms, contribution)
    arrays = (places, exactness[places], reading.costs, np.maximum(contribution, 0.0))
    for array in arrays:
        array.flags.writeable = False
    return FactorTerms(arrays[0], reading.table.types, reading.table.keys, *arrays[1:])


def _check_terms(reading: Reading, terms: Sequence[Terms], contribution: Array) -> None:
    """A term of a user's, or one that was fitted, above its factor's cost by more than rounding: refuse it."""
    fitted = np.concatenate([np.zeros(0, dtype=np.intp), *(group.index for group in reading.fitted)])
    own = np.searchsorted(reading.table.index, [*(user.index for user in reading.user_factors), *fitted])
    suspects = own[contribution[own] < -1e-9 * reading.costs[own]]
    if not len(suspects):
        return
    excess = -contribution[suspects] - TERM_VIOLATION * _sizes(reading, terms)[suspects]
    worst = int(np.argmax(excess))
    if excess[worst] > 0:
        position = int(suspects[worst])
        advice = "Correct the registered term (gtsam_sdp.check_term helps)."
        if reading.table.index[position] in fitted:
            advice = "Its error looked linear elsewhere but is not: register a term for it, or drop the factor."
        raise InvalidTermError(
            f"The term of {reading.table.name(position)} is above the factor's cost at the values "
            f"({reading.costs[position] - contribution[position]:.6g} against {reading.costs[position]:.6g}): "
            f"a bound made of it would be wrong. {advice}"
        )


def _conclude(question: Question, table: FactorTerms, evidence: Evidence) -> Certificate:
    """The certificate that the evidence allows: never below the trivial bound 0, never above the cost."""
    reading, tolerance = question.reading, question.tolerance
    cost, bound = reading.cost, evidence.bound
    excess = float(bound.value) - cost
    if excess > max(ABOVE_COST * cost, 1e-8 * evidence.size) and not reading.hard:
        bound = NO_BOUND  # no feasible point is below a bound: that one was none
    found = Certificate(
        cost=cost,
        lower_bound=min(max(float(bound.value), 0.0), cost),
        tolerance=tolerance,
        method=evidence.method,
        shift=bound.shift,
        stationarity=math.nan,
        rounding=bound.rounding,
        terms=table,
        timings=question.clock.seconds,
        notes=(),
    )
    if not found and (evidence.is_zero or is_zero(reading, question.values, tolerance)):
        found = replace(found, zero_cost=True)
    scale = max(cost, np.finfo(float).tiny)
    stationarity = min(evidence.decrease, cost) / scale
    if not stationarity <= WORTH_A_STEP * max(found.relative_gap, tolerance) or not found:
        stationarity = question.gain / scale
    found = replace(found, stationarity=stationarity)
    notes = _notes(reading, found)
    if math.isfinite(evidence.cap) and not found:
        text = (
            f"weights differ by many decades: those above {evidence.cap:.0e} times the usual ones count as that in the "
            "bound, and what these factors cost beyond it is part of the gap"
        )
        notes += (Note(text),)
    if evidence.relaxation_seconds and not found:
        text = f"the relaxation on cliques may prove more, and takes about {evidence.relaxation_seconds:.0f} s: "
        notes += (Note(text, Remedy.RELAX, kind=NoteKind.ADVICE),)
    return replace(found, notes=notes + _excess_note(excess, cost, evidence.bound is bound))


def _excess_note(excess: float, cost: float, kept: bool) -> tuple[Note, ...]:
    """What is told of a bound above graph.error."""
    if excess <= SAME_COST * cost:
        return ()
    if not kept:
        text = "a bound above the cost was found, which cannot be, and is not used: please report this graph as a bug"
        return (Note(text),)
    text = (
        f"the bound is one of the exact cost and above graph.error by {percent(excess / cost)} of it: "
        "GTSAM rounds its errors here, and the bound is cut at graph.error"
    )
    return (Note(text),)


def _dropped_cost(reading: Reading) -> float:
    """What the dropped factors cost at the values."""
    at = np.searchsorted(reading.table.index, [o.index for o in reading.dropped])
    return float(reading.costs[at].sum())


def _sizes(reading: Reading, terms: Sequence[Terms]) -> Array:
    """Size of each factor's terms before they cancel, (f,)."""
    size = np.zeros(int(reading.table.index[-1]) + 1)
    for batch in terms:
        size += np.bincount(batch.factor, batch.size(reading.estimate, reading.layout.world), minlength=len(size))
    return size[reading.table.index]


def _notes(reading: Reading, found: Certificate) -> tuple[Note, ...]:
    """What is to be told of the graph, and of what keeps the values from being certified."""
    notes = []
    if reading.dropped:
        text = (
            f"{len(reading.dropped)} unsupported factor(s) dropped: "
            f"they cost {_dropped_cost(reading):.4g} here and count as 0 in the bound"
        )
        notes.append(Note(text))
    if reading.fitted:
        at = np.searchsorted(reading.table.index, np.concatenate([group.index for group in reading.fitted]))
        names = [reading.table.name(position) for position in np.sort(at).tolist()]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        text = (
            f"assumed: the error of {names[0]}{more} is linear in rotations and positions, as it is at random values; "
            "no adapter knows it"
        )
        notes.append(Note(text, kind=NoteKind.ASSUMPTION))
    if reading.table.parts > 1:
        notes.append(Note(f"no factor connects the {reading.table.parts} parts that the graph falls into"))
    if reading.hard:
        count = sum(len(group.index) for group in reading.hard)
        notes.append(Note(f"{count} hard constraint(s): the bound is for values that satisfy them"))
    if found:
        return tuple(notes)
    lost = found.rounding
    if 0 < reading.cost <= 4 * lost:
        parts = (f"the cost is as small as what rounding takes from a bound here ({lost:.1g}): nothing can be told",)
    elif found.stationarity > FAR_FROM_OPTIMUM:
        parts = ("the values are not a local optimum: ", Remedy.OPTIMISE, ", then certify")
    elif found.status is CertificateStatus.INCONCLUSIVE or found.relative_gap > max(
        LARGE_GAP, 2 * _dropped_cost(reading) / reading.cost
    ):
        text = "the values may be a local minimum that is not the best, or the relaxation not tight: try "
        parts = (text, Remedy.REFINE, ", or other starts")
    else:
        return tuple(notes)
    return (*notes, Note(*parts, kind=NoteKind.ADVICE))
