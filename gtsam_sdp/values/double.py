"""Numbers."""

from __future__ import annotations

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import FREE
from gtsam_sdp.values.kind import Kind


class Double(Kind):
    """A number, as a vector of length one."""

    name, blocks, has_length, fixed_length = "Double", (FREE,), True, 1

    def at(self, values: gtsam.Values, key: int) -> float:
        """The value of a key."""
        return values.atDouble(key)

    def numbers(self, value: float) -> Array:
        """The number, (1,)."""
        return np.array([value], dtype=float)

    def write(self, numbers: Array) -> float:
        """The number itself."""
        return float(numbers[0])

    def identity(self, length: int) -> float:
        """Zero."""
        return 0.0

    def random(self, rng: np.random.Generator, scale: float, length: int) -> float:
        """A normal number."""
        return float(rng.normal() * scale)

    def placed(self, position: Array) -> float:
        """With these numbers."""
        return self.write(position)
