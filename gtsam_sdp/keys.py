"""Keys of factors as two arrays: small in memory and in files, and independent of GTSAM's factors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np

from gtsam_sdp.compared import Compared
from gtsam_sdp.linalg.array import Array


@dataclass(frozen=True, eq=False)
class KeyLists(Compared):
    """The keys of some factors: call it with the place of one.

    Attributes:
        flat: keys of all factors, one after another.
        starts: where each factor's keys start in `flat`, (f + 1,).
    """

    flat: Array
    starts: Array

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> Self:
        """The keys of each factor in a list of its own."""
        lists = list(lists)
        flat = np.array([key for each in lists for key in each], dtype=np.uint64)
        return cls(flat, np.array([*accumulate(map(len, lists), initial=0)], dtype=np.intp))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __call__(self, place: int) -> tuple[int, ...]:
        """Keys of the factor at a place."""
        return tuple(self.flat[self.starts[place] : self.starts[place + 1]].tolist())

    def __getitem__(self, places: slice | Array) -> KeyLists:
        """Those of some of the factors."""
        return KeyLists.of(map(self, np.arange(len(self))[places].tolist()))
