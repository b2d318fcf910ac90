"""Pose3: R column by column, then x, y and z."""

from __future__ import annotations

from collections.abc import Sequence

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import FREE, ROTATION
from gtsam_sdp.values.kind import Kind, random_rotation3


class Pose3(Kind):
    """A pose in space, the rows of R^T and t^T."""

    name, dimension, blocks = "Pose3", 3, (ROTATION, FREE)

    def keys_of(self, values: gtsam.Values) -> Sequence[int]:
        """Keys of all poses."""
        return gtsam.utilities.allPose3s(values).keys()

    def at(self, values: gtsam.Values, key: int) -> gtsam.Pose3:
        """The value of a key."""
        return values.atPose3(key)

    def numbers(self, value: gtsam.Pose3) -> Array:
        """The columns of R, then t, (12,)."""
        return np.append(value.rotation().matrix().T.ravel(), value.translation())

    def read(self, values: gtsam.Values, keys: Array) -> Array:
        """All poses in bulk, (m, 12)."""
        poses = gtsam.utilities.allPose3s(values)
        table = gtsam.utilities.extractPose3(poses)[np.searchsorted(np.array(poses.keys(), dtype=np.uint64), keys)]
        columns = table[:, :9].reshape(-1, 3, 3).swapaxes(1, 2).reshape(-1, 9)
        return np.column_stack([columns, table[:, 9:]])

    def write(self, numbers: Array) -> gtsam.Pose3:
        """From the columns of R, then t."""
        return gtsam.Pose3(gtsam.Rot3(numbers[:9].reshape(3, 3).T), numbers[9:])

    def identity(self, length: int) -> gtsam.Pose3:
        """The origin, not turned."""
        return gtsam.Pose3()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> gtsam.Pose3:
        """Any rotation, and a normal position."""
        return gtsam.Pose3(random_rotation3(rng), rng.normal(size=3) * scale)

    def placed(self, position: Array) -> gtsam.Pose3:
        """The pose at a position, not turned."""
        return gtsam.Pose3(gtsam.Rot3(), position)
