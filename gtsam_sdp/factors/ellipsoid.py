"""Ellipsoids around the estimate of a residual in which every better solution is (section 2.5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gtsam_sdp.factors.weights import smallest_eigenvalue, symmetric
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import rounding_error

_LARGEST_CONDITION = 1e12
"""Condition number of the information, its diagonal scaled to one, up to which the ellipsoid is known well enough."""

_LARGEST_METRIC = 1e9
"""Largest trace of a metric of a region against that of the region before, whose digits it must not take."""

WEIGHTS = (0.0, 0.3, 0.6, 0.9)
"""Weights of a second ellipsoid against that of the region, in an ellipsoid around what both have in common."""


@dataclass(frozen=True)
class Region:
    """Ellipsoids of r = (omega, v) around the estimate, r^ + N z, |z| <= 1, in GTSAM's space or plane.

    Attributes:
        root: N, (m, k, k).
        theta: largest angle in it [rad], (m,).
        length: largest |v| in it [m], (m,).
    """

    root: Array
    theta: Array
    length: Array

    @classmethod
    def below_cost(cls, information: Array, r: Array, max_cost: Array, angles: int) -> tuple[Region, Array]:
        """Where 1/2 r^T L r <= max_cost, and for which factors the numbers allow to say so, (m,).

        Args:
            information: L, rotation first, (m, k, k).
            r: r^, (m, k).
            max_cost: at all points in question each factor costs no more than this, (m,).
            angles: numbers of omega.
        """
        scale = 1 / np.sqrt(np.maximum(np.einsum("kii->ki", information), np.finfo(float).tiny))
        scaled = information * scale[:, :, None] * scale[:, None, :]
        usable = np.isfinite(scaled).all(axis=(1, 2)) & np.isfinite(max_cost)
        scaled = np.where(usable[:, None, None], scaled, np.eye(scaled.shape[-1]))
        usable &= smallest_eigenvalue(scaled) > 1 / _LARGEST_CONDITION
        scaled = np.where(usable[:, None, None], scaled, np.eye(scaled.shape[-1]))
        # L from R, its root and the inverse of that: each is off by a few roundoffs times the condition number
        wider = 1 + 1e-6 + rounding_error(64) / smallest_eigenvalue(scaled)
        radius = np.sqrt(2 * np.minimum(max_cost, 1e300)) * wider
        own = np.sqrt(np.maximum(np.einsum("ki,kij,kj->k", r, information, r), 0.0)) * wider
        scale = np.where(usable[:, None], scale, 1.0)
        root = scale[:, :, None] * np.linalg.inv(np.linalg.cholesky(scaled)).swapaxes(1, 2)
        theta, length = _reach(root, angles)
        radius = np.broadcast_to(radius, theta.shape)
        usable &= own <= radius
        region = cls(root * (radius + own)[:, None, None], np.minimum(radius * theta, np.pi), radius * length)
        return region, usable

    def within(self, excess: Array, gap: float, r: Array, angles: int, most: float) -> Region:
        """A region around the part where the excess of cost over term, 1/2 z^T A z at least, is no more than a gap.

        Args:
            excess: A, (m, k, k), positive semidefinite but for rounding.
            gap: the gap.
            r: r^, (m, k).
            angles: numbers of omega.
            most: weight of the excess against the region, at most.
        """
        identity = np.eye(excess.shape[-1])
        trace = np.maximum(np.trace(excess, axis1=1, axis2=2), 0.0)
        lifted = np.maximum(-smallest_eigenvalue(excess), 0.0) + 1e-12 * trace
        allowed = 2 * max(gap, 0.0) * (1 + 1e-6) + lifted
        # A and what is allowed scaled down to numbers that leave the rest of the metric its digits
        share = 1 / np.maximum(allowed, np.maximum(trace, lifted) / _LARGEST_METRIC + np.finfo(float).tiny)
        return self._shrunk(share[:, None, None] * (excess + lifted[:, None, None] * identity), r, angles, most)

    def turning_less(self, theta: Array, r: Array, angles: int) -> Region:
        """A region around the part with angles of at most theta [rad], (m,)."""
        reach = (theta + np.linalg.norm(r[:, :angles], axis=1)) * (1 + 1e-6)
        turning = self.root[:, :angles] / reach[:, None, None]
        limited = replace(self, theta=np.minimum(self.theta, theta))
        return limited._shrunk(turning.swapaxes(1, 2) @ turning, r, angles)

    def _shrunk(self, metric: Array, r: Array, angles: int, most: float = 1.0) -> Region:
        """The smallest of some ellipsoids around the part of the region where z^T metric z <= 1."""
        eigenvalues, axes = np.linalg.eigh(symmetric(metric))
        mixed = np.stack([share * np.maximum(eigenvalues, 0.0) + (1 - share) for share in WEIGHTS if share <= most])
        smallest = np.argmax(np.sum(np.log(mixed), axis=2), axis=0)
        chosen = np.take_along_axis(mixed, smallest[None, :, None], axis=0)[0]
        rounding = np.where(smallest > 0, 1 + 1e-3, 1.0)
        root = self.root @ (axes * (rounding[:, None] / np.sqrt(chosen))[:, None, :])
        theta, length = _reach(root, angles)
        theta = np.linalg.norm(r[:, :angles], axis=1) + theta
        length = np.linalg.norm(r[:, angles:], axis=1) + length
        return Region(root, np.minimum(theta, self.theta), np.minimum(length, self.length))

    def select(self, at: Array) -> Region:
        """Those of some of the factors."""
        return Region(self.root[at], self.theta[at], self.length[at])


def whitened(root: Array, matrix: Array) -> tuple[Array, Array]:
    """N^T X N, (m, k, k), and a bound of its rounding in the 2-norm, (m,)."""
    size = np.linalg.norm(np.abs(root).swapaxes(1, 2) @ np.abs(matrix) @ np.abs(root), axis=(1, 2))
    return symmetric(root.swapaxes(1, 2) @ matrix @ root), rounding_error(16, size)


def _reach(root: Array, angles: int) -> tuple[Array, Array]:
    """Largest norms of the two parts of N z, |z| <= 1."""
    parts = (root[:, :angles], root[:, angles:])
    theta, length = (np.linalg.norm(part, axis=(1, 2), ord=2) * (1 + 1e-6) for part in parts)
    return theta, length
