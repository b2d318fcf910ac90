"""Many small arrays in one, without keeping thousands of objects alive for the garbage collector to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gtsam_sdp.linalg.array import Array


def stack(arrays: Iterable[Any]) -> Array:
    """Arrays or numbers of equal shape, stacked as floats, (m, ...); read-only."""
    shape: tuple[int, ...] = ()

    def as_bytes(array: Any) -> bytes:
        nonlocal shape
        array = np.asarray(array, dtype=float)
        shape = array.shape
        return array.tobytes()

    data = b"".join(as_bytes(a) for a in arrays)
    return np.frombuffer(data).reshape(-1, *shape)
