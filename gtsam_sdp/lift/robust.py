"""Terms of factors with robust losses, which hold on intervals of their residuals (docs/maths/robust.md).

Below the loss of the residual's length is a parabola, and below that a Gaussian factor of less weight, a share of
which goes by its tangent. What is no use as a parabola is the constant that the loss is not below on the interval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gtsam_sdp.factors.families import ADAPTERS
from gtsam_sdp.factors.registry import FactorGroup, Lifting
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.losses.minorant import curvature
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.terms.terms import Exactness, Terms, no_rows

_SPARE = 1e-12
"""Relative error granted to the length of a residual, and to its loss."""


@dataclass(frozen=True)
class Intervals:
    """For each factor of a reading the lengths of its whitened residual for which its term has to hold [sigmas].

    Attributes:
        low, high: the ends, (f,); 0 and infinity for factors without a robust loss.
        is_constant: whether the term is the constant that the loss is not below, (f,).
        is_doubtful: whether the interval is smaller than was asked for, (f,).
        loosened: share of the curvature that is given up, so that the cost grows above its term.
    """

    low: Array
    high: Array
    is_constant: Array
    is_doubtful: Array
    loosened: float = 0.0


def robust_terms_of(reading: Reading, intervals: Intervals, *, at_measurements: bool = False) -> list[Terms]:
    """Terms of all factors with a robust loss."""
    lifting = Lifting(reading.layout, reading.estimate, reading.cost, at_measurements)
    return [batch for group in reading.robust for batch in _terms(group, lifting, reading, intervals)]


def _terms(group: FactorGroup, lifting: Lifting, reading: Reading, intervals: Intervals) -> list[Terms]:
    """Terms of factors with the same robust loss."""
    loss, at = group.loss, np.searchsorted(reading.table.index, group.index)
    assert loss is not None
    low, high = intervals.low[at], intervals.high[at]
    r0 = np.zeros(len(at)) if lifting.at_measurements else reading.lengths[at]
    weight = loss.weight(r0)
    mu = curvature(loss, r0, low, high)
    mu = mu - intervals.loosened * np.where(np.isfinite(mu), np.abs(mu), 0.0)
    constant = intervals.is_constant[at] | ~(np.isfinite(high) | (mu >= weight))
    terms = []
    bent = np.flatnonzero(~constant & (weight > 0))
    if len(bent):
        own, end, start = weight[bent], high[bent], r0[bent]
        share = mu[bent] / own
        batch = _weighted(group, lifting, bent, own, end, share)
        value, square = loss.value(start), own * start**2
        rest = (1 - share) * own * start * np.where(share < 1, end + start, 0.0)
        batch = batch.raised(value - square / 2 - _SPARE * (value + square + rest))
        # without the tangent of what has no curvature a term is none
        touches = (share >= 1) | (batch.exactness <= int(Exactness.TANGENT))
        terms.append(batch.select(touches))
        bent = bent[touches]
    rest = np.setdiff1d(np.flatnonzero(~constant), bent)
    below = loss.share_of_square(np.where(np.isfinite(high), high, 0.0)) * (1 - _SPARE)
    rest = rest[below[rest] > 0]
    if len(rest):
        batch = _weighted(group, lifting, rest, below[rest], high[rest], np.ones(len(rest)))
        terms.append(replace(batch, exactness=np.full(len(rest), int(Exactness.LOWER_BOUND))))
    left = np.setdiff1d(np.arange(len(at)), np.concatenate([bent, rest]))
    if len(left):
        terms.append(_constants(group.index[left], loss.value(low[left]) * (1 - _SPARE)))
    return [batch for batch in terms if len(batch.factor)]


def _weighted(group: FactorGroup, lifting: Lifting, at: Array, weight: Array, end: Array, share: Array) -> Terms:
    """Terms of some of the factors with a weight and without their loss, which hold for residuals up to an end."""
    chosen = np.zeros(len(group.index), dtype=bool)
    chosen[at] = True
    weaker = replace(group, loss=None).select(chosen)
    weaker = replace(weaker, information=weight[:, None, None] * weaker.information)
    limits = replace(lifting, max_cost=weight * end**2 / 2 * (1 + 1e-9), share=share)
    return ADAPTERS[group.type_name].build(weaker, limits)


def _constants(index: Array, value: Array) -> Terms:
    """Terms about no variable."""
    count = len(index)
    return Terms(
        factor=index,
        rotations=no_rows(count),
        translations=no_rows(count),
        combination=np.zeros((0, 0)),
        offset=None,
        matrix=np.zeros((count, 0, 0)),
        constant=value,
        exactness=np.full(count, int(Exactness.LOWER_BOUND)),
    )
