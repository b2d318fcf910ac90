"""Writes graphs and values to g2o files, with all their digits (`gtsam.writeG2o` keeps six)."""

from __future__ import annotations

import gzip
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError, format_factor, format_key
from gtsam_sdp.files.sightings import from_factor
from gtsam_sdp.linalg.array import Array

_LANDMARKS = (gtsam.BearingRangeFactor2D, gtsam.BearingRangeFactor3D)
_TAGS: dict[type, str] = {
    gtsam.BetweenFactorPose2: "EDGE_SE2",
    gtsam.BetweenFactorPose3: "EDGE_SE3:QUAT",
    gtsam.BearingRangeFactor2D: "EDGE_SE2_XY",
    gtsam.BearingRangeFactor3D: "EDGE_SE3_TRACKXYZ",
    gtsam.PriorFactorPose2: "EDGE_PRIOR_SE2",
    gtsam.PriorFactorPose3: "EDGE_SE3_PRIOR",
    gtsam.PoseTranslationPrior2D: "EDGE_PRIOR_SE2_XY",
    gtsam.PoseTranslationPrior3D: "EDGE_POINTXYZ_PRIOR",
    gtsam.GPSFactor: "EDGE_POINTXYZ_PRIOR",
    gtsam.PriorFactorPoint3: "EDGE_POINTXYZ_PRIOR",
}
_OFFSET = "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1"
_OFFSET_TAGS = ("EDGE_SE3_TRACKXYZ", "EDGE_SE3_PRIOR", "EDGE_SE3_XYZ_PRIOR")
_INDEX = (1 << 56) - 1


def write_g2o(
    path: str | Path, measured: gtsam.NonlinearFactorGraph, values: gtsam.Values, fixed: Iterable[int] = ()
) -> None:
    """Writes poses, landmarks, between factors, bearings with ranges, and priors of poses, positions and landmarks.

    Bearings with ranges become EDGE_SE2_XY and EDGE_SE3_TRACKXYZ lines, priors EDGE_PRIOR_SE2, EDGE_SE3_PRIOR,
    EDGE_PRIOR_SE2_XY and EDGE_POINTXYZ_PRIOR (EDGE_SE3_XYZ_PRIOR where a landmark has the number of the pose), which
    give factors of the same cost when read. `fixed` are the numbers of vertices that get a FIX line. The file is
    packed with gzip where its name ends with .gz.

    Raises:
        DatasetError: the graph holds other factors, or the file cannot be written.
    """
    write_lines(path, g2o_lines(path, measured, values, fixed))


def g2o_lines(
    path: str | Path, measured: gtsam.NonlinearFactorGraph, values: gtsam.Values, fixed: Iterable[int] = ()
) -> list[str]:
    """The lines of `write_g2o`.

    Raises:
        DatasetError: a factor has no line in the format; names it.
    """
    keys = list(values.keys())
    landmarks = _landmark_numbers(path, values, keys)
    lines = [_vertex_line(values, key, key in landmarks) for key in keys] + [f"FIX {number}" for number in fixed]
    factors: list[Any] = [measured.at(k) for k in range(measured.size())]
    shared = set(landmarks.values()) & (set(keys) - landmarks.keys())
    edges = [_factor_line(path, index, factor, landmarks, shared) for index, factor in enumerate(factors)]
    if any(line.startswith(_OFFSET_TAGS) for line in edges):
        lines.append(_OFFSET)
    return lines + edges


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Writes lines to a file, with gzip if its name ends with .gz."""
    content = ("\n".join(lines) + "\n").encode()
    if str(path).lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)  # the same data whenever it is written
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise DatasetError(f"{path} cannot be written: {error.strerror}.") from None


def named(index: int, factor: Any) -> str:
    """`factor 12 (BetweenFactorPose3 on x3, x4)`."""
    return format_factor(index, type(factor).__name__, factor.keys())


def value_words(value: Any) -> str:
    """Numbers of a pose or a point."""
    if isinstance(value, gtsam.Pose2):
        numbers = [value.x(), value.y(), value.theta()]
    elif isinstance(value, gtsam.Pose3):
        turn = value.rotation().toQuaternion()
        numbers = [*value.translation(), turn.x(), turn.y(), turn.z(), turn.w()]
    else:
        numbers = value
    return words_of(numbers)


def any_value(values: gtsam.Values, key: int) -> Any:
    """A pose or a point, whichever it is."""
    for read in (values.atPose2, values.atPose3, values.atPoint2):
        with suppress(RuntimeError):
            return read(key)
    return values.atPoint3(key)


def words_of(numbers: Iterable[float]) -> str:
    """Numbers with all their digits."""
    return " ".join(repr(float(x)) for x in numbers)


def upper(matrix: Array) -> str:
    """The upper triangle, row by row."""
    return words_of(matrix[np.triu_indices(len(matrix))])


def information_of(path: str | Path, index: int, factor: Any) -> Array:
    """The information matrix of a factor's noise, (k, k), of poses translations first as files have it.

    Raises:
        DatasetError: the noise is robust or hard, for which files have no numbers.
    """
    model = factor.noiseModel()
    if not isinstance(model, gtsam.noiseModel.Gaussian) or model.isConstrained():
        kind = type(model).__name__
        raise DatasetError(f"{path}: {named(index, factor)} has noise of type {kind}; files have Gaussian noise only.")
    information = model.R().T @ model.R()
    return np.roll(information, 3, axis=(0, 1)) if len(information) == 6 else information


def _landmark_numbers(path: str | Path, values: gtsam.Values, keys: Iterable[int]) -> dict[int, int]:
    """The number that each landmark has in the file, by key."""
    numbers: dict[int, int] = {}
    seen: dict[int, int] = {}
    for key in keys:
        if isinstance(any_value(values, key), np.ndarray):
            before = seen.setdefault(key & _INDEX, key)
            if before != key:
                raise DatasetError(
                    f"{path}: g2o files have no letters, and landmarks {format_key(before)} and {format_key(key)} have "
                    "the same number. Write a .pyfg file."
                )
            numbers[key] = key & _INDEX
    return numbers


def _vertex_line(values: gtsam.Values, key: int, is_landmark: bool) -> str:
    value = any_value(values, key)
    if is_landmark:
        tag, key = "VERTEX_XY" if len(value) == 2 else "VERTEX_TRACKXYZ", key & _INDEX
    else:
        tag = "VERTEX_SE2" if isinstance(value, gtsam.Pose2) else "VERTEX_SE3:QUAT"
    return f"{tag} {key} {value_words(value)}"


def _factor_line(
    path: str | Path, index: int, factor: Any, landmarks: Mapping[int, int], shared: Container[int]
) -> str:
    """The line of a factor; `shared` are the numbers that a pose and a landmark have."""
    tag = _TAGS.get(type(factor))
    if tag is None:
        raise DatasetError(
            f"{path}: {named(index, factor)} has no line in g2o files, which hold "
            f"{', '.join(kind.__name__ for kind in _TAGS)}. Ranges and priors of points in the plane can be "
            "written to a .pyfg file."
        )
    information = information_of(path, index, factor)
    if isinstance(factor, _LANDMARKS):
        return _sighting_line(path, index, factor, tag)
    numbers = [landmarks.get(key, key) for key in factor.keys()]
    if tag == "EDGE_POINTXYZ_PRIOR" and numbers[0] in shared:
        if isinstance(factor, gtsam.PriorFactorPoint3):
            raise DatasetError(
                f"{path}: {named(index, factor)}: a pose and a landmark have the number {numbers[0]}, and g2o files "
                "have no letters: the line may be read as a prior of either. Number them apart, or write a .pyfg file."
            )
        tag = "EDGE_SE3_XYZ_PRIOR"  # of a pose in any case
    offset = " 0" if tag in _OFFSET_TAGS else ""
    ends = " ".join(map(str, numbers))
    return f"{tag} {ends}{offset} {value_words(measured_by(factor))} {upper(information)}"


def measured_by(factor: Any) -> Any:
    """The pose, or the position (d,) [m], that a factor measures."""
    for name in ("measured", "prior", "measurementIn"):
        if hasattr(factor, name):
            return getattr(factor, name)()
    raise AssertionError(f"{type(factor).__name__} measures nothing known")


def _sighting_line(path: str | Path, index: int, factor: Any, tag: str) -> str:
    if not factor.measured().range() > 0:
        raise DatasetError(
            f"{path}: {named(index, factor)}: a g2o file has no line for a range of {factor.measured().range():g}."
        )
    sighting = from_factor(factor)
    ends = f"{sighting.pose} {sighting.landmark & _INDEX}{' 0' if tag in _OFFSET_TAGS else ''}"
    return f"{tag} {ends} {words_of(sighting.point)} {upper(sighting.information)}"
