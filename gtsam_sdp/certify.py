"""certify: read, build minorants, multipliers, prove a bound. The recipe of the package's main function."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import gtsam
import numpy as np

from gtsam_sdp.backends.choose import BackendChoice
from gtsam_sdp.bound import VerifiedBound, closed_form_multipliers, verify_bound
from gtsam_sdp.certificate import Certificate, CertificateStatus, FactorTerms
from gtsam_sdp.coordinates import centred_coordinates
from gtsam_sdp.errors import InvalidTermError, SolveFailedError
from gtsam_sdp.exact_data import is_zero
from gtsam_sdp.factors.build import build_terms
from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.progress import showing_progress
from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.reading.checks import check_tolerance
from gtsam_sdp.reading.graph import OnUnsupported, Reading, read
from gtsam_sdp.relax import Relaxation
from gtsam_sdp.report import ASSUMED, percent
from gtsam_sdp.softening import softened
from gtsam_sdp.terms import Exactness, Terms
from gtsam_sdp.tolerances import (
    ABOVE_COST,
    FAR_FROM_OPTIMUM,
    NOISE_FLOOR,
    POLISH_DECREASE,
    POLISHING_GAIN,
    SAME_COST,
    SHORT_RELAXATION,
    TERM_VIOLATION,
    WORTH_A_STEP,
)
from gtsam_sdp.variables import Array

Method = Literal["auto", "multipliers", "chordal"]
_log = logging.getLogger(__name__)

_TIGHTENINGS = 3
_WORTH_TIGHTENING = 0.7
"""Share of the gap that a tightening must not leave, for another one to be tried."""

ADVICE = "the "
"""How notes begin that say why a certificate is not better; others state facts about the graph."""


def certify(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    *,
    tolerance: float = 1e-4,
    method: Method = "auto",
    on_unsupported: OnUnsupported = "raise",
    backend: BackendChoice = "clarabel",
    verbose: bool = False,
) -> Certificate:
    """Bounds how much better than `values` any other solution of `graph` can be.

    Every factor's cost is replaced by a quadratic function of rotations and translations that is never above it
    and touches it at `values`. Multipliers at that point turn the sum into a lower bound for all values, if a matrix
    is positive semidefinite, which is proven in floating point (docs/maths.md).

    Args:
        graph: the graph that was optimised; it is not changed.
        values: the solution, usually the result of an optimizer; it is not changed.
        tolerance: largest relative gap that counts as CERTIFIED.
        method: "multipliers" needs no SDP solver; "chordal" takes multipliers from the semidefinite relaxation on the
            cliques of the Bayes tree, which takes longer and can prove more; "auto": multipliers, and the relaxation
            where these do not certify the values and it is predicted to take less than five seconds.
        on_unsupported: "raise" an error that lists all factors that no term is known for, or "drop" them: they count
            as 0 in the bound and keep their cost, so the bound stays valid. Keys that only they hold may have values
            of any type, as IMU biases and calibrations.
        backend: the SDP solver of the relaxation: "clarabel", "mosek" or an instance of a `Backend`.
        verbose: show the steps as they are done.

    Raises:
        UnsupportedFactorError, UnsupportedNoiseError: factors that no term is known for.
        InvalidGraphError: the graph or the values cannot be used.
        InvalidTermError: a term registered by the user is above the cost of its factor, or an error that looked linear
            is not.
        GtsamSdpError: with method="chordal" as `Relaxation.solve`.
        ValueError: an argument that is none of those listed.
    """
    if method not in ("auto", "multipliers", "chordal"):
        raise ValueError(f'method must be "auto", "multipliers" or "chordal", not {method!r}.')
    check_tolerance(tolerance)
    with showing_progress(verbose):
        clock = Clock()
        reading = read(graph, values, on_unsupported)
        clock.done("reading", f"{len(reading.table.index)} factors, {len(reading.layout.keys)} keys")
        return certify_reading(graph, values, reading, clock, tolerance=tolerance, method=method, backend=backend)


def certify_reading(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    reading: Reading,
    clock: Clock,
    *,
    tolerance: float,
    method: Method = "multipliers",
    backend: BackendChoice = "clarabel",
    terms: Sequence[Terms] | None = None,
) -> Certificate:
    """`certify` of a graph that was read already, with its terms if they are known."""
    terms = build_terms(reading) if terms is None else terms
    table = _factor_terms(reading, terms)
    clock.done("terms", ", ".join(f"{n} {name}" for name, n in table.counts().items()))
    if not terms:
        evidence = _Evidence(_NO_BOUND, 0.0, "multipliers", math.nan)
    elif method == "chordal":
        evidence = _by_relaxation(Relaxation.build(reading, terms), backend, clock)
    else:
        evidence = _by_multipliers(reading, values, terms, tolerance, clock)
        if not evidence.proves(reading.cost, tolerance):
            evidence = _tightened(reading, values, evidence, tolerance, clock)
        if not evidence.proves(reading.cost, tolerance):
            evidence = _with_less_weight(reading, values, evidence, tolerance, clock)
        if method == "auto" and not evidence.proves(reading.cost, tolerance):
            evidence = _by_short_relaxation(reading, terms, evidence, backend, clock)
    return _conclude(graph, values, reading, table, evidence, tolerance, clock)


_NO_BOUND = VerifiedBound(-math.inf, math.inf, math.inf, 0.0, 0)


@dataclass(frozen=True)
class _Evidence:
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

    def proves(self, cost: float, tolerance: float) -> bool:
        """Whether the values are certified."""
        return self.is_zero or cost - self.bound.value <= tolerance * cost


def _by_relaxation(relaxation: Relaxation, backend: BackendChoice, clock: Clock) -> _Evidence:
    """The bound of the semidefinite relaxation on cliques."""
    solution = relaxation.solve(backend)
    clock.done("relaxation", f"{solution.message}, bound {solution.lower_bound:.10g}")
    return _Evidence(solution.bound, solution.size, "chordal SDP", math.nan)


def _by_short_relaxation(
    reading: Reading, terms: Sequence[Terms], known: _Evidence, backend: BackendChoice, clock: Clock
) -> _Evidence:
    """The better one of what is known and the relaxation's bound, if that one takes no longer than a few seconds."""
    relaxation = Relaxation.build(reading, terms, lift="auto")
    seconds = relaxation.predicted_cost.seconds
    if seconds > SHORT_RELAXATION:
        relaxation = Relaxation.build(reading, terms)
        seconds = relaxation.predicted_cost.seconds
    if seconds > SHORT_RELAXATION or not relaxation.predicted_cost.fits:
        return replace(known, relaxation_seconds=seconds)
    clock.done("cliques", f"a relaxation of about {seconds:.1f} s")
    try:
        found = _by_relaxation(relaxation, backend, clock)
    except SolveFailedError:
        return known
    return found if found.bound.value > known.bound.value else known


def _by_multipliers(
    reading: Reading, values: gtsam.Values, terms: Sequence[Terms], tolerance: float, clock: Clock
) -> _Evidence:
    """Verifies the multipliers at the values, and once more after polishing where that can still gain something."""
    qcqp = Qcqp.assemble(terms, reading.layout, centred_coordinates(reading, terms))
    Y = qcqp.coordinates.reduce(reading.estimate)
    clock.done("assembly", f"Q has {qcqp.size} rows and {qcqp.Q.nnz} entries")
    size, cost = qcqp.term_size(Y), reading.cost
    scale = max(cost, NOISE_FLOOR * size)
    lifted = qcqp.cost(Y)
    bound = verify_bound(qcqp, closed_form_multipliers(qcqp, Y), Y, quick=True)
    clock.done("verification", f"bound {bound.value:.10g} after {bound.attempts} attempt(s)")
    at_values = _Evidence(bound, size, "multipliers", bound.decrease)
    to_gain = lifted - bound.value - bound.rounding
    if to_gain <= POLISHING_GAIN * max(cost - bound.value, tolerance * scale) < math.inf:
        return at_values
    if not at_values.proves(cost, tolerance) and is_zero(reading, values, tolerance):
        return replace(at_values, decrease=math.nan, is_zero=True)
    polished = descend(Quadratic(qcqp), Y, POLISH_DECREASE, near=True)
    clock.done("polishing", f"{polished.steps} Newton step(s), the lifted cost fell by {polished.decrease:.3g}")
    better = _verify_polished(reading, terms, qcqp, polished.Y, cost - tolerance * scale)
    clock.done("verification", f"bound {better.value:.10g} after {better.attempts} attempt(s)")
    best = max(bound, better, key=lambda b: b.value)
    return _Evidence(best, size, "multipliers, polished", polished.decrease + better.decrease)


def _tightened(
    reading: Reading, values: gtsam.Values, known: _Evidence, tolerance: float, clock: Clock
) -> _Evidence:
    """The bound of terms that need to hold near the values only: where no factor is further above its term than the gap.

    Again, as long as each bound leaves much less of the gap.
    """
    gaps: tuple[float, ...] = ()
    gap = reading.cost - known.bound.value
    while known.bound.value > 0 and not known.proves(reading.cost, tolerance) and len(gaps) < _TIGHTENINGS:
        gaps += (gap,)
        clock.done("tightening", f"terms within a gap of {gap:.3g}")
        found = _by_multipliers(reading, values, build_terms(reading, gaps=gaps), tolerance, clock)
        if found.bound.value <= known.bound.value:
            break
        known = replace(found, decrease=known.decrease)
        if reading.cost - known.bound.value > _WORTH_TIGHTENING * gap:
            break
        gap = reading.cost - known.bound.value
    return known


def _with_less_weight(
    reading: Reading, values: gtsam.Values, known: _Evidence, tolerance: float, clock: Clock
) -> _Evidence:
    """The best one of what is known and the bounds of the graph with less weight on what is very stiff."""
    for cap, softer in softened(reading):
        clock.done("softening", f"weights of at most {cap:.0e} times the usual ones")
        found = _by_multipliers(softer, values, build_terms(softer), tolerance, clock)
        if found.bound.value > max(known.bound.value, 0.0):
            known = replace(found, decrease=math.nan, cap=cap)
        if known.proves(reading.cost, tolerance):
            break
    return known


def _verify_polished(reading: Reading, terms: Sequence[Terms], qcqp: Qcqp, Y: Array, enough: float) -> VerifiedBound:
    """The bound of a polished point; where the world frame is in the graph, the better one of two references."""
    multipliers = closed_form_multipliers(qcqp, Y)
    if reading.layout.world < 0:
        return verify_bound(qcqp, multipliers, Y)
    by_world = verify_bound(qcqp, multipliers, Y, quick=True)
    if by_world.value >= enough:
        return by_world
    inside = Qcqp.assemble(terms, reading.layout, centred_coordinates(reading, terms, inside=True))
    reduced = inside.coordinates.reduce(qcqp.coordinates.expand(Y))
    found = verify_bound(inside, closed_form_multipliers(inside, reduced), reduced, quick=by_world.value > 0)
    best = max(by_world, found, key=lambda bound: bound.value)
    return best if best.value > 0 else verify_bound(qcqp, multipliers, Y)


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


def _conclude(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    reading: Reading,
    table: FactorTerms,
    evidence: _Evidence,
    tolerance: float,
    clock: Clock,
) -> Certificate:
    """The certificate that the evidence allows: never below the trivial bound 0, never above the cost."""
    cost, bound = reading.cost, evidence.bound
    excess = float(bound.value) - cost
    if excess > max(ABOVE_COST * cost, 1e-8 * evidence.size) and not reading.hard:
        bound = _NO_BOUND  # no feasible point is below a bound: that one was none
    lower_bound = min(max(float(bound.value), 0.0), cost)
    gap = cost - lower_bound
    relative_gap = gap / cost if gap > 0 else 0.0
    zero_cost = relative_gap > tolerance and (evidence.is_zero or is_zero(reading, values, tolerance))
    if zero_cost:
        relative_gap = 0.0
    if relative_gap <= tolerance:
        status = CertificateStatus.CERTIFIED
    else:
        status = CertificateStatus.BOUNDED if lower_bound > 0 else CertificateStatus.INCONCLUSIVE
    scale = max(cost, np.finfo(float).tiny)
    stationarity = min(evidence.decrease, cost) / scale
    if not stationarity <= WORTH_A_STEP * max(relative_gap, tolerance) or status is not CertificateStatus.CERTIFIED:
        stationarity = _gain_of_an_iteration(graph, values, cost) / scale
        clock.done("stationarity", f"one iteration of Levenberg-Marquardt gains {percent(stationarity)}")
    notes = _notes(reading, stationarity, status, bound.rounding)
    if math.isfinite(evidence.cap) and status is not CertificateStatus.CERTIFIED:
        notes += (
            f"weights differ by many decades: those above {evidence.cap:.0e} times the usual ones count as that in the "
            "bound, and what these factors cost beyond it is part of the gap",
        )
    if evidence.relaxation_seconds and status is not CertificateStatus.CERTIFIED:
        notes += (
            f"{ADVICE}relaxation on cliques may prove more, and takes about {evidence.relaxation_seconds:.0f} s: "
            'method="chordal"',
        )
    return Certificate(
        status=status,
        cost=cost,
        lower_bound=lower_bound,
        gap=gap,
        relative_gap=relative_gap,
        tolerance=tolerance,
        method=evidence.method,
        shift=bound.shift,
        stationarity=stationarity,
        rounding=bound.rounding,
        terms=table,
        timings=clock.seconds,
        notes=notes + _excess_note(excess, cost, evidence.bound is bound),
        zero_cost=zero_cost,
    )


def _excess_note(excess: float, cost: float, kept: bool) -> tuple[str, ...]:
    """What is told of a bound above graph.error."""
    if excess <= SAME_COST * cost:
        return ()
    if not kept:
        return ("a bound above the cost was found, which cannot be, and is not used: please report this graph as a bug",)
    return (
        f"the bound is one of the exact cost and above graph.error by {percent(excess / cost)} of it, which is rounding "
        "in GTSAM: it is cut at graph.error",
    )


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


def _gain_of_an_iteration(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, cost: float) -> float:
    """How much one iteration of Levenberg-Marquardt lowers the cost; infinite if it cannot be done.

    Where weights differ by many decades the usual damping, by the largest of them, may let nothing move.
    """
    gains = []
    for by_diagonal in (False, True):
        parameters = gtsam.LevenbergMarquardtParams()
        parameters.setDiagonalDamping(by_diagonal)
        try:
            optimizer = gtsam.LevenbergMarquardtOptimizer(graph, values, parameters)
            optimizer.iterate()
        except RuntimeError:
            continue
        gains.append(max(cost - optimizer.error(), 0.0))
        if gains[-1] > SAME_COST * cost:
            break
    return max(gains, default=math.inf)


def _notes(reading: Reading, stationarity: float, status: CertificateStatus, rounding: float) -> tuple[str, ...]:
    notes = []
    if reading.dropped:
        notes.append(
            f"{len(reading.dropped)} unsupported factor(s) dropped: "
            f"they cost {_dropped_cost(reading):.4g} here and count as 0 in the bound"
        )
    if reading.fitted:
        at = np.searchsorted(reading.table.index, np.concatenate([group.index for group in reading.fitted]))
        names = [reading.table.name(position) for position in np.sort(at).tolist()]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        notes.append(
            f"{ASSUMED}the error of {names[0]}{more} is linear in rotations and positions, as it is at random values; "
            "no adapter knows it"
        )
    if reading.table.parts > 1:
        notes.append(f"no factor connects the {reading.table.parts} parts that the graph falls into")
    if reading.hard:
        count = sum(len(group.index) for group in reading.hard)
        notes.append(f"{count} hard constraint(s): the bound is for values that satisfy them")
    if status is CertificateStatus.CERTIFIED:
        return tuple(notes)
    if 0 < reading.cost <= 4 * rounding:
        notes.append(
            f"the cost is as small as what rounding takes from a bound here ({rounding:.1g}): nothing can be told"
        )
    elif stationarity > FAR_FROM_OPTIMUM:
        notes.append("the values are not a local optimum: optimise first, then certify")
    elif status is CertificateStatus.INCONCLUSIVE:
        notes.append(
            "the values may be a local minimum that is not the best, or the relaxation not tight: "
            "try gtsam_sdp.refine, or other starts"
        )
    return tuple(notes)


class Clock:
    """Seconds of the steps, reported as each is done."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def done(self, step: str, what: str) -> None:
        """Ends a step."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        _log.info("%s: %s (%.0f ms)", step, what, 1e3 * (now - self._last))
        self._last = now
