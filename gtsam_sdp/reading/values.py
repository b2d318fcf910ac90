"""Which kind of value each key of a graph has, and whether these are the kinds that its factors need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, Offender, format_key
from gtsam_sdp.factors.registry import Adapter
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.checks import some_keys
from gtsam_sdp.reading.table import FactorTable
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.kinds import KINDS, by_kind, common_dimension, kinds_of


@dataclass(frozen=True)
class Variables:
    """The keys of a graph and what the values hold for them.

    Attributes:
        keys: in increasing order, (v,).
        kinds: of `KINDS`, or `OTHER`, (v,).
        lengths: numbers of a vector, 0 for other kinds, (v,).
    """

    keys: Array
    kinds: tuple[Kind, ...]
    lengths: Array

    def numbers(self, keys: Array) -> Array:
        """Places of keys among these."""
        return np.searchsorted(self.keys, keys)

    def select(self, chosen: Array) -> Variables:
        """The variables where `chosen` is true."""
        kinds = tuple(kind for kind, keep in zip(self.kinds, chosen.tolist(), strict=True) if keep)
        return Variables(self.keys[chosen], kinds, self.lengths[chosen])

    @cached_property
    def _by_kind(self) -> dict[Kind, Array]:
        return by_kind(self.kinds)

    def are_of(self, kind: Kind) -> Array:
        """Whether each value is of a kind, (v,)."""
        of_kind = np.zeros(len(self.keys), dtype=bool)
        of_kind[self._by_kind.get(kind, [])] = True
        return of_kind

    @property
    def are_supported(self) -> Array:
        """Whether the type of each value is supported, (v,)."""
        return np.array([kind.is_supported for kind in self.kinds], dtype=bool)

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
        place = np.flatnonzero(table.keys.flat == missing[0])[0]
        user = int(np.searchsorted(table.keys.starts, place, side="right")) - 1
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
    kinds = kinds_of(values, keys)
    return Variables(keys, kinds, _lengths(values, keys, kinds))


def _lengths(values: gtsam.Values, keys: Array, kinds: Sequence[Kind]) -> Array:
    """Numbers of a vector, 0 for other kinds, (v,)."""
    lengths = [
        np.size(kind.at(values, key)) if kind.has_length else 0 for key, kind in zip(keys.tolist(), kinds, strict=True)
    ]
    return np.array(lengths)


def check_kinds(table: FactorTable, variables: Variables, adapter: Adapter, positions: Sequence[int]) -> None:
    """Raises InvalidGraphError where the values of the keys of factors of one type have another type."""
    numbers = variables.numbers(table.key_table(positions))
    for slot, kind in enumerate(adapter.kinds):
        wrong = np.flatnonzero(~variables.are_of(kind)[numbers[:, slot]])
        if len(wrong):
            number = int(numbers[wrong[0], slot])
            other = variables.kinds[number]
            found = f"a {other}" if other.is_supported else "a value of a type that is not supported"
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
    for slot in (slot for slot, kind in enumerate(adapter.kinds) if kind.has_length):
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
        if not variables.kinds[number].is_supported:
            return f"the value of {format_key(key)} is of a type that is not supported (supported: {', '.join(KINDS)})"
    return ""


def kept_variables(table: FactorTable, variables: Variables, dropped: Sequence[Offender]) -> Array:
    """Whether a variable is part of the lifted problem, (v,): of a supported type, in a factor that is not dropped."""
    live = np.ones(len(table.index), dtype=bool)
    live[np.searchsorted(table.index, [offender.index for offender in dropped])] = False
    held = np.zeros(len(variables.keys), dtype=bool)
    held[variables.numbers(table.keys.flat[np.repeat(live, np.diff(table.keys.starts))])] = True
    return held & variables.are_supported
