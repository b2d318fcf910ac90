"""Sparse matrices that know the size of the numbers they were summed from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.sums import exact_sum


class Entries(NamedTuple):
    """Entries of a sparse matrix: row, column, value, and the size of the numbers each value was summed from."""

    row: Array
    column: Array
    value: Array
    magnitude: Array


def gather_border(entries: Entries, border: Array) -> Entries:
    """The entries with those in columns and rows of reference frames summed: nearly every term adds to each of them.

    In 2D there is one such column only, and nothing to gain.
    """
    columns = np.flatnonzero(border)
    if np.iscomplexobj(entries.value) or not 0 < len(columns) <= _MAX_GATHERED:
        return entries
    size = len(border)
    rank = np.cumsum(border) - 1
    in_column = np.flatnonzero(border[entries.column])
    place = rank[entries.column[in_column]] * size + entries.row[in_column]

    def total(numbers: Array) -> Array:
        return np.bincount(place, numbers[in_column], minlength=len(columns) * size)

    magnitude = total(entries.magnitude)
    value = total(entries.value)
    used = np.flatnonzero((magnitude > 0) | np.tile(border, len(columns)))  # the border's own block is kept whole
    row, column = used % size, columns[used // size]
    mirrored = ~border[row]  # entries within the border are there twice already
    inner = ~(border[entries.row] | border[entries.column])
    return Entries(
        np.concatenate([entries.row[inner], row, column[mirrored]]),
        np.concatenate([entries.column[inner], column, row[mirrored]]),
        np.concatenate([entries.value[inner], value[used], value[used][mirrored]]),
        np.concatenate([entries.magnitude[inner], magnitude[used], magnitude[used][mirrored]]),
    )


_MAX_GATHERED = 12
"""Rows of reference frames up to which their columns are summed densely."""


def sum_entries(entries: Entries, size: int) -> tuple[scipy.sparse.csc_array, scipy.sparse.csc_array]:
    """The matrix and its magnitude; for real problems in one pass, as real and imaginary part."""
    at = (entries.row, entries.column)
    if np.iscomplexobj(entries.value):
        value, magnitude = (
            scipy.sparse.coo_array((d, at), shape=(size, size)) for d in (entries.value, entries.magnitude)
        )
        return value.tocsc(), magnitude.tocsc()
    both = scipy.sparse.coo_array((entries.value + 1j * entries.magnitude, at), shape=(size, size)).tocsc()
    parts = (np.real(both.data).copy(), np.imag(both.data).copy())
    value, magnitude = (scipy.sparse.csc_array((d, both.indices, both.indptr), shape=(size, size)) for d in parts)
    return value, magnitude


def sum_border_exactly(Q: scipy.sparse.csc_array, border: Array, entries: Entries) -> None:
    """Replaces the entries within reference frames, which may sum a part of every term, by correctly rounded sums."""
    size = len(border)
    chosen = np.flatnonzero(border[entries.row] & border[entries.column])
    if not len(chosen):
        return
    places, where = np.unique(entries.row[chosen] * size + entries.column[chosen], return_inverse=True)
    ordered = entries.value[chosen[np.argsort(where, kind="stable")]]
    for place, parts in zip(places.tolist(), np.split(ordered, np.cumsum(np.bincount(where))[:-1]), strict=True):
        row, column = divmod(place, size)
        at = np.searchsorted(Q.indices[Q.indptr[column] : Q.indptr[column + 1]], row) + Q.indptr[column]
        assert Q.indices[at] == row, "an entry of a reference frame is not in the matrix"
        Q.data[at] = exact_sum(parts)


def count_summands(border: Array, entries: Entries) -> Array:
    """Largest number of summands in an entry of each row, those on the border's diagonal aside, (n,)."""
    size = len(border)
    own = np.bincount(entries.row[entries.row == entries.column], minlength=size)
    with_border = np.flatnonzero(border[entries.row] & ~border[entries.column])
    pairs, counts = np.unique(entries.row[with_border] * size + entries.column[with_border], return_counts=True)
    most = np.zeros(size, dtype=own.dtype)
    np.maximum.at(most, pairs % size, counts)
    return np.maximum(own, most)
