"""The table of variables: which rows of the lifted matrix Y each one owns, and the way there and back.

A rotation owns the rows R^T, a pose the rows [R^T; t^T], a point or vector the rows p^T. In two dimensions rows are
complex numbers: a rotation is z = cos + i sin, a translation x + i y. A direction in space owns the row
u^T. See docs/maths/, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import gtsam
import numpy as np

from gtsam_sdp.compared import Compared
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import BLOCKS, CONSTRAINED, DIRECTION, FREE, ROTATION, Block, BlockGroup, rows_of
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.kinds import KINDS, by_kind, common_dimension
from gtsam_sdp.values.space import Space

WORLD = -1
"""Stands for the world frame where a variable's number is expected."""


@dataclass(frozen=True, eq=False)
class Layout(Compared):
    """Which rows of Y belong to which variable.

    Attributes:
        space: the plane or space.
        keys: GTSAM keys in increasing order, (v,); those that only dropped factors hold are left out.
        kinds: each variable's kind, (v,).
        lengths: numbers of a vector variable, 0 for others, (v,).
        starts: first row of each variable, (v,).
        first: first row of each variable's block of each kind, -1 if it has none, (v,).
        world: first row of the world frame, -1 if no absolute factor needs one.
        size: rows of Y.
    """

    space: Space
    keys: Array
    kinds: tuple[Kind, ...]
    lengths: Array
    starts: Array
    first: Mapping[Block, Array]
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
        counts = np.zeros((len(BLOCKS), len(kinds)), dtype=np.intp)
        for kind, own in by_kind(kinds).items():
            for place, block in enumerate(BLOCKS):
                if block in kind.blocks:
                    counts[place, own] = [block.count(space, length) for length in lengths[own].tolist()]
        ends = np.cumsum(counts.sum(axis=0))
        starts = np.concatenate([[0], ends[:-1]]).astype(np.intp)[: len(kinds)]
        before = np.cumsum(counts, axis=0) - counts
        size = int(ends[-1]) if len(ends) else 0
        return cls(
            space=space,
            keys=keys,
            kinds=kinds,
            lengths=lengths,
            starts=starts,
            first={block: np.where(counts[k] > 0, starts + before[k], -1) for k, block in enumerate(BLOCKS)},
            world=size if world else -1,
            size=size + space.rows * world,
        )

    @property
    def rotation(self) -> Array:
        """First row of each variable's rotation, -1 if it has none, (v,)."""
        return self.first[ROTATION]

    @property
    def direction(self) -> Array:
        """Row of each variable's unit vector, -1 if it has none, (v,)."""
        return self.first[DIRECTION]

    @property
    def translation(self) -> Array:
        """First row of each variable's translation or vector, -1 if it has none, (v,)."""
        return self.first[FREE]

    @cached_property
    def _numbers(self) -> Mapping[int, int]:
        return {int(key): number for number, key in enumerate(self.keys)}

    def __contains__(self, key: int) -> bool:
        return key in self._numbers

    def number(self, key: int) -> int:
        """Position of a key among the variables; KeyError if it is not one of them."""
        return self._numbers[key]

    def rows(self, key: int) -> Array:
        """Rows of Y that belong to a key: its rotation's or direction's, then its translation's."""
        return self._variable_rows(self.number(key))

    def _variable_rows(self, number: int) -> Array:
        starts = np.append(self.starts, self._world_start)
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
        return np.searchsorted(np.append(self.starts, self._world_start), np.arange(self.size), side="right") - 1

    @property
    def starts_of_rows(self) -> Array:
        """First row of the variable, or the world frame, that owns each row, (size,)."""
        return np.append(self.starts, self._world_start)[self.row_variable]

    @cached_property
    def groups(self) -> tuple[BlockGroup, ...]:
        """All blocks with a constraint by kind: rotations, the world frame as the last of them, then the others."""
        found = []
        for block in CONSTRAINED:
            own = self.first[block][self.first[block] >= 0]
            if block == ROTATION:
                own = np.append(own, self.world) if self.world >= 0 else own
            if len(own) or block == ROTATION:
                found.append(BlockGroup(block, own, block.count(self.space)))
        return tuple(found)

    @property
    def blocks(self) -> Array:
        """First rows of all rotation blocks, the world frame's last, (k,)."""
        return self.groups[0].starts

    @cached_property
    def is_free(self) -> Array:
        """Whether a row is one of a position or vector, without a constraint, (size,)."""
        is_free = np.ones(self.size, dtype=bool)
        is_free[rows_of(self.groups)] = False
        return is_free

    def block_name(self, row: int) -> str:
        """What a row is part of: a rotation, a direction, a position."""
        return next((g.block.name for g in self.groups if (g.rows == row).any()), FREE.name)

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
        lifted = self.projected(lifted)
        values = gtsam.Values()
        ends = np.append(self.starts, self._world_start)[1:]
        for kind, start, end, length, key in zip(
            self.kinds, self.starts.tolist(), ends.tolist(), self.lengths.tolist(), self.keys.tolist(), strict=True
        ):
            numbers = self.space.unpack(lifted[start:end])
            values.insert(key, kind.write(numbers[:length] if length else numbers))
        return values

    def projected(self, lifted: Array) -> Array:
        """Y with all blocks that have a constraint at the nearest ones of values: rotations in SO(d), unit vectors."""
        lifted = lifted.copy()
        for group in self.groups:
            lifted[group.rows] = group.block.nearest(lifted[group.rows], self.space)
        return lifted
