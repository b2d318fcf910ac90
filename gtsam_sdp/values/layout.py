"""The table of variables: which rows of the lifted matrix Y each one owns, and the way there and back.

A rotation owns the rows R^T, a pose the rows [R^T; t^T], a point or vector the rows p^T. In two dimensions rows are
complex numbers: a rotation is z = cos + i sin, a translation x + i y. A direction in space is the first row of a
rotation whose other two rows are of no consequence. See docs/maths/, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.kinds import KINDS, by_kind, common_dimension
from gtsam_sdp.values.space import Space

WORLD = -1
"""Stands for the world frame where a variable's number is expected."""


@dataclass(frozen=True)
class Layout:
    """Which rows of Y belong to which variable.

    Attributes:
        space: the plane or space.
        keys: GTSAM keys in increasing order, (v,); those that only dropped factors hold are left out.
        kinds: each variable's kind, (v,).
        lengths: numbers of a vector variable, 0 for others, (v,).
        rotation: first row of each variable's rotation, -1 if it has none, (v,).
        translation: first row of each variable's translation or vector, -1 if it has none, (v,).
        world: first row of the world frame, -1 if no absolute factor needs one.
        size: rows of Y.
    """

    space: Space
    keys: Array
    kinds: tuple[Kind, ...]
    lengths: Array
    rotation: Array
    translation: Array
    world: int
    size: int

    @classmethod
    def build(cls, keys: Array, kinds: Sequence[Kind | str], lengths: Array, *, world: bool) -> Layout:
        """Gives rows to variables in the order of their keys, and the last rows to the world frame.

        Args:
            keys: in increasing order, (v,).
            kinds: of `KINDS`, or their names, (v,).
            lengths: numbers of a vector variable, 0 for others, (v,).
            world: whether there is a world frame.
        """
        kinds = tuple(KINDS[kind] if isinstance(kind, str) else kind for kind in kinds)
        space = Space(common_dimension(keys, kinds, lengths))
        rotates = np.array([kind.rotates for kind in kinds], dtype=bool)
        translates = np.array([kind.translates for kind in kinds], dtype=bool)
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
        starts = np.append(self.starts, self._world_start)
        return np.arange(starts[number], starts[number + 1])

    @cached_property
    def starts(self) -> Array:
        """First row of each variable, (v,)."""
        return np.where(self.rotation >= 0, self.rotation, self.translation)

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
        return np.searchsorted(np.append(self.starts, self._world_start), np.arange(self.size), side="right") - 1

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
        for kind, own in by_kind(self.kinds).items():
            numbers = kind.read(values, self.keys[own])
            if isinstance(numbers, np.ndarray):
                self._put(lifted, own, numbers)
                continue
            for variable, single in zip(own, numbers, strict=True):
                self._put(lifted, variable[None], single[None])
        if self.world >= 0:
            lifted[self.world :] = np.eye(self.space.rows)
        return lifted

    def _put(self, lifted: Array, variables: Array, numbers: Array) -> None:
        """Writes the rows of variables, given their numbers (m, n)."""
        rows = self.space.pack(numbers)
        lifted[self.starts[variables][:, None] + np.arange(rows.shape[1])] = rows

    def unlift(self, lifted: Array) -> gtsam.Values:
        """Values of a matrix Y; the world frame is turned back to the identity, rotations are projected to SO(d)."""
        if lifted.shape != (self.size, self.space.rows):
            raise ValueError(f"Y must have shape {(self.size, self.space.rows)}, not {lifted.shape}.")
        if self.world >= 0:
            lifted = lifted @ self.space.nearest_rotations(lifted[None, self.world :])[0].conj().T
        lifted = lifted.copy()
        projected = np.array([kind.rotates and kind.is_whole for kind in self.kinds], dtype=bool)
        at = self.rotation[projected][:, None] + np.arange(self.space.rows)
        lifted[at] = self.space.nearest_rotations(lifted[at])
        values = gtsam.Values()
        ends = np.append(self.starts[1:], self._world_start)
        for kind, start, end, length, key in zip(
            self.kinds, self.starts.tolist(), ends.tolist(), self.lengths.tolist(), self.keys.tolist(), strict=True
        ):
            numbers = self.space.unpack(lifted[start:end])
            values.insert(key, kind.write(numbers[:length] if length else numbers))
        return values
