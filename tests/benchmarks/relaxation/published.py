"""The published formulation of the chordal relaxation, to compare with (Subramanian et al., arXiv 2605.30617).

Vector lift with a homogenising coordinate for each pose: x_i = [h_i; vec R_i; t_i], 13 rows. One positive semidefinite
matrix Z_c = [x_i]_c [x_i]_c^T for each clique of the Bayes tree of the poses:

    min  sum <C_c, Z_c>
    s.t. R_i^T R_i = h_i^2 I,  h_i^2 = 1          in the clique where pose i is frontal
         entries that Z_c shares with its parent are equal
         Z_c >= 0

The first pose is held at the identity: its only row is h_0. Coordinates are those of the world, and the cost is not
scaled: of the scales that were tried this serves Clarabel best. The equations leave the multipliers of the overlaps
undetermined where the matrices have low rank, and Clarabel stops short of the tolerance (AlmostSolved): 1e-4 above the
optimum on a ring of 10, 1e-2 on one of 50. So its time is at most that of a solution to the tolerance.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import clarabel
import gtsam
import numpy as np
import scipy.sparse as sp

from gtsam_sdp.backends.clarabel_ import _settings as clarabel_settings
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.svec import svec, svec_place, svec_weights, upper_entries
from gtsam_sdp.relaxation.tree import CliqueTree

_CLARABEL: Any = clarabel  # its stubs do not know the classes

ROWS = 13
HELD = 0
"""The pose that is held, by number."""


class Edge(NamedTuple):
    """kappa / 2 |R_j - R_i R|_F^2 + tau / 2 |t_j - t_i - R_i t|^2 with the measured R and t."""

    i: int
    j: int
    measured: gtsam.Pose3
    kappa: float
    tau: float


@dataclass(frozen=True)
class PublishedRun:
    """How the solver ended."""

    message: str
    objective: float
    iterations: int
    seconds: float


@dataclass(frozen=True)
class PublishedProblem:
    """min q^T z, equalities E z = e, every block of z the svec of a positive semidefinite matrix.

    Attributes:
        edges: between poses 0, 1, ..., the first at the identity.
        tree: cliques of the poses.
    """

    edges: Sequence[Edge]
    tree: CliqueTree

    @cached_property
    def sizes(self) -> Array:
        """Sides of the matrices, (c,)."""
        return np.array([sum(_rows(pose) for pose in clique.members) for clique in self.tree.cliques])

    @cached_property
    def starts(self) -> Array:
        """Where each matrix starts in z, (c + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes * (self.sizes + 1) // 2)])

    def _places(self, clique: int, pose: int) -> Array:
        """Rows of a pose in the matrix of a clique."""
        members = self.tree.cliques[clique].members
        before = members[: members.index(pose)]
        return sum(map(_rows, before)) + np.arange(_rows(pose))

    @cached_property
    def costs(self) -> Array:
        """q."""
        matrices = [np.zeros((n, n)) for n in self.sizes.tolist()]
        for edge in self.edges:
            home = int(self.tree.homes(np.array([[edge.i, edge.j]]))[0])
            at = np.concatenate([self._places(home, pose) for pose in (edge.i, edge.j)])
            matrices[home][np.ix_(at, at)] += _edge_matrix(edge)
        return np.concatenate([svec(matrix) for matrix in matrices])

    @cached_property
    def equalities(self) -> tuple[sp.csc_array, Array]:
        """E and e."""
        rows: list[tuple[Array, Array, float]] = []
        for c, clique in enumerate(self.tree.cliques):
            for pose in clique.frontals:
                rows += self._constraints(c, pose)
            if clique.separator:
                rows += self._overlaps(c, clique.parent, clique.separator)
        number = np.repeat(np.arange(len(rows)), [len(places) for places, _, _ in rows])
        places, values = (np.concatenate([row[k] for row in rows]) for k in range(2))
        shape = (len(rows), int(self.starts[-1]))
        return sp.coo_array((values, (number, places)), shape=shape).tocsc(), np.array([row[2] for row in rows])

    def _constraints(self, clique: int, pose: int) -> list[tuple[Array, Array, float]]:
        """h^2 = 1 and R^T R = h^2 I of a pose."""
        at, start = self._places(clique, pose), int(self.starts[clique])
        h = start + svec_place(at[:1], at[:1])
        found: list[tuple[Array, Array, float]] = [(h, np.ones(1), 1.0)]
        if pose == HELD:
            return found
        columns = at[1:10].reshape(3, 3)
        for i in range(3):
            for j in range(i, 3):
                entries = start + svec_place(columns[i], columns[j])
                values = 1 / svec_weights(columns[i], columns[j])
                if i == j:
                    entries, values = np.append(entries, h), np.append(values, -1.0)
                found.append((entries, values, 0.0))
        return found

    def _overlaps(self, clique: int, parent: int, shared: Sequence[int]) -> list[tuple[Array, Array, float]]:
        """Entries of a clique's matrix that its parent has too."""
        row, column = upper_entries(sum(map(_rows, shared)))
        places = []
        for c in (clique, parent):
            at = np.concatenate([self._places(c, pose) for pose in shared])
            low, high = np.minimum(at[row], at[column]), np.maximum(at[row], at[column])
            places.append(self.starts[c] + svec_place(low, high))
        return [(pair, np.array([1.0, -1.0]), 0.0) for pair in np.stack(places, axis=1)]

    def point(self, poses: Sequence[gtsam.Pose3]) -> Array:
        """z of poses, the first at the identity."""
        x = [np.append(1.0, pose.matrix()[:3].T.ravel()) for pose in poses]
        stacks = [np.concatenate([x[p][: _rows(p)] for p in clique.members]) for clique in self.tree.cliques]
        return np.concatenate([svec(np.outer(stack, stack)) for stack in stacks])

    def solve(self, tolerance: float = 1e-9, time_limit: float | None = None) -> PublishedRun:
        """Solves it with Clarabel, set as the package sets it."""
        E, e = self.equalities
        variables = len(self.costs)
        A = sp.vstack([E, -sp.eye_array(variables)]).tocsc()
        b = np.append(e, np.zeros(variables))
        cones = [_CLARABEL.ZeroConeT(len(e)), *(_CLARABEL.PSDTriangleConeT(n) for n in self.sizes.tolist())]
        started = time.perf_counter()
        solver = _CLARABEL.DefaultSolver(
            sp.csc_matrix((variables, variables)),
            self.costs,
            sp.csc_matrix(A),
            b,
            cones,
            clarabel_settings(tolerance, time_limit),
        )
        solution = solver.solve()
        seconds = time.perf_counter() - started
        return PublishedRun(str(solution.status), float(solution.obj_val), int(solution.iterations), seconds)


def _rows(pose: int) -> int:
    return 1 if pose == HELD else ROWS


def _edge_matrix(edge: Edge) -> Array:
    """The cost of an edge as a quadratic form of [x_i; x_j]."""
    M = edge.measured.matrix()
    weights = np.repeat([edge.kappa, edge.tau], [9, 3]) / 2
    before = np.zeros((12, ROWS))  # R_i R column by column, and R_i t + t_i
    before[:9, 1:10] = np.kron(M[:3, :3].T, np.eye(3))
    before[9:, 1:10] = np.kron(M[:3, 3], np.eye(3))
    before[9:, 10:] = np.eye(3)
    after = np.hstack([np.zeros((12, 1)), np.eye(12)])
    held = np.concatenate([[1.0], np.eye(3).ravel(), np.zeros(3)])[:, None]
    sides = ((edge.i, -before), (edge.j, after))
    residual = np.hstack([side @ held if pose == HELD else side for pose, side in sides])
    return residual.T @ (weights[:, None] * residual)
