"""Sums that no order of summation spoils."""

from __future__ import annotations

import math

import numpy as np

from gtsam_sdp.linalg.array import Array


def inner_product(X: Array, Y: Array) -> float:
    """Re tr(X^H Y), (n, k) each. Not by BLAS: its threads wait for one another where other work keeps a core busy."""
    value = np.einsum("ij,ij->", X.real, Y.real)
    return float(value + np.einsum("ij,ij->", X.imag, Y.imag) if np.iscomplexobj(X) else value)


def exact_sum(numbers: Array) -> complex:
    """Sum of real or complex numbers, rounded once."""
    total = math.fsum(np.real(numbers).tolist())
    return total + 1j * math.fsum(np.imag(numbers).tolist()) if np.iscomplexobj(numbers) else total
