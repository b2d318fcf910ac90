"""Unit3: a direction in space, kept as the first column of a rotation."""

from __future__ import annotations

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.kind import Kind


class Unit3(Kind):
    """A direction in space, the first row of a rotation whose other two rows are of no consequence."""

    name, dimension, rotates, can_be_probed = "Unit3", 3, True, False
    is_whole = False

    def at(self, values: gtsam.Values, key: int) -> gtsam.Unit3:
        """The value of a key."""
        return values.atUnit3(key)

    def numbers(self, value: gtsam.Unit3) -> Array:
        """The columns of a rotation whose first is the direction, (9,)."""
        direction = value.unitVector()
        second = np.cross(direction, np.eye(3)[np.argmin(np.abs(direction))])
        second /= np.linalg.norm(second)
        return np.concatenate([direction, second, np.cross(direction, second)])

    def write(self, numbers: Array) -> gtsam.Unit3:
        """From the first column."""
        return gtsam.Unit3(numbers[:3])

    def identity(self, length: int) -> gtsam.Unit3:
        """The x axis."""
        return gtsam.Unit3()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> gtsam.Unit3:
        """Any direction."""
        return gtsam.Unit3(rng.normal(size=3))
