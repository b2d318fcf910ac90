"""What a factor contributes to the lifted problem: a quadratic form that is never above the factor's cost.

Adapters produce `Terms`, arrays for many factors of equal shape; users who register a term for a factor of
their own return a `Term` made of `Residual`s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gtsam_sdp.errors import InvalidTermError, format_key
from gtsam_sdp.variables import Array, Layout

NEAREST = 1e-6
"""Distance, as a share of the measured one, below which its tangent is too steep to be of use."""


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


@dataclass(frozen=True)
class DistanceTerms:
    """Terms 1/2 w (|p| - r)^2 of distances, replaced by tangents in |p|^2 that may be taken anywhere.

    For every positive point delta: 1/2 w (|p| - r)^2 >= (1 - r / delta) 1/2 w |p|^2 + 1/2 w (r^2 - r delta), equal
    where |p| = delta. Where r <= 0 the term is what it is.

    Attributes:
        square: Hermitian matrix of 1/2 w |p|^2, (m, r, r).
        weight: w / 2, (m,).
        measured: r, (m,).
        point: delta, (m,); 1 where r <= 0.
    """

    square: Array
    weight: Array
    measured: Array
    point: Array

    @property
    def movable(self) -> Array:
        """Whether the term is a tangent, (m,)."""
        return (self.measured > 0) & (self.weight > 0)

    @property
    def matrix(self) -> Array:
        """(m, r, r)."""
        slope = np.where(self.measured > 0, (self.point - self.measured) / self.point, 1.0)
        return self.square * slope[:, None, None]

    @property
    def constant(self) -> Array:
        """(m,)."""
        touching = np.where(self.measured > 0, self.point, 0.0)
        return self.weight * (self.measured * (self.measured - touching))


@dataclass(frozen=True)
class Terms:
    """Terms of m factors of equal shape: g_k(Y) = Re tr(X^H matrix_k X) + constant_k, X the factor's local rows.

    The local rows are the rotation blocks of `rotations`, then one row
    combination @ Y[translations] - offset @ Y[world] for each row of `combination`: only differences of
    translations enter, so that numbers stay as large as the measurements and not as large as the map.

    Attributes:
        factor: index in the graph, (m,).
        rotations: first rows of the rotation blocks, (m, a).
        translations: translation rows that take part, (m, t).
        combination: coefficients of the translation rows, (q, t) or (m, q, t).
        offset: coefficients of the world frame's rows, (m, q, rows), or None.
        matrix: Hermitian, (m, r, r) with r = a * rows + q.
        constant: (m,).
        exactness: `Exactness` of each, (m,).
        magnitude: sizes of the numbers that `matrix` was summed from, (m, r, r); None: they do not cancel.
        entrywise: where `matrix` is only a bound, the factor's exact cost as a quadratic form on the d * r entries of
            X, row by row, and a constant of its own, which the vector lift can hold; None if there is none.
        distances: where the terms are tangents in a squared distance: how to take others; None if they are not.
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
        rotated = lifted[self.rotations[:, :, None] + np.arange(count)].reshape(len(self.factor), -1, count)
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
        magnitude = np.abs(self.matrix) if self.magnitude is None else self.magnitude
        return np.einsum("ki,kij,kj->k", local, magnitude, local) + np.abs(self.constant)


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


@dataclass(frozen=True)
class Residual:
    """One d-dimensional residual vector in the world frame, linear in rotations and translations.

    r = sum_k R_k rotation[k] + sum_k translation[k] t_k + world, contributing weight / 2 * |r|^2 to a term.

    Attributes:
        weight: may be negative; the term as a whole has to stay below the factor's cost.
        rotation: for a key, a vector (d,) in that key's frame.
        translation: for a key, a number.
        world: a constant vector (d,) in the world frame.
    """

    weight: float
    rotation: Mapping[int, ArrayLike] = field(default_factory=dict)
    translation: Mapping[int, float] = field(default_factory=dict)
    world: ArrayLike | None = None


@dataclass(frozen=True)
class Term:
    """The term of one factor: constant + sum of weight / 2 * |residual|^2, never above the factor's cost.

    Attributes:
        residuals: the residuals.
        constant: in the unit of `graph.error`.
        exactness: EXACT if equal to the factor's cost everywhere, TANGENT if at the estimate, else LOWER_BOUND.
    """

    residuals: Sequence[Residual]
    constant: float = 0.0
    exactness: Exactness = Exactness.EXACT

    @property
    def absolute(self) -> bool:
        """Whether a residual has a part in the world frame."""
        return any(r.world is not None for r in self.residuals)

    def _check(self, factor: int, keys: Sequence[int], layout: Layout) -> None:
        where = f"The term of factor {factor}"
        d = layout.space.dimension
        for residual in self.residuals:
            given = [*residual.rotation.values(), *([] if residual.world is None else [residual.world])]
            vectors = [np.asarray(vector, dtype=float) for vector in given]
            if any(vector.shape != (d,) for vector in vectors):
                raise InvalidTermError(f"{where} has a vector of the wrong length: in {d}D each needs {d} numbers.")
            numbers = [residual.weight, self.constant, *residual.translation.values(), *(x for v in vectors for x in v)]
            if not np.isfinite(np.array(numbers, dtype=float)).all():
                raise InvalidTermError(f"{where} holds a number that is not finite.")
            for key, rows, what in (
                *((k, layout.rotation, "rotation") for k in residual.rotation),
                *((k, layout.translation, "position") for k in residual.translation),
            ):
                if key not in keys:
                    raise InvalidTermError(f"{where} uses key {format_key(key)}, which is none of the factor's keys.")
                if key not in layout:
                    raise InvalidTermError(f"{where} uses {format_key(key)}, whose type of value is not supported.")
                if rows[layout.number(key)] < 0:
                    raise InvalidTermError(f"{where} uses the {what} of {format_key(key)}, which has none.")

    def to_terms(self, factor: int, keys: Sequence[int], layout: Layout) -> Terms:
        """The term as arrays, one factor long.

        Raises:
            InvalidTermError: a number is not finite, a vector has the wrong length, or a key is not the factor's or
                has no rotation or position.
        """
        self._check(factor, keys, layout)
        rotation_keys = list(dict.fromkeys(k for r in self.residuals for k in r.rotation))
        translation_keys = list(dict.fromkeys(k for r in self.residuals for k in r.translation))
        space = layout.space
        rows = space.rows
        count = len(rotation_keys) * rows
        coefficients = np.zeros((len(self.residuals), count + len(self.residuals)), dtype=space.dtype)
        combination = np.zeros((len(self.residuals), len(translation_keys)))
        offset = np.zeros((1, len(self.residuals), rows), dtype=space.dtype)
        for line, residual in enumerate(self.residuals):
            for key, vector in residual.rotation.items():
                start = rotation_keys.index(key) * rows
                coefficients[line, start : start + rows] = space.vectors(np.asarray(vector))
            for key, number in residual.translation.items():
                combination[line, translation_keys.index(key)] = number
            if residual.world is not None:
                offset[0, line] = -space.vectors(np.asarray(residual.world))
            coefficients[line, count + line] = 1.0
        weights = np.array([r.weight for r in self.residuals], dtype=float)
        numbers_r = np.array([layout.number(k) for k in rotation_keys], dtype=np.intp)
        numbers_t = np.array([layout.number(k) for k in translation_keys], dtype=np.intp)
        return Terms(
            factor=np.array([factor]),
            rotations=layout.rotation[numbers_r][None].astype(np.intp),
            translations=layout.translation[numbers_t][None].astype(np.intp),
            combination=combination,
            offset=offset if self.absolute else None,
            matrix=residual_matrix(coefficients, weights / 2).sum(axis=0)[None],
            constant=np.array([float(self.constant)]),
            exactness=np.array([self.exactness]),
            magnitude=(1 + len(weights) / 8)
            * residual_matrix(np.abs(coefficients), np.abs(weights) / 2).sum(axis=0)[None],
        )
