"""Complex numbers, matrices and vectors as real ones: nothing else has to know whether rows are complex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from gtsam_sdp.linalg.array import Array


def reals_per_number(numbers: Any) -> int:
    """Real numbers in each number of an array or a sparse matrix: 2 if they are complex, else 1."""
    return 2 if np.issubdtype(numbers.dtype, np.complexfloating) else 1


def real_parts(numbers: Array) -> list[Array]:
    """Real and imaginary part of complex numbers; real ones as they are."""
    return [numbers.real, numbers.imag][: reals_per_number(numbers)]


def of_parts(parts: Sequence[Any] | Array) -> Any:
    """Numbers of their real and imaginary part, or of the first alone."""
    return parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]


def real_entries(rows: Array) -> Array:
    """Entries of rows as real numbers, (..., k) to (..., 2 k) if they are complex."""
    return np.stack(real_parts(rows), axis=-1).reshape(*rows.shape[:-1], rows.shape[-1] * reals_per_number(rows))


def by_entry(matrices: Array, dimension: int) -> Array:
    """Matrices that act on rows of Y, as real matrices on the rows' entries: (..., a, b) to (..., d a, d b)."""
    if reals_per_number(matrices) == 1:
        return np.kron(matrices, np.eye(dimension))
    return np.kron(matrices.real, np.eye(2)) + np.kron(matrices.imag, [[0.0, -1.0], [1.0, 0.0]])


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
    if reals_per_number(data) == 2:
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
    """Complex (n,) or (n, k) as real (2n,) or (2n, k), the way `real_upper` orders rows; real ones as they are."""
    return np.stack(real_parts(vectors), axis=1).reshape(reals_per_number(vectors) * len(vectors), *vectors.shape[1:])


def complex_vectors(vectors: Array) -> Array:
    """Inverse of `real_vectors` for complex problems."""
    return vectors[0::2] + 1j * vectors[1::2]
