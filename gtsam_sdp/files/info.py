"""What the file of a graph holds, for `gtsam-sdp info`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import gtsam
import numpy as np

from gtsam_sdp.linalg.components import count_parts
from gtsam_sdp.plain import finite_or_none

if TYPE_CHECKING:
    from gtsam_sdp.files.datasets import PoseGraphFile


def describe(file: PoseGraphFile) -> dict[str, Any]:
    """What a pose graph holds, as plain types."""
    factors: list[Any] = [file.graph.at(k) for k in range(file.graph.size())]
    keys = [np.array(factor.keys(), dtype=np.uint64) for factor in factors]
    return {
        "file": str(file.path),
        "dimension": file.dimension,
        "keys": key_types(file),
        "factors": dict(Counter(type(factor).__name__ for factor in factors)),
        "noise": dict(Counter(type(factor.noiseModel()).__name__ for factor in factors)),
        "components": count_parts(np.concatenate(keys), np.cumsum([0, *map(len, keys)])),
        "has_values": file.has_values,
        "start": file.start,
        "cost_at_start": finite_or_none(file.graph.error(file.initial)),
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
