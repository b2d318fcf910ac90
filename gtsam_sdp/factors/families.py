"""The registry with the adapters of all families: importing a family registers them."""

from gtsam_sdp.factors import bearing_range, equality, frobenius, pose, ranges, rotation, translation  # noqa: F401
from gtsam_sdp.factors.registry import ADAPTERS, COSTLESS, UNSUPPORTED

__all__ = ["ADAPTERS", "COSTLESS", "UNSUPPORTED"]
