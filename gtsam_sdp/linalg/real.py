"""Complex matrices and vectors as real ones of twice the size."""

from __future__ import annotations

import numpy as np
import scipy

from gtsam_sdp.linalg.array import Array


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
    """Complex (n,) or (n, k) as real (2n,) or (2n, k), the way `real_upper` orders rows; real ones unchanged."""
    if not np.iscomplexobj(vectors):
        return vectors
    return np.stack([vectors.real, vectors.imag], axis=1).reshape(2 * len(vectors), *vectors.shape[1:])


def complex_vectors(vectors: Array) -> Array:
    """Inverse of `real_vectors` for complex problems."""
    return vectors[0::2] + 1j * vectors[1::2]
