"""LDL^T of sparse symmetric matrices."""

from __future__ import annotations

import qdldl
import scipy

from gtsam_sdp import deadline
from gtsam_sdp.linalg.array import Array


def add_to_diagonal(upper: scipy.sparse.csc_array, numbers: Array) -> scipy.sparse.csc_array:
    """An upper triangle, with sorted rows and no zero on the diagonal, plus a diagonal matrix."""
    data = upper.data.copy()
    data[upper.indptr[1:] - 1] += numbers
    return scipy.sparse.csc_array((data, upper.indices, upper.indptr), shape=upper.shape)


def factorise(upper: scipy.sparse.csc_array) -> qdldl.Solver | None:
    """LDL^T of a matrix given by its upper triangle, None if a pivot vanishes or there is no time for it."""
    if not deadline.fits():
        return None
    try:
        with deadline.timed():
            return qdldl.Solver(scipy.sparse.csc_matrix(upper), upper=True)
    except RuntimeError:
        return None
