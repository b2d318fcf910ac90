"""Connected components."""

from __future__ import annotations

import numpy as np
import scipy.sparse.csgraph

from gtsam_sdp.linalg.array import Array


def label_components(size: int, first: Array, second: Array) -> Array:
    """The component of each of `size` nodes that edges connect, (size,)."""
    graph = scipy.sparse.coo_array((np.ones(len(first)), (first, second)), shape=(size, size))
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1]


def count_parts(keys: Array, starts: Array) -> int:
    """Number of parts of a graph that no factor connects.

    Args:
        keys: of all factors, one after another.
        starts: where each factor's keys start, and the number of all, (f + 1,).
    """
    names, number = np.unique(keys, return_inverse=True)
    first = number[np.repeat(starts[:-1], np.diff(starts))]
    return int(label_components(len(names), first, number).max(initial=-1)) + 1
