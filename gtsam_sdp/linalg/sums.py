"""Sums that no order of summation spoils."""

from __future__ import annotations

import math

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.real import of_parts, real_parts


def inner_product(X: Array, Y: Array) -> float:
    """Re tr(X^H Y), (n, k) each. Not by BLAS: its threads wait for one another where other work keeps a core busy."""
    parts = zip(real_parts(X), real_parts(Y), strict=False)
    return float(sum(np.einsum("ij,ij->", x, y) for x, y in parts))


def exact_sum(numbers: Array) -> complex:
    """Sum of real or complex numbers, rounded once."""
    return of_parts([math.fsum(part.tolist()) for part in real_parts(numbers)])
