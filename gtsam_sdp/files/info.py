"""What the file of a graph holds, for `gtsam-sdp info`."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import gtsam
import numpy as np
import scipy

if TYPE_CHECKING:
    from gtsam_sdp.datasets import PoseGraphFile


def describe(file: PoseGraphFile) -> dict[str, Any]:
    """What a pose graph holds, as plain types."""
    factors: list[Any] = [file.graph.at(k) for k in range(file.graph.size())]
    return {
        "file": str(file.path),
        "dimension": file.dimension,
        "keys": key_types(file),
        "factors": dict(Counter(type(factor).__name__ for factor in factors)),
        "noise": dict(Counter(type(factor.noiseModel()).__name__ for factor in factors)),
        "components": count_components([factor.keys() for factor in factors]),
        "has_values": file.has_values,
        "start": file.start,
        "cost_at_start": finite(file.graph.error(file.initial)),
    }


def key_types(file: PoseGraphFile) -> dict[str, int]:
    """Number of values by type."""
    values = file.initial
    counts = {
        "Pose2": gtsam.utilities.allPose2s(values).size(),
        "Pose3": gtsam.utilities.allPose3s(values).size(),
    }
    counts["landmarks"] = values.size() - sum(counts.values())
    return {name: count for name, count in counts.items() if count}


def count_components(keys: list[list[int]]) -> int:
    """Number of connected components of a graph whose factors join these keys."""
    from scipy.sparse.csgraph import connected_components

    names, places = np.unique(np.array([key for each in keys for key in each], dtype=np.uint64), return_inverse=True)
    rows = np.repeat(np.arange(len(keys)), [len(each) for each in keys])
    size = len(keys) + len(names)  # factors, then variables
    joins = scipy.sparse.coo_array((np.ones(len(rows)), (rows, len(keys) + places)), shape=(size, size))
    return int(connected_components(joins, directed=False)[0])


def info_text(facts: dict[str, Any]) -> str:
    """What `describe` found, for people."""

    def counted(counts: dict[str, int]) -> str:
        return ", ".join(f"{count} {name}" for name, count in counts.items())

    cost = facts["cost_at_start"]
    rows = {
        "dimension": f"{facts['dimension']}D",
        "keys": counted(facts["keys"]),
        "factors": counted(facts["factors"]),
        "noise": counted(facts["noise"]),
        "components": str(facts["components"]),
        "start": facts["start"],
        "cost there": "not finite" if cost is None else f"{cost:.10g}",
    }
    return "\n".join([facts["file"], *(f"  {name:<13} {text}" for name, text in rows.items())])


def finite(number: float) -> float | None:
    """JSON has no infinity."""
    return number if math.isfinite(number) else None
