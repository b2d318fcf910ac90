"""Results compare by what they hold: arrays, numbers that are no numbers, and GTSAM's values included."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import gtsam
import numpy as np


class Compared:
    """A dataclass (made with eq=False) that is equal to another one if all its fields are."""

    def __eq__(self, other: object) -> bool:
        return are_same(self, other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *(_hashable(part) for _, part in _fields(self))))


def are_same(one: Any, other: Any) -> bool:
    """Whether two objects hold the same; NaN is the same as NaN."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, gtsam.Values):
        return one.equals(other, 0.0)
    if isinstance(one, float):
        return one == other or (one != one and other != other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(are_same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(are_same, one, other))
    if hasattr(one, "indptr"):  # a sparse matrix
        return one.shape == other.shape and all(
            are_same(getattr(one, name), getattr(other, name)) for name in ("indptr", "indices", "data")
        )
    if dataclasses.is_dataclass(one):
        return all(are_same(a, b) for (_, a), (_, b) in zip(_fields(one), _fields(other), strict=True))
    return bool(one == other)


def _fields(result: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(result, field.name)) for field in dataclasses.fields(result)]


def _hashable(part: Any) -> Any:
    """What a field adds to the hash: itself if it is plain, the shape of an array, nothing otherwise."""
    if isinstance(part, np.ndarray):
        return part.shape
    return part if isinstance(part, (int, float, str)) and part == part else None
