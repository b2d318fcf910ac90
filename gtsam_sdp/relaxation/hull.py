"""The convex hull of rotations: what R_i^T R_j of two rotations satisfies beyond having rank d.

Saunderson, Parrilo, Willsky, "Semidefinite descriptions of the convex hull of rotation matrices", SIAM J. Optim. 25,
2015. In 2D it is two equations, E_11 = E_22 and E_12 = -E_21; in 3D the matrix inequality I + K(E) >= 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded

HULL = np.array(
    [
        [[(0, 0, -1), (1, 1, -1), (2, 2, 1)], [(0, 2, 1), (2, 0, 1)], [(0, 1, 1), (1, 0, -1)], [(1, 2, 1), (2, 1, 1)]],
        [None, [(0, 0, 1), (1, 1, -1), (2, 2, -1)], [(1, 2, 1), (2, 1, -1)], [(0, 1, 1), (1, 0, 1)]],
        [None, None, [(0, 0, 1), (1, 1, 1), (2, 2, 1)], [(2, 0, 1), (0, 2, -1)]],
        [None, None, None, [(0, 0, -1), (1, 1, 1), (2, 2, -1)]],
    ],
    dtype=object,
)
"""K(E): entry (a, b) sums coefficient * E_ij over its triples (i, j, coefficient); I + K(E) >= 0 on the hull."""


class MatrixEntries(NamedTuple):
    """Entries of one symmetric matrix for each parameter; an entry off the diagonal stands for its mirror too."""

    row: Array
    column: Array
    parameter: Array
    value: Array


def hull_entries() -> MatrixEntries:
    """K*(W) / 2 on the rows of two rotations of SO(3), parameters the upper triangle of W."""
    found = []
    for b in range(4):
        for a in range(b + 1):
            for i, j, coefficient in HULL[a, b]:
                found.append((i, 3 + j, b * (b + 1) // 2 + a, coefficient * (0.5 if a == b else 1.0)))
    return MatrixEntries(*(np.array(x) for x in zip(*found, strict=True)))


def plane_entries() -> MatrixEntries:
    """E_11 - E_22 and E_12 + E_21 on the rows of two rotations of SO(2)."""
    found = [(0, 2, 0, 1.0), (1, 3, 0, -1.0), (0, 3, 1, 1.0), (1, 2, 1, 1.0)]
    return MatrixEntries(*(np.array(x) for x in zip(*found, strict=True)))


def hull_adjoint(W: Array) -> Bounded:
    """K*(W) with <K*(W), E> = <W, K(E)>, (p, 4, 4) -> (p, 3, 3)."""
    result, own = Bounded.of(np.zeros((len(W), 3, 3))), Bounded.of(W)
    for a in range(4):
        for b in range(a, 4):
            for i, j, coefficient in HULL[a, b]:
                result[:, i, j] += (own[:, a, b] + (own[:, b, a] if a != b else 0.0)) * coefficient
    return result


def hull_matrix(E: Array) -> Array:
    """I + K(E), (p, 3, 3) -> (p, 4, 4)."""
    result = np.tile(np.eye(4), (len(E), 1, 1))
    for a in range(4):
        for b in range(a, 4):
            for i, j, coefficient in HULL[a, b]:
                result[:, a, b] += coefficient * E[:, i, j]
            result[:, b, a] = result[:, a, b]
    return result
