"""Which kind of value each key of a graph has, and whether these are the kinds that its factors need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, Offender, format_key
from gtsam_sdp.factors.registry import Adapter
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.checks import some_keys
from gtsam_sdp.reading.table import FactorTable
from gtsam_sdp.values.layout import KINDS, common_dimension, vector_at

OTHER = "other"
"""Kind of values of types that are not supported, as biases and cameras: only factors without a term may hold them."""


@dataclass(frozen=True)
class Variables:
    """The keys of a graph and what the values hold for them.

    Attributes:
        keys: in increasing order, (v,).
        kinds: of `KINDS`, or `OTHER`, (v,).
        lengths: numbers of a vector, 0 for other kinds, (v,).
    """

    keys: Array
    kinds: tuple[str, ...]
    lengths: Array

    def numbers(self, keys: Array) -> Array:
        """Places of keys among these."""
        return np.searchsorted(self.keys, keys)

    def select(self, chosen: Array) -> Variables:
        """The variables where `chosen` is true."""
        kinds = tuple(kind for kind, keep in zip(self.kinds, chosen.tolist(), strict=True) if keep)
        return Variables(self.keys[chosen], kinds, self.lengths[chosen])

    @property
    def are_supported(self) -> Array:
        """Whether the type of each value is supported, (v,)."""
        return np.array([kind != OTHER for kind in self.kinds])

    @property
    def dimension(self) -> int:
        """2 or 3: the dimension of the space that all supported values live in."""
        known = self.select(self.are_supported)
        return common_dimension(known.keys, known.kinds, known.lengths)


def read_variables(table: FactorTable, values: gtsam.Values) -> Variables:
    """Keys of the graph, their kinds, and the lengths of vectors.

    Raises:
        InvalidGraphError: the values lack a key of the graph, or hold one that it has not.
    """
    keys = table.distinct_keys
    given = set(values.keys())
    missing = [int(k) for k in keys.tolist() if k not in given]
    if missing:
        user = int(np.searchsorted(table.starts, np.flatnonzero(table.flat_keys == missing[0])[0], side="right")) - 1
        needs = f", which {table.name(user)} needs"
        if len(missing) > 1:
            needs = f"; the first is needed by {table.name(user)}"
        raise InvalidGraphError(
            f"The values hold nothing for {some_keys(missing)}{needs}. "
            "Insert a value for every key of the graph, for example the result of the optimizer."
        )
    extra = sorted(given - set(keys.tolist()))
    if extra:
        raise InvalidGraphError(
            f"No factor of the graph holds {some_keys(extra)}, which the values have. "
            "Erase these keys from a copy of the values, or add the factors that were meant for them."
        )
    kinds, lengths = _kinds(keys.tolist(), values)
    return Variables(keys, kinds, lengths)


def _kinds(keys: Iterable[int], values: gtsam.Values) -> tuple[tuple[str, ...], Array]:
    poses2 = set(gtsam.utilities.allPose2s(values).keys())
    poses3 = set(gtsam.utilities.allPose3s(values).keys())
    readers = {
        "Rot3": values.atRot3, "Rot2": values.atRot2, "Vector": partial(vector_at, values), "Unit3": values.atUnit3,
    }  # fmt: skip
    order = list(readers)
    kinds: list[str] = []
    lengths: list[int] = []
    for key in keys:
        length = 0
        if key in poses3:
            kind = "Pose3"
        elif key in poses2:
            kind = "Pose2"
        else:
            kind, length = _probe_kind(key, readers, order)
        kinds.append(kind)
        lengths.append(length)
    return tuple(kinds), np.array(lengths)


def _probe_kind(key: int, readers: dict[str, Any], order: list[str]) -> tuple[str, int]:
    """Kind and vector length of one value; the kind that fits is tried first for the next key."""
    for kind in order:
        try:
            value = readers[kind](key)
        except RuntimeError:
            continue
        if kind != order[0]:
            order.remove(kind)
            order.insert(0, kind)
        return kind, np.size(value) if kind == "Vector" else 0
    return OTHER, 0


def check_kinds(table: FactorTable, variables: Variables, adapter: Adapter, positions: Sequence[int]) -> None:
    """Raises InvalidGraphError where the values of the keys of factors of one type have another type."""
    numbers = variables.numbers(table.key_table(positions))
    kinds = np.array(variables.kinds)
    for slot, kind in enumerate(adapter.kinds):
        wrong = np.flatnonzero(kinds[numbers[:, slot]] != kind)
        if len(wrong):
            number = int(numbers[wrong[0], slot])
            found = "a value of a type that is not supported" if kinds[number] == OTHER else f"a {kinds[number]}"
            raise InvalidGraphError(
                f"{table.name(positions[wrong[0]])} needs a {kind} at {format_key(int(variables.keys[number]))}, "
                f"where the values hold {found}."
            )


def check_lengths(
    table: FactorTable, variables: Variables, adapter: Adapter, positions: Sequence[int], dimension: int
) -> None:
    """Raises InvalidGraphError where vectors have not as many numbers as factors of one type need."""
    dimension = adapter.vector_length or dimension
    numbers = variables.numbers(table.key_table(positions))
    for slot in (slot for slot, kind in enumerate(adapter.kinds) if kind == "Vector"):
        lengths = variables.lengths[numbers[:, slot]]
        wrong = np.flatnonzero(lengths != dimension)
        if len(wrong):
            key = int(variables.keys[numbers[wrong[0], slot]])
            raise InvalidGraphError(
                f"{table.name(positions[wrong[0]])} needs a vector of {dimension} numbers at {format_key(key)}, "
                f"where the values hold one of {lengths[wrong[0]]}."
            )


def unsupported_type(variables: Variables, keys: Iterable[int]) -> str:
    """Says which of some keys has a value of an unsupported type; empty if none has."""
    keys = list(keys)
    for key, number in zip(keys, variables.numbers(np.array(keys, dtype=np.uint64)).tolist(), strict=True):
        if variables.kinds[number] == OTHER:
            return f"the value of {format_key(key)} is of a type that is not supported (supported: {', '.join(KINDS)})"
    return ""


def kept_variables(table: FactorTable, variables: Variables, dropped: Sequence[Offender]) -> Array:
    """Whether a variable is part of the lifted problem, (v,): of a supported type, in a factor that is not dropped."""
    live = np.ones(len(table.index), dtype=bool)
    live[np.searchsorted(table.index, [offender.index for offender in dropped])] = False
    held = np.zeros(len(variables.keys), dtype=bool)
    held[variables.numbers(table.flat_keys[np.repeat(live, np.diff(table.starts))])] = True
    return held & variables.are_supported
