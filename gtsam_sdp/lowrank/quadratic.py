"""The lifted cost without its constraints: a quadratic function, minimised over some rows of Y by one sparse solve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.components import label_components
from gtsam_sdp.linalg.factorisation import Factorisation, add_to_diagonal
from gtsam_sdp.linalg.real import real_upper, reals_per_number
from gtsam_sdp.values.blocks import BlockGroup, rows_of

_DAMPING = 1e-13
"""Share of the diagonal that is added to it: rows that no term weighs stay where they are."""

_SINGULAR = 1e-12
"""Share of the diagonal below which a pivot is what the damping left of zero."""


@dataclass(frozen=True)
class Quadratic:
    """<Q, Y Y^H> over the rows that are not held; each factorisation is made once, when it is needed.

    One rotation of each component is held, the one with the largest weight: the others are counted from it. The world
    frame is an unknown like others: held in place of a rotation it would leave all rotations zero where absolute
    factors are about positions only. Where there are no other rotations it is held, and without it a direction.

    Attributes:
        qcqp: the problem.
    """

    qcqp: Qcqp

    @cached_property
    def held(self) -> tuple[BlockGroup, ...]:
        """One block of each component, by kind: a rotation; the world frame if there is none, or else a direction."""
        qcqp = self.qcqp
        groups = [group for group in qcqp.groups if len(group)]
        if not groups:
            return ()
        starts = np.concatenate([group.starts for group in groups])
        kind = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        is_frame = np.repeat([group.block.is_frame for group in groups], [len(group) for group in groups])
        world = qcqp.coordinates.position[qcqp.layout.world] if qcqp.layout.world >= 0 else -1
        rank = np.where(is_frame, np.where(starts == world, 1, 0), 2)
        weight = qcqp.Q.diagonal().real[starts]
        component = self._components(starts)
        order = np.lexsort((-weight, rank, component))
        _, first = np.unique(component[order], return_index=True)
        chosen = order[first]
        return tuple(replace(g, starts=starts[chosen[kind[chosen] == k]]) for k, g in enumerate(groups))

    def _components(self, starts: Array) -> Array:
        """The component of rows; where they are counted from no frame, of those that Q connects."""
        coordinates = self.qcqp.coordinates
        component = coordinates.component[coordinates.kept][starts]
        if (component >= 0).all():
            return component
        entries = self.qcqp.Q.tocoo()
        label = label_components(self.qcqp.size, *entries.coords)
        return np.where(component >= 0, component, -1 - label[starts])

    @cached_property
    def held_rows(self) -> Array:
        """Rows of the blocks that are held."""
        return rows_of(self.held)

    @cached_property
    def free(self) -> Array:
        """Rows that are not held, (f,)."""
        return np.setdiff1d(np.arange(self.qcqp.size), self.held_rows)

    @property
    def positions(self) -> Array:
        """Rows of translations and vectors, (t,)."""
        return self.qcqp.free

    @cached_property
    def factor(self) -> Factorisation | None:
        """LDL^T of Q on the free rows, None if it is not positive definite there."""
        return self._factorise(self.free)

    @cached_property
    def preconditioner(self) -> Factorisation | None:
        """The same, None also if a pivot is the damping's own: its inverse would tell nothing of the cost."""
        if self.factor is None:
            return None
        diagonal = np.repeat(self.qcqp.Q.diagonal().real[self.free], reals_per_number(self.qcqp.Q))
        return self.factor if (self.factor.pivots > _SINGULAR * diagonal[self.factor.order]).all() else None

    @cached_property
    def _position_factor(self) -> Factorisation | None:
        return self._factorise(self.positions)

    def _factorise(self, rows: Array) -> Factorisation | None:
        if not len(rows):
            return None
        upper = real_upper(self.qcqp.Q, rows)
        factor = Factorisation.of(add_to_diagonal(upper, _DAMPING * upper.diagonal()))
        return factor if factor is not None and factor.is_positive else None

    def solve(self, right: Array) -> Array:
        """Q^-1 on the free rows, zero on the others, (n, p); where there is no inverse, `right`."""
        if self.preconditioner is None:
            return right
        solved = np.zeros_like(right)
        solved[self.free] = self.preconditioner.solve(right[self.free])
        return solved

    def minimise(self, Y: Array) -> Array:
        """Y with the held blocks' rows, and all others at the minimum; LinAlgError if there is none."""
        if len(self.free) and self.factor is None:
            raise np.linalg.LinAlgError("the cost without its constraints has no minimum")
        return self._minimise(Y, self.free, self.factor)

    def settle(self, Y: Array) -> Array:
        """Y with its rotations, and positions at the minimum if there is one."""
        return self._minimise(Y, self.positions, self._position_factor)

    def _minimise(self, Y: Array, rows: Array, factor: Factorisation | None) -> Array:
        if factor is None:
            return Y
        known, moved = Y.copy(), Y.copy()
        known[rows] = 0
        moved[rows] = -factor.solve((self.qcqp.Q @ known)[rows])
        return moved
