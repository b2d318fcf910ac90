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

    Fixes the reference frame of each component to the identity, minimises over all other rows, projects the
    rotations to SO(d), and minimises over the translations once more.

    Args:
        qcqp: the problem, in centred coordinates.

    Returns:
        Y, (n, rank).
    """
    count = qcqp.rank
    references = qcqp.coordinates.position[qcqp.coordinates.references]
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
