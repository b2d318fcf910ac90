"""Parabolas in the residual that touch a loss at the values and are never above it on an interval.

For r in [low, high]:  rho(r) >= rho(r0) + w0 r0 (r - r0) + mu / 2 (r - r0)^2,  w0 = rho'(r0) / r0. The largest such mu
is the least value of mu(r) = 2 (rho(r) - rho(r0) - w0 r0 (r - r0)) / (r - r0)^2. Since rho'' falls up to `turn` and
rises after it, mu(r) falls and then rises on each side of r0: its least value is at an end, at r0 itself, or where
mu'(r) = 0, which bisection finds (docs/maths/robust.md).
"""

from __future__ import annotations

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.losses.losses import Loss

_SPARE = 1e-9
"""Share of the curvature that is given up for rounding and for what is left of the bisection's interval."""

_NEAR = 1e-4
"""Ends of an interval nearer to r0 than this share of it count as being that far away: numbers cancel there."""

_HALVINGS = 24
_WIDENINGS = 12


def curvature(loss: Loss, r0: Array, low: Array, high: Array) -> Array:
    """The largest mu that is proven for residuals in [low, high], which contains r0, (m,)."""
    weight = loss.weight(r0)
    slope, value = weight * r0, loss.value(r0)
    low = np.maximum(np.minimum(low, r0 * (1 - _NEAR)), 0.0)
    high = np.maximum(high, np.maximum(r0 * (1 + _NEAR), _NEAR * loss.constant))

    def excess(r: Array) -> Array:
        size = loss.value(r) + value + slope * np.abs(r - r0)
        return loss.value(r) - value - slope * (r - r0) - 1e-15 * size

    def at(r: Array) -> Array:
        return np.where(r != r0, 2 * excess(r) / np.where(r != r0, r - r0, 1.0) ** 2, loss.bend(r0))

    def rises(r: Array) -> Array:
        """Whether mu rises with the distance from r0."""
        return (loss.weight(r) * r - slope) * (r - r0) >= 2 * excess(r)

    def least(near: Array, end: Array) -> Array:
        """The least mu from `near` to `end`, which it falls from, and may rise later to."""
        bounded = np.isfinite(end)
        near, end = np.where(bounded, near, r0), np.where(bounded, end, r0)
        found = np.where(bounded, at(end), 0.0 if loss.is_convex else -np.inf)
        inside, outside = near, end
        turned = rises(outside) & (outside != near)
        if not turned.any():
            return found
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            up = rises(middle)
            inside, outside = np.where(up, inside, middle), np.where(up, middle, outside)
        return np.where(turned, np.minimum(found, np.minimum(at(inside), at(outside))), found)

    turn = np.minimum(loss.turn, 1e300)
    right = np.where(r0 < turn, least(np.clip(turn, r0, high), high), loss.bend(r0))
    left = np.where(r0 > turn, least(np.clip(turn, low, r0), low), right)
    mu = np.minimum(np.minimum(left, right), weight)
    mu = mu - _SPARE * np.abs(mu)
    return np.maximum(mu, 0.0) if loss.is_convex else mu


def widest(loss: Loss, r0: Array, high: Array, share: float) -> Array:
    """The largest end of an interval [0, end], at most `high`, on which mu is at least a share of the weight, (m,).

    0 where there is none.
    """
    if not len(r0):
        return high
    enough = share * loss.weight(r0)
    inside, outside = np.zeros_like(r0), high.copy()
    fits = curvature(loss, r0, np.zeros_like(r0), high) >= enough
    start = np.minimum(np.maximum(r0 * (1 + 10 * _NEAR), _NEAR * loss.constant), high)
    starts = curvature(loss, r0, np.zeros_like(r0), start) >= enough
    inside = np.where(starts, start, 0.0)
    outside = np.where(np.isfinite(outside), outside, 1e6 * loss.constant)
    for _ in range(_WIDENINGS):
        middle = (inside + outside) / 2
        good = curvature(loss, r0, np.zeros_like(r0), middle) >= enough
        inside, outside = np.where(starts & good, middle, inside), np.where(good, outside, middle)
    return np.where(fits, high, inside)
