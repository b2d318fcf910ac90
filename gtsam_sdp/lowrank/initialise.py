"""Chordal initialisation: the lifted problem without its constraints is one sparse solve.

Carlone, Tron, Daniilidis, Dellaert, "Initialization techniques for 3D SLAM", ICRA 2015.
"""

from __future__ import annotations

import numpy as np

from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.variables import Array
from gtsam_sdp.verification import add_to_diagonal, complex_vectors, factorise, real_upper, real_vectors


def chordal_initialisation(qcqp: Qcqp) -> Array:
    """A feasible Y near the optimum of a problem whose terms do not depend on an estimate (Frobenius factors).

    Fixes one rotation of each component to the identity, minimises over all other rows, projects the rotations to
    SO(d), and minimises over the translations once more. The world frame is an unknown like others: held in place of
    a rotation it would leave all rotations zero where absolute factors are about positions only.

    Args:
        qcqp: the problem, in centred coordinates.

    Returns:
        Y, (n, rank).
    """
    count = qcqp.rank
    references = _held_rotations(qcqp)
    Y = np.zeros((qcqp.size, count), dtype=qcqp.layout.space.dtype)
    known = np.zeros(qcqp.size, dtype=bool)
    at = references[:, None] + np.arange(count)
    Y[at] = np.eye(count)
    known[at] = True
    Y = _minimise(qcqp, Y, known)
    blocks = qcqp.blocks[:, None] + np.arange(count)
    Y[blocks] = qcqp.layout.space.nearest_rotations(Y[blocks])
    known[blocks] = True
    return _minimise(qcqp, Y, known)


def _held_rotations(qcqp: Qcqp) -> Array:
    """First rows of one rotation for each component, the one with the largest weight; the world frame if alone."""
    coordinates = qcqp.coordinates
    component = coordinates.component[coordinates.kept][qcqp.blocks]
    weight = qcqp.Q.diagonal().real[qcqp.blocks]
    world = coordinates.position[qcqp.layout.world] if qcqp.layout.world >= 0 else -1
    weight = np.where(qcqp.blocks == world, -1.0, weight)
    order = np.lexsort((-weight, component))
    _, first = np.unique(component[order], return_index=True)
    return qcqp.blocks[order[first]]


def _minimise(qcqp: Qcqp, Y: Array, known: Array) -> Array:
    """Minimises <Q, Y Y^H> over the rows that are not known."""
    free = np.flatnonzero(~known)
    if not len(free):
        return Y
    upper = real_upper(qcqp.Q, free)
    right = real_vectors(-(qcqp.Q[free] @ np.where(known[:, None], Y, 0)))
    factor = factorise(add_to_diagonal(upper, 1e-13 * upper.diagonal()))
    if factor is None:
        raise np.linalg.LinAlgError("the cost matrix is singular beyond the gauge")
    solved = np.column_stack([factor.solve(np.ascontiguousarray(column)) for column in right.T])
    Y = Y.copy()
    Y[free] = complex_vectors(solved) if qcqp.rank == 1 else solved
    return Y
