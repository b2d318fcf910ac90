"""Quadratic forms on the entries of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gtsam_sdp.linalg.array import Array


class Entrywise(NamedTuple):
    """A quadratic form on entries, (m, d r, d r), the sizes of the numbers it was summed from, a constant, (m,)."""

    matrix: Array
    magnitude: Array
    constant: Array

    @classmethod
    def of_residuals(
        cls, coefficients: Array, information: Array, sizes: Array | None = None, constant: Array | None = None
    ) -> Entrywise:
        """1/2 vec(B X)^T W vec(B X) + constant for residual vectors B X, row by row.

        Args:
            coefficients: B, (m, q, r).
            information: W, (m, d q, d q).
            sizes: sizes of the numbers that B was computed from, (m, q, r); None: B itself.
            constant: (m,); None: zero.
        """
        d = information.shape[1] // coefficients.shape[1]
        wide = by_entry(coefficients, d)
        wide_sizes = entry_sizes(np.abs(coefficients) if sizes is None else sizes, coefficients, d)
        root = np.sqrt(np.einsum("kii->ki", information))
        total = (root[:, :, None] * wide_sizes).sum(axis=1)
        constant = np.zeros(len(information)) if constant is None else constant
        return cls(wide.swapaxes(1, 2) @ information @ wide / 2, total[:, :, None] * total[:, None, :] / 2, constant)


def entry_sizes(sizes: Array, matrices: Array, dimension: int) -> Array:
    """Sizes of the entries of `by_entry(matrices)` for sizes of the entries of `matrices`."""
    if np.iscomplexobj(matrices):
        return np.repeat(np.repeat(sizes, 2, axis=1), 2, axis=2)
    return by_entry(sizes, dimension)


def by_entry(matrices: Array, dimension: int) -> Array:
    """Matrices that act on rows of Y, as real matrices on the rows' entries: (m, a, b) to (m, d a, d b)."""
    count, rows, columns = matrices.shape
    if np.iscomplexobj(matrices):
        real, imaginary = matrices.real, matrices.imag
        wide = np.stack([np.stack([real, -imaginary], axis=-1), np.stack([imaginary, real], axis=-1)], axis=-2)
    else:
        wide = matrices[..., None, None] * np.eye(dimension)
    return wide.swapaxes(2, 3).reshape(count, rows * dimension, columns * dimension)
