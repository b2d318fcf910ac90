"""Proof in floating point that a sparse symmetric matrix is positive definite.

If LDL^T of A - diag(c) runs through with positive pivots, then A - diag(c) = L D L^T + F with
|F| <= gamma |L| D |L|^T entry by entry (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section
10.1; Rump, "Verification of positive definiteness", BIT 46, 2006). A symmetric F with |F| x <= f, x > 0, satisfies
F >= -diag(f / x), so that A >= diag(c - f / x): a bound of A from below that includes every rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import qdldl
import scipy.sparse as sp

from gtsam_sdp.tolerances import FACTORISATION_EXTRA, UNIT_ROUNDOFF
from gtsam_sdp.variables import Array

_SAFETY = 2.0
_FIRST_GUESS = 2.0**-43


@dataclass(frozen=True)
class PositiveDefinite:
    """A proof that A >= diag(slack) > 0.

    Attributes:
        slack: positive numbers, (n,).
        factor: the factorisation of A - diag(c), to solve with.
    """

    slack: Array
    factor: qdldl.Solver

    def solve(self, right: Array) -> Array:
        """Approximate solution of A x = b, (n, k)."""
        return np.column_stack([self.factor.solve(np.ascontiguousarray(b)) for b in right.T])


def prove_positive_definite(matrix: sp.csc_array, uncertainty: sp.csc_array | None = None) -> PositiveDefinite | None:
    """Proves that a matrix is positive definite, whatever its entries are within their uncertainty.

    Args:
        matrix: A, symmetric, real, (n, n).
        uncertainty: nonnegative, (n, n): every entry of A may be off by so much. None: A is exact.

    Returns:
        The proof, or None if there is none: A may be indefinite, or too close to it.
    """
    diagonal = matrix.diagonal()
    if len(diagonal) == 0 or not np.isfinite(matrix.data).all() or not (diagonal > 0).all():
        return None
    scale = 1 / np.sqrt(diagonal)
    fixed = np.zeros(len(diagonal)) if uncertainty is None else (uncertainty @ scale) / scale
    subtracted = _SAFETY * fixed + _FIRST_GUESS * diagonal
    for _ in range(3):
        proof = _try(matrix, subtracted, fixed, scale)
        if proof is None or (proof.slack > 0).all():
            return proof
        needed = subtracted - proof.slack
        subtracted = np.maximum(subtracted, _SAFETY * needed)
    return None


def _try(matrix: sp.csc_array, subtracted: Array, fixed: Array, scale: Array) -> PositiveDefinite | None:
    """Factorises A - diag(subtracted); the slack of the result may still be negative."""
    lowered = sp.triu(matrix, format="csc")
    lowered.sort_indices()
    at_diagonal = lowered.indptr[1:] - 1
    lowered.data[at_diagonal] -= subtracted
    factor = factorise(lowered)
    if factor is None:
        return None
    lower, pivots, order = factor.factors()
    if not (np.isfinite(pivots).all() and (pivots > 0).all()):
        return None
    lower = abs(lower)
    x = scale[order]
    reach = pivots * (x + lower.T @ x)
    product = np.empty_like(x)
    # entry (i, j) sums at most min(k_i, k_j) products, so row i of |F| is at most gamma_(k_i) times row i of the product
    roundoffs = (np.bincount(lower.indices, minlength=len(x)) + FACTORISATION_EXTRA) * UNIT_ROUNDOFF
    product[order] = (reach + lower @ reach) * roundoffs / (1 - roundoffs) / x
    rounding = product + 4 * UNIT_ROUNDOFF * matrix.diagonal()
    return PositiveDefinite(slack=subtracted - fixed - rounding, factor=factor)


def factorise(upper: sp.csc_array) -> qdldl.Solver | None:
    """LDL^T of a matrix given by its upper triangle, None if a pivot vanishes."""
    try:
        return qdldl.Solver(sp.csc_matrix(upper), upper=True)
    except RuntimeError:
        return None


def real_form(matrix: sp.csc_array) -> sp.csc_array:
    """A Hermitian matrix as a real symmetric one of twice the size: row 2i, 2i+1 hold real and imaginary part."""
    if not np.iscomplexobj(matrix.data):
        return matrix
    coo = matrix.tocoo()
    row, column = coo.coords
    rows = np.concatenate([2 * row, 2 * row + 1, 2 * row, 2 * row + 1])
    columns = np.concatenate([2 * column, 2 * column + 1, 2 * column + 1, 2 * column])
    data = np.concatenate([coo.data.real, coo.data.real, -coo.data.imag, coo.data.imag])
    size = 2 * matrix.shape[0]
    return sp.coo_array((data, (rows, columns)), shape=(size, size)).tocsc()


def real_magnitude(matrix: sp.csc_array) -> sp.csc_array:
    """Bounds of the entries of a Hermitian matrix as bounds for those of its `real_form`."""
    return sp.csc_array(sp.kron(matrix, np.ones((2, 2)), format="csc"))


def real_vectors(vectors: Array) -> Array:
    """Complex (n, k) as real (2n, k), the way `real_form` orders rows; real ones unchanged."""
    if not np.iscomplexobj(vectors):
        return vectors
    return np.stack([vectors.real, vectors.imag], axis=1).reshape(-1, vectors.shape[1])


def complex_vectors(vectors: Array) -> Array:
    """Inverse of `real_vectors` for complex problems."""
    return vectors[0::2] + 1j * vectors[1::2]
