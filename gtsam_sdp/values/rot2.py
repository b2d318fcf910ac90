"""Rot2: cos and sin."""

from __future__ import annotations

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import ROTATION
from gtsam_sdp.values.kind import Kind


class Rot2(Kind):
    """A rotation of the plane, one complex row z = cos + i sin."""

    name, dimension, blocks = "Rot2", 2, (ROTATION,)

    def at(self, values: gtsam.Values, key: int) -> gtsam.Rot2:
        """The value of a key."""
        return values.atRot2(key)

    def numbers(self, value: gtsam.Rot2) -> Array:
        """cos, sin."""
        return value.matrix()[:, 0]

    def write(self, numbers: Array) -> gtsam.Rot2:
        """From cos, sin."""
        return gtsam.Rot2.fromCosSin(float(numbers[0]), float(numbers[1]))

    def identity(self, length: int) -> gtsam.Rot2:
        """No turn."""
        return gtsam.Rot2()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> gtsam.Rot2:
        """Any angle."""
        return gtsam.Rot2(rng.uniform(-np.pi, np.pi))
