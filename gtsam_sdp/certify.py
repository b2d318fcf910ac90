"""certify: read, build minorants, multipliers, prove a bound. The recipe of the package's main function."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import gtsam
import numpy as np

from gtsam_sdp.backends.choose import BackendChoice
from gtsam_sdp.bound import VerifiedBound, closed_form_multipliers, verify_bound
from gtsam_sdp.certificate import Certificate, CertificateStatus, FactorTerms
from gtsam_sdp.coordinates import centred_coordinates
from gtsam_sdp.errors import GtsamSdpError, InvalidTermError
from gtsam_sdp.factors.build import build_terms
from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.progress import showing_progress
from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.reading.checks import check_tolerance
from gtsam_sdp.reading.graph import OnUnsupported, Reading, read
from gtsam_sdp.relax import Relaxation
from gtsam_sdp.report import ASSUMED, percent
from gtsam_sdp.terms import Exactness, Terms
from gtsam_sdp.tolerances import (
    FAR_FROM_OPTIMUM,
    NO_COST,
    NOISE_FLOOR,
    POLISH_DECREASE,
    POLISHING_GAIN,
    TERM_VIOLATION,
    ZERO_COST,
)
from gtsam_sdp.variables import Array

Method = Literal["auto", "multipliers", "chordal"]
_log = logging.getLogger(__name__)

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
            cliques of the Bayes tree, which takes longer and can prove more; "auto" is "multipliers".
        on_unsupported: "raise" an error that lists all factors that no term is known for, or "drop" them: they count
            as 0 in the bound and keep their cost, so the bound stays valid. Keys that only they hold may have values
            of any type, as IMU biases and calibrations.
        backend: the SDP solver of "chordal": "clarabel", "mosek" or an instance of a `Backend`.
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
        return certify_reading(
            graph, values, reading, clock, tolerance=tolerance, backend=backend if method == "chordal" else None
        )


def certify_reading(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    reading: Reading,
    clock: Clock,
    *,
    tolerance: float,
    backend: BackendChoice | None = None,
    terms: Sequence[Terms] | None = None,
) -> Certificate:
    """`certify` of a graph that was read already, with its terms if they are known.

    With a backend the multipliers come from the relaxation.
    """
    terms = build_terms(reading) if terms is None else terms
    table = _factor_terms(reading, terms)
    clock.done("terms", ", ".join(f"{n} {name}" for name, n in table.counts().items()))
    if not terms:
        evidence = _Evidence(_NO_BOUND, 0.0, "multipliers")
    elif backend is not None:
        solution = Relaxation.build(reading, terms).solve(backend)
        clock.done("relaxation", f"{solution.message}, bound {solution.lower_bound:.10g}")
        evidence = _Evidence(solution.bound, solution.size, "chordal SDP")
    else:
        coordinates = centred_coordinates(reading, terms)
        qcqp = Qcqp.assemble(terms, reading.layout, coordinates)
        clock.done("assembly", f"Q has {qcqp.size} rows and {qcqp.Q.nnz} entries")
        evidence = _gather_evidence(qcqp, coordinates.reduce(reading.estimate), reading.cost, tolerance, clock)
    return _conclude(graph, values, reading, terms, table, evidence, tolerance, clock)


_NO_BOUND = VerifiedBound(-math.inf, math.inf, math.inf, 0.0, 0)


@dataclass(frozen=True)
class _Evidence:
    """The best verified bound, the size of the terms before they cancel, and the method."""

    bound: VerifiedBound
    size: float
    method: str


def _gather_evidence(qcqp: Qcqp, Y: Array, cost: float, tolerance: float, clock: Clock) -> _Evidence:
    """Verifies the multipliers at Y, and once more after polishing where that can still gain something."""
    size = qcqp.term_size(Y)
    scale = max(cost, NOISE_FLOOR * size)
    lifted = qcqp.cost(Y)
    bound = verify_bound(qcqp, closed_form_multipliers(qcqp, Y), Y, quick=True)
    clock.done("verification", f"bound {bound.value:.10g} after {bound.attempts} attempt(s)")
    to_gain = lifted - bound.value - bound.rounding
    if to_gain <= POLISHING_GAIN * max(cost - bound.value, tolerance * scale) < math.inf:
        return _Evidence(bound, size, "multipliers")
    polished = descend(Quadratic(qcqp), Y, POLISH_DECREASE, near=True)
    clock.done("polishing", f"{polished.steps} Newton step(s), the lifted cost fell by {polished.decrease:.3g}")
    better = verify_bound(qcqp, closed_form_multipliers(qcqp, polished.Y), polished.Y)
    clock.done("verification", f"bound {better.value:.10g} after {better.attempts} attempt(s)")
    return _Evidence(max(bound, better, key=lambda b: b.value), size, "multipliers, polished")


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
    terms: Sequence[Terms],
    table: FactorTerms,
    evidence: _Evidence,
    tolerance: float,
    clock: Clock,
) -> Certificate:
    """The certificate that the evidence allows: never below the trivial bound 0, never above the cost."""
    cost, bound = reading.cost, evidence.bound
    value = float(bound.value)
    if value > cost * (1 + 1e-6) + 1e-8 * evidence.size and not reading.hard:
        raise GtsamSdpError(
            "A verified bound is above the cost of a feasible point: please report this graph as a bug."
        )
    lower_bound = min(max(value, 0.0), cost)
    gap = cost - lower_bound
    relative_gap = gap / cost if gap > 0 else 0.0
    if relative_gap > tolerance and _is_zero(reading, terms):
        relative_gap = 0.0
    if relative_gap <= tolerance:
        status = CertificateStatus.CERTIFIED
    else:
        status = CertificateStatus.BOUNDED if lower_bound > 0 else CertificateStatus.INCONCLUSIVE
    scale = max(cost, np.finfo(float).tiny)
    if status is CertificateStatus.CERTIFIED:
        stationarity = min(bound.decrease, cost) / scale if relative_gap else 0.0
    else:
        stationarity = _gain_of_an_iteration(graph, values, cost) / scale
        clock.done("stationarity", f"one iteration of Levenberg-Marquardt gains {percent(stationarity)}")
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
        notes=_notes(reading, stationarity, status, bound.rounding),
    )


def _is_zero(reading: Reading, terms: Sequence[Terms]) -> bool:
    """Whether the cost is next to nothing, in its own unit, and every factor's next to its term's size."""
    if reading.cost > NO_COST or _dropped_cost(reading) > 0:
        return False
    return bool((reading.costs <= ZERO_COST * _sizes(reading, terms)).all())


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
    """How much one iteration of Levenberg-Marquardt lowers the cost; infinite if it cannot be done."""
    try:
        optimizer = gtsam.LevenbergMarquardtOptimizer(graph, values)
        optimizer.iterate()
    except RuntimeError:
        return math.inf
    return max(cost - optimizer.error(), 0.0)


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
