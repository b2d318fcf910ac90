"""Rational arithmetic for the tests of the proof: every float is a rational number."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from gtsam_sdp.linalg.bounded import UNIT_ROUNDOFF, Bounded
from gtsam_sdp.proof.slack import Slack


def rational(numbers: Any) -> np.ndarray:
    """Floats as fractions, in an array of the same shape."""
    numbers = np.asarray(numbers, dtype=float)
    return np.array([Fraction(x) for x in numbers.ravel().tolist()], dtype=object).reshape(numbers.shape)


def complement(S: np.ndarray, border: int) -> np.ndarray | None:
    """The Schur complement of a symmetric matrix on its first `border` rows; None if the others are not definite."""
    A = S.copy()
    for k in range(len(A) - 1, border - 1, -1):
        if A[k, k] <= 0:
            return None
        A[:k, :k] -= np.outer(A[:k, k], A[k, :k]) / A[k, k]
    return A[:border, :border]


def is_definite(S: np.ndarray) -> bool:
    return complement(S, 0) is not None


def is_semidefinite(S: np.ndarray) -> bool:
    """Whether all pivots of a symmetric matrix are positive, or zero with nothing beside them."""
    A = S.copy()
    for k in range(len(A) - 1, -1, -1):
        if A[k, k] < 0 or (A[k, k] == 0 and any(A[:k, k] != 0)):
            return False
        if A[k, k] > 0:
            A[:k, :k] -= np.outer(A[:k, k], A[k, :k]) / A[k, k]
    return True


def slack_of(S: np.ndarray, magnitude: np.ndarray | None = None, **given: Any) -> Slack:
    """A `Slack` with full matrices, exact and with the reference row 0 unless told otherwise."""
    size = len(S)
    row, column = np.indices((size, size)).reshape(2, -1)
    sizes = np.abs(S) if magnitude is None else magnitude

    def full(matrix: np.ndarray) -> Any:
        made = sp.coo_array((matrix.ravel(), (row, column)), shape=(size, size)).tocsc()
        made.sort_indices()
        return made

    known = {
        "summands": np.zeros(size, dtype=int),
        "norms": np.zeros(size),
        "references": np.array([0]),
        "component": np.zeros(size, dtype=int),
        "base": 0.0,
        "base_error": 0.0,
        "roundoffs": 0,
    }
    return Slack(form=Bounded(full(S), full(sizes)), **{**known, **given})


def granted(slack: Slack, border: int) -> np.ndarray:
    """The largest error of each entry of S as docs/maths/, section 3.6, has it; rows of the border come first."""
    counts = slack.summands.astype(int)
    each = np.minimum.outer(counts, counts)
    each[:border, border:], each[border:, :border] = counts[border:], counts[border:, None]
    each[:border, :border] = 0
    return rational(slack.form.magnitude.toarray()) * (each + slack.roundoffs) * Fraction(UNIT_ROUNDOFF)
