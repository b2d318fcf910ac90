"""The registry with the adapters of all families: importing a family registers them."""

from gtsam_sdp.factors import (  # noqa: F401
    bearing_range,
    equality,
    extended,
    frobenius,
    inertial,
    pose,
    ranges,
    rotation,
    translation,
)
from gtsam_sdp.factors.registry import ADAPTERS, COSTLESS, UNSUPPORTED

__all__ = ["ADAPTERS", "COSTLESS", "UNSUPPORTED"]
