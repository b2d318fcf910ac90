"""The lifted problem: minimise <Q, Y Y^H> + constant over matrices Y whose rotations and directions are orthonormal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import gtsam
import numpy as np
import scipy

from gtsam_sdp.errors import InvalidGraphError
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.lift.coordinates import Coordinates, plain_coordinates
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, Entries
from gtsam_sdp.linalg.sums import inner_product
from gtsam_sdp.reading.graph import OnUnsupported, read
from gtsam_sdp.shown import Shown
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.blocks import BlockGroup, rows_of
from gtsam_sdp.values.layout import Layout


class Constraint(NamedTuple):
    """`Re <A, Y Y^H> = b`. `key` is the GTSAM key of the variable, None for the world frame."""

    key: int | None
    A: scipy.sparse.csc_array
    b: float


@dataclass(frozen=True, repr=False, eq=False)
class Qcqp(Shown):
    """`min <Q, Y Y^H> + constant` subject to one orthogonality constraint for each rotation and direction.

    Attributes:
        form: Q, Hermitian, sparse, (n, n), complex in 2D; in the unit of `graph.error`.
        constant: sum of the terms' constants.
        layout: rows of every variable before substitutions, `layout.size` of them.
        coordinates: which of these rows are unknowns of the problem, and in which coordinates.
        constant_magnitude: sum of the terms' |constants|.
        summands: largest number of summands in an entry of each row, reference frames' own entries aside, (n,).
    """

    form: Bounded
    constant: float
    layout: Layout
    coordinates: Coordinates
    constant_magnitude: float
    summands: Array

    @classmethod
    def from_graph(
        cls, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, *, on_unsupported: OnUnsupported = "raise"
    ) -> Qcqp:
        """The lifted problem of a graph, in plain coordinates; terms that need a tangent point take it from `values`.

        Raises:
            GtsamSdpError: as `certify`.
        """
        reading = read(graph, values, on_unsupported)
        terms = build_terms(reading)
        if not terms:
            raise InvalidGraphError(
                "Nothing is left to lift: all factors are hard constraints or were dropped. Add factors with a cost."
            )
        return cls.assemble(terms, reading.layout, plain_coordinates(reading))

    @classmethod
    def assemble(cls, terms: Sequence[Terms], layout: Layout, coordinates: Coordinates) -> Qcqp:
        """Sums terms into Q; every entry of a term goes straight to its place in the coordinates."""
        entries = Entries.join([coordinates.entries(batch) for batch in terms])
        border = _border_rows(coordinates)
        constants = np.concatenate([batch.constant for batch in terms])
        return cls(
            form=entries.sum_exactly(border),
            constant=math.fsum(constants.tolist()),
            layout=layout,
            coordinates=coordinates,
            constant_magnitude=float(np.abs(constants).sum()),
            summands=entries.count_summands(border),
        )

    @property
    def Q(self) -> scipy.sparse.csc_array:
        """Cost matrix, Hermitian, (n, n), complex in 2D; in the unit of `graph.error`."""
        return self.form.value

    @property
    def magnitude(self) -> scipy.sparse.csc_array:
        """Sum of |Q_k| over the terms, (n, n): bounds the rounding errors in Q entry by entry."""
        return self.form.magnitude

    @property
    def rank(self) -> int:
        """Columns of Y: 3 in 3D, 1 (complex) in 2D."""
        return self.layout.space.rows

    @property
    def size(self) -> int:
        """Rows of Y that are unknowns, n."""
        return self.coordinates.size

    @cached_property
    def groups(self) -> tuple[BlockGroup, ...]:
        """All blocks with a constraint among the unknowns, by kind, rotations first."""
        return tuple(group.among(self.coordinates.position) for group in self.layout.groups)

    @property
    def blocks(self) -> Array:
        """First rows of the rotation blocks among the unknowns, (k,)."""
        return self.groups[0].starts

    @cached_property
    def bounded(self) -> Array:
        """Rows of all blocks with a constraint, (b,)."""
        return rows_of(self.groups)

    @cached_property
    def free(self) -> Array:
        """Rows of positions and vectors, (n - b,)."""
        return np.setdiff1d(np.arange(self.size), self.bounded)

    @property
    def constraint_count(self) -> int:
        """How many constraints there are."""
        return sum(len(group) * len(group.block.equations(group.count)) for group in self.groups)

    @cached_property
    def constraints(self) -> list[Constraint]:
        """The orthogonality constraints: (d + 1) d / 2 for each rotation in 3D, one in 2D and for each direction."""
        keys = [int(key) for key in self.layout.keys]
        found = []
        for group in self.groups:
            equations = group.block.equations(group.count)
            owners = self.layout.row_variable[self.coordinates.kept[group.starts]]
            for first, owner in zip(group.starts.tolist(), owners.tolist(), strict=True):
                for i, j, b in equations:
                    at = ([first + i, first + j], [first + j, first + i])
                    A = scipy.sparse.csc_array(([0.5, 0.5], at), shape=(self.size, self.size))
                    found.append(Constraint(keys[owner] if owner < len(keys) else None, A, b))
        return found

    def lift(self, values: gtsam.Values) -> Array:
        """Y of values, (n, rank)."""
        return self.coordinates.reduce(self.layout.lift(values))

    def unlift(self, Y: Array) -> gtsam.Values:
        """Values of Y: rotations and directions are projected, the world frame is turned back to the identity."""
        return self.layout.unlift(self.coordinates.expand(Y))

    def cost(self, Y: Array) -> float:
        """`<Q, Y Y^H> + constant`."""
        return inner_product(Y, self.Q @ Y) + self.constant

    def term_size(self, Y: Array) -> float:
        """Size of the terms before they cancel: `<|Q|, |Y| |Y|^T> + |constants|`."""
        lengths = np.linalg.norm(Y, axis=1)
        return float(lengths @ (self.magnitude @ lengths)) + self.constant_magnitude

    def violation(self, Y: Array) -> float:
        """Largest violation of a constraint: entry of B B^H - I over the blocks B of Y."""
        return max((float(g.block.violation(Y[g.rows]).max()) for g in self.groups if len(g)), default=0.0)


def _border_rows(coordinates: Coordinates) -> Array:
    """Whether a row belongs to a reference frame, (n,)."""
    starts = coordinates.position[coordinates.references]
    border = np.zeros(coordinates.size, dtype=bool)
    border[(starts[:, None] + np.arange(coordinates.layout.space.rows)).ravel()] = True
    return border
