"""svec: symmetric matrices as vectors, the upper triangle column by column, off-diagonal entries times sqrt(2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gtsam_sdp.linalg.array import Array


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


def svec_starts(sizes: Array) -> Array:
    """Where each block starts in a stacked svec of blocks of these sides, (k + 1,)."""
    sizes = np.asarray(sizes, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(sizes * (sizes + 1) // 2)])


@dataclass(frozen=True)
class SvecRows:
    """The rows of a stacked svec: entry (row <= column) of a block.

    Attributes:
        block: (m,).
        row: (m,).
        column: (m,).
        scale: sqrt(2) for off-diagonal entries, 1 for diagonal ones, (m,).
    """

    block: Array
    row: Array
    column: Array
    scale: Array


def svec_rows(sizes: Array) -> SvecRows:
    """The entries that the rows of a stacked svec of blocks of these sides stand for."""
    starts = svec_starts(sizes)
    block = np.repeat(np.arange(len(sizes)), np.diff(starts))
    place = np.arange(starts[-1]) - starts[block]
    column = ((np.sqrt(8.0 * place + 1) - 1) / 2).astype(np.int64)  # exact: roots of squares below 2^53
    row = place - column * (column + 1) // 2
    return SvecRows(block, row, column, np.where(row == column, 1.0, np.sqrt(2.0)))


def lower_triangle_places(sizes: Array) -> Array:
    """Where each row goes if blocks list their lower triangle column by column instead, (m,)."""
    rows = svec_rows(sizes)
    size = np.asarray(sizes, dtype=np.int64)[rows.block]
    start = svec_starts(sizes)[rows.block]
    return start + rows.row * size - rows.row * (rows.row - 1) // 2 + rows.column - rows.row
