"""Priors of g2o files, which GTSAM's readers leave out: of poses, of their positions, of landmarks.

g2o measures the pose of a sensor, Z = X P, where PARAMS_SE3OFFSET gives the sensor's pose P in the body. GTSAM's
prior is one of X, at Z P^-1. As Log(Z^-1 X P) = Ad(P)^-1 Log((Z P^-1)^-1 X) at every X, it has exactly the same cost
with the information Ad(P)^-T Omega Ad(P)^-1. EDGE_SE3_XYZ_PRIOR measures the body's own position: g2o does not use the
offset that its line names.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.lines import positive_definite, symmetric
from gtsam_sdp.linalg.array import Array

_SINGULAR = 1e-12  # relative eigenvalue, as in the warning of singular matrices


@dataclass(frozen=True)
class Prior:
    """A prior whose vertex is known.

    Attributes:
        line: its line in the file.
        key: the pose or the landmark.
        kind: what is measured: a pose, the position of a pose in the world, or a landmark in the world.
        measured: `Pose2`, `Pose3`, or a position (d,) [m].
        information: inverse of the covariance, (k, k), of a pose translations first, in its own axes [m, rad].
    """

    line: int
    key: int
    kind: Literal["pose", "position", "landmark"]
    measured: Any
    information: Array

    @property
    def name(self) -> str:
        """`line 12, the prior of 3`."""
        return f"line {self.line}, the prior of {self.key}"

    @property
    def position(self) -> Array:
        """What is measured of the position, (d,) [m]."""
        return np.asarray(self.measured.translation() if self.kind == "pose" else self.measured)

    @property
    def pose(self) -> Any:
        """A pose that satisfies the prior; without rotation where only the position is measured."""
        if self.kind == "pose":
            return self.measured
        if len(self.measured) == 2:
            return gtsam.Pose2(gtsam.Rot2(), self.measured)
        return gtsam.Pose3(gtsam.Rot3(), self.measured)

    def factor(self, scale: float = 1.0) -> Any:
        """`PriorFactorPose2/3`, `PoseTranslationPrior2D/3D` or `PriorFactorPoint3`, its cost times `scale`."""
        information = scale * self.information
        if len(information) == 6:
            information = np.roll(information, 3, axis=(0, 1))  # g2o has translations first, GTSAM rotations
        makers: Mapping[tuple[str, int], Any] = {
            ("pose", 3): gtsam.PriorFactorPose2,
            ("pose", 6): gtsam.PriorFactorPose3,
            ("position", 2): gtsam.PoseTranslationPrior2D,
            ("position", 3): gtsam.PoseTranslationPrior3D,
            ("landmark", 3): gtsam.PriorFactorPoint3,
        }
        return makers[self.kind, len(information)](self.key, self.measured, _noise(information))


def _noise(information: Array) -> Any:
    """The noise model with the information (k, k), also where it leaves directions free.

    GTSAM's Cholesky factor of a singular matrix, as that of a moved prior without rotation, may be one of another.
    """
    values, vectors = np.linalg.eigh(information)
    is_diagonal = not (information - np.diag(np.diag(information))).any()
    if is_diagonal or not abs(values[0]) <= _SINGULAR * values[-1]:
        return gtsam.noiseModel.Gaussian.Information(information)
    return gtsam.noiseModel.Gaussian.SqrtInformation(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


@dataclass(frozen=True)
class PriorLine:
    """The words of a prior's line, before the kind of its vertex is known."""

    line: int
    where: str
    tag: str
    ids: Sequence[int]
    numbers: Sequence[float]


@dataclass(frozen=True)
class Vertices:
    """What a prior may refer to: keys of poses, keys of landmarks, offsets with their lines."""

    poses: Container[int]
    landmarks: Container[int]
    offsets: Mapping[int, tuple[int, Sequence[float]]]


def as_pose(numbers: Sequence[float]) -> Any:
    """The pose of `x y theta`, or of `x y z qx qy qz qw` with a quaternion of any length."""
    if len(numbers) == 3:
        return gtsam.Pose2(*numbers)
    x, y, z, w = np.array(numbers[3:]) / np.linalg.norm(numbers[3:])
    return gtsam.Pose3(gtsam.Rot3.Quaternion(w, x, y, z), np.array(numbers[:3]))


_SIZES = {
    "EDGE_PRIOR_SE2": 3,
    "EDGE_PRIOR_SE2_XY": 2,
    "EDGE_SE3_PRIOR": 7,
    "EDGE_SE3_XYZ_PRIOR": 3,
    "EDGE_POINTXYZ_PRIOR": 3,
}


def known_prior(line: PriorLine, vertices: Vertices) -> Prior:
    """The prior of a line.

    Raises:
        DatasetError: its vertex is of another kind, or its offset is not in the file.
    """
    size = _SIZES[line.tag]
    measured, upper = line.numbers[:size], line.numbers[size:]
    landmark = gtsam.symbol("l", line.ids[0] % 2**56)
    if line.tag == "EDGE_POINTXYZ_PRIOR" and landmark in vertices.landmarks:
        if line.ids[0] in vertices.poses:
            raise DatasetError(
                f"{line.where}: {line.ids[0]} is a pose and a landmark, so that the prior may be of either. "
                "For the pose write EDGE_SE3_XYZ_PRIOR, or number them apart."
            )
        information = positive_definite(line.where, "information", upper)
        return Prior(line.line, landmark, "landmark", np.array(measured), information)
    if line.ids[0] not in vertices.poses:
        _refuse_vertex(line, landmark in vertices.landmarks)
    if line.tag not in ("EDGE_PRIOR_SE2", "EDGE_SE3_PRIOR"):
        information = positive_definite(line.where, "information", upper)
        return Prior(line.line, line.ids[0], "position", np.array(measured), information)
    pose, information = as_pose(measured), symmetric(upper)
    if line.tag == "EDGE_SE3_PRIOR":
        pose, information = _of_body(pose, information, _offset(line, vertices))
    return Prior(line.line, line.ids[0], "pose", pose, information)


def _refuse_vertex(line: PriorLine, is_landmark: bool) -> None:
    """Raises where a prior is of a landmark that needs a pose, or of a vertex of unknown kind."""
    if is_landmark:
        raise DatasetError(
            f"{line.where}: {line.ids[0]} is a landmark; {line.tag} is a prior of a pose. "
            "For a landmark in space write EDGE_POINTXYZ_PRIOR."
        )
    if line.tag == "EDGE_POINTXYZ_PRIOR":
        raise DatasetError(
            f"{line.where}: no other line has vertex {line.ids[0]}, so that it may be a pose or a landmark. "
            "Give it a line VERTEX_SE3:QUAT or VERTEX_TRACKXYZ."
        )


def _offset(line: PriorLine, vertices: Vertices) -> Any:
    """The sensor's pose in the body, None where it is that of the body itself."""
    if line.ids[1] not in vertices.offsets:
        raise DatasetError(
            f"{line.where}: PARAMS_SE3OFFSET {line.ids[1]} is not in the file. Where the body itself is measured, "
            f"add the line PARAMS_SE3OFFSET {line.ids[1]} 0 0 0 0 0 0 1."
        )
    numbers = vertices.offsets[line.ids[1]][1]
    return as_pose(numbers) if any(numbers[:6]) else None


def _of_body(measured: Any, information: Array, offset: Any) -> tuple[Any, Array]:
    """The prior of the body that a prior of its sensor is; information with translations first."""
    if offset is None:
        return measured, information
    inverse = offset.inverse()
    moved = np.roll(inverse.AdjointMap(), 3, axis=(0, 1))
    result = moved.T @ information @ moved
    return measured.compose(inverse), (result + result.T) / 2
