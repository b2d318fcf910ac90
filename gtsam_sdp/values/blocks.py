"""Blocks of rows of Y: what values are made of, and the constraint that each kind of block satisfies.

A rotation is a block of d rows (in the plane one complex row), a direction a block of one row: both satisfy
B B^H = I. Positions and vectors are rows without a constraint. All that the package does with constraints it asks of
these classes, for all blocks of a kind at once: k blocks of r rows and p columns are an array (k, r, p). See
docs/maths/, sections 1, 3.1 and 6.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.space import Space

EntryProduct = tuple[int, int, int, float]
"""(i, j, parameter, value): an entry of the upper triangle of a matrix of a constraint."""


class Block(ABC):
    """A kind of block of rows.

    Attributes:
        name: of one, in messages.
        lapse: what a value is that violates its constraint, in messages.
        norm: |row|^2 where the constraint tells it, which is what a unit on the diagonal of S costs; else 0.
        is_frame: whether positions can be counted from it: its rows are a basis.
    """

    name: ClassVar[str]
    lapse: ClassVar[str] = ""
    norm: ClassVar[float] = 0.0
    is_frame: ClassVar[bool] = False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @abstractmethod
    def count(self, space: Space, length: int = 0) -> int:
        """Rows of a block; those of vectors depend on their length."""


class Free(Block):
    """Rows of a position or vector: any numbers."""

    name = "position"

    def count(self, space: Space, length: int = 0) -> int:
        """One row for each d numbers."""
        return max(1, -(-length // space.dimension))


class Constrained(Block):
    """A kind of block with a constraint on its Gram matrix, and multipliers Lambda, (r, r), for it.

    Every method takes and returns arrays of k blocks.
    """

    @abstractmethod
    def equations(self, count: int) -> list[tuple[int, int, float]]:
        """(i, j, b): the rows i <= j of a block have the scalar product b (its real part in the plane)."""

    @abstractmethod
    def violation(self, B: Array) -> Array:
        """Largest violation of the constraint by each block, (k, r, p) -> (k,)."""

    @abstractmethod
    def retract(self, B: Array) -> Array:
        """The feasible blocks nearest to others that are nearly feasible, (k, r, p)."""

    @abstractmethod
    def nearest(self, B: Array, space: Space) -> Array:
        """The nearest blocks of values of GTSAM, (k, r, rows)."""

    @abstractmethod
    def refine(self, B: Array, space: Space) -> tuple[Array, Array]:
        """Blocks of values that are off by rounding, put back, and how far off they were, (k,)."""

    @abstractmethod
    def tangent(self, B: Array, V: Array) -> Array:
        """V projected to the tangent space at feasible B, (k, r, p)."""

    @abstractmethod
    def basis(self, B: Array) -> Array:
        """A basis of the tangent space at the blocks of values, (k, freedoms, r, rows)."""

    @abstractmethod
    def freedoms(self, space: Space) -> int:
        """Dimension of the tangent space at the block of a value."""

    @abstractmethod
    def multipliers(self, B: Array, G: Array) -> Array:
        """The Lambda that are right where B is critical and G the rows of Q Y, (k, r, r)."""

    @abstractmethod
    def worth(self, multipliers: Array) -> Array:
        """<Lambda, B B^H> of any feasible block: what multipliers add to a bound, (k, r, r) -> (k,)."""

    @abstractmethod
    def entry_equations(self, space: Space, *, tighten: bool) -> list[EntryProduct]:
        """The same on the entries of one block, row by row, with h = 1 in front: <M, y y^T> = 0 for each parameter M.

        With `tighten` redundant ones too, for the vector lift.
        """


class Stiefel(Constrained):
    """Orthonormal rows: B B^H = I."""

    norm = 1.0

    def equations(self, count: int) -> list[tuple[int, int, float]]:
        """One for each pair of rows."""
        return [(i, j, float(i == j)) for i in range(count) for j in range(i, count)]

    def violation(self, B: Array) -> Array:
        """Largest entry of B B^H - I."""
        return np.abs(B @ B.conj().swapaxes(1, 2) - np.eye(B.shape[1])).max(axis=(1, 2))

    def retract(self, B: Array) -> Array:
        """Polar factors."""
        return orthonormal(B)

    def tangent(self, B: Array, V: Array) -> Array:
        """V - herm(V B^H) B."""
        inner = V @ B.conj().swapaxes(1, 2)
        return V - (inner + inner.conj().swapaxes(1, 2)) @ B / 2

    def multipliers(self, B: Array, G: Array) -> Array:
        """herm(G B^H)."""
        products = G @ B.conj().swapaxes(1, 2)
        return (products + products.conj().swapaxes(1, 2)) / 2

    def worth(self, multipliers: Array) -> Array:
        """tr Lambda."""
        return np.trace(multipliers, axis1=1, axis2=2).real


class Rotation(Stiefel):
    """R^T, or z = cos + i sin in the plane."""

    name, lapse, is_frame = "rotation", "matrices that are no rotations", True

    def count(self, space: Space, length: int = 0) -> int:
        """d, or one complex row."""
        return space.rows

    def nearest(self, B: Array, space: Space) -> Array:
        """Of determinant one."""
        return space.nearest_rotations(B)

    def refine(self, B: Array, space: Space) -> tuple[Array, Array]:
        """By Newton's iteration for the polar factor."""
        return space.refine_rotations(B)

    def freedoms(self, space: Space) -> int:
        """Angles."""
        return 1 if space.dimension == 2 else 3

    def basis(self, B: Array) -> Array:
        """Turns about the axes: i z, or [e_k]x B."""
        return 1j * B[:, None] if B.shape[2] == 1 else np.einsum("kab,fbc->fkac", _CROSS, B)

    def entry_equations(self, space: Space, *, tighten: bool) -> list[EntryProduct]:
        """2D: cos^2 + sin^2 = h^2. 3D: orthonormal columns c_k of R.

        With `tighten` also orthonormal rows, and c_i x c_j = h c_k, cyclic: 20 independent equations.
        """
        if space.dimension == 2:
            return [(0, 0, 0, -1.0), (1, 1, 0, 1.0), (2, 2, 0, 1.0)]
        at = 1 + np.arange(9).reshape(3, 3)  # at[j, a]: entry a of column j
        found: list[EntryProduct] = []
        count = 0
        for layout in (at, at.T) if tighten else (at,):
            for i in range(3):
                for j in range(i, 3):
                    if layout is not at and (i, j) == (2, 2):
                        continue  # the traces of R^T R and R R^T are the same
                    found += [(int(layout[i, k]), int(layout[j, k]), count, 1.0 if i == j else 0.5) for k in range(3)]
                    found += [(0, 0, count, -1.0)] if i == j else []
                    count += 1
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) if tighten else ():
            for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
                found += [
                    (int(at[i, a]), int(at[j, b]), count, 0.5),
                    (int(at[i, b]), int(at[j, a]), count, -0.5),
                    (0, int(at[k, c]), count, -0.5),
                ]
                count += 1
        return found


class Direction(Stiefel):
    """The row u^T of a unit vector."""

    name, lapse = "direction", "directions that are no unit vectors"

    def count(self, space: Space, length: int = 0) -> int:
        """One."""
        return 1

    def nearest(self, B: Array, space: Space) -> Array:
        """u / |u|; the first axis for zero."""
        first = np.eye(1, B.shape[2], dtype=B.dtype)
        return np.where(np.linalg.norm(B, axis=2, keepdims=True) > 0, orthonormal(B), first)

    def refine(self, B: Array, space: Space) -> tuple[Array, Array]:
        """u / |u|."""
        return orthonormal(B), self.violation(B)

    def freedoms(self, space: Space) -> int:
        """Those of a point on a sphere."""
        return space.dimension - 1

    def basis(self, B: Array) -> Array:
        """i u in the plane; in space two vectors orthogonal to u and to each other."""
        if B.shape[2] == 1:
            return 1j * B[:, None]
        u = B[:, 0]
        first = np.cross(u, np.eye(3)[np.argmin(np.abs(u), axis=1)])
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        return np.stack([first, np.cross(u, first)], axis=1)[:, :, None]

    def entry_equations(self, space: Space, *, tighten: bool) -> list[EntryProduct]:
        """|u|^2 = h^2."""
        return [(0, 0, 0, -1.0), *((k, k, 0, 1.0) for k in range(1, space.dimension + 1))]


ROTATION, DIRECTION, FREE = Rotation(), Direction(), Free()
CONSTRAINED: tuple[Constrained, ...] = (ROTATION, DIRECTION)
"""Kinds of blocks with a constraint, in the order of `Layout.groups`."""

BLOCKS: tuple[Block, ...] = (*CONSTRAINED, FREE)
"""In the order of a variable's rows."""


@dataclass(frozen=True)
class BlockGroup:
    """All blocks of one kind among some rows.

    Attributes:
        block: their kind.
        starts: first row of each, (k,).
        count: rows of each, r.
    """

    block: Constrained
    starts: Array
    count: int

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def rows(self) -> Array:
        """All rows, (k, r)."""
        return self.starts[:, None] + np.arange(self.count)

    def among(self, position: Array) -> BlockGroup:
        """The blocks whose rows have a place >= 0 among others, by these places."""
        places = position[self.starts]
        return BlockGroup(self.block, places[places >= 0], self.count)

    def select(self, chosen: Array) -> BlockGroup:
        """Some of the blocks."""
        return BlockGroup(self.block, self.starts[chosen], self.count)


def rows_of(groups: tuple[BlockGroup, ...]) -> Array:
    """All rows of some groups, in increasing order."""
    return np.sort(np.concatenate([np.zeros(0, dtype=np.intp), *(group.rows.ravel() for group in groups)]))


def orthonormal(B: Array) -> Array:
    """Polar factors of blocks of independent rows, (k, r, p)."""
    if B.shape[1] == 1:
        length = np.linalg.norm(B, axis=2, keepdims=True)
        return B / np.where(length > 0, length, 1.0)
    values, vectors = np.linalg.eigh(B @ B.swapaxes(1, 2))
    return (vectors / np.sqrt(values)[:, None, :]) @ (vectors.swapaxes(1, 2) @ B)


_CROSS = np.array(
    [[[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]], [[0, -1, 0], [1, 0, 0], [0, 0, 0]]]
)
