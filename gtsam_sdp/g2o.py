"""The lines of pose-graph files (g2o and TORO): every one checked, and named when it cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.variables import Array

Format = Literal["g2o", "TORO"]


@dataclass(frozen=True)
class _Tag:
    """What follows the first word of a line: vertex numbers, then numbers."""

    kind: Literal["vertex", "edge", "landmark"]
    format: Format
    dimension: int
    numbers: int


_TAGS: Mapping[str, _Tag] = {
    "VERTEX_SE2": _Tag("vertex", "g2o", 2, 3),
    "EDGE_SE2": _Tag("edge", "g2o", 2, 3 + 6),
    "VERTEX_SE3:QUAT": _Tag("vertex", "g2o", 3, 7),
    "EDGE_SE3:QUAT": _Tag("edge", "g2o", 3, 7 + 21),
    "VERTEX2": _Tag("vertex", "TORO", 2, 3),
    "EDGE2": _Tag("edge", "TORO", 2, 3 + 6),
    "ODOMETRY": _Tag("edge", "TORO", 2, 3 + 6),
    "LANDMARK": _Tag("landmark", "TORO", 2, 2 + 3),
    "BR": _Tag("landmark", "TORO", 2, 2 + 2),
    "VERTEX3": _Tag("vertex", "TORO", 3, 6),
    "EDGE3": _Tag("edge", "TORO", 3, 6 + 21),
}
_LEFT_OUT = {"FIX", "EQUIV"}
_LANDMARK_TAGS = ("LANDMARK", "TRACKXYZ", "_XY", "RANGE", "BEARING")


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
        landmarks: number of landmark measurements.
        left_out: words of the lines that GTSAM's readers leave out (FIX, EQUIV).
        lines: the lines of vertices, edges and landmarks.
    """

    path: Path
    format: Format
    dimension: int
    ids: Sequence[tuple[int, int]]
    places: Sequence[int]
    noise: Array
    vertices: frozenset[int]
    landmarks: int
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

    def edge_name(self, edge: int) -> str:
        """`line 12, which joins 3 and 4`."""
        i, j = self.ids[edge]
        return f"line {self.places[edge]}, which joins {i} and {j}"


def read_pose_lines(path: Path) -> PoseLines:
    """Reads and checks the lines of a g2o or TORO file.

    Raises:
        DatasetError: the file is missing, damaged or holds tags that are not supported; names the line.
    """
    collected = _Collected(path)
    for number, line in enumerate(_text(path).split("\n"), start=1):
        words = line.split()
        if words and not words[0].startswith("#"):
            _collect(collected, number, words)
    return _finish(collected)


def _text(path: Path) -> str:
    if not path.exists():
        raise DatasetError(f"There is no file {path}.")
    if path.is_dir():
        raise DatasetError(f"{path} is a folder; give a g2o file in it.")
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise DatasetError(_not_text(path, error.start)) from None
    if "\0" in text:
        raise DatasetError(_not_text(path, text.index("\0")))
    if not text.strip():
        raise DatasetError(f"{path} is empty.")
    return text


def _not_text(path: Path, place: int) -> str:
    return (
        f"{path} is not a text file: byte {place} belongs to no text. "
        "Give an uncompressed g2o file with one vertex or edge a line."
    )


@dataclass
class _Collected:
    """What the lines read so far hold."""

    path: Path
    ids: list[tuple[int, int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    noise: list[list[float]] = field(default_factory=list)
    vertices: dict[int, int] = field(default_factory=dict)
    landmarks: int = 0
    left_out: list[list[str]] = field(default_factory=list)
    kinds: dict[tuple[Format, int], int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def _collect(collected: _Collected, number: int, words: list[str]) -> None:
    """Checks one line and adds it."""
    where = f"{collected.path}, line {number}"
    if words[0] in _LEFT_OUT:
        collected.left_out.append(words)
        return
    tag = _TAGS.get(words[0])
    if tag is None:
        raise DatasetError(_unknown_tag(where, words[0]))
    ids, numbers = _parse_words(where, words, 1 if tag.kind == "vertex" else 2, tag.numbers)
    if tag.format == "g2o" and tag.dimension == 3 and sum(x * x for x in numbers[3:7]) < 1e-12:
        raise DatasetError(f"{where}: the quaternion is zero.")
    if tag.kind == "vertex":
        before = collected.vertices.setdefault(ids[0], number)
        if before != number:
            raise DatasetError(f"{where}: vertex {ids[0]} was given in line {before} before.")
    elif tag.kind == "landmark":
        collected.landmarks += 1
    else:
        if ids[0] == ids[1]:
            raise DatasetError(f"{where}: the edge joins vertex {ids[0]} with itself.")
        collected.ids.append((ids[0], ids[1]))
        collected.places.append(number)
        collected.noise.append(numbers[(6 if tag.format == "TORO" else 7) if tag.dimension == 3 else 3 :])
    collected.kinds.setdefault((tag.format, tag.dimension), number)
    collected.lines.append(" ".join(words))


def _unknown_tag(where: str, tag: str) -> str:
    if any(part in tag for part in _LANDMARK_TAGS):
        return (
            f"{where}: {tag[:40]} lines (landmarks) are not supported. "
            "Take them out, or read the file with GTSAM and call gtsam_sdp.certify."
        )
    supported = ", ".join(tag for tag, known in _TAGS.items() if known.format == "g2o")
    return f"{where}: unknown tag {tag[:40]!r}. Supported are {supported}, FIX, and the TORO format."


def _parse_words(where: str, words: list[str], ids: int, count: int) -> tuple[list[int], list[float]]:
    if len(words) != 1 + ids + count:
        lacks_noise = ids == 2 and len(words) - 3 in (3, 6, 7)
        reason = "It has no noise, without which there is no cost." if lacks_noise else "The file may be truncated."
        raise DatasetError(f"{where}: {words[0]} needs {ids + count} numbers, this line has {len(words) - 1}. {reason}")
    for word in words:
        if ("_" in word and word is not words[0]) or not word.isascii():  # Python reads 1_000, C++ reads 1
            raise DatasetError(f"{where}: {word[:40]!r} is not a number.")
    try:
        keys = [int(word) for word in words[1 : 1 + ids]]
        numbers = [float(word) for word in words[1 + ids :]]
    except ValueError as error:
        raise DatasetError(f"{where}: {error}.") from None
    if any(not 0 <= key < 2**64 for key in keys):
        raise DatasetError(f"{where}: a vertex number is not between 0 and 2^64 - 1.")
    if not np.isfinite(numbers).all():
        raise DatasetError(f"{where}: a number is not finite.")
    return keys, numbers


def _finish(collected: _Collected) -> PoseLines:
    path, kinds = collected.path, collected.kinds
    for position, what in ((1, "{}D"), (0, "{}")):
        found = {kind[position]: number for kind, number in kinds.items()}
        if len(found) > 1:
            named = " and ".join(f"{what.format(kind)} (line {number})" for kind, number in sorted(found.items()))
            raise DatasetError(f"{path} mixes {named} elements.")
    if not collected.ids:
        raise DatasetError(f"{path} holds no edges: there is nothing to optimise.")
    ((form, dimension),) = kinds
    return PoseLines(
        path, form, dimension, collected.ids, collected.places, np.array(collected.noise),
        frozenset(collected.vertices), collected.landmarks, collected.left_out, collected.lines,
    )  # fmt: skip
