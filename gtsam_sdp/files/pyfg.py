"""Files in PyFG format: poses, points, ranges and priors with names such as A12 and covariances for noise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.lines import (
    check_quaternion,
    given_before,
    numbered_words,
    parse_numbers,
    positive_definite,
    wrong_count,
)
from gtsam_sdp.files.odometry import insert_point
from gtsam_sdp.files.priors import as_pose
from gtsam_sdp.files.sightings import checked_sighting
from gtsam_sdp.linalg.array import Array

GTSAM: Any = gtsam
_NAME = re.compile(r"([A-Za-z])(\d{1,17})")


@dataclass(frozen=True)
class _Tag:
    """Words of a line after the first: a time (but for points), names, a measured value, the triangle of a covariance.

    Attributes:
        make: what the line adds.
        dimension: 2 or 3, 0 for either.
        names: number of names.
        value: numbers of the value.
        noise: rows of the covariance.
        timed: whether a time comes first.
    """

    make: Callable[[_Reader, _Line], None]
    dimension: int
    names: int
    value: int
    noise: int
    timed: bool = True

    @property
    def words(self) -> int:
        """Words after the first."""
        return self.timed + self.names + self.value + self.noise * (self.noise + 1) // 2


@dataclass(frozen=True)
class _Line:
    """A line whose words are read: where it is, keys, value and covariance."""

    number: int
    where: str
    keys: tuple[int, ...]
    names: tuple[str, ...]
    value: Sequence[float]
    covariance: Array


@dataclass(frozen=True)
class PyfgGraph:
    """The content of a PyFG file.

    Attributes:
        dimension: 2 or 3.
        graph, values: what GTSAM optimises.
        vertices: the words in front of the value, and the key, of each line that gives one.
        rest: the other lines.
        unused: names without a measurement, which have no value here.
    """

    dimension: int
    graph: gtsam.NonlinearFactorGraph
    values: gtsam.Values
    vertices: Sequence[tuple[str, int]]
    rest: Sequence[str]
    unused: Sequence[str]


@dataclass
class _Reader:
    """What has been read so far."""

    dimension: int = 0
    graph: gtsam.NonlinearFactorGraph = field(default_factory=gtsam.NonlinearFactorGraph)
    values: gtsam.Values = field(default_factory=gtsam.Values)
    kinds: dict[int, tuple[str, int]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def add_vertex(self, line: _Line, kind: str) -> None:
        """A name, which no other line has."""
        if line.keys[0] in self.kinds:
            raise given_before(line.where, line.names[0], self.kinds[line.keys[0]][1])
        self.kinds[line.keys[0]] = (kind, line.number)

    def add_factor(self, line: _Line, factor: Any) -> None:
        """A factor."""
        self.used.update(line.keys)
        self.graph.add(factor)

    def kinds_of(self, line: _Line, *expected: str) -> list[str]:
        """Pose or Point for each name of the line; all of them must be given by a vertex line."""
        for key, name in zip(line.keys, line.names, strict=True):
            if key not in self.kinds:
                raise DatasetError(f"{line.where}: the file has no VERTEX line for {name}.")
        kinds = [self.kinds[key][0] for key in line.keys]
        for name, kind, wanted in zip(line.names, kinds, expected, strict=False):
            if kind != wanted:
                raise DatasetError(f"{line.where}: {name} is a {kind.lower()}, where a {wanted.lower()} is needed.")
        return kinds


def looks_like_pyfg(text: str) -> bool:
    """Whether the first line of a file has names where g2o has numbers."""
    for _, words in numbered_words(text):
        return words[0] in _TAGS and any(_NAME.fullmatch(word) for word in words[1:4])
    return False


def read_pyfg(path: Path, text: str) -> PyfgGraph:
    """Reads the text of a PyFG file; `path` is for messages.

    Raises:
        DatasetError: the file is damaged or holds tags that are not supported; names the line.
    """
    reader = _Reader()
    records = list(numbered_words(text))
    lines = [(words, *_parse(path, number, words, reader)) for number, words in records]
    vertices = [(words, tag, line) for words, tag, line in lines if _is_vertex(words[0])]
    for _, tag, line in vertices:  # wherever they are in the file
        tag.make(reader, line)
    rest = [(words, tag, line) for words, tag, line in lines if not _is_vertex(words[0])]
    for _, tag, line in rest:
        tag.make(reader, line)
    if not rest:
        raise DatasetError(f"{path} holds no measurements: there is nothing to optimise.")
    kept, unused = [], []
    for words, tag, line in vertices:
        if line.keys[0] in reader.used:
            kept.append((" ".join(words[: len(words) - tag.value]), line.keys[0]))
        else:
            reader.values.erase(line.keys[0])
            unused.append(line.names[0])
    lines_of_rest = [" ".join(words) for words, _, _ in rest]
    return PyfgGraph(reader.dimension, reader.graph, reader.values, kept, lines_of_rest, unused)


def _is_vertex(tag: str) -> bool:
    return tag.startswith("VERTEX") and not tag.endswith(":PRIOR")


def _parse(path: Path, number: int, words: list[str], reader: _Reader) -> tuple[_Tag, _Line]:
    """The words of a line, checked as far as the line alone tells."""
    where = f"{path}, line {number}"
    tag = _TAGS.get(words[0])
    if tag is None:
        raise DatasetError(f"{where}: unknown tag {words[0][:40]!r}. Supported in PyFG are {', '.join(_TAGS)}.")
    if len(words) - 1 != tag.words:
        raise wrong_count(where, words, tag.words, "words")
    if tag.dimension and reader.dimension not in (0, tag.dimension):
        raise DatasetError(f"{where}: {words[0]} is in {tag.dimension}D, the lines before are in {reader.dimension}D.")
    reader.dimension = reader.dimension or tag.dimension
    first = 1 + tag.timed
    names = tuple(words[first : first + tag.names])
    if tag.timed:
        parse_numbers(where, words[1:2])
    keys = tuple(_key(where, name) for name in names)
    if len(set(keys)) < len(keys):
        raise DatasetError(f"{where}: {words[0]} joins {names[0]} with itself.")
    numbers = parse_numbers(where, words[first + tag.names :])
    value, upper = numbers[: tag.value], numbers[tag.value :]
    if len(value) == 7:
        check_quaternion(where, value[3:])
    covariance = positive_definite(where, "covariance", upper) if upper else np.zeros((0, 0))
    return tag, _Line(number, where, keys, names, value, covariance)


def _key(where: str, name: str) -> int:
    match = _NAME.fullmatch(name)
    if not match or int(match[2]) >= 2**56:
        raise DatasetError(f"{where}: {name[:40]!r} is not a name; names are a letter and a number, such as A12.")
    return gtsam.symbol(match[1], int(match[2]))


def _noise(line: _Line) -> Any:
    """The covariance in the order of GTSAM's tangents: rotations first in space."""
    covariance = line.covariance
    if len(covariance) == 6:
        covariance = np.roll(covariance, 3, axis=(0, 1))
    return gtsam.noiseModel.Gaussian.Covariance(covariance)


def _vertex_pose(reader: _Reader, line: _Line) -> None:
    reader.add_vertex(line, "Pose")
    reader.values.insert(line.keys[0], as_pose(line.value))


def _vertex_point(reader: _Reader, line: _Line) -> None:
    reader.add_vertex(line, "Point")
    insert_point(reader.values, line.keys[0], np.array(line.value))


def _pose_prior(reader: _Reader, line: _Line) -> None:
    reader.kinds_of(line, "Pose")
    prior = getattr(GTSAM, f"PriorFactorPose{reader.dimension}")
    reader.add_factor(line, prior(*line.keys, as_pose(line.value), _noise(line)))


def _point_prior(reader: _Reader, line: _Line) -> None:
    reader.kinds_of(line, "Point")
    prior = getattr(GTSAM, f"PriorFactorPoint{reader.dimension}")
    reader.add_factor(line, prior(*line.keys, np.array(line.value), _noise(line)))


def _between(reader: _Reader, line: _Line) -> None:
    reader.kinds_of(line, "Pose", "Pose")
    between = getattr(GTSAM, f"BetweenFactorPose{reader.dimension}")
    reader.add_factor(line, between(*line.keys, as_pose(line.value), _noise(line)))


def _sighting(reader: _Reader, line: _Line) -> None:
    reader.kinds_of(line, "Pose", "Point")
    pose, landmark = line.keys
    information = _inverse(line.covariance)
    point = np.array(line.value)
    sighting = checked_sighting(line.where, line.number, (pose, landmark), point, information)
    reader.add_factor(line, sighting.factor())


def _inverse(covariance: Array) -> Array:
    """The inverse, exactly a multiple of the identity where the covariance is one."""
    size = len(covariance)
    if np.array_equal(covariance, covariance[0, 0] * np.eye(size)):
        return np.eye(size) / covariance[0, 0]
    inverse = np.linalg.inv(covariance)
    return (inverse + inverse.T) / 2


def _range(reader: _Reader, line: _Line) -> None:
    kinds = reader.kinds_of(line)
    d, keys = reader.dimension, line.keys
    if line.value[0] < 0:
        raise DatasetError(f"{line.where}: the range {line.value[0]:g} is negative.")
    if kinds == ["Point", "Pose"]:
        kinds, keys = ["Pose", "Point"], keys[::-1]
    suffix = {("Pose", "Point"): f"{d}D", ("Pose", "Pose"): f"Pose{d}", ("Point", "Point"): f"{d}"}
    factor = getattr(GTSAM, f"RangeFactor{suffix[kinds[0], kinds[1]]}")
    sigma = float(np.sqrt(line.covariance[0, 0]))
    reader.add_factor(line, factor(*keys, line.value[0], gtsam.noiseModel.Isotropic.Sigma(1, sigma)))


_TAGS: Mapping[str, _Tag] = {
    "VERTEX_SE2": _Tag(_vertex_pose, 2, 1, 3, 0),
    "VERTEX_SE3:QUAT": _Tag(_vertex_pose, 3, 1, 7, 0),
    "VERTEX_XY": _Tag(_vertex_point, 2, 1, 2, 0, timed=False),
    "VERTEX_XYZ": _Tag(_vertex_point, 3, 1, 3, 0, timed=False),
    "VERTEX_SE2:PRIOR": _Tag(_pose_prior, 2, 1, 3, 3),
    "VERTEX_SE3:QUAT:PRIOR": _Tag(_pose_prior, 3, 1, 7, 6),
    "VERTEX_XY:PRIOR": _Tag(_point_prior, 2, 1, 2, 2),
    "VERTEX_XYZ:PRIOR": _Tag(_point_prior, 3, 1, 3, 3),
    "EDGE_SE2": _Tag(_between, 2, 2, 3, 3),
    "EDGE_SE3:QUAT": _Tag(_between, 3, 2, 7, 6),
    "EDGE_SE2_XY": _Tag(_sighting, 2, 2, 2, 2),
    "EDGE_SE3_XYZ": _Tag(_sighting, 3, 2, 3, 3),
    "EDGE_RANGE": _Tag(_range, 0, 2, 1, 1),
}
