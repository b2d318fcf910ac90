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
import scipy

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import UNIT_ROUNDOFF
from gtsam_sdp.linalg.factorisation import Factorisation, add_to_diagonal
from gtsam_sdp.tolerances import FACTORISATION_EXTRA

_SAFETY = 2.0
_GUESSES = (2.0**-38, 2.0**-44)
"""Shares of the diagonal to subtract: the first covers the rounding of large fronts at once, the second is for
matrices so near to singular that they do not survive it."""

_BALANCINGS = 3
"""So often x is improved where a few rows with many entries lack room, as others have more than they need."""


@dataclass(frozen=True)
class PositiveDefinite:
    """A proof that A >= diag(slack) > 0.

    Attributes:
        slack: positive numbers, (n,).
        factor: the factorisation of A - diag(c), to solve with.
    """

    slack: Array
    factor: Factorisation


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
    if not np.isfinite(upper.data).all() or not (diagonal > 0).all():
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
    """Factorises A - diag(subtracted); the slack of the result may still be negative.

    Any x > 0 serves. In place of another factorisation x is improved by a step of the power method for |F| relative
    to what was subtracted, whose largest ratio never grows (Collatz, Wielandt).
    """
    factor = Factorisation.of(add_to_diagonal(upper, -subtracted))
    if factor is None or not factor.is_positive:
        return None
    lower, order = abs(factor.lower), factor.order
    room = subtracted - fixed - 4 * UNIT_ROUNDOFF * diagonal
    # entry (i, j) sums at most min(k_i, k_j) products: row i of |F| is at most gamma_(k_i) times that of the product
    roundoffs = (np.bincount(lower.indices, minlength=len(order)) + FACTORISATION_EXTRA) * UNIT_ROUNDOFF

    def reach(x: Array) -> Array:
        """A bound of |F| x."""
        reached = np.empty_like(x)
        product = factor.pivots * (x[order] + lower.T @ x[order])
        reached[order] = (product + lower @ product) * roundoffs / (1 - roundoffs)
        return reached

    f = reach(scale)
    for _ in range(_BALANCINGS):
        if (f < room * scale).all():
            break
        scale = f / room
        f = reach(scale)
    return PositiveDefinite(slack=room - f / scale, factor=factor)
