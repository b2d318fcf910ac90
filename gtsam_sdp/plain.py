"""Numbers as JSON has them."""

from __future__ import annotations

import math


def finite_or_none(number: float) -> float | None:
    """A plain number for JSON, which knows no infinity."""
    return float(number) if math.isfinite(number) else None
