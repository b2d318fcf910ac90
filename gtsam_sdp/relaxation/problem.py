"""The conic problem of a lift on a clique tree, and what its variables and blocks stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.relaxation.clique_coordinates import CliqueCoordinates
from gtsam_sdp.relaxation.hull import MatrixEntries
from gtsam_sdp.relaxation.tree import CliqueTree
from gtsam_sdp.terms.terms import Terms


@dataclass(frozen=True)
class MultiplierGroup:
    """Variables of the dual that act on a few rows of one clique each: S_c loses sum_p y_p M_p.

    Attributes:
        cliques: the clique of each member, (g,).
        rows: the real rows that the matrices M_p act on, (g, k).
        entries: of the M_p, in places of `rows`, upper triangle.
        objective: coefficients in the dual's objective, (p,).
        cone: side of the positive semidefinite matrix whose upper triangle the parameters are; 0 if they are free.
    """

    cliques: Array
    rows: Array
    entries: MatrixEntries
    objective: Array
    cone: int = 0


_STEEPEST = 1e-9
"""Smallest delta^ / delta: a tangent is not taken farther away than this."""


class SlopeVariables(NamedTuple):
    """Variables p, s of terms of distances of one batch, in a unit u: [[1 + u p, p], [p, s]] >= 0.

    u p = delta^ / delta - 1, and delta / delta^ - 1 is then at most -u p + u^2 s. With u as large as the relative
    residuals, p and s are of size 1 however little noise there is; without a unit the solver would know a small p to
    its absolute accuracy only.

    Attributes:
        batch: place among the lift's terms.
        members: places in the batch, (g,).
        columns: their variables p and s, (g, 2).
        unit: u.
    """

    batch: int
    members: Array
    columns: Array
    unit: float


@dataclass(frozen=True, eq=False, repr=False)
class CliqueProblem(ConicProblem):
    """The conic problem of a lift on a clique tree, and what its variables and blocks stand for.

    Attributes:
        weights: rows of A and c were multiplied by these, to balance soft and stiff cliques; so are multipliers of the
            cones before they are those of the cliques.
        tree: the cliques.
        coordinates: of the cliques.
        groups: multipliers of the lift.
        columns: variables of each group, (members, parameters).
        slopes: where terms of distances touch is a variable too.
    """

    weights: Array
    tree: CliqueTree
    coordinates: Sequence[CliqueCoordinates]
    groups: Sequence[MultiplierGroup]
    columns: Sequence[Array]
    slopes: Sequence[SlopeVariables] = ()

    def parameters(self, y: Array, group: int) -> Array:
        """Multipliers of a group in the unit of the cost, (members, parameters)."""
        return y[self.columns[group]] / self.scale

    def touching(self, terms: Sequence[Terms], y: Array, less: float = 0.0) -> Sequence[Terms]:
        """The lift's terms as tangents where y says; delta^ / delta is made smaller by a share `less`."""
        terms = list(terms)
        for own in self.slopes:
            distances = terms[own.batch].distances
            assert distances is not None
            points = distances.point.copy()
            points[own.members] /= np.maximum((1 + own.unit * y[own.columns[:, 0]]) * (1 - less), _STEEPEST)
            terms[own.batch] = terms[own.batch].touching(points)
        return terms
