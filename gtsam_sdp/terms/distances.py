"""Terms of distances, tangents that may be taken anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtsam_sdp.linalg.array import Array

NEAREST = 1e-6
"""Distance, as a share of the measured one, below which its tangent is too steep to be of use."""


@dataclass(frozen=True)
class DistanceTerms:
    """Terms 1/2 w (|p| - r)^2 of distances, replaced by tangents in |p|^2 that may be taken anywhere.

    For every positive point delta: 1/2 w (|p| - r)^2 >= (1 - r / delta) 1/2 w |p|^2 + 1/2 w (r^2 - r delta), equal
    where |p| = delta. Where r <= 0 the term is what it is.

    Attributes:
        square: Hermitian matrix of 1/2 w |p|^2, (m, r, r).
        weight: w / 2, (m,).
        measured: r, (m,).
        point: delta, (m,); 1 where r <= 0.
        rest: what is added to each term, (m,).
    """

    square: Array
    weight: Array
    measured: Array
    point: Array
    rest: Array

    def select(self, chosen: Array) -> DistanceTerms:
        """Some of the terms."""
        square = self.square if len(self.square) == 1 < len(self.point) else self.square[chosen]
        return DistanceTerms(square, self.weight[chosen], self.measured[chosen], self.point[chosen], self.rest[chosen])

    @property
    def movable(self) -> Array:
        """Whether the term is a tangent, (m,)."""
        return (self.measured > 0) & (self.weight > 0)

    @property
    def matrix(self) -> Array:
        """(m, r, r)."""
        slope = np.where(self.measured > 0, (self.point - self.measured) / self.point, 1.0)
        return self.square * slope[:, None, None]

    @property
    def constant(self) -> Array:
        """(m,)."""
        touching = np.where(self.measured > 0, self.point, 0.0)
        return self.weight * (self.measured * (self.measured - touching)) + self.rest
