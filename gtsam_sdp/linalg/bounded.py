"""Numbers with the sizes of the numbers they were summed from, which bound their rounding errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.real import by_entry, of_parts, real_parts, reals_per_number
from gtsam_sdp.linalg.sums import exact_sum

UNIT_ROUNDOFF = 2.0**-53
"""Relative error of one IEEE double operation rounded to nearest."""


def rounding_error(roundoffs: Any, magnitude: Any = 1.0) -> Any:
    """The error of numbers of some magnitude, each of them known to so many roundoffs."""
    return roundoffs * UNIT_ROUNDOFF * magnitude


@dataclass(frozen=True)
class Bounded:
    """Numbers, and what becomes of them if every number and every sign on the way to them is positive.

    Every operation is done twice, so that no size is forgotten; plain numbers are as large as they are.

    Attributes:
        value: real or complex, an array or a sparse matrix.
        magnitude: sizes of the numbers that each was summed from, real, of the same shape.
    """

    value: Any
    magnitude: Any
    __array_ufunc__ = None  # an array leaves an operation with these to them, and numpy's functions refuse them

    @classmethod
    def of(cls, numbers: Any) -> Bounded:
        """Plain numbers; `Bounded` ones as they are."""
        return numbers if isinstance(numbers, Bounded) else cls(numbers, abs(numbers))

    def apply(self, function: Callable[..., Any], *others: Any) -> Bounded:
        """A function of these numbers, and of others, made of sums and products with numbers that are not negative."""
        operands = [self, *map(Bounded.of, others)]
        return Bounded(function(*(x.value for x in operands)), function(*(x.magnitude for x in operands)))

    @classmethod
    def concatenate(cls, parts: Sequence[Any], axis: int = 0) -> Bounded:
        """Several in one, as numpy's function."""
        first, *others = map(cls.of, parts)
        return first.apply(lambda *arrays: np.concatenate(arrays, axis=axis), *others)

    def __add__(self, other: Any) -> Bounded:
        return self.apply(lambda a, b: a + b, other)

    def __sub__(self, other: Any) -> Bounded:
        return self + -Bounded.of(other)

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.magnitude)

    def __mul__(self, other: Any) -> Bounded:
        return self.apply(lambda a, b: a * b, other)

    def __matmul__(self, other: Any) -> Bounded:
        return self.apply(lambda a, b: a @ b, other)

    def __getitem__(self, at: Any) -> Bounded:
        return Bounded(self.value[at], self.magnitude[at])

    def __setitem__(self, at: Any, numbers: Any) -> None:
        numbers = Bounded.of(numbers)
        self.value[at], self.magnitude[at] = numbers.value, numbers.magnitude

    @property
    def H(self) -> Bounded:
        """Conjugate transposes, (..., a, b) to (..., b, a)."""
        return Bounded(self.value.conj().swapaxes(-1, -2), self.magnitude.swapaxes(-1, -2))

    def sandwich(self, V: Any) -> Bounded:
        """V^H M V for matrices M, (..., a, a) and (..., a, b)."""
        V = Bounded.of(V)
        return V.H @ self @ V

    def by_entry(self, dimension: int) -> Bounded:
        """Matrices on rows of Y as real ones on the rows' entries, (..., a, b) to (..., d a, d b)."""
        pattern = np.ones((2, 2)) if reals_per_number(self.value) == 2 else np.eye(dimension)
        return Bounded(by_entry(self.value, dimension), np.kron(self.magnitude, pattern))

    def error(self, roundoffs: Any) -> Any:
        """The rounding error, if each summand is known to so many roundoffs."""
        return rounding_error(roundoffs, self.magnitude)


@dataclass(frozen=True)
class Entries:
    """Entries of a sparse matrix, several of them at one place.

    Attributes:
        row, column: (e,).
        number: (e,).
    """

    row: Array
    column: Array
    number: Bounded

    @classmethod
    def of_blocks(cls, rows: Array, blocks: Bounded) -> Entries:
        """All entries of small matrices (m, s, s) on these rows and columns, (m, s), but those on rows < 0."""
        size = rows.shape[1]
        entries = cls(np.repeat(rows, size, axis=1).ravel(), np.tile(rows, (1, size)).ravel(), blocks.apply(np.ravel))
        return entries[(entries.row >= 0) & (entries.column >= 0)] if (rows < 0).any() else entries

    @classmethod
    def join(cls, parts: Sequence[Entries]) -> Entries:
        """Several in one; there has to be one."""
        row, column = (np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "column"))
        return cls(row, column, Bounded.concatenate([part.number for part in parts]))

    def __getitem__(self, chosen: Array) -> Entries:
        return Entries(self.row[chosen], self.column[chosen], self.number[chosen])

    def sum(self, size: int) -> Bounded:
        """The sparse matrix; for real problems in one pass, as real and imaginary part."""

        def summed(numbers: Array) -> scipy.sparse.csc_array:
            return scipy.sparse.coo_array((numbers, (self.row, self.column)), shape=(size, size)).tocsc()

        if reals_per_number(self.number.value) == 2:
            return self.number.apply(summed)
        both = summed(of_parts([self.number.value, self.number.magnitude]))
        parts = (part.copy() for part in real_parts(both.data))
        return Bounded(*(scipy.sparse.csc_array((x, both.indices, both.indptr), shape=both.shape) for x in parts))

    def sum_exactly(self, border: Array) -> Bounded:
        """The sparse matrix, (n, n); sums within frames, which may hold a part of every term, are rounded once."""
        matrix, size = self._gathered(border).sum(len(border)), len(border)
        own = self[np.flatnonzero(border[self.row] & border[self.column])]
        if not len(own.row):
            return matrix
        places, where = np.unique(own.row * size + own.column, return_inverse=True)
        ordered = own.number.value[np.argsort(where, kind="stable")]
        Q = matrix.value
        for place, parts in zip(places.tolist(), np.split(ordered, np.cumsum(np.bincount(where))[:-1]), strict=True):
            row, column = divmod(place, size)
            at = np.searchsorted(Q.indices[Q.indptr[column] : Q.indptr[column + 1]], row) + Q.indptr[column]
            assert Q.indices[at] == row, "an entry of a reference frame is not in the matrix"
            Q.data[at] = exact_sum(parts)
        return matrix

    def _gathered(self, border: Array) -> Entries:
        """The entries with those in columns and rows of reference frames summed: nearly every term adds to each.

        In 2D there is one such column only, and nothing to gain.
        """
        columns = np.flatnonzero(border)
        if reals_per_number(self.number.value) == 2 or not 0 < len(columns) <= _MAX_GATHERED:
            return self
        size = len(border)
        rank = np.cumsum(border) - 1
        within = self[np.flatnonzero(border[self.column])]
        place = rank[within.column] * size + within.row
        total = within.number.apply(lambda numbers: np.bincount(place, numbers, minlength=len(columns) * size))
        # the border's own block is kept whole
        used = np.flatnonzero((total.magnitude > 0) | np.tile(border, len(columns)))
        summed = Entries(used % size, columns[used // size], total[used])
        mirrored = summed[~border[summed.row]]  # entries within the border are there twice already
        inner = self[~(border[self.row] | border[self.column])]
        return Entries.join([inner, summed, Entries(mirrored.column, mirrored.row, mirrored.number)])

    def count_summands(self, border: Array) -> Array:
        """Largest number of summands in an entry of each row, those on the border's diagonal aside, (n,)."""
        size = len(border)
        own = np.bincount(self.row[self.row == self.column], minlength=size)
        with_border = np.flatnonzero(border[self.row] & ~border[self.column])
        pairs, counts = np.unique(self.row[with_border] * size + self.column[with_border], return_counts=True)
        most = np.zeros(size, dtype=own.dtype)
        np.maximum.at(most, pairs % size, counts)
        return np.maximum(own, most)


_MAX_GATHERED = 12
"""Rows of reference frames up to which their columns are summed densely."""
