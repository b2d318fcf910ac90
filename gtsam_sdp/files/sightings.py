"""Points seen from poses: measurements of a landmark's position in the body frame, as bearing and range.

GTSAM has no factor of two keys for such a measurement. For EDGE_SE3_TRACKXYZ `gtsam.readG2o` makes a
`BearingRangeFactor3D` with the information J^T Omega J, J the derivative of the point by bearing and range; the
same is done here for all files, in 2D too, where `gtsam.load2D` leaves EDGE_SE2_XY and LANDMARK2 lines out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.linalg.array import Array


@dataclass(frozen=True)
class Sighting:
    """A landmark measured from a pose.

    Attributes:
        line: its line in the file.
        pose, landmark: keys.
        point: where the landmark is in the body frame, (d,) [m].
        information: inverse of the point's covariance, (d, d).
    """

    line: int
    pose: int
    landmark: int
    point: Array
    information: Array

    def factor(self) -> Any:
        """`BearingRangeFactor2D` or `BearingRangeFactor3D`."""
        bearing, distance, derivative = _polar(self.point)
        if np.array_equal(self.information, self.information[0, 0] * np.eye(len(self.point))):
            sigma = 1 / np.sqrt(self.information[0, 0])
            sigmas = np.append(np.full(len(self.point) - 1, sigma / distance), sigma)
            model: Any = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
        else:
            model = gtsam.noiseModel.Gaussian.Information(derivative.T @ self.information @ derivative)
        factor: Any = gtsam.BearingRangeFactor2D if len(self.point) == 2 else gtsam.BearingRangeFactor3D
        return factor(self.pose, self.landmark, bearing, distance, model)

    def place(self, pose: Any) -> Array:
        """Where the landmark is if it is seen from `pose`, (d,) [m]."""
        return np.asarray(pose.transformFrom(self.point))


def checked_sighting(where: str, line: int, keys: tuple[int, int], point: Array, information: Array) -> Sighting:
    """A sighting, refused where the landmark is on top of the pose."""
    if not np.linalg.norm(point) > 0:
        raise DatasetError(f"{where}: the landmark is measured at distance 0, where it has no bearing.")
    return Sighting(line, *keys, point, information)


def from_factor(factor: Any) -> Sighting:
    """The sighting whose factor this is."""
    measured = factor.measured()
    bearing, distance = measured.bearing(), measured.range()
    direction = bearing.matrix()[:, 0] if isinstance(bearing, gtsam.Rot2) else bearing.unitVector()
    point = distance * np.asarray(direction)
    root = factor.noiseModel().R()
    inverse = np.linalg.inv(_polar(point)[2])
    information = inverse.T @ (root.T @ root) @ inverse
    pose, landmark = factor.keys()
    return Sighting(0, pose, landmark, point, (information + information.T) / 2)


def _polar(point: Array) -> tuple[Any, float, Array]:
    """Bearing, range, and the derivative of the point by them, (d, d)."""
    distance = float(np.linalg.norm(point))
    direction = point / distance
    if len(point) == 2:
        across = np.array([[-direction[1]], [direction[0]]])
        return gtsam.Rot2(np.arctan2(point[1], point[0])), distance, np.column_stack([distance * across, direction])
    bearing = gtsam.Unit3(point)
    return bearing, distance, np.column_stack([distance * bearing.basis(), direction])
