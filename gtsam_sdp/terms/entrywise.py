"""Quadratic forms on the entries of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded


class Entrywise(NamedTuple):
    """A quadratic form on entries, (m, d r, d r), and a constant, (m,)."""

    form: Bounded
    constant: Array

    @classmethod
    def of_numbers(cls, coefficients: Bounded, information: Array, constant: Array) -> Entrywise:
        """1/2 s^T W s + constant for numbers s = E vec(X), row by row.

        Args:
            coefficients: E, (m, k, d r).
            information: W, (m, k, k).
            constant: (m,).
        """
        wide, root = coefficients.value, np.sqrt(np.einsum("kii->ki", information))
        total = (root[:, :, None] * coefficients.magnitude).sum(axis=1)
        form = Bounded(wide.swapaxes(1, 2) @ information @ wide / 2, total[:, :, None] * total[:, None, :] / 2)
        return cls(form, constant)
