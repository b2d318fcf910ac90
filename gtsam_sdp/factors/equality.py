"""NonlinearEquality* on one key: the variable keeps the prescribed value.

GTSAM does not give the prescribed value away in Python except in the factor's serialised form, from which it is read
and compared with the values: GTSAM itself accepts those within 1e-9 of it. With an `error_gain` the factor is a soft
cost, and not supported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtsam_sdp.errors import Offender, UnsupportedFactorError
from gtsam_sdp.factors.registry import FactorGroup, FixedValues, Lifting, adapter, unsupported
from gtsam_sdp.factors.serialised import floating_numbers
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.layout import KINDS, Layout

_NUMBERS = {"Rot2": 2, "Rot3": 9, "Pose2": 4, "Pose3": 12, "Point2": 2, "Point3": 3}


def _prescribed(factor: Any, count: int) -> tuple[Array, bool]:
    """The prescribed value's numbers, and whether violation is allowed: the end of the serialised factor."""
    return floating_numbers(factor)[-1 - count : -1], factor.serialize().split()[-2] != "0"


def _fix(name: str):
    kind = "Vector" if name.startswith("Point") else name

    def fix(group: FactorGroup, layout: Layout, estimate: Array) -> FixedValues:
        space = layout.space
        read = [_prescribed(factor, _NUMBERS[name]) for factor in group.factors]
        soft = [k for k, (_, allowed) in enumerate(read) if allowed]
        if soft:
            reason = "with an error_gain it is a soft cost, not a constraint; use a prior instead"
            raise UnsupportedFactorError(
                [Offender(int(group.index[k]), group.type_name, tuple(group.keys[k].tolist()), reason) for k in soft]
            )
        numbers = np.array([values for values, _ in read])
        rotations = translations = None
        if KINDS[kind].rotates:
            rotations = numbers[:, :9].reshape(-1, 3, 3) if space.dimension == 3 else _turns(numbers[:, -2:])
            rotations = space.nearest_rotations(rotations)
        if KINDS[kind].translates:
            start = 9 if name == "Pose3" else 0
            translations = space.pack(numbers[:, start : start + space.dimension])
        return FixedValues(rotations, translations)

    return fix


def _turns(cosine_sine: Array) -> Array:
    return (cosine_sine[:, :1] + 1j * cosine_sine[:, 1:])[:, :, None]


def _never(group: FactorGroup, lifting: Lifting) -> Terms:
    raise AssertionError("NonlinearEquality always has a hard noise model")


for _name in _NUMBERS:
    _kind = "Vector" if _name.startswith("Point") else _name
    adapter(f"NonlinearEquality{_name}", [_kind], absolute=True, fix=_fix(_name))(_never)
    unsupported(f"NonlinearEquality2{_name}", "hard constraints between two keys are not supported")
