"""All live factors of a graph as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gtsam_sdp.errors import format_factor
from gtsam_sdp.keys import KeyLists
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.components import count_parts


@dataclass(frozen=True)
class FactorTable:
    """All live factors in the order of the graph.

    Attributes:
        index: places in the graph, (f,).
        types: class names in GTSAM.
        factors: the GTSAM factors.
        keys: keys of each factor by its position in the table.
    """

    index: Array
    types: Sequence[str]
    factors: Sequence[Any]
    keys: KeyLists

    def key_table(self, positions: Sequence[int]) -> Array:
        """Keys of factors with equally many, (m, s)."""
        starts = self.keys.starts[list(positions)]
        size = int(self.keys.starts[positions[0] + 1]) - int(starts[0])
        return self.keys.flat[starts[:, None] + np.arange(size)]

    @cached_property
    def distinct_keys(self) -> Array:
        """Every key once, in increasing order, (v,)."""
        return np.unique(self.keys.flat)

    @cached_property
    def parts(self) -> int:
        """Number of parts of the graph that no factor connects."""
        return count_parts(self.keys.flat, self.keys.starts)

    def name(self, position: int) -> str:
        """`factor 12 (BetweenFactorPose3 on x3, x4)`."""
        return format_factor(int(self.index[position]), self.types[position], self.keys(position))
