"""What can be proven about values: ways to a verified bound, from the cheapest on, until one is good enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import gtsam
import numpy as np

from gtsam_sdp.backends.choose import BackendChoice
from gtsam_sdp.certification.exact_data import is_zero
from gtsam_sdp.certification.regions import applies, bound_near
from gtsam_sdp.certification.softening import softened
from gtsam_sdp.certification.stationarity import gain_of_an_iteration
from gtsam_sdp.deadline import has_time, timed
from gtsam_sdp.errors import SolveFailedError
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.progress import Clock
from gtsam_sdp.proof.bound import NO_BOUND, VerifiedBound, bound_at
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.relaxation.relaxation import Relaxation
from gtsam_sdp.relaxation.vector import VectorLift
from gtsam_sdp.results.notes import percent
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.tolerances import FAR_FROM_OPTIMUM, NOISE_FLOOR, POLISH_DECREASE, POLISHING_GAIN, SHORT_RELAXATION

Method = Literal["auto", "multipliers", "sdp"]

_TIGHTENINGS = 5
_WORTH_TIGHTENING = 0.9
"""Share of the gap that must not be left after two tightenings, for another one to be tried.

One is not enough to tell: a term may give up a little of its curvature so that the next one can touch its cost.
"""


@dataclass(frozen=True)
class Question:
    """Whether values are the best: what every way to an answer needs.

    Attributes:
        graph: the graph.
        problem: the graph at the values, lifted.
        values: the values.
        tolerance: largest relative gap that is good enough.
        backend: of the relaxation.
        clock: of the steps.
    """

    graph: gtsam.NonlinearFactorGraph
    problem: Problem
    values: gtsam.Values
    tolerance: float
    backend: BackendChoice
    clock: Clock

    @property
    def reading(self) -> Reading:
        """The graph at the values."""
        return self.problem.reading

    @property
    def enough(self) -> float:
        """The bound that certifies the values."""
        return (1 - self.tolerance) * self.reading.cost

    @cached_property
    def gain(self) -> float:
        """How much one iteration of Levenberg-Marquardt lowers the cost; infinite or NaN if that is not known."""
        gain = gain_of_an_iteration(self.graph, self.values, self.reading.cost)
        known = "no time" if math.isnan(gain) else percent(gain / max(self.reading.cost, np.finfo(float).tiny))
        self.clock.done("stationarity", f"one iteration of Levenberg-Marquardt gains: {known}")
        return gain

    def is_answered(self, evidence: Evidence) -> bool:
        """Whether the values are certified."""
        return evidence.is_zero or evidence.bound.value >= self.enough


@dataclass(frozen=True)
class Evidence:
    """The best verified bound and how it was found.

    Attributes:
        bound: the bound.
        size: of the terms before they cancel.
        method: where the bound is from.
        decrease: how much the lifted cost at the values can still fall nearby; NaN if that is not known.
        is_zero: the cost of the values is zero to the digits of the data.
        cap: largest weight, relative to the usual ones, that counts in the bound.
        relaxation_seconds: predicted time of a relaxation that was not solved because it takes long; 0 otherwise.
    """

    bound: VerifiedBound
    size: float
    method: str
    decrease: float
    is_zero: bool = False
    cap: float = math.inf
    relaxation_seconds: float = 0.0


def gather(question: Question, method: Method) -> Evidence:
    """The best evidence of a method's ways."""
    if not question.problem.terms or not has_time():
        return Evidence(NO_BOUND, 0.0, "multipliers", math.nan)
    if method == "sdp":
        return _by_relaxation(Relaxation.build(question.problem), question)
    first = by_multipliers(question)
    evidence = _by_all_ways(question, first, method)
    is_open = not question.reading.robust and not question.is_answered(evidence) and has_time()
    if is_open and _is_far(question, first, evidence):
        # the values may be far from an optimum, and not only the terms' gradients: then curvature counts for more
        bent = replace(question, problem=Problem.build(question.reading, touching=False))
        if _largest_change(bent.problem.terms, question.problem.terms) > 0:
            other = _by_all_ways(bent, by_multipliers(bent), method)
            evidence = max(evidence, other, key=lambda found: found.bound.value)
    return evidence


def _is_far(question: Question, first: Evidence, best: Evidence) -> bool:
    """Whether much may be left to gain near the values; GTSAM is asked where no way proved anything."""
    if math.isfinite(first.decrease) or best.bound.value > 0:
        return first.decrease > FAR_FROM_OPTIMUM * question.reading.cost
    return question.gain > FAR_FROM_OPTIMUM * question.reading.cost


def _by_all_ways(question: Question, evidence: Evidence, method: Method) -> Evidence:
    """The best of what is known and what further ways prove."""
    # tightening first: it asks for a bound of the terms' sum, and those after it are of other sums
    ways = [_tightened, _near_the_values, _with_less_weight]
    for way in [*ways, _by_short_relaxation, _relaxed_with_less_curvature] if method == "auto" else ways:
        if question.is_answered(evidence) or not has_time():
            break
        evidence = way(question, evidence)
    return evidence


def _by_relaxation(relaxation: Relaxation, question: Question) -> Evidence:
    """The bound of the semidefinite relaxation on cliques."""
    solution = relaxation.solve(question.backend)
    question.clock.done("relaxation", f"{solution.message}, bound {solution.lower_bound:.10g}")
    return Evidence(solution.bound, solution.size, "sdp", math.nan)


def _by_short_relaxation(question: Question, known: Evidence) -> Evidence:
    """The better one of what is known and the relaxation's bound, if that one takes no longer than a few seconds."""
    relaxation = Relaxation.build(question.problem, lift="auto")
    seconds = relaxation.predicted_cost.seconds
    if seconds > SHORT_RELAXATION:
        relaxation = Relaxation.build(question.problem)
        seconds = relaxation.predicted_cost.seconds
    if not relaxation.predicted_cost.fits:
        return known
    if seconds > SHORT_RELAXATION:
        return replace(known, relaxation_seconds=seconds)
    question.clock.done("cliques", f"a relaxation of about {seconds:.1f} s")
    lift = "vector" if isinstance(relaxation.lift, VectorLift) else "gram"

    def prove(problem: Problem) -> Evidence:
        return _by_relaxation(Relaxation.build(problem, lift=lift), question)

    try:
        found = _by_relaxation(relaxation, question)
        found = _tighten(question, found, prove)
    except SolveFailedError:
        return known
    return found if found.bound.value > known.bound.value else known


def by_multipliers(question: Question, *, at_once: bool = False, most: float = math.inf) -> Evidence:
    """Verifies the multipliers at the values, and once more after polishing where that can still gain something.

    With `at_once` it is left at that where the multipliers at the values prove nothing, or leave more than `most` for
    polishing to gain.
    """
    reading, clock, Y = question.reading, question.clock, question.problem.Y
    with timed():  # the first step, and about as long as those that follow
        qcqp = question.problem.qcqp
    clock.done("assembly", f"Q has {qcqp.size} rows and {qcqp.Q.nnz} entries")
    size, cost = qcqp.term_size(Y), reading.cost
    scale = max(cost, NOISE_FLOOR * size)
    lifted = qcqp.cost(Y)
    bound = bound_at(qcqp, Y, quick=True)
    clock.done("verification", f"bound {bound.value:.10g} after {bound.attempts} attempt(s)")
    at_values = Evidence(bound, size, "multipliers", bound.decrease)
    to_gain = lifted - bound.value - bound.rounding
    if to_gain <= POLISHING_GAIN * max(cost - bound.value, question.tolerance * scale) < math.inf:
        return at_values
    if not question.is_answered(at_values) and is_zero(reading, question.values, question.tolerance):
        return replace(at_values, decrease=math.nan, is_zero=True)
    if not has_time() or (at_once and not (bound.value > 0 and to_gain <= most)):
        return at_values
    polished = descend(Quadratic(qcqp), Y, POLISH_DECREASE, near=True)
    clock.done("polishing", f"{polished.steps} Newton step(s), the lifted cost fell by {polished.decrease:.3g}")
    better = _verify_polished(question, qcqp, polished.Y, cost - question.tolerance * scale)
    clock.done("verification", f"bound {better.value:.10g} after {better.attempts} attempt(s)")
    best = max(bound, better, key=lambda b: b.value)
    return Evidence(best, size, "multipliers, polished", polished.decrease + better.decrease)


def _verify_polished(question: Question, qcqp: Qcqp, Y: Array, enough: float) -> VerifiedBound:
    """The bound of a polished point; where the world frame is in the graph, the better one of two references."""
    if qcqp.layout.world < 0:
        return bound_at(qcqp, Y)
    by_world = bound_at(qcqp, Y, quick=True)
    if by_world.value >= enough:
        return by_world
    inside = replace(question.problem, inside=True)
    found = bound_at(inside.qcqp, inside.coordinates.reduce(qcqp.coordinates.expand(Y)), quick=by_world.value > 0)
    best = max(by_world, found, key=lambda bound: bound.value)
    return best if best.value > 0 else bound_at(qcqp, Y)


def _near_the_values(question: Question, known: Evidence) -> Evidence:
    """The better one of what is known and the bound of ranges that need to hold near the values only."""
    if question.reading.robust or not applies(question.problem):
        return known
    found = bound_near(question.problem, question.enough)
    question.clock.done("regions", f"bound {found.value:.10g}")
    if found.value <= max(known.bound.value, 0.0):
        return known
    return replace(known, bound=found, method="multipliers, near the values")


def _tightened(question: Question, known: Evidence) -> Evidence:
    """The best bound of terms that need to hold only where no cost is further above its term than the gap allows."""
    return _tighten(question, known, lambda problem: by_multipliers(replace(question, problem=problem)))


def _tighten(question: Question, first: Evidence, prove: Callable[[Problem], Evidence]) -> Evidence:
    """The best of a first bound and those of tightened terms, each made with the gaps of all bounds before it.

    Args:
        question: the values.
        first: a bound of the question's own terms.
        prove: gives a bound of the sum of other terms.
    """
    cost, best, gaps = question.reading.cost, first, ()
    gap = cost - first.bound.value
    while gap < cost and not question.is_answered(best) and len(gaps) < _TIGHTENINGS and has_time():
        if len(gaps) >= 2 and gap > _WORTH_TIGHTENING * gaps[-2]:
            break
        gaps = (*gaps, gap)
        question.clock.done("tightening", f"terms within a gap of {gap:.3g}")
        posed = question.problem.rebuilt(gaps=gaps)
        if _largest_change(posed.terms, question.problem.terms) == 0:
            break
        found = prove(posed)
        if found.bound.value > best.bound.value:
            best = replace(found, decrease=first.decrease)
        gap = cost - found.bound.value
    return best


def _largest_change(terms: Sequence[Terms], others: Sequence[Terms]) -> float:
    """Of an entry of the matrices of the terms, or of a constant."""
    return max(
        float(max(np.abs(a.matrix - b.matrix).max(initial=0.0), np.abs(a.constant - b.constant).max(initial=0.0)))
        for a, b in zip(terms, others, strict=True)
    )


def _with_less_weight(question: Question, known: Evidence) -> Evidence:
    """The best one of what is known and the bounds of the graph with less weight, or curvature, on what is stiff."""
    known = _softer(question, known, by_multipliers, touching=False)
    return _softer(question, known, by_multipliers, touching=True) if question.problem.touching else known


def _relaxed_with_less_curvature(question: Question, known: Evidence) -> Evidence:
    """The same with less curvature and relaxations, if these take no longer than a few seconds."""
    if known.relaxation_seconds or not question.problem.touching:
        return known
    unknown = replace(known, bound=NO_BOUND)
    return _softer(question, known, lambda softer: _by_short_relaxation(softer, unknown), touching=True)


def _softer(question: Question, known: Evidence, prove: Callable[[Question], Evidence], *, touching: bool) -> Evidence:
    """The best one of what is known and what is proven of softer graphs, see `softened`."""
    if question.is_answered(known) or question.reading.robust:  # with other weights robust residuals are others
        return known
    for cap, softer in softened(question.reading, touching=touching):
        question.clock.done(
            "softening", f"{'curvature' if touching else 'weights'} of at most {cap:.0e} times the usual one"
        )
        found = prove(replace(question, problem=question.problem.rebuilt(reading=softer)))
        if found.bound.value > max(known.bound.value, 0.0):
            known = replace(found, decrease=math.nan, cap=cap)
        if question.is_answered(known) or not has_time():
            break
    return known
