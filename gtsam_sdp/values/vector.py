"""Vectors and points of any length."""

from __future__ import annotations

from collections.abc import Sequence

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import FREE
from gtsam_sdp.values.kind import Kind


class Vector(Kind):
    """A vector or point, one row for each d numbers."""

    name, blocks, has_length = "Vector", (FREE,), True

    def at(self, values: gtsam.Values, key: int) -> Array:
        """The value of a key; GTSAM's readers of files store points in types of their own."""
        try:
            return np.atleast_1d(values.atVector(key))
        except RuntimeError:
            pass
        try:
            return values.atPoint2(key)
        except RuntimeError:
            return values.atPoint3(key)

    def numbers(self, value: Array) -> Array:
        """The vector itself."""
        return value

    def read(self, values: gtsam.Values, keys: Array) -> Array | Sequence[Array]:
        """The vectors, (m, n); a list where their lengths differ."""
        vectors = [self.at(values, key) for key in keys.tolist()]
        return np.array(vectors) if len({len(vector) for vector in vectors}) == 1 else vectors

    def write(self, numbers: Array) -> Array:
        """The numbers themselves."""
        return numbers

    def identity(self, length: int) -> Array:
        """Zeros."""
        return np.zeros(length)

    def random(self, rng: np.random.Generator, scale: float, length: int) -> Array:
        """A normal vector."""
        return rng.normal(size=length) * scale

    def placed(self, position: Array) -> Array:
        """The position itself."""
        return position
