"""Pose2: cos and sin, then x and y."""

from __future__ import annotations

from collections.abc import Sequence

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import FREE, ROTATION
from gtsam_sdp.values.kind import Kind


class Pose2(Kind):
    """A pose in the plane, the complex rows z and x + i y."""

    name, dimension, blocks = "Pose2", 2, (ROTATION, FREE)

    def keys_of(self, values: gtsam.Values) -> Sequence[int]:
        """Keys of all poses."""
        return gtsam.utilities.allPose2s(values).keys()

    def at(self, values: gtsam.Values, key: int) -> gtsam.Pose2:
        """The value of a key."""
        return values.atPose2(key)

    def numbers(self, value: gtsam.Pose2) -> Array:
        """cos, sin, x, y."""
        return np.append(value.rotation().matrix()[:, 0], value.translation())

    def read(self, values: gtsam.Values, keys: Array) -> Array:
        """All poses in bulk, (m, 4)."""
        poses = gtsam.utilities.allPose2s(values)
        table = gtsam.utilities.extractPose2(poses)[np.searchsorted(np.array(poses.keys(), dtype=np.uint64), keys)]
        return np.column_stack([np.cos(table[:, 2]), np.sin(table[:, 2]), table[:, :2]])

    def write(self, numbers: Array) -> gtsam.Pose2:
        """From cos, sin, x, y."""
        return gtsam.Pose2(gtsam.Rot2.fromCosSin(float(numbers[0]), float(numbers[1])), numbers[2:])

    def identity(self, length: int) -> gtsam.Pose2:
        """The origin, not turned."""
        return gtsam.Pose2()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> gtsam.Pose2:
        """Any angle, and a normal position."""
        return gtsam.Pose2(gtsam.Rot2(rng.uniform(-np.pi, np.pi)), rng.normal(size=2) * scale)

    def placed(self, position: Array) -> gtsam.Pose2:
        """The pose at a position, not turned."""
        return gtsam.Pose2(gtsam.Rot2(), position)
