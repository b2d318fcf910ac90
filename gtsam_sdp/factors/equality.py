"""NonlinearEquality* on one key: the variable keeps the prescribed value.

GTSAM does not give the prescribed value away in Python except in the factor's serialised form, from which it is read
and compared with the values: GTSAM itself accepts those within 1e-9 of it. With an `error_gain` the factor is a soft
cost, and not supported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gtsam_sdp.errors import Offender, UnsupportedFactorError
from gtsam_sdp.factors.registry import FactorGroup, FixedValues, Lifting, adapter, unsupported
from gtsam_sdp.factors.serialised import floating_numbers
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.layout import Layout


class _Stored(NamedTuple):
    """How the serialised form holds a value: numbers of it, and which of them are its rotation and its position."""

    kind: str
    size: int
    rotation: slice | None
    position: slice | None


_STORED = {
    "Rot2": _Stored("Rot2", 2, slice(0, 2), None),
    "Rot3": _Stored("Rot3", 9, slice(0, 9), None),
    "Pose2": _Stored("Pose2", 4, slice(2, 4), slice(0, 2)),
    "Pose3": _Stored("Pose3", 12, slice(0, 9), slice(9, 12)),
    "Point2": _Stored("Vector", 2, None, slice(0, 2)),
    "Point3": _Stored("Vector", 3, None, slice(0, 3)),
    "ConstantBias": _Stored("ConstantBias", 6, None, slice(0, 6)),
}
"""By the type's name in the factor's name."""


def _prescribed(factor: Any, count: int) -> tuple[Array, bool]:
    """The prescribed value's numbers, and whether violation is allowed: the end of the serialised factor."""
    return floating_numbers(factor)[-1 - count : -1], factor.serialize().split()[-2] != "0"


def _fix(stored: _Stored):
    def fix(group: FactorGroup, layout: Layout, estimate: Array) -> FixedValues:
        space = layout.space
        read = [_prescribed(factor, stored.size) for factor in group.factors]
        soft = [k for k, (_, allowed) in enumerate(read) if allowed]
        if soft:
            reason = "with an error_gain it is a soft cost, not a constraint; use a prior instead"
            raise UnsupportedFactorError(
                [Offender(int(group.index[k]), group.type_name, tuple(group.keys[k].tolist()), reason) for k in soft]
            )
        numbers = np.array([values for values, _ in read])
        rotations = translations = None
        if stored.rotation is not None:
            turns = numbers[:, stored.rotation]
            rotations = space.nearest_rotations(turns.reshape(-1, 3, 3) if space.dimension == 3 else _turns(turns))
        if stored.position is not None:
            translations = space.pack(numbers[:, stored.position])
        return FixedValues(rotations, translations)

    return fix


def _turns(cosine_sine: Array) -> Array:
    return (cosine_sine[:, :1] + 1j * cosine_sine[:, 1:])[:, :, None]


def _never(group: FactorGroup, lifting: Lifting) -> Terms:
    raise AssertionError("NonlinearEquality always has a hard noise model")


for _name, _stored in _STORED.items():
    adapter(f"NonlinearEquality{_name}", [_stored.kind], absolute=True, fix=_fix(_stored))(_never)
    unsupported(f"NonlinearEquality2{_name}", "hard constraints between two keys are not supported")
