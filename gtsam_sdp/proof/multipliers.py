"""Multipliers of the orthogonality constraints, and the matrix that they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded


@dataclass(frozen=True)
class PairTerms:
    """Multipliers of the convex hull of SO(3) for pairs of rotations: <form, Y Y^T> + trace >= 0 on the feasible set.

    Attributes:
        form: sum of the K*(W), half of each in its two mirrored places, sparse, (n, n).
        trace: sum of the traces of the W.
    """

    form: Bounded
    trace: float


def certificate_matrix(qcqp: Qcqp, multipliers: Array) -> scipy.sparse.csc_array:
    """S = Q - blkdiag(Lambda), (n, n)."""
    return (qcqp.Q - block_diagonal(qcqp, multipliers)).tocsc()


def block_diagonal(qcqp: Qcqp, blocks: Array) -> scipy.sparse.csc_array:
    """Blocks (k, rank, rank) on the rotations' rows, (n, n)."""
    at = qcqp.blocks[:, None] + np.arange(qcqp.rank)
    rows = np.repeat(at, qcqp.rank, axis=1).ravel()
    columns = np.tile(at, (1, qcqp.rank)).ravel()
    return scipy.sparse.coo_array((blocks.ravel(), (rows, columns)), shape=qcqp.Q.shape).tocsc()


def closed_form_multipliers(qcqp: Qcqp, Y: Array) -> Array:
    """Multipliers Lambda_i = herm((Q Y)_i Y_i^H) of the rotation blocks, (k, rank, rank)."""
    at = qcqp.blocks[:, None] + np.arange(qcqp.rank)
    products = (qcqp.Q @ Y)[at] @ Y[at].conj().swapaxes(1, 2)
    return (products + products.conj().swapaxes(1, 2)) / 2
