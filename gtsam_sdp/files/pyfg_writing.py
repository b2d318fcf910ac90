"""Writes graphs and values in PyFG format, with the names of their keys and all their digits."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError, format_key
from gtsam_sdp.files.pyfg import PyfgGraph
from gtsam_sdp.files.sightings import from_factor
from gtsam_sdp.files.writing import any_value, information_of, measured_by, named, upper, value_words, write_lines
from gtsam_sdp.linalg.array import Array

_RANGES = (
    gtsam.RangeFactor2,
    gtsam.RangeFactor3,
    gtsam.RangeFactor2D,
    gtsam.RangeFactor3D,
    gtsam.RangeFactorPose2,
    gtsam.RangeFactorPose3,
)
_SIGHTINGS = (gtsam.BearingRangeFactor2D, gtsam.BearingRangeFactor3D)
_TAGS: dict[type, str] = {
    gtsam.BetweenFactorPose2: "EDGE_SE2",
    gtsam.BetweenFactorPose3: "EDGE_SE3:QUAT",
    gtsam.PriorFactorPose2: "VERTEX_SE2:PRIOR",
    gtsam.PriorFactorPose3: "VERTEX_SE3:QUAT:PRIOR",
    gtsam.PriorFactorPoint2: "VERTEX_XY:PRIOR",
    gtsam.PriorFactorPoint3: "VERTEX_XYZ:PRIOR",
    gtsam.BearingRangeFactor2D: "EDGE_SE2_XY",
    gtsam.BearingRangeFactor3D: "EDGE_SE3_XYZ",
    **dict.fromkeys(_RANGES, "EDGE_RANGE"),
}
_TIME = "0.0"  # graphs have no times
_LETTERS = string.ascii_uppercase  # of poses with plain numbers: CORA's files begin with A too
_INDEX = (1 << 56) - 1


def write_pyfg(path: str | Path, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> None:
    """Writes poses, points, between factors, priors, ranges, and bearings with ranges.

    A key `gtsam.symbol("x", 3)` has the name x3; plain numbers get the first capital letter that no key has, 3 is A3
    in a graph of plain numbers. All times are 0.

    Raises:
        DatasetError: the graph holds other factors, a key has no name, or the file cannot be written.
    """
    write_lines(path, pyfg_lines(path, graph, values))


def rewrite_pyfg(path: str | Path, file: PyfgGraph, values: gtsam.Values) -> None:
    """Writes a file that was read again, its lines as they were, with other values.

    Raises:
        DatasetError: the file cannot be written.
    """
    lines = [f"{head} {value_words(any_value(values, key))}" for head, key in file.vertices]
    write_lines(path, [*lines, *file.rest])


def pyfg_lines(path: str | Path, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> list[str]:
    """The lines of `write_pyfg`.

    Raises:
        DatasetError: a factor has no line in the format, or a key no name; names it.
    """
    keys = list(values.keys())
    names = _names(path, keys)
    lines = [_vertex_line(any_value(values, key), names[key]) for key in keys]
    factors: Sequence[Any] = [graph.at(k) for k in range(graph.size())]
    return lines + [_factor_line(path, index, factor, names) for index, factor in enumerate(factors)]


def _names(path: str | Path, keys: Sequence[int]) -> Mapping[int, str]:
    """A letter and a number for each key."""
    used = {chr(key >> 56) for key in keys}
    free = next(letter for letter in _LETTERS if letter not in used)
    names = {}
    for key in keys:
        letter = chr(key >> 56) if key >> 56 else free
        if letter not in string.ascii_letters:
            raise DatasetError(
                f"{path}: key {format_key(key)} has no name in PyFG files, where names are a letter and a number below "
                "2^56. Write a .g2o file, or number the vertices below 2^56."
            )
        names[key] = f"{letter}{key & _INDEX}"
    return names


def _vertex_line(value: Any, name: str) -> str:
    if isinstance(value, np.ndarray):
        return f"{'VERTEX_XY' if len(value) == 2 else 'VERTEX_XYZ'} {name} {value_words(value)}"
    tag = "VERTEX_SE2" if isinstance(value, gtsam.Pose2) else "VERTEX_SE3:QUAT"
    return f"{tag} {_TIME} {name} {value_words(value)}"


def _factor_line(path: str | Path, index: int, factor: Any, names: Mapping[int, str]) -> str:
    tag = _TAGS.get(type(factor))
    if tag is None:
        raise DatasetError(
            f"{path}: {named(index, factor)} has no line in PyFG files, which hold "
            f"{', '.join(kind.__name__ for kind in _TAGS)}. Priors of a pose's position can be written to a .g2o file."
        )
    information = information_of(path, index, factor)
    value: Any = None
    if isinstance(factor, _SIGHTINGS):
        if not factor.measured().range() > 0:
            raise DatasetError(
                f"{path}: {named(index, factor)}: a PyFG file has no line for a bearing with a range of "
                f"{factor.measured().range():g}."
            )
        sighting = from_factor(factor)
        value, information = sighting.point, sighting.information
    elif isinstance(factor, _RANGES):
        value = np.array([factor.measured()])
    else:
        value = measured_by(factor)
    keys = " ".join(names[key] for key in factor.keys())
    return f"{tag} {_TIME} {keys} {value_words(value)} {upper(_covariance(path, index, factor, information))}"


def _covariance(path: str | Path, index: int, factor: Any, information: Array) -> Array:
    """The inverse, exactly diagonal where the information is; PyFG has covariances."""
    diagonal = np.diag(information)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    if (diagonal <= 0).any() or np.linalg.eigvalsh(information / np.outer(scale, scale))[0] < 1e-12:
        raise DatasetError(
            f"{path}: {named(index, factor)} leaves a direction free (its information matrix is singular), and PyFG "
            "files have covariances. Write a .g2o file."
        )
    if not (information - np.diag(diagonal)).any():
        return np.diag(1 / diagonal)
    inverse = np.linalg.inv(information / np.outer(scale, scale)) / np.outer(scale, scale)
    return (inverse + inverse.T) / 2
