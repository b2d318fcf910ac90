"""The table of all types of values that are supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, format_key
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.constant_bias import ConstantBias
from gtsam_sdp.values.double import Double
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.pose2 import Pose2
from gtsam_sdp.values.pose3 import Pose3
from gtsam_sdp.values.rot2 import Rot2
from gtsam_sdp.values.rot3 import Rot3
from gtsam_sdp.values.unit3 import Unit3
from gtsam_sdp.values.vector import Vector

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Rot2(), Rot3(), Unit3(), Pose2(), Pose3(), Vector(), Double(), ConstantBias())
}
"""By the name of the type in GTSAM."""


class Other(Kind):
    """Types that are not supported, as cameras and calibrations: only factors without a term may hold them."""

    name, can_be_probed, is_supported = "other", False, False

    def _refuse(self) -> NoReturn:
        raise TypeError("A value of a type that is not supported has no numbers.")

    def at(self, values: gtsam.Values, key: int) -> NoReturn:
        """Refuses."""
        self._refuse()

    def numbers(self, value: Any) -> NoReturn:
        """Refuses."""
        self._refuse()

    def write(self, numbers: Array) -> NoReturn:
        """Refuses."""
        self._refuse()

    def identity(self, length: int) -> NoReturn:
        """Refuses."""
        self._refuse()

    def random(self, rng: np.random.Generator, scale: float, length: int) -> NoReturn:
        """Refuses."""
        self._refuse()


OTHER = Other()
_PROBED_FIRST = ("Rot3", "Rot2", "Vector", "Unit3", "ConstantBias", "Double")
"""The order in which types that GTSAM does not list are tried."""


def kinds_of(values: gtsam.Values, keys: Array) -> tuple[Kind, ...]:
    """The kind of the value of each key, (v,)."""
    listed = {key: kind for kind in KINDS.values() for key in kind.keys_of(values)}
    order = [KINDS[name] for name in _PROBED_FIRST]
    found: list[Kind] = []
    for key in keys.tolist():
        kind = listed.get(key)
        found.append(_probe(values, key, order) if kind is None else kind)
    return tuple(found)


def _probe(values: gtsam.Values, key: int, order: list[Kind]) -> Kind:
    """The kind of one value; the one that fits is tried first for the next key."""
    for place, kind in enumerate(order):
        try:
            kind.at(values, key)
        except RuntimeError:
            continue
        order.insert(0, order.pop(place))
        return kind
    return OTHER


def by_kind(kinds: Sequence[Kind]) -> dict[Kind, Array]:
    """Places of the variables of each kind."""
    places: dict[Kind, list[int]] = {}
    for place, kind in enumerate(kinds):
        places.setdefault(kind, []).append(place)
    return {kind: np.array(own, dtype=np.intp) for kind, own in places.items()}


def common_dimension(keys: Array, kinds: Sequence[Kind], lengths: Array) -> int:
    """2 or 3: the dimension of the space that all variables live in."""
    first = {kind.dimension: int(own[0]) for kind, own in reversed(by_kind(kinds).items()) if kind.dimension}
    if len(first) == 2:
        named = " and ".join(f"{format_key(int(keys[i]))} ({kinds[i]})" for _, i in sorted(first.items()))
        raise InvalidGraphError(f"The graph mixes 2D and 3D variables: {named}. Certify the two parts apart.")
    if first:
        return int(next(iter(first)) or 3)
    return 2 if len(lengths) and set(lengths.tolist()) == {2} else 3
