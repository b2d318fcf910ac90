"""NonlinearEquality* on one key: the variable keeps the value that the user's values hold.

GTSAM does not give the prescribed value away; it accepts values within 1e-9 of it, and only those have finite cost.
"""

from __future__ import annotations

import numpy as np

from gtsam_sdp.factors.registry import FactorGroup, FixedValues, Lifting, adapter, unsupported
from gtsam_sdp.terms import Terms
from gtsam_sdp.variables import KINDS, Array, Layout


def _fix(kind: str):
    def fix(group: FactorGroup, layout: Layout, estimate: Array) -> FixedValues:
        numbers = group.numbers[:, 0]
        rotations = translations = None
        if KINDS[kind].rotates:
            rows = layout.rotation[numbers][:, None] + np.arange(layout.space.rows)
            rotations = estimate[rows].swapaxes(1, 2)
        if KINDS[kind].translates:
            length = int(layout.lengths[numbers[0]]) or layout.space.dimension
            count = -(-length // layout.space.dimension)
            translations = estimate[layout.translation[numbers][:, None] + np.arange(count)]
        return FixedValues(rotations, translations)

    return fix


def _never(group: FactorGroup, lifting: Lifting) -> Terms:
    raise AssertionError("NonlinearEquality always has a hard noise model")


for _name in ("Rot2", "Rot3", "Pose2", "Pose3", "Point2", "Point3"):
    _kind = "Vector" if _name.startswith("Point") else _name
    adapter(f"NonlinearEquality{_name}", [_kind], absolute=True, fix=_fix(_kind))(_never)
    unsupported(f"NonlinearEquality2{_name}", "hard constraints between two keys are not supported")
