"""What a factor contributes to the lifted problem: a quadratic form that is never above the factor's cost.

Adapters produce `Terms`, arrays for many factors of equal shape; users who register a term for a factor of
their own return a `Term` made of `Residual`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded
from gtsam_sdp.terms.distances import NEAREST, DistanceTerms
from gtsam_sdp.terms.entrywise import Entrywise


class Exactness(IntEnum):
    """How a term relates to the cost of its factor."""

    EXACT = 0
    """Equal to the factor's cost everywhere."""
    TANGENT = 1
    """Never above the factor's cost; equal to it, or nearly, at the estimate."""
    LOWER_BOUND = 2
    """Never above the factor's cost, and possibly well below it."""
    DROPPED = 3
    """Left out: counts as zero."""


@dataclass(frozen=True)
class Terms:
    """Terms of m factors of equal shape: g_k(Y) = Re tr(X^H matrix_k X) + constant_k, X the factor's local rows.

    The local rows are the rotation blocks of `rotations`, the rows of `singles`, then one row
    combination @ Y[translations] - offset @ Y[world] for each row of `combination`: only differences of
    translations enter, so that numbers stay as large as the measurements and not as large as the map.

    Attributes:
        factor: index in the graph, (m,).
        rotations: first rows of the rotation blocks, (m, a).
        translations: translation rows that take part, (m, t).
        combination: coefficients of the translation rows, (q, t) or (m, q, t).
        offset: coefficients of the world frame's rows, (m, q, rows), or None.
        matrix: Hermitian, (m, r, r) with r = a * rows + s + q.
        constant: (m,).
        exactness: `Exactness` of each, (m,).
        magnitude: sizes of the numbers that `matrix` was summed from, (m, r, r); None: they do not cancel.
        entrywise: where `matrix` is only a bound, the factor's exact cost as a quadratic form on the d * r entries of
            X, row by row, and a constant of its own, which the vector lift can hold; None if there is none.
        distances: where the terms are tangents in a squared distance: how to take others; None if they are not.
        singles: rows that take part as they are, those of directions, (m, s); None if there are none.
    """

    factor: Array
    rotations: Array
    translations: Array
    combination: Array
    offset: Array | None
    matrix: Array
    constant: Array
    exactness: Array
    magnitude: Array | None = None
    entrywise: Entrywise | None = None
    distances: DistanceTerms | None = None
    singles: Array | None = None

    @property
    def first_rows(self) -> Array:
        """First rows of all that takes part, (m, a + s + t)."""
        singles = no_rows(len(self.factor)) if self.singles is None else self.singles
        return np.concatenate([self.rotations, singles, self.translations], axis=1)

    def whole_rows(self, count: int, rotations: Array | None = None) -> Array:
        """Rows that take part as they are, of rotations of `count` rows and singles, (m, a * count + s).

        Args:
            count: rows of a rotation.
            rotations: first rows of blocks to take in place of the terms' own, (m, a).
        """
        starts = self.rotations if rotations is None else rotations
        rows = (starts[:, :, None] + np.arange(count)).reshape(len(starts), -1)
        return rows if self.singles is None else np.concatenate([rows, self.singles], axis=1)

    @property
    def form(self) -> Bounded:
        """The matrices with the sizes of the numbers behind them, (m, r, r)."""
        return Bounded.of(self.matrix) if self.magnitude is None else Bounded(self.matrix, self.magnitude)

    def raised(self, more: Array) -> Terms:
        """The terms with more constants, (m,)."""
        distances = None if self.distances is None else replace(self.distances, rest=self.distances.rest + more)
        return replace(self, constant=self.constant + more, distances=distances)

    def select(self, chosen: Array) -> Terms:
        """The terms where `chosen` is true; not for terms by entry."""
        if chosen.all():
            return self
        assert self.entrywise is None
        combination = self.combination if self.combination.ndim == 2 else self.combination[chosen]
        return replace(
            self,
            factor=self.factor[chosen],
            rotations=self.rotations[chosen],
            translations=self.translations[chosen],
            combination=combination,
            offset=None if self.offset is None else self.offset[chosen],
            matrix=self.matrix[chosen],
            constant=self.constant[chosen],
            exactness=self.exactness[chosen],
            magnitude=None if self.magnitude is None else self.magnitude[chosen],
            distances=None if self.distances is None else self.distances.select(chosen),
        )

    def touching(self, points: Array) -> Terms:
        """The tangents at other distances, (m,); terms of no distances are the same everywhere."""
        if self.distances is None:
            return self
        points = np.where(self.distances.movable & (points > 0) & np.isfinite(points), points, self.distances.point)
        moved = replace(self.distances, point=points)
        return replace(self, matrix=moved.matrix, constant=moved.constant, distances=moved)

    def touching_at(self, lifted: Array, world: int) -> Terms:
        """The tangents at the distances in Y; those of distances that are next to nothing stay."""
        if self.distances is None:
            return self
        local = self.local_rows(lifted, world)
        squares = np.einsum("kia,kia->k", local.conj(), self.distances.square @ local).real
        points = np.sqrt(np.maximum(squares, 0.0) / np.where(self.distances.weight > 0, self.distances.weight, 1.0))
        return self.touching(np.where(points > NEAREST * self.distances.measured, points, self.distances.point))

    def local_rows(self, lifted: Array, world: int) -> Array:
        """X of every term, (m, r, rows)."""
        count = lifted.shape[1]
        rotated = lifted[self.whole_rows(count)]
        moved = self.combination @ lifted[self.translations]
        if self.offset is not None:
            moved = moved - self.offset @ lifted[world : world + count]
        return np.concatenate([rotated, moved], axis=1)

    def value(self, lifted: Array, world: int) -> Array:
        """g_k(Y), (m,)."""
        local = self.local_rows(lifted, world)
        return np.einsum("kia,kia->k", local.conj(), self.matrix @ local).real + self.constant

    def size(self, lifted: Array, world: int) -> Array:
        """|g_k| before cancellation: <|matrix|, |X| |X|^T> + |constant|, (m,)."""
        local = np.linalg.norm(self.local_rows(lifted, world), axis=2)
        return np.einsum("ki,kij,kj->k", local, self.form.magnitude, local) + np.abs(self.constant)


def residual_matrix(coefficients: Array, weight: Array | float = 1.0) -> Array:
    """Matrix of the squared norm of B X: weight * B^H B for coefficients B, (m, r) -> (m, r, r)."""
    outer = coefficients.conj()[:, :, None] * coefficients[:, None, :]
    return outer * (weight[:, None, None] if isinstance(weight, np.ndarray) else weight)


def convex(batch: Terms, count: int) -> Terms:
    """Terms that are convex without the constraints, and equal up to a constant with them.

    A log-map term is linear in R_i^T R_j: -2 <H, E> + const. With |R_i|^2 and |R_j|^2, weighted by the polar factors of
    H, it is the square of a difference. Terms of distances are not equal: they become tangents at twice the distance.

    Args:
        batch: the terms.
        count: rows of a rotation.
    """
    if batch.distances is not None:
        return batch.touching(2 * batch.distances.measured)
    if not batch.matrix.shape[1]:  # constants
        return batch
    smallest = np.linalg.eigvalsh(batch.matrix)[:, 0]
    rough = np.flatnonzero(smallest < -1e-9 * np.linalg.norm(batch.matrix, axis=(1, 2)))
    if batch.rotations.shape[1] != 2 or not len(rough):
        return batch
    first, second = slice(0, count), slice(count, 2 * count)
    matrix = batch.matrix.copy()
    left, values, right = np.linalg.svd(matrix[rough, first, second])
    matrix[rough, first, first] += (left * values[:, None, :]) @ left.conj().swapaxes(1, 2)
    matrix[rough, second, second] += right.conj().swapaxes(1, 2) @ (values[:, :, None] * right)
    return replace(batch, matrix=matrix)


def are_exact(terms: Sequence[Terms]) -> bool:
    """Whether every term is equal to its factor's cost everywhere, and so does not depend on the estimate."""
    return all((batch.exactness == int(Exactness.EXACT)).all() for batch in terms)


def no_rows(count: int) -> Array:
    """An empty selection of rows for `count` factors, (count, 0)."""
    return np.zeros((count, 0), dtype=np.intp)
