"""Noise models of residuals whose rows are rotated as a whole: which part of an information matrix a lift can keep."""

from __future__ import annotations

import numpy as np

from gtsam_sdp.factors.logmap import smallest_eigenvalue
from gtsam_sdp.terms import Exactness
from gtsam_sdp.variables import Array

_NEGLIGIBLE = 1e-13


def axis_weights(information: Array, dimension: int) -> tuple[Array, Array]:
    """The largest simple matrices A with A kron I_d below the information matrices, and how exact they are.

    Residual vectors r_1 ... r_q of d numbers each, stacked, have information W (qd x qd). A Gram lift knows their
    scalar products only, so it keeps 1/2 sum A_ab r_a . r_b: equal to the cost if W = A kron I_d. Otherwise a
    diagonal W gives the smallest weight of each r_a, and any other W its smallest eigenvalue.

    Args:
        information: W, (m, n, n); if d does not divide n the last residual is padded with its own weight.
        dimension: d.

    Returns:
        A, (m, q, q), and the exactness of each, (m,).
    """
    count, size, _ = information.shape
    blocks = -(-size // dimension)
    full = np.zeros((count, blocks * dimension, blocks * dimension))
    full[:, :size, :size] = information
    padding = np.arange(size, blocks * dimension)
    full[:, padding, padding] = information[:, -1:, -1]
    split = full.reshape(count, blocks, dimension, blocks, dimension)
    by_axis = np.einsum("kaibi->kiab", split)
    across = np.abs(split * (1 - np.eye(dimension))[:, None, :]).max(axis=(1, 2, 3, 4))
    scale = np.abs(full).max(axis=(1, 2))
    spread = np.abs(by_axis - by_axis[:, :1]).max(axis=(1, 2, 3))
    exact = (across <= _NEGLIGIBLE * scale) & (spread <= _NEGLIGIBLE * scale)
    weights = by_axis[:, 0].copy()
    rough = np.flatnonzero(~exact)
    if len(rough):
        diagonal = np.einsum("kii->ki", full[rough])
        least = diagonal.reshape(-1, blocks, dimension).min(axis=2)
        off_diagonal = np.abs(full[rough] - diagonal[:, :, None] * np.eye(blocks * dimension)).max(axis=(1, 2))
        smallest = np.maximum(smallest_eigenvalue(information[rough]), 0.0)
        use_diagonal = off_diagonal <= _NEGLIGIBLE * scale[rough]
        chosen = np.where(use_diagonal[:, None], least, smallest[:, None])
        weights[rough] = chosen[:, :, None] * np.eye(blocks)
    return weights, np.where(exact, int(Exactness.EXACT), int(Exactness.LOWER_BOUND))
