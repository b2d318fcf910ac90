"""What GTSAM's Python classes do not give away, read from the text of the serialised factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtsam_sdp.linalg.array import Array


def floating_numbers(factor: Any) -> Array:
    """All floating-point numbers of a serialised factor, in order; they have all their digits."""
    return np.array([float(word) for word in factor.serialize().split() if "e" in word and word[0] in "-0123456789"])
