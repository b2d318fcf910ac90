"""The plane (complex rows) or space (real rows)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtsam_sdp.linalg.array import Array


@dataclass(frozen=True)
class Space:
    """The plane (complex rows) or space (real rows): how vectors and rotations become rows of Y.

    Attributes:
        dimension: 2 or 3.
    """

    dimension: int

    @property
    def rows(self) -> int:
        """Rows of a rotation, and columns of Y: 1 complex row in 2D, 3 real rows in 3D."""
        return 1 if self.dimension == 2 else 3

    @property
    def dtype(self) -> type[np.complex128] | type[np.float64]:
        """Type of Y: complex in 2D, real in 3D."""
        return np.complex128 if self.dimension == 2 else np.float64

    def vectors(self, vectors: Array) -> Array:
        """Rows of real vectors: (..., 2) to complex (..., 1) in 2D, unchanged (..., 3) in 3D."""
        vectors = np.asarray(vectors, dtype=float)
        if self.dimension == 3:
            return vectors
        return (vectors[..., :1] + 1j * vectors[..., 1:]).astype(complex)

    def rotations(self, matrices: Array) -> Array:
        """Rotation matrices (..., d, d) as (..., rows, rows): cos + i sin in 2D, unchanged in 3D."""
        if self.dimension == 3:
            return matrices
        return (matrices[..., :1, :1] + 1j * matrices[..., 1:, :1]).astype(complex)

    def pack(self, vectors: Array) -> Array:
        """Rows of vectors of any length: (m, k) to (m, ceil(k / d), rows), padded with zeros."""
        count, length = vectors.shape
        padded = np.zeros((count, -(-length // self.dimension) * self.dimension))
        padded[:, :length] = vectors
        return self.vectors(padded.reshape(count, -1, self.dimension))

    def unpack(self, rows: Array) -> Array:
        """The numbers that `pack` turned into these rows (q, rows), padding included: (q d,)."""
        flat = np.column_stack([rows.real, rows.imag]) if self.dimension == 2 else rows
        return np.ascontiguousarray(flat).reshape(-1)

    def refine_rotations(self, matrices: Array) -> tuple[Array, Array]:
        """Rotations that are off SO(d) by rounding, put back on it, and how far off they were, (m,).

        Args:
            matrices: rotation matrices (m, rows, rows) in the sense of the space.
        """
        identity = np.eye(self.rows)
        excess = matrices @ matrices.conj().swapaxes(1, 2) - identity
        off = np.abs(excess).max(axis=(1, 2), initial=0.0)
        # Newton's iteration for the polar factor: the error is squared by each step
        for _ in range(1 if off.max(initial=0.0) < 1e-8 else 2):
            matrices = (1.5 * identity - matrices @ matrices.conj().swapaxes(1, 2) / 2) @ matrices
        return matrices, off

    def nearest_rotations(self, blocks: Array) -> Array:
        """Projects blocks (m, rows, rows) to SO(d): z / |z|, or the polar factor of determinant one."""
        if self.dimension == 2:
            size = np.abs(blocks)
            return np.where(size > 0, blocks / np.where(size > 0, size, 1.0), 1.0)
        left, _, right = np.linalg.svd(blocks)
        left[:, :, -1] *= np.linalg.det(left @ right)[:, None]
        return left @ right
