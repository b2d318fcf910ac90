"""Chordal initialisation: the lifted problem without its constraints is one sparse solve.

Carlone, Tron, Daniilidis, Dellaert, "Initialization techniques for 3D SLAM", ICRA 2015.
"""

from __future__ import annotations

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.lowrank.quadratic import Quadratic


def chordal_initialisation(quadratic: Quadratic) -> Array:
    """A feasible Y near the optimum of a problem whose terms do not depend on an estimate (Frobenius factors).

    Holds one rotation of each component at the identity, minimises over all other rows, projects the rotations to
    SO(d), and minimises over the positions once more.

    Returns:
        Y, (n, rank).
    """
    qcqp = quadratic.qcqp
    count = qcqp.rank
    Y = np.zeros((qcqp.size, count), dtype=qcqp.layout.space.dtype)
    Y[quadratic.held[:, None] + np.arange(count)] = np.eye(count)
    Y = quadratic.minimise(Y)
    blocks = qcqp.blocks[:, None] + np.arange(count)
    Y[blocks] = qcqp.layout.space.nearest_rotations(Y[blocks])
    return quadratic.settle(Y)
