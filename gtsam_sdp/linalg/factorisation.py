"""LDL^T of sparse symmetric matrices, and of Hermitian ones as real ones of twice the size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import qdldl
import scipy

from gtsam_sdp.deadline import has_time, timed
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.real import complex_vectors, real_vectors


def add_to_diagonal(upper: scipy.sparse.csc_array, numbers: Array | float) -> scipy.sparse.csc_array:
    """An upper triangle, with sorted rows and no zero on the diagonal, plus a diagonal matrix."""
    data = upper.data.copy()
    data[upper.indptr[1:] - 1] += numbers
    return scipy.sparse.csc_array((data, upper.indices, upper.indptr), shape=upper.shape)


@dataclass(frozen=True)
class Factorisation:
    """P^T A P = (I + L) D (I + L)^T up to rounding, for a permutation P that keeps L sparse.

    Attributes:
        lower: L, strictly lower triangular, (n, n).
        pivots: the diagonal of D, (n,).
        order: the rows of A in the order of those of L, (n,).
    """

    lower: scipy.sparse.csc_array
    pivots: Array
    order: Array
    _solver: qdldl.Solver | None

    @classmethod
    def of(cls, upper: scipy.sparse.csc_array) -> Factorisation | None:
        """Factorises a matrix given as by `real_upper`, (n, n): None if a pivot vanishes or there is no time for it.

        Always from scratch: `qdldl.Solver.update`, for matrices of one pattern, does not say that a pivot vanished.
        """
        if len(upper.indptr) == 1:
            return cls(upper, np.zeros(0), np.zeros(0, dtype=int), None)
        if not has_time():
            return None
        try:
            with timed():
                solver = qdldl.Solver(scipy.sparse.csc_matrix(upper), upper=True)
        except RuntimeError:
            return None
        lower, pivots, order = solver.factors()
        return cls(scipy.sparse.csc_array(lower), pivots, order, solver)

    @property
    def is_positive(self) -> bool:
        """Whether all pivots are finite and positive: but for rounding, whether A is positive definite."""
        return bool((np.isfinite(self.pivots) & (self.pivots > 0)).all())

    @property
    def negative(self) -> int:
        """Number of negative pivots: by Sylvester's law, of negative eigenvalues; of a complex matrix twice as many."""
        return int((self.pivots < 0).sum())

    def solve(self, right: Array) -> Array:
        """Approximate solution of A x = b, (n,) or (n, k) for k right sides; complex (n / 2, k) where A was complex."""
        if self._solver is None:
            return right
        wide = real_vectors(right)
        solved = np.empty(wide.shape)
        for column in np.ndindex(wide.shape[1:]):
            solved[:, *column] = self._solver.solve(np.ascontiguousarray(wide[:, *column]))
        return complex_vectors(solved) if np.iscomplexobj(right) else solved
