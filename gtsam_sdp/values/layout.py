"""The table of variables: which rows of the lifted matrix Y each one owns, and the way there and back.

A rotation owns the rows R^T, a pose the rows [R^T; t^T], a point or vector the rows p^T. In two dimensions rows are
complex numbers: a rotation is z = cos + i sin, a translation x + i y. A direction in space is the first row of a
rotation whose other two rows are of no consequence. See docs/maths/, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, format_key
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.space import Space

WORLD = -1
"""Stands for the world frame where a variable's number is expected."""


@dataclass(frozen=True)
class Kind:
    """A type of variable: its name in GTSAM, its dimension (None: any), and which rows it owns."""

    name: str
    dimension: int | None
    rotates: bool
    translates: bool


KINDS = {
    kind.name: kind
    for kind in (
        Kind("Rot2", 2, True, False),
        Kind("Rot3", 3, True, False),
        Kind("Unit3", 3, True, False),
        Kind("Pose2", 2, True, True),
        Kind("Pose3", 3, True, True),
        Kind("Vector", None, False, True),
    )
}


@dataclass(frozen=True)
class Layout:
    """Which rows of Y belong to which variable.

    Attributes:
        space: the plane or space.
        keys: GTSAM keys in increasing order, (v,); those that only dropped factors hold are left out.
        kinds: name of each variable's kind, (v,).
        lengths: numbers of a vector variable, 0 for others, (v,).
        rotation: first row of each variable's rotation, -1 if it has none, (v,).
        translation: first row of each variable's translation or vector, -1 if it has none, (v,).
        world: first row of the world frame, -1 if no absolute factor needs one.
        size: rows of Y.
    """

    space: Space
    keys: Array
    kinds: tuple[str, ...]
    lengths: Array
    rotation: Array
    translation: Array
    world: int
    size: int

    @classmethod
    def build(cls, keys: Array, kinds: tuple[str, ...], lengths: Array, *, world: bool) -> Layout:
        """Gives rows to variables in the order of their keys, and the last rows to the world frame."""
        space = Space(common_dimension(keys, kinds, lengths))
        rotates = np.array([KINDS[k].rotates for k in kinds], dtype=bool)
        translates = np.array([KINDS[k].translates for k in kinds], dtype=bool)
        vector_rows = np.where(lengths > 0, -(-lengths // space.dimension), 1)
        counts = rotates * space.rows + translates * vector_rows
        first = np.concatenate([[0], np.cumsum(counts)])
        rotation = np.where(rotates, first[:-1], -1)
        translation = np.where(translates, first[:-1] + rotates * space.rows, -1)
        size = int(first[-1])
        return cls(
            space=space,
            keys=keys,
            kinds=kinds,
            lengths=lengths,
            rotation=rotation,
            translation=translation,
            world=size if world else -1,
            size=size + space.rows * world,
        )

    @cached_property
    def _numbers(self) -> Mapping[int, int]:
        return {int(key): number for number, key in enumerate(self.keys)}

    def __contains__(self, key: int) -> bool:
        return key in self._numbers

    def number(self, key: int) -> int:
        """Position of a key among the variables; KeyError if it is not one of them."""
        return self._numbers[key]

    def rows(self, key: int) -> Array:
        """Rows of Y that belong to a key: its rotation's, then its translation's."""
        return self._variable_rows(self.number(key))

    def _variable_rows(self, number: int) -> Array:
        starts = np.append(np.where(self.rotation >= 0, self.rotation, self.translation), self._world_start)
        return np.arange(starts[number], starts[number + 1])

    @property
    def _world_start(self) -> int:
        return self.world if self.world >= 0 else self.size

    def translation_rows(self, number: int) -> range:
        """Rows of a variable's translation or vector, by number."""
        first = int(self.translation[number])
        length = int(self.lengths[number])
        return range(first, first + max(1, -(-length // self.space.dimension))) if first >= 0 else range(0)

    @cached_property
    def row_variable(self) -> Array:
        """Number of the variable that owns each row, (size,); the number of variables for the world frame."""
        starts = np.where(self.rotation >= 0, self.rotation, self.translation)
        return np.searchsorted(np.append(starts, self._world_start), np.arange(self.size), side="right") - 1

    @cached_property
    def blocks(self) -> Array:
        """First rows of all rotation blocks, the world frame's last, (k,)."""
        blocks = self.rotation[self.rotation >= 0]
        return np.append(blocks, self.world) if self.world >= 0 else blocks

    def rotation_rows(self, numbers: Array) -> Array:
        """First rotation rows of variables by number; WORLD gives the world frame."""
        return np.where(numbers == WORLD, self.world, self.rotation[numbers])

    def lift(self, values: gtsam.Values) -> Array:
        """The matrix Y of the values: (size, rows of a rotation), complex in 2D. The world frame is the identity."""
        lifted = np.zeros((self.size, self.space.rows), dtype=self.space.dtype)
        kinds = np.array(self.kinds)
        for kind in dict.fromkeys(self.kinds):
            numbers = np.flatnonzero(kinds == kind)
            rotations, translations = _read_kind(kind, values, self.keys[numbers], self.space)
            if rotations is not None:
                rows = self.rotation[numbers][:, None] + np.arange(self.space.rows)
                lifted[rows] = self.space.rotations(rotations).swapaxes(1, 2)
            if translations is not None:
                self._put_translations(lifted, numbers, translations)
        if self.world >= 0:
            lifted[self.world :] = np.eye(self.space.rows)
        return lifted

    def _put_translations(self, lifted: Array, numbers: Array, translations: list[Array] | Array) -> None:
        if isinstance(translations, np.ndarray):
            lifted[self.translation[numbers]] = self.space.vectors(translations)
            return
        for number, vector in zip(numbers, translations, strict=True):
            rows = self.space.pack(vector[None])[0]
            first = self.translation[number]
            lifted[first : first + len(rows)] = rows

    def unlift(self, lifted: Array) -> gtsam.Values:
        """Values of a matrix Y; the world frame is turned back to the identity, rotations are projected to SO(d)."""
        if lifted.shape != (self.size, self.space.rows):
            raise ValueError(f"Y must have shape {(self.size, self.space.rows)}, not {lifted.shape}.")
        if self.world >= 0:
            lifted = lifted @ self.space.nearest_rotations(lifted[None, self.world :])[0].conj().T
        values = gtsam.Values()
        turning = np.flatnonzero(self.rotation >= 0)
        turns = self.space.nearest_rotations(lifted[self.rotation[turning][:, None] + np.arange(self.space.rows)])
        place = np.zeros(len(self.keys), dtype=np.intp)
        place[turning] = np.arange(len(turning))
        for number, kind in enumerate(self.kinds):
            key = int(self.keys[number])
            rotation = translation = None
            if kind == "Unit3":  # the other two rows may be anything
                rotation = lifted[self.rotation[number]][:, None]
            elif KINDS[kind].rotates:
                rotation = turns[place[number]].T
            if KINDS[kind].translates:
                length = int(self.lengths[number]) or self.space.dimension
                first = self.translation[number]
                count = -(-length // self.space.dimension)
                translation = self.space.unpack(lifted[first : first + count], length)
            values.insert(key, _gtsam_value(kind, rotation, translation))
        return values


def common_dimension(keys: Array, kinds: tuple[str, ...], lengths: Array) -> int:
    """2 or 3: the dimension of the space that all variables live in."""
    dimensions = {KINDS[k].dimension: i for i, k in reversed(list(enumerate(kinds))) if KINDS[k].dimension}
    if len(dimensions) == 2:
        named = " and ".join(f"{format_key(int(keys[i]))} ({kinds[i]})" for _, i in sorted(dimensions.items()))
        raise InvalidGraphError(f"The graph mixes 2D and 3D variables: {named}. Certify the two parts apart.")
    if dimensions:
        return int(next(iter(dimensions)) or 3)
    return 2 if len(lengths) and set(lengths.tolist()) == {2} else 3


def _read_kind(kind: str, values: gtsam.Values, keys: Array, space: Space) -> tuple[Array | None, Any]:
    """Rotations (m, d, d) and translations ((m, d), or a list of vectors) of all keys of one kind."""
    if kind in ("Pose2", "Pose3"):
        poses = _pose_table(kind, values, keys)
        if kind == "Pose2":
            angle = poses[:, 2]
            turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1)
            return turn.reshape(-1, 2, 2), poses[:, :2]
        return poses[:, :9].reshape(-1, 3, 3), poses[:, 9:]
    if kind == "Vector":
        vectors = [vector_at(values, int(k)) for k in keys]
        same = all(len(v) == space.dimension for v in vectors)
        return None, np.array(vectors) if same else vectors
    if kind == "Unit3":
        return _frames(np.array([values.atUnit3(int(k)).unitVector() for k in keys])), None
    at = values.atRot2 if kind == "Rot2" else values.atRot3
    return np.array([at(int(k)).matrix() for k in keys]), None


def _frames(directions: Array) -> Array:
    """Rotations whose first columns are given directions, (m, 3) to (m, 3, 3)."""
    least = np.eye(3)[np.argmin(np.abs(directions), axis=1)]
    second = np.cross(directions, least)
    second /= np.linalg.norm(second, axis=1)[:, None]
    return np.stack([directions, second, np.cross(directions, second)], axis=2)


def vector_at(values: gtsam.Values, key: int) -> Array:
    """A vector or point; RuntimeError if the value is none. GTSAM's readers store points in types of their own."""
    try:
        return np.atleast_1d(values.atVector(key))
    except RuntimeError:
        pass
    try:
        return values.atPoint2(key)
    except RuntimeError:
        return values.atPoint3(key)


def _pose_table(kind: str, values: gtsam.Values, keys: Array) -> Array:
    """Rows (x, y, angle) or (r11 ... r33, x, y, z) of the keys, read in bulk by GTSAM."""
    poses = gtsam.utilities.allPose2s(values) if kind == "Pose2" else gtsam.utilities.allPose3s(values)
    table = gtsam.utilities.extractPose2(poses) if kind == "Pose2" else gtsam.utilities.extractPose3(poses)
    return table[np.searchsorted(np.array(poses.keys(), dtype=np.uint64), keys)]


def _gtsam_value(kind: str, rotation: Any, translation: Any) -> Any:
    if kind == "Unit3":
        return gtsam.Unit3(rotation[:, 0])
    if kind in ("Rot2", "Pose2"):
        turn = gtsam.Rot2.fromCosSin(float(rotation[0, 0].real), float(rotation[0, 0].imag))
        return turn if kind == "Rot2" else gtsam.Pose2(turn, translation)
    if kind in ("Rot3", "Pose3"):
        return gtsam.Rot3(rotation) if kind == "Rot3" else gtsam.Pose3(gtsam.Rot3(rotation), translation)
    return translation
