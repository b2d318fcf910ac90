"""Writes graphs and values to g2o files, with all their digits (`gtsam.writeG2o` keeps six)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.sightings import from_factor
from gtsam_sdp.variables import Array

_POSES = (gtsam.BetweenFactorPose2, gtsam.BetweenFactorPose3)
_LANDMARKS = (gtsam.BearingRangeFactor2D, gtsam.BearingRangeFactor3D)
_INDEX = (1 << 56) - 1
_OFFSET = "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1"


def write_g2o(
    path: str | Path, measured: gtsam.NonlinearFactorGraph, values: gtsam.Values, fixed: Iterable[int] = ()
) -> None:
    """Writes poses, landmarks, between factors and bearings with ranges.

    Bearings with ranges become EDGE_SE2_XY and EDGE_SE3_TRACKXYZ lines, which give the same factors when read.
    `fixed` are the numbers of vertices that get a FIX line.

    Raises:
        DatasetError: the graph holds other factors, or the file cannot be written.
    """
    factors: list[Any] = [measured.at(k) for k in range(measured.size())]
    others = sorted({type(factor).__name__ for factor in factors if not isinstance(factor, _POSES + _LANDMARKS)})
    if others:
        raise DatasetError(
            f"{path}: g2o files are written for BetweenFactorPose2/3 and BearingRangeFactor2D/3D, "
            f"not {', '.join(others)}."
        )
    lines = [_vertex_line(values, key) for key in values.keys()] + [f"FIX {number}" for number in fixed]
    if any(isinstance(factor, gtsam.BearingRangeFactor3D) for factor in factors):
        lines.append(_OFFSET)
    lines += [_sighting_line(path, f) if isinstance(f, _LANDMARKS) else _edge_line(f) for f in factors]
    try:
        Path(path).write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise DatasetError(f"{path} cannot be written: {error.strerror}.") from None


def value_words(value: Any) -> str:
    """Numbers of a pose or a point."""
    if isinstance(value, gtsam.Pose2):
        numbers = [value.x(), value.y(), value.theta()]
    elif isinstance(value, gtsam.Pose3):
        turn = value.rotation().toQuaternion()
        numbers = [*value.translation(), turn.x(), turn.y(), turn.z(), turn.w()]
    else:
        numbers = value
    return _words(numbers)


def any_value(values: gtsam.Values, key: int) -> Any:
    """A pose or a point, whichever it is."""
    for read in (values.atPose2, values.atPose3, values.atPoint2):
        with suppress(RuntimeError):
            return read(key)
    return values.atPoint3(key)


def _words(numbers: Iterable[float]) -> str:
    return " ".join(repr(float(x)) for x in numbers)


def _vertex_line(values: gtsam.Values, key: int) -> str:
    value = any_value(values, key)
    if isinstance(value, np.ndarray):
        tag, key = "VERTEX_XY" if len(value) == 2 else "VERTEX_TRACKXYZ", key & _INDEX
    else:
        tag = "VERTEX_SE2" if isinstance(value, gtsam.Pose2) else "VERTEX_SE3:QUAT"
    return f"{tag} {key} {value_words(value)}"


def _edge_line(factor: Any) -> str:
    root = factor.noiseModel().R()
    information = root.T @ root
    if len(information) == 6:
        information = np.roll(information, 3, axis=(0, 1))  # GTSAM has rotations first, g2o translations
    tag = "EDGE_SE2" if len(information) == 3 else "EDGE_SE3:QUAT"
    i, j = factor.keys()
    return f"{tag} {i} {j} {value_words(factor.measured())} {_upper(information)}"


def _sighting_line(path: str | Path, factor: Any) -> str:
    if not factor.measured().range() > 0:
        raise DatasetError(f"{path}: a g2o file has no line for a range of {factor.measured().range():g}.")
    sighting = from_factor(factor)
    tag, offset = ("EDGE_SE2_XY", "") if len(sighting.point) == 2 else ("EDGE_SE3_TRACKXYZ", " 0")
    ends = f"{sighting.pose} {sighting.landmark & _INDEX}{offset}"
    return f"{tag} {ends} {_words(sighting.point)} {_upper(sighting.information)}"


def _upper(matrix: Array) -> str:
    return _words(matrix[np.triu_indices(len(matrix))])
