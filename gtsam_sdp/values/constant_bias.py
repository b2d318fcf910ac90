"""Biases of an IMU: accelerometer [m/s^2], then gyroscope [rad/s]."""

from __future__ import annotations

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import FREE
from gtsam_sdp.values.kind import Kind


class ConstantBias(Kind):
    """imuBias.ConstantBias, as a vector of six numbers."""

    name, blocks, has_length, fixed_length = "ConstantBias", (FREE,), True, 6

    def at(self, values: gtsam.Values, key: int) -> gtsam.imuBias.ConstantBias:
        """The value of a key."""
        return values.atConstantBias(key)

    def numbers(self, value: gtsam.imuBias.ConstantBias) -> Array:
        """Accelerometer, gyroscope, (6,)."""
        return value.vector()

    def write(self, numbers: Array) -> gtsam.imuBias.ConstantBias:
        """From the two vectors."""
        return gtsam.imuBias.ConstantBias(numbers[:3], numbers[3:6])

    def identity(self, length: int) -> gtsam.imuBias.ConstantBias:
        """No bias."""
        return gtsam.imuBias.ConstantBias()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> gtsam.imuBias.ConstantBias:
        """Two normal vectors."""
        return self.write(rng.normal(size=6) * scale)

    def placed(self, position: Array) -> gtsam.imuBias.ConstantBias:
        """With these numbers."""
        return self.write(position)
