"""Ranges among positions: where every better solution is near the values, a range is nearly linear.

A first bound, of tangents that hold everywhere, leaves a gap; its curvature says how far away values within that gap
can be. In this ball terms with the curvature of the range itself are below its cost; they prove a better bound, on it a
smaller ball follows, and so on. Nothing is assumed: values outside the ball cost more than those given. See
docs/maths/, section 5.8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse.linalg

from gtsam_sdp.deadline import has_time
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.lift.structure import touched_rows
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, Entries, rounding_error
from gtsam_sdp.linalg.real import real_entries
from gtsam_sdp.proof.bound import NO_BOUND, VerifiedBound, prove_bound
from gtsam_sdp.proof.slack import Slack
from gtsam_sdp.relaxation.vector import VectorLift
from gtsam_sdp.terms.terms import Terms

_FARTHER = 10.0 ** np.arange(-9.0, 0.6, 0.5)
"""Relative increases of the distances at which the tangents of the first bound touch."""

_CURVATURES = 4.0 ** -np.arange(0, 18)
"""Curvatures of the ball that are tried, relative to the weight of the ranges."""

_PASSES = 12
_SMALLER = 0.9
"""A ball that is not smaller than this share of the last one ends the passes."""

_LARGEST_LOSS = 0.5
"""Share of a range's weight that its term may give up for the bend of the range."""

_FLATTEST = 1e-6
"""Smallest ratio of the range to the distance at which a tangent touches."""

_ROUNDOFFS = 64
"""Roundoffs of a distance granted to its direction and to its difference from the range."""


def applies(problem: Problem) -> bool:
    """Whether the graph is about positions in a world frame only, and ranges among them."""
    layout = problem.layout
    return layout.world >= 0 and sum(map(len, layout.groups)) == 1 and any(_is_range(batch) for batch in problem.terms)


def bound_near(problem: Problem, enough: float) -> VerifiedBound:
    """The best bound of terms that hold in smaller and smaller balls around the values.

    Args:
        problem: the graph at a local optimum, lifted.
        enough: a bound that needs no improvement.
    """
    lift, cost = VectorLift.build(problem), problem.reading.cost
    ranges = _Ranges.build(lift)
    if (lift.rows.coordinates.reference[ranges.rows] != lift.layout.world).any():
        return NO_BOUND
    radius = min(_anywhere(lift, share, ranges).radius(cost) for share in _FARTHER)
    others = lift.with_terms([batch for batch in lift.terms if not _is_range(batch)])
    best = NO_BOUND
    for _ in range(_PASSES):
        if not math.isfinite(radius):
            break
        near = ranges.near(others, radius)
        best = max(best, near.bound(), key=lambda bound: bound.value)
        smaller = near.radius(cost)
        if best.value >= enough or not smaller < _SMALLER * radius or not has_time():
            break
        radius = smaller
    return best


def _is_range(batch: Terms) -> bool:
    """Whether terms are of a distance between two positions."""
    return batch.distances is not None and not batch.rotations.shape[1] and batch.combination.shape == (1, 2)


@dataclass(frozen=True)
class _Problem:
    """A quadratic function of positions counted from the values.

    Attributes:
        slack: its matrix, the constant one last.
        moving: 1 on rows of positions that ranges are about, (n,).
        weight: of the ranges.
    """

    slack: Slack
    moving: Array
    weight: float

    def bound(self, curvature: float = 0.0) -> VerifiedBound:
        """A proven lower bound of the function less curvature |t - t^|^2 of the moving positions."""
        point = np.zeros((len(self.moving), 1))
        point[-1] = 1.0
        less = scipy.sparse.diags_array(curvature * self.moving).tocsc()
        return prove_bound(replace(self.slack, form=self.slack.form - less), point, quick=True)

    def radius(self, cost: float) -> float:
        """Radius of a ball around the values that holds all positions that cost less; infinite if none is proven.

        Where the function less curvature |t - t^|^2 has a lower bound L, they have curvature |t - t^|^2 < cost - L.
        """
        best = math.inf
        for share in _CURVATURES:
            curvature = share * self.weight
            value = self.bound(curvature).value
            squared = max(cost - value, 0.0) / curvature
            if math.isfinite(best) and squared > best:
                break
            best = min(best, squared)
        return math.sqrt(best) * (1 + 1e-9)


def _anywhere(lift: VectorLift, share: float, ranges: _Ranges) -> _Problem:
    """Tangents at other distances, which hold everywhere: their slopes are larger by a share of `ranges.stiffening`."""
    slopes = 1 - ranges.measured / np.linalg.norm(ranges.difference, axis=1) + share * ranges.stiffening
    points = ranges.measured / np.maximum(1 - slopes, _FLATTEST)
    starts = np.cumsum([len(batch.factor) for batch in lift.terms if _is_range(batch)])[:-1]
    own = iter(np.split(points, starts))
    moved = [batch.touching(next(own)) if _is_range(batch) else batch for batch in lift.terms]
    lift = lift.with_terms(moved)
    return _Problem(lift.slack([lift.cost_entries()], np.zeros(0)), ranges.moving(lift), ranges.weight)


@dataclass(frozen=True)
class _Ranges:
    """Ranges between positions, (m,) or (m, d).

    Attributes:
        rows: raw rows of the two positions, (m, 2).
        difference: p^, the difference of the positions at the values.
        measured: r.
        half: w / 2.
        free: whether each of the positions is unknown, (m, 2).
        loose: whether it is unknown, and no other term holds it in the world, (m, 2).
    """

    rows: Array
    difference: Array
    measured: Array
    half: Array
    free: Array
    loose: Array

    @classmethod
    def build(cls, lift: VectorLift) -> _Ranges:
        """All ranges of the lift's terms."""
        batches = [batch for batch in lift.terms if _is_range(batch)]
        absolute = [batch for batch in lift.terms if batch.offset is not None and batch.combination.sum(axis=-1).any()]
        rows, own = [], []
        for batch in batches:
            rows.append(batch.translations)
            assert batch.distances is not None
            own.append(batch.distances)
        pairs = np.concatenate(rows)
        places = lift.rows.coordinates.shift
        difference = real_entries(places[pairs[:, 1]] - places[pairs[:, 0]])

        def joined(name: str) -> Array:
            return np.concatenate([getattr(distances, name) for distances in own])

        free = lift.rows.coordinates.position[pairs] >= 0
        loose = free & ~touched_rows(lift.layout, absolute)[pairs]
        return cls(pairs, difference, joined("measured"), joined("weight"), free, loose)

    @property
    def weight(self) -> float:
        """Their usual weight, halved."""
        return float(np.median(self.half))

    @cached_property
    def stiffening(self) -> Array:
        """Changes of the slopes, (m,), 1 at most, that hold all positions more and pull none away.

        The slope of a tangent is its weight on |p|^2. Of the changes m_k with sum of w_k m_k p_k = 0 at every position
        the one that gains most of sum w_k m_k for the loss, sum w_k m_k^2 |p_k|^2.
        """
        distance = np.maximum(np.linalg.norm(self.difference, axis=1), np.finfo(float).tiny)
        root = np.sqrt(self.half)
        pull = (root / distance)[:, None] * self.difference
        count, d = pull.shape
        value = (self.loose * np.array([-1.0, 1.0]))[:, :, None] * pull[:, None, :]
        column = d * self.rows[:, :, None] + np.arange(d)
        row = np.broadcast_to(np.arange(count)[:, None, None], value.shape)
        A = scipy.sparse.coo_array((value.ravel(), (row.ravel(), column.ravel()))).tocsr()
        gain = root / distance
        changes = (gain - A @ scipy.sparse.linalg.lsmr(A, gain, atol=1e-14, btol=1e-14)[0]) / (root * distance)
        return changes / np.abs(changes).max()

    def moving(self, lift: VectorLift) -> Array:
        """1 on the entries of positions that they are about, (n,)."""
        raw = np.zeros(lift.layout.size)
        raw[self.rows] = 1.0
        return np.append(np.repeat(raw[lift.rows.coordinates.kept], lift.rows.d), 0.0)[lift.kept]

    def near(self, lift: VectorLift, radius: float) -> _Problem:
        """The lift's terms, and terms of ranges that hold where no position is further from the values than `radius`.

        With u the direction of p^, s = u . p and 0 <= |p| - s <= B^2 / (2 (|p^| - B)) = E where |p - p^| <= B < |p^|,
            (|p| - r)^2 >= (1 - theta) (s - r)^2 - E^2 / theta,
        and for two positions of a ball B = sqrt(2) radius. Ranges that are too short for that count as 0.
        """
        position, free = lift.rows.coordinates.position[self.rows], self.free
        distance = np.linalg.norm(self.difference, axis=1)
        bend = radius * np.sqrt(free.sum(axis=1)) * (1 + 1e-9)
        usable = (2 * bend < distance) & (self.measured > 0)
        bend, distance = np.where(usable, bend, 0.0), np.where(usable, distance, 1.0)
        off = bend**2 / (2 * (distance - bend)) * (1 + 1e-9) + rounding_error(_ROUNDOFFS, distance + self.measured)
        error = distance - self.measured
        theta = np.clip(off / np.maximum(np.abs(error), 1 / np.sqrt(2 * self.half)), 1e-12, _LARGEST_LOSS)
        half = np.where(usable, self.half * (1 - theta), 0.0)
        direction = self.difference / distance[:, None]
        v = np.concatenate([-direction * free[:, :1], direction * free[:, 1:], error[:, None]], axis=1)
        rows = np.concatenate([lift.rows.entries(np.maximum(position, 0)), np.full((len(v), 1), lift.rows.h)], axis=1)
        entries = Entries.of_blocks(rows, Bounded.of(half[:, None, None] * v[:, :, None] * v[:, None, :]))
        constants = -np.where(usable, self.half * off**2 / theta, 0.0)
        return _Problem(lift.slack([lift.cost_entries(), entries], constants), self.moving(lift), self.weight)
