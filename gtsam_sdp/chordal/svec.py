"""svec: symmetric matrices as vectors, the upper triangle column by column, off-diagonal entries times sqrt(2)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gtsam_sdp.variables import Array


def svec_place(row: Array, column: Array) -> Array:
    """Place of entry (row <= column) in the svec of a matrix."""
    return column * (column + 1) // 2 + row


@lru_cache(maxsize=32)
def upper_entries(size: int) -> tuple[Array, Array]:
    """Rows and columns of the upper triangle in the order of svec, not to be written to."""
    column, row = np.tril_indices(size)
    row.flags.writeable = column.flags.writeable = False
    return row, column


def svec_weights(row: Array, column: Array) -> Array:
    """1 on the diagonal, sqrt(2) off it."""
    return np.where(row == column, 1.0, np.sqrt(2.0))


def svec(matrix: Array) -> Array:
    """The svec of a symmetric matrix."""
    row, column = upper_entries(len(matrix))
    return matrix[row, column] * svec_weights(row, column)


def smat(vector: Array, size: int) -> Array:
    """The symmetric matrix of an svec."""
    row, column = upper_entries(size)
    matrix = np.zeros((size, size))
    matrix[row, column] = vector / svec_weights(row, column)
    return matrix + np.triu(matrix, 1).T
