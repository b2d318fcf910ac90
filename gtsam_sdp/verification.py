"""Proof in floating point that a sparse symmetric matrix is positive definite.

If LDL^T of A - diag(c) runs through with positive pivots, then A - diag(c) = L D L^T + F with
|F| <= gamma |L| D |L|^T entry by entry (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section
10.1; Rump, "Verification of positive definiteness", BIT 46, 2006). A symmetric F with |F| x <= f, x > 0, satisfies
F >= -diag(f / x), so that A >= diag(c - f / x): a bound of A from below that includes every rounding error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import qdldl
import scipy

from gtsam_sdp import deadline
from gtsam_sdp.tolerances import FACTORISATION_EXTRA, UNIT_ROUNDOFF
from gtsam_sdp.variables import Array

_SAFETY = 2.0
_GUESSES = (2.0**-38, 2.0**-44)
"""Shares of the diagonal to subtract: the first covers the rounding of large fronts at once, the second is for
matrices so near to singular that they do not survive it."""


@dataclass(frozen=True)
class PositiveDefinite:
    """A proof that A >= diag(slack) > 0.

    Attributes:
        slack: positive numbers, (n,).
        factor: the factorisation of A - diag(c), to solve with; None for a matrix without rows.
    """

    slack: Array
    factor: qdldl.Solver | None

    def solve(self, right: Array) -> Array:
        """Approximate solution of A x = b, (n, k)."""
        if self.factor is None:
            return right
        return np.column_stack([self.factor.solve(np.ascontiguousarray(b)) for b in right.T])


RowSums = Callable[[Array], Array]
"""x -> an upper bound of |E| x for the unknown error E of a matrix, x >= 0."""


def prove_positive_definite(
    upper: scipy.sparse.csc_array, uncertainty: RowSums | None = None
) -> PositiveDefinite | None:
    """Proves that a symmetric matrix is positive definite, whatever its entries are within their uncertainty.

    Args:
        upper: upper triangle of A with sorted rows, real, (n, n).
        uncertainty: bounds the errors of the entries of A; None: A is exact.

    Returns:
        The proof, or None if there is none: A may be indefinite, or too close to it.
    """
    diagonal = upper.diagonal()
    if len(diagonal) == 0 or not np.isfinite(upper.data).all() or not (diagonal > 0).all():
        return None
    scale = 1 / np.sqrt(diagonal)
    fixed = np.zeros(len(diagonal)) if uncertainty is None else uncertainty(scale) / scale
    for guess in _GUESSES:
        subtracted = _SAFETY * fixed + guess * diagonal
        proof = _try(upper, diagonal, subtracted, fixed, scale)
        if proof is not None and not (proof.slack > 0).all():
            subtracted = np.maximum(subtracted, _SAFETY * (subtracted - proof.slack))
            proof = _try(upper, diagonal, subtracted, fixed, scale)
        if proof is not None and (proof.slack > 0).all():
            return proof
    return None


def _try(
    upper: scipy.sparse.csc_array, diagonal: Array, subtracted: Array, fixed: Array, scale: Array
) -> PositiveDefinite | None:
    """Factorises A - diag(subtracted); the slack of the result may still be negative."""
    factor = factorise(add_to_diagonal(upper, -subtracted))
    if factor is None:
        return None
    lower, pivots, order = factor.factors()
    if not (np.isfinite(pivots).all() and (pivots > 0).all()):
        return None
    np.abs(lower.data, out=lower.data)
    x = scale[order]
    reach = pivots * (x + lower.T @ x)
    # entry (i, j) sums at most min(k_i, k_j) products: row i of |F| is at most gamma_(k_i) times that of the product
    roundoffs = (np.bincount(lower.indices, minlength=len(x)) + FACTORISATION_EXTRA) * UNIT_ROUNDOFF
    rounding = np.empty_like(x)
    rounding[order] = (reach + lower @ reach) * roundoffs / (1 - roundoffs) / x
    rounding += 4 * UNIT_ROUNDOFF * diagonal
    return PositiveDefinite(slack=subtracted - fixed - rounding, factor=factor)


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


def real_upper(matrix: scipy.sparse.csc_array, rows: Array | None = None) -> scipy.sparse.csc_array:
    """Upper triangle of a Hermitian matrix, or of its part on some rows, as a real symmetric one.

    A complex matrix becomes a real one of twice the size: row 2i, 2i+1 hold real and imaginary part of row i.

    Args:
        matrix: Hermitian, (n, n).
        rows: rows and columns to keep, increasing, (m,); None: all.
    """
    size = len(matrix.indptr) - 1
    row, column, data = matrix.indices, np.repeat(np.arange(size), np.diff(matrix.indptr)), np.asarray(matrix.data)
    kept = row <= column
    if rows is not None:
        position = np.full(size, -1)
        position[rows] = np.arange(len(rows))
        row, column, size = position[row], position[column], len(rows)
        kept &= (row >= 0) & (column >= 0)
    row, column, data = row[kept], column[kept], data[kept]
    if np.iscomplexobj(data):
        off = np.flatnonzero(row < column)
        rows4 = [2 * row, 2 * row + 1, 2 * row[off], 2 * row[off] + 1]
        columns4 = [2 * column, 2 * column + 1, 2 * column[off] + 1, 2 * column[off]]
        real, imaginary = np.real(data), np.imag(data)[off]
        parts = [real, real, np.negative(imaginary), imaginary]
        row, column, data, size = np.concatenate(rows4), np.concatenate(columns4), np.concatenate(parts), 2 * size
    every = np.arange(size)  # keep the whole diagonal, zeros too
    row, column, data = (np.concatenate(parts) for parts in ((row, every), (column, every), (data, np.zeros(size))))
    upper = scipy.sparse.coo_array((data, (row, column)), shape=(size, size)).tocsc()
    upper.sort_indices()
    return upper


def real_vectors(vectors: Array) -> Array:
    """Complex (n, k) as real (2n, k), the way `real_upper` orders rows; real ones unchanged."""
    if not np.iscomplexobj(vectors):
        return vectors
    return np.stack([vectors.real, vectors.imag], axis=1).reshape(-1, vectors.shape[1])


def complex_vectors(vectors: Array) -> Array:
    """Inverse of `real_vectors` for complex problems."""
    return vectors[0::2] + 1j * vectors[1::2]
