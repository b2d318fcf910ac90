"""Multipliers of the constraints of blocks, and the matrix that they leave."""

from __future__ import annotations

from collections.abc import Sequence
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


Multipliers = Sequence[Array]
"""Hermitian blocks Lambda, (k, r, r) for each group of blocks of a kind, in the order of `Qcqp.groups`."""


def certificate_matrix(qcqp: Qcqp, multipliers: Multipliers) -> scipy.sparse.csc_array:
    """S = Q - blkdiag(Lambda), (n, n)."""
    return (qcqp.Q - block_diagonal(qcqp, multipliers)).tocsc()


def block_diagonal(qcqp: Qcqp, multipliers: Multipliers) -> scipy.sparse.csc_array:
    """blkdiag(Lambda), (n, n)."""
    rows, columns, values = [], [], []
    for group, blocks in zip(qcqp.groups, multipliers, strict=True):
        rows.append(np.repeat(group.rows, group.count, axis=1).ravel())
        columns.append(np.tile(group.rows, (1, group.count)).ravel())
        values.append(blocks.ravel())
    at = (np.concatenate(rows), np.concatenate(columns))
    return scipy.sparse.coo_array((np.concatenate(values), at), shape=qcqp.Q.shape).tocsc()


def closed_form_multipliers(qcqp: Qcqp, Y: Array) -> tuple[Array, ...]:
    """Multipliers of each group of blocks: Lambda_i = herm((Q Y)_i Y_i^H) for rotations and directions, (k, r, r)."""
    QY = qcqp.Q @ Y
    return tuple(group.block.multipliers(Y[group.rows], QY[group.rows]) for group in qcqp.groups)
