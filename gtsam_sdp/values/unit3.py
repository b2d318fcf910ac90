"""Unit3: the three numbers of a unit vector."""

from __future__ import annotations

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import DIRECTION
from gtsam_sdp.values.kind import Kind


class Unit3(Kind):
    """A direction in space, the row u^T."""

    name, dimension, blocks, can_be_probed = "Unit3", 3, (DIRECTION,), False

    def at(self, values: gtsam.Values, key: int) -> gtsam.Unit3:
        """The value of a key."""
        return values.atUnit3(key)

    def numbers(self, value: gtsam.Unit3) -> Array:
        """u, (3,)."""
        return value.unitVector()

    def write(self, numbers: Array) -> gtsam.Unit3:
        """From u."""
        return gtsam.Unit3(numbers)

    def identity(self, length: int) -> gtsam.Unit3:
        """The x axis."""
        return gtsam.Unit3()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> gtsam.Unit3:
        """Any direction."""
        return gtsam.Unit3(rng.normal(size=3))
