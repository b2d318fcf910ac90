"""Chordal initialisation: the lifted problem without its constraints is one sparse solve.

Carlone, Tron, Daniilidis, Dellaert, "Initialization techniques for 3D SLAM", ICRA 2015.
"""

from __future__ import annotations

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.lowrank.quadratic import Quadratic


def chordal_initialisation(quadratic: Quadratic) -> Array:
    """A feasible Y near the optimum of a problem whose terms do not depend on an estimate (Frobenius factors).

    Holds one rotation of each component at the identity, minimises over all other rows, projects rotations and
    directions, and minimises over the positions once more.

    Returns:
        Y, (n, rank).
    """
    qcqp = quadratic.qcqp
    space = qcqp.layout.space
    Y = np.zeros((qcqp.size, qcqp.rank), dtype=space.dtype)
    for group in quadratic.held:
        Y[group.rows] = np.eye(qcqp.rank)[: group.count]
    Y = quadratic.minimise(Y)
    for group in qcqp.groups:
        Y[group.rows] = group.block.nearest(Y[group.rows], space)
    return quadratic.settle(Y)
