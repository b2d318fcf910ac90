"""Rot3: R column by column."""

from __future__ import annotations

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import ROTATION
from gtsam_sdp.values.kind import Kind, random_rotation3


class Rot3(Kind):
    """A rotation of space, the three rows of R^T."""

    name, dimension, blocks = "Rot3", 3, (ROTATION,)

    def at(self, values: gtsam.Values, key: int) -> gtsam.Rot3:
        """The value of a key."""
        return values.atRot3(key)

    def numbers(self, value: gtsam.Rot3) -> Array:
        """The columns of R, (9,)."""
        return value.matrix().T.ravel()

    def write(self, numbers: Array) -> gtsam.Rot3:
        """From the columns of R."""
        return gtsam.Rot3(numbers.reshape(3, 3).T)

    def identity(self, length: int) -> gtsam.Rot3:
        """No turn."""
        return gtsam.Rot3()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> gtsam.Rot3:
        """Any rotation."""
        return random_rotation3(rng)
