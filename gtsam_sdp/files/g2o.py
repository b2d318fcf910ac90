"""The lines of pose-graph files (g2o and TORO): every one checked, and named when it cannot be used."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.lines import (
    check_quaternion,
    given_before,
    numbered_words,
    parse_integers,
    parse_numbers,
    positive_definite,
    wrong_count,
)
from gtsam_sdp.files.priors import Prior, PriorLine, Vertices, known_prior
from gtsam_sdp.files.sightings import Sighting, checked_sighting
from gtsam_sdp.linalg.array import Array

Format = Literal["g2o", "TORO"]


@dataclass(frozen=True)
class _Tag:
    """What follows the first word of a line: vertex numbers, then numbers."""

    kind: Literal["vertex", "edge", "landmark", "point", "sighting", "offset", "prior"]
    format: Format
    dimension: int
    numbers: int
    ids: int = 2


TAGS: Mapping[str, _Tag] = {
    "VERTEX_SE2": _Tag("vertex", "g2o", 2, 3, ids=1),
    "EDGE_SE2": _Tag("edge", "g2o", 2, 3 + 6),
    "VERTEX_XY": _Tag("point", "g2o", 2, 2, ids=1),
    "EDGE_SE2_XY": _Tag("sighting", "g2o", 2, 2 + 3),
    "LANDMARK2": _Tag("sighting", "g2o", 2, 2 + 3),
    "VERTEX_SE3:QUAT": _Tag("vertex", "g2o", 3, 7, ids=1),
    "EDGE_SE3:QUAT": _Tag("edge", "g2o", 3, 7 + 21),
    "VERTEX_TRACKXYZ": _Tag("point", "g2o", 3, 3, ids=1),
    "EDGE_SE3_TRACKXYZ": _Tag("sighting", "g2o", 3, 3 + 6, ids=3),
    "PARAMS_SE3OFFSET": _Tag("offset", "g2o", 3, 7, ids=1),
    "EDGE_PRIOR_SE2": _Tag("prior", "g2o", 2, 3 + 6, ids=1),
    "EDGE_PRIOR_SE2_XY": _Tag("prior", "g2o", 2, 2 + 3, ids=1),
    "EDGE_SE3_PRIOR": _Tag("prior", "g2o", 3, 7 + 21),
    "EDGE_SE3_XYZ_PRIOR": _Tag("prior", "g2o", 3, 3 + 6),
    "EDGE_POINTXYZ_PRIOR": _Tag("prior", "g2o", 3, 3 + 6, ids=1),
    "VERTEX2": _Tag("vertex", "TORO", 2, 3, ids=1),
    "EDGE2": _Tag("edge", "TORO", 2, 3 + 6),
    "ODOMETRY": _Tag("edge", "TORO", 2, 3 + 6),
    "LANDMARK": _Tag("landmark", "TORO", 2, 2 + 3),
    "BR": _Tag("landmark", "TORO", 2, 2 + 2),
    "VERTEX3": _Tag("vertex", "TORO", 3, 6, ids=1),
    "EDGE3": _Tag("edge", "TORO", 3, 6 + 21),
}
_LEFT_OUT = {"FIX", "EQUIV"}
_A_TAG = re.compile(r"[A-Z][A-Z0-9_:]+")
_PARAMETERS = "PARAMS_"  # sensors and cameras; without an edge that refers to them they change nothing
_ROBUST = ("SWITCH", "MAXMIX", "MIXTURE")
_OTHER_LANDMARKS = ("LANDMARK", "TRACKXYZ", "_XY", "RANGE", "BEARING")


@dataclass(frozen=True)
class PoseLines:
    """The content of a pose-graph file.

    Attributes:
        path: the file.
        format: "g2o" or "TORO".
        dimension: 2 or 3.
        ids: the vertices that each edge joins, in the order of the file.
        places: line number of each edge, (m,).
        noise: the numbers after each edge's measurement, an upper triangle row by row, (m, 6) or (m, 21).
        vertices: the vertices that the file gives a value for.
        landmarks: number of landmark measurements that GTSAM reads (LANDMARK, BR).
        other_noise: lines of those whose noise GTSAM replaces.
        points: the landmarks that the file gives a place for, by key, (d,) [m].
        sightings: measurements of landmarks that GTSAM does not read, or not everywhere (EDGE_SE2_XY, LANDMARK2,
            EDGE_SE3_TRACKXYZ).
        priors: those of poses, of their positions, and of landmarks.
        left_out: words of the lines that GTSAM's readers leave out (FIX, EQUIV).
        lines: the lines that GTSAM reads.
    """

    path: Path
    format: Format
    dimension: int
    ids: Sequence[tuple[int, int]]
    places: Sequence[int]
    noise: Array
    vertices: frozenset[int]
    landmarks: int
    other_noise: Sequence[int]
    points: Mapping[int, Array]
    sightings: Sequence[Sighting]
    priors: Sequence[Prior]
    left_out: Sequence[Sequence[str]]
    lines: Sequence[str]

    @property
    def information(self) -> Array:
        """Symmetric matrices of the edges' noise, (m, k, k), translations first."""
        size = 3 if self.dimension == 2 else 6
        rows, columns = np.triu_indices(size)
        matrices = np.zeros((len(self.noise), size, size))
        matrices[:, rows, columns] = self.noise
        matrices[:, columns, rows] = self.noise
        return matrices

    @property
    def pose_priors(self) -> Sequence[Prior]:
        """Those of whole poses."""
        return [prior for prior in self.priors if prior.kind == "pose"]

    @property
    def prior_information(self) -> Array:
        """Symmetric matrices of the noise of `pose_priors`, (p, k, k), translations first."""
        size = 3 if self.dimension == 2 else 6
        return np.array([prior.information for prior in self.pose_priors]).reshape(-1, size, size)

    @property
    def fixed(self) -> Sequence[str]:
        """What FIX lines name, each once."""
        return list(dict.fromkeys(word for words in self.left_out if words[0] == "FIX" for word in words[1:]))

    def edge_name(self, edge: int) -> str:
        """`line 12, which joins 3 and 4`."""
        i, j = self.ids[edge]
        return f"line {self.places[edge]}, which joins {i} and {j}"


def read_pose_lines(path: Path, text: str) -> PoseLines:
    """Checks the lines of a g2o or TORO file; `path` is for messages.

    Raises:
        DatasetError: the file is damaged or holds tags that are not supported; names the line.
    """
    collected = _Collected(path)
    for number, words in numbered_words(text):
        _collect(collected, number, words)
    return _finish(collected)


@dataclass
class _Collected:
    """What the lines read so far hold."""

    path: Path
    ids: list[tuple[int, int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    noise: list[list[float]] = field(default_factory=list)
    vertices: dict[int, int] = field(default_factory=dict)
    landmarks: int = 0
    other_noise: list[int] = field(default_factory=list)
    points: dict[int, tuple[int, Array]] = field(default_factory=dict)
    offsets: dict[int, tuple[int, list[float]]] = field(default_factory=dict)
    sightings: list[Sighting] = field(default_factory=list)
    offset_of: list[int] = field(default_factory=list)
    priors: list[PriorLine] = field(default_factory=list)
    left_out: list[list[str]] = field(default_factory=list)
    kinds: dict[tuple[Format, int], int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def _collect(collected: _Collected, number: int, words: list[str]) -> None:
    """Checks one line and adds it."""
    where = f"{collected.path}, line {number}"
    if words[0] in _LEFT_OUT:
        collected.left_out.append(words)
        return
    tag = TAGS.get(words[0])
    if tag is None and words[0].startswith(_PARAMETERS):
        return
    if tag is None and not collected.kinds and not _A_TAG.fullmatch(words[0]):
        raise DatasetError(
            f"{collected.path} is not a g2o file: line {number} begins with {words[0][:40]!r}, "
            "where g2o has a tag such as VERTEX_SE2 or EDGE_SE3:QUAT."
        )
    if tag is None:
        raise DatasetError(_unknown_tag(where, words[0]))
    ids, numbers = _parse_words(where, words, tag)
    if tag.format == "g2o" and tag.dimension == 3 and tag.numbers in (7, 7 + 21):
        check_quaternion(where, numbers[3:7])
    _COLLECTORS[tag.kind](collected, number, where, words[0], ids, numbers)
    collected.kinds.setdefault((tag.format, tag.dimension), number)
    if tag.kind in ("vertex", "edge", "landmark"):
        collected.lines.append(" ".join(words))


def _vertex(collected: _Collected, number: int, where: str, tag: str, ids: list[int], numbers: list[float]) -> None:
    before = collected.vertices.setdefault(ids[0], number)
    if before != number:
        raise given_before(where, f"vertex {ids[0]}", before)


def _edge(collected: _Collected, number: int, where: str, tag: str, ids: list[int], numbers: list[float]) -> None:
    if ids[0] == ids[1]:
        raise DatasetError(f"{where}: the edge joins vertex {ids[0]} with itself.")
    collected.ids.append((ids[0], ids[1]))
    collected.places.append(number)
    known = TAGS[tag]
    collected.noise.append(numbers[known.numbers - (6 if known.dimension == 2 else 21) :])


def _landmark(collected: _Collected, number: int, where: str, tag: str, ids: list[int], numbers: list[float]) -> None:
    """LANDMARK (a point and its covariance) or BR (bearing, range and their sigmas), which `gtsam.load2D` reads."""
    _landmark_key(where, ids[1])
    collected.landmarks += 1
    diagonal = [numbers[2], numbers[-1]]
    if min(diagonal) <= 0:
        raise DatasetError(f"{where}: the noise of {tag} has {min(diagonal):g} on its diagonal.")
    if tag == "LANDMARK" and (numbers[3] != 0 or diagonal[0] != diagonal[1]):
        collected.other_noise.append(number)


def _point(collected: _Collected, number: int, where: str, tag: str, ids: list[int], numbers: list[float]) -> None:
    before, _ = collected.points.setdefault(_landmark_key(where, ids[0]), (number, np.array(numbers)))
    if before != number:
        raise given_before(where, f"landmark {ids[0]}", before)


def _sighting(collected: _Collected, number: int, where: str, tag: str, ids: list[int], numbers: list[float]) -> None:
    dimension = TAGS[tag].dimension
    information = positive_definite(where, "information", numbers[dimension:])
    keys = (ids[0], _landmark_key(where, ids[1]))
    sighting = checked_sighting(where, number, keys, np.array(numbers[:dimension]), information)
    collected.sightings.append(sighting)
    collected.offset_of.extend(ids[2:])


def _offset(collected: _Collected, number: int, where: str, tag: str, ids: list[int], numbers: list[float]) -> None:
    before, _ = collected.offsets.setdefault(ids[0], (number, numbers))
    if before != number:
        raise given_before(where, f"offset {ids[0]}", before)


def _prior(collected: _Collected, number: int, where: str, tag: str, ids: list[int], numbers: list[float]) -> None:
    collected.priors.append(PriorLine(number, where, tag, ids, numbers))


_COLLECTORS = {
    "vertex": _vertex,
    "edge": _edge,
    "landmark": _landmark,
    "point": _point,
    "sighting": _sighting,
    "offset": _offset,
    "prior": _prior,
}


def _landmark_key(where: str, number: int) -> int:
    """GTSAM's key of a landmark, `l12`: landmarks and poses are numbered apart."""
    if number >= 2**56:
        raise DatasetError(f"{where}: the number of a landmark is not below 2^56.")
    return gtsam.symbol("l", number)


def _unknown_tag(where: str, tag: str) -> str:
    remedy = "Take the line out, or make the graph with GTSAM and call gtsam_sdp.certify."
    if any(part in tag for part in _ROBUST):
        return (
            f"{where}: {tag[:40]} lines are not supported: they belong to robust edges (switches, mixtures), whose "
            "cost has no bound here. Write such an edge as EDGE_SE2 or EDGE_SE3:QUAT, or take it out with "
            "its switch (rtabmap: save with Optimizer/Robust false)."
        )
    if tag.endswith("PRIOR") or "PRIOR_" in tag:
        known = ", ".join(tag for tag, known in TAGS.items() if known.kind == "prior")
        return f"{where}: {tag[:40]} lines are not supported; of priors these are: {known}. {remedy}"
    if any(part in tag for part in _OTHER_LANDMARKS):
        return (
            f"{where}: {tag[:40]} lines are not supported; of landmarks these are: EDGE_SE2_XY, LANDMARK2, "
            "EDGE_SE3_TRACKXYZ, LANDMARK, BR. Take them out, or make the graph with GTSAM and call gtsam_sdp.certify."
        )
    supported = ", ".join(tag for tag, known in TAGS.items() if known.format == "g2o")
    near = [known for known in TAGS if known.startswith(f"{tag}:")]
    near += difflib.get_close_matches(tag.upper(), TAGS, n=1, cutoff=0.7)
    meant = f" If {near[0]} is meant, write that." if near else ""
    return (
        f"{where}: unknown tag {tag[:40]!r}.{meant} Supported are {supported}, FIX, and the TORO format. Other lines "
        "have to be taken out."
    )


def _parse_words(where: str, words: list[str], tag: _Tag) -> tuple[list[int], list[float]]:
    count = len(words) - 1
    if count != tag.ids + tag.numbers:
        raise wrong_count(where, words, tag.ids + tag.numbers, "numbers", _lack(tag, words[0], count - tag.ids))
    return parse_integers(where, words[1 : 1 + tag.ids]), parse_numbers(where, words[1 + tag.ids :])


def _lack(tag: _Tag, word: str, count: int) -> str:
    """Why a line is too short, and what to do, where that can be told from its `count` numbers after the vertices."""
    if word == "EDGE_SE3_PRIOR" and count == tag.numbers - 1:
        return (
            "It lacks the number of its PARAMS_SE3OFFSET, which follows the vertex; add it, with a line "
            "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1 where the body itself is measured."
        )
    value = {"edge": (3, 6, 7), "prior": (2, 3, 7), "sighting": (tag.dimension,)}.get(tag.kind, ())
    if count in value:
        return (
            "It has no noise, without which there is no cost. Append the upper triangle of its information matrix, "
            "row by row."
        )
    return "The file may be truncated: write it again, or take the line out."


def _finish(collected: _Collected) -> PoseLines:
    path, kinds = collected.path, collected.kinds
    for position, what in ((1, "{}D"), (0, "{}")):
        found = {kind[position]: number for kind, number in kinds.items()}
        if len(found) > 1:
            named = " and ".join(f"{what.format(kind)} (line {number})" for kind, number in sorted(found.items()))
            raise DatasetError(f"{path} mixes {named} elements. Write them to files of their own.")
    if not (collected.ids or collected.sightings or collected.landmarks or collected.priors):
        raise DatasetError(f"{path} holds no edges: there is nothing to optimise.")
    _check_sightings(collected)
    ((form, dimension),) = kinds
    return PoseLines(
        path=path,
        format=form,
        dimension=dimension,
        ids=collected.ids,
        places=collected.places,
        noise=np.array(collected.noise).reshape(-1, 6 if dimension == 2 else 21),
        vertices=frozenset(collected.vertices),
        landmarks=collected.landmarks,
        other_noise=collected.other_noise,
        points={key: place for key, (_, place) in collected.points.items()},
        sightings=collected.sightings,
        priors=_known_priors(collected),
        left_out=collected.left_out,
        lines=collected.lines,
    )


def _known_priors(collected: _Collected) -> list[Prior]:
    """The priors, each with what its vertex is."""
    poses = collected.vertices.keys() | {key for pair in collected.ids for key in pair}
    poses |= {sighting.pose for sighting in collected.sightings}
    landmarks = collected.points.keys() | {sighting.landmark for sighting in collected.sightings}
    vertices = Vertices(poses, landmarks, collected.offsets)
    return [known_prior(line, vertices) for line in collected.priors]


def _check_sightings(collected: _Collected) -> None:
    """Raises where a sighting begins with a landmark, or is measured in another frame than the body's."""
    poses = collected.vertices.keys() | {key for pair in collected.ids for key in pair}
    for sighting in collected.sightings:
        if sighting.pose not in poses and gtsam.symbol("l", sighting.pose % 2**56) in collected.points:
            where = f"{collected.path}, line {sighting.line}"
            raise DatasetError(f"{where}: {sighting.pose} is a landmark; the pose that sees it goes first.")
    for sighting, offset in zip(collected.sightings, collected.offset_of, strict=False):
        line, numbers = collected.offsets.get(offset, (0, [1.0]))
        if any(numbers[:6]):
            what = f"is not the identity (line {line})" if line else "is not in the file"
            raise DatasetError(
                f"{collected.path}, line {sighting.line}: PARAMS_SE3OFFSET {offset} {what}; "
                "points have to be measured in the frame of the pose."
            )
