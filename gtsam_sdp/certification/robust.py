"""Graphs with robust losses: the largest region of their residuals on which a proof succeeds (docs/maths/robust.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gtsam_sdp.certification.evidence import Evidence, Method, Question, by_multipliers, gather
from gtsam_sdp.deadline import has_time
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.lift.robust import Intervals
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.losses.losses import Loss
from gtsam_sdp.losses.minorant import curvature, widest
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.results.region import RobustRegion
from gtsam_sdp.terms.terms import Exactness

_FIRST = 2.0
_LARGER = (4.0, 8.0)
_SMALLER = (1.0, 0.7, 0.5, 0.35, 0.25)
"""Radii that are tried, relative to the losses' thresholds: the first one, then larger ones or smaller ones."""

_HOPEFUL = 100.0
"""What polishing may have to gain, in tolerances of the cost, for a radius to be worth it while others are left."""

_WORTH_A_LARGER_ONE = 1.05
"""How much larger a radius has to be for a proof of its own, as far as the losses allow."""

_WORTH_A_SMALLER_ONE = 0.7
"""Share of the gap that a smaller radius must not leave, for the next one to be tried."""

_LEAST_SHARE = 0.02
"""Share of its weight that the curvature of a kept factor's term has to be."""

_DOUBTFUL_SHARE = 0.1
"""The same for a factor whose interval is made smaller for it."""

_ROOM = 1.05
"""An interval ends no nearer to the residual than this times it."""

_FAR = 1.3
"""The same for residuals at which a loss bends down."""

_LEANING = 3.0
"""Residuals up to this times the threshold are no outliers, though the loss may bend down there."""

_OUTLIERS = 0.25
"""Share of the tolerance that the terms of all outliers together may lose."""

_LEVEL_SETS = 3
_WORTH_SHORTER_ONES = 0.9
"""Share of the gap that shorter intervals must not leave, for still shorter ones to be tried."""

_LOOSENED = 0.5
"""Share of the curvature that terms on level sets give up, so that their gap limits the residuals."""

_HALVINGS = 60


class Found(NamedTuple):
    """A proof on a region.

    Attributes:
        question: with the terms that hold there.
        evidence: the proof.
        region: the region.
    """

    question: Question
    evidence: Evidence
    region: RobustRegion

    @property
    def certifies(self) -> bool:
        """Whether the bound is good enough."""
        return self.question.is_answered(self.evidence)

    def by(self, method: Method) -> Found:
        """What all ways of a method prove on the same region."""
        return self._replace(evidence=gather(self.question, method))


def certified_region(question: Question, method: Method, region: float | None) -> Found:
    """The largest region with a proof, and the proof.

    Args:
        question: with the terms that `lifted` makes.
        method: as in `certify`.
        region: radius in sigmas that is asked for; None: the largest.
    """
    reading = question.reading
    if region is not None:
        return _on(question, region / min(loss.threshold for loss, _ in _groups(reading)), method)
    if _is_convex(reading):
        found = _everywhere(question)
        if found is not None:
            return found
        first = _on(question, _FIRST, None)
    else:
        first = _proof(question, None)
    return _larger(first) if first.certifies else _smaller(question, first, method)


def _larger(best: Found) -> Found:
    """The proof on the largest region that one succeeds on, beginning with one that did."""
    question = best.question
    for multiple in _LARGER:
        intervals = default_intervals(question.reading, multiple, question.tolerance)
        region = _region(question.reading, intervals, is_unconditional=False)
        if not (region.radius > _WORTH_A_LARGER_ONE * best.region.radius and has_time()):
            break  # the losses allow for no more
        tried = _on(question, multiple, None)
        if not tried.certifies:
            break
        best = tried
    return best


def _smaller(question: Question, first: Found, method: Method) -> Found:
    """The proof on a smaller region than one on which none succeeds; without any, what is best up to the thresholds."""
    usual, gap = first, math.inf
    for multiple in _SMALLER:
        if not has_time():
            return usual
        tried = _on(question, multiple, None)
        if tried.certifies:
            return tried
        usual = tried if multiple == 1.0 else usual
        left = question.reading.cost - tried.evidence.bound.value
        if not (math.isinf(left) or left < _WORTH_A_SMALLER_ONE * gap):
            break
        gap = left
    return usual.by(method) if has_time() else usual


def lifted(reading: Reading, tolerance: float, *, touching: bool = True) -> Problem:
    """The problem of a reading; terms of factors with a robust loss hold on the region that is tried first."""
    intervals = None
    if reading.robust:
        intervals = _level_sets(reading) if _is_convex(reading) else _first_intervals(reading, tolerance)
    return Problem.build(reading, intervals=intervals, touching=touching)


def _first_intervals(reading: Reading, tolerance: float) -> Intervals:
    """Those of the first radius; up to the thresholds if no larger intervals, or more doubtful factors, come of it."""
    usual, first = (default_intervals(reading, multiple, tolerance) for multiple in (1.0, _FIRST))
    is_larger = (first.high >= usual.high * (1 - 1e-9)).all() and (first.low <= usual.low * (1 + 1e-9)).all()
    return first if is_larger and (first.is_doubtful <= usual.is_doubtful).all() else usual


def _on(question: Question, multiple: float, method: Method | None) -> Found:
    """What terms up to a multiple of the thresholds prove; by multipliers at once if no method is given."""
    reading = question.reading
    intervals = default_intervals(reading, multiple, question.tolerance)
    return _proof(replace(question, problem=question.problem.on(intervals)), method)


def _proof(question: Question, method: Method | None) -> Found:
    """What the question's own terms prove."""
    reading, intervals = question.reading, question.problem.intervals
    assert intervals is not None
    if method is None:
        most = _HOPEFUL * question.tolerance * reading.cost
        evidence = by_multipliers(question, at_once=True, most=most)
    else:
        evidence = gather(question, method)
    region = _region(reading, intervals, is_unconditional=False)
    question.clock.done("region", f"up to {region.radius:.3g} sigmas: bound {evidence.bound.value:.10g}")
    return Found(question, evidence, region)


def _everywhere(question: Question) -> Found | None:
    """The proof that needs no condition: convex losses on the residuals that any better solution can have."""
    reading, intervals, gap, first = question.reading, _level_sets(question.reading), math.inf, math.inf
    for number in range(_LEVEL_SETS):
        ends = intervals.high
        for loosened in (0.0, _LOOSENED):
            asked = question
            if number or loosened:
                asked = replace(question, problem=question.problem.on(replace(intervals, loosened=loosened)))
            evidence = by_multipliers(asked, at_once=True)
            question.clock.done("level sets", f"bound {evidence.bound.value:.10g}")
            if asked.is_answered(evidence):
                return Found(asked, evidence, _region(reading, intervals, is_unconditional=True))
            if not loosened:
                before, first = first, reading.cost - evidence.bound.value
                if first > _WORTH_SHORTER_ONES * before:
                    return None
        if not evidence.bound.value > 0 or not reading.cost - evidence.bound.value < gap or not has_time():
            return None
        gap = reading.cost - evidence.bound.value
        # what a term is below its loss is known of those that are made of the parabola
        terms = asked.problem.terms
        touching = np.concatenate([b.factor[b.exactness == int(Exactness.TANGENT)] for b in terms])
        limited, smaller = np.isin(reading.table.index, touching), ends.copy()
        for loss, at in _groups(reading):
            reach = np.minimum(ends[at], _limited(loss, reading.lengths[at], ends[at], gap))
            smaller[at] = np.where(limited[at], reach, ends[at])
        if not (smaller < 0.9 * ends).any():
            return None
        intervals = replace(intervals, high=smaller)
    return None


def _is_convex(reading: Reading) -> bool:
    """Whether all robust losses are convex, so that no condition may be needed."""
    return all(loss.is_convex for loss, _ in _groups(reading))


def _level_sets(reading: Reading) -> Intervals:
    """Of factors that alone cost no more than the values do."""
    ends = np.full(len(reading.lengths), np.inf)
    for loss, at in _groups(reading):
        ends[at] = _level(loss, reading.cost)
    none = np.zeros(len(ends), dtype=bool)
    return Intervals(np.zeros(len(ends)), ends, none, none)


def _limited(loss: Loss, r0: Array, high: Array, gap: float) -> Array:
    """Up to which residual a loosened term is below its loss by no more than a gap, (m,)."""
    mu = curvature(loss, r0, np.zeros_like(r0), high)
    # loss less term is at least (1 - share) mu / 2 (r - r0)^2 on the interval
    with np.errstate(divide="ignore"):
        reach = np.sqrt(2 * gap / (_LOOSENED * np.maximum(mu, 0.0))) * (1 + 1e-6)
    return np.where(mu > 0, np.maximum(r0 + reach, _ROOM * r0), high)


def _groups(reading: Reading) -> Sequence[tuple[Loss, Array]]:
    """Each robust group's loss, and the places of its factors in the table."""
    return [
        (group.loss, np.searchsorted(reading.table.index, group.index))
        for group in reading.robust
        if group.loss is not None
    ]


def default_intervals(reading: Reading, multiple: float, tolerance: float) -> Intervals:
    """Intervals [0, multiple * threshold] for factors that fit, smaller ones for doubtful ones, [a, inf) for outliers.

    Args:
        reading: the graph at the values.
        multiple: of the losses' thresholds.
        tolerance: a share of it is what the terms of outliers may lose, of the cost.
    """
    count = len(reading.table.index)
    low, high = np.zeros(count), np.full(count, np.inf)
    constant, doubtful = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for loss, at in _groups(reading):
        r0 = reading.lengths[at]
        end = np.full_like(r0, multiple * loss.threshold)
        if loss.is_convex:
            high[at] = np.maximum(end, _FAR * r0)
            continue
        # up to the threshold as far as the loss allows, and beyond where its curvature is worth something
        fits = r0 * _ROOM <= end
        share = curvature(loss, r0, 0 * r0, np.maximum(end, r0))
        kept = fits & (share >= _LEAST_SHARE * loss.weight(r0))
        narrow = end.copy()
        far = np.maximum(end, _FAR * r0)
        narrow[~kept] = widest(loss, r0[~kept], np.maximum(end, _ROOM * r0)[~kept], _DOUBTFUL_SHARE)
        small = ~kept & (narrow >= _ROOM * r0)
        leaning = ~kept & ~small & (r0 <= _LEANING * loss.threshold)
        narrow[leaning] = far[leaning]
        small |= leaning
        high[at] = np.where(kept | small, narrow, np.inf)
        doubtful[at] = small & (narrow < min(multiple, 1.0) * loss.threshold)
        constant[at] = ~kept & ~small
    outliers = int(constant.sum())
    for loss, at in _groups(reading) if outliers else ():
        r0 = reading.lengths[at]
        lost = _OUTLIERS * tolerance * reading.cost / outliers
        low[at] = np.where(constant[at], _lower(loss, r0, lost), low[at])
    return Intervals(low, high, constant, doubtful)


def _lower(loss: Loss, r0: Array, lost: float) -> Array:
    """The smallest residual at which a loss is no more than `lost` below what it is at r0, (m,)."""
    wanted = loss.value(r0) - lost
    below, above = np.zeros_like(r0), r0.copy()
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        enough = loss.value(middle) >= wanted
        below, above = np.where(enough, below, middle), np.where(enough, middle, above)
    return above


def _level(loss: Loss, cost: float) -> float:
    """A residual of which the loss alone is more than a cost; infinite if none is."""
    end = loss.threshold
    while math.isfinite(end) and not loss.value(np.array(end)) > cost * (1 + 1e-9):
        end *= 2
    return end


def _region(reading: Reading, intervals: Intervals, *, is_unconditional: bool) -> RobustRegion:
    """What the intervals say to the user."""
    robust = sorted(
        ((at, loss) for loss, places in _groups(reading) for at in places.tolist()), key=lambda pair: pair[0]
    )
    at = np.array([place for place, _ in robust], dtype=np.intp)
    threshold = np.array([loss.threshold for _, loss in robust])
    low, high = intervals.low[at], intervals.high[at]
    outside = [
        float(loss.value(np.array(h))) if math.isfinite(h) else loss.limit
        for (_, loss), h in zip(robust, high, strict=True)
    ]
    cheapest = min((cost for cost, start in zip(outside, low.tolist(), strict=True) if start == 0), default=math.inf)
    return RobustRegion(
        index=reading.table.index[at],
        keys=reading.table.keys[at],
        residual=reading.lengths[at],
        low=low,
        high=high,
        threshold=threshold,
        is_doubtful=intervals.is_doubtful[at],
        is_unconditional=is_unconditional,
        most_violations=0 if is_unconditional or not cheapest > 0 else math.floor(min(reading.cost / cheapest, 1e9)),
    )
