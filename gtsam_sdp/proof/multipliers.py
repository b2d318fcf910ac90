"""Multipliers of the orthogonality constraints, and the matrix that they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array


@dataclass(frozen=True)
class PairTerms:
    """Multipliers of the convex hull of SO(3) for pairs of rotations: <matrix, Y Y^T> + trace >= 0 on the feasible set.

    Attributes:
        matrix: sum of the K*(W), half of each in its two mirrored places, (n, n).
        magnitude: sizes of the numbers that its entries were summed from, (n, n).
        trace: sum of the traces of the W.
    """

    matrix: scipy.sparse.csc_array
    magnitude: scipy.sparse.csc_array
    trace: float


def certificate_matrix(qcqp: Qcqp, multipliers: Array, pairs: PairTerms | None = None) -> scipy.sparse.csc_array:
    """S = Q - blkdiag(Lambda), less what pairs of rotations contribute, (n, n)."""
    S = qcqp.Q - _block_diagonal(qcqp, multipliers)
    return (S if pairs is None else S - pairs.matrix).tocsc()


def _block_diagonal(qcqp: Qcqp, blocks: Array) -> scipy.sparse.csc_array:
    at = qcqp.blocks[:, None] + np.arange(qcqp.rank)
    rows = np.repeat(at, qcqp.rank, axis=1).ravel()
    columns = np.tile(at, (1, qcqp.rank)).ravel()
    return scipy.sparse.coo_array((blocks.ravel(), (rows, columns)), shape=qcqp.Q.shape).tocsc()


def closed_form_multipliers(qcqp: Qcqp, Y: Array) -> Array:
    """Multipliers Lambda_i = herm((Q Y)_i Y_i^H) of the rotation blocks, (k, rank, rank)."""
    at = qcqp.blocks[:, None] + np.arange(qcqp.rank)
    products = (qcqp.Q @ Y)[at] @ Y[at].conj().swapaxes(1, 2)
    return (products + products.conj().swapaxes(1, 2)) / 2
