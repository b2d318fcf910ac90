"""The matrix S whose definiteness is the proof: cost(Y) = <S, Y Y^H> + base, with what a proof has to know about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, rounding_error
from gtsam_sdp.proof.multipliers import Multipliers, PairTerms, block_diagonal
from gtsam_sdp.tolerances import COEFFICIENT_ROUNDOFFS


@dataclass(frozen=True)
class Slack:
    """A matrix S with cost(Y) = <S, Y Y^H> + base on the feasible set, and what a proof has to know about it.

    Attributes:
        form: S, Hermitian, sparse, (n, n).
        summands: largest number of summands in an entry of each row, the border's own entries aside, (n,).
        norms: what a unit on the diagonal of a row costs if it is there on all rows with such a cost; 0 on rows that
            are not bounded, (n,).
        references: first rows of the reference frames, which the proof treats apart, (c,).
        component: for each row the reference that it is counted from, -1 for none, (n,).
        base: what the multipliers promise if S >= 0.
        base_error: rounding error in it.
        roundoffs: granted to each summand of an entry, relative to its magnitude.
        border: what the proof treats apart with each reference: first row of a second frame, and a row of a position,
            (c, 2), -1 for none; None: nothing.
    """

    form: Bounded
    summands: Array
    norms: Array
    references: Array
    component: Array
    base: float
    base_error: float
    roundoffs: int = COEFFICIENT_ROUNDOFFS
    border: Array | None = None

    @classmethod
    def build(cls, qcqp: Qcqp, multipliers: Multipliers, pairs: PairTerms | None = None) -> Slack:
        """S of multipliers of the blocks of a Gram lift, and of pairs of rotations."""
        form, loss = qcqp.form - block_diagonal(qcqp, multipliers), 0.0
        if pairs is not None:
            form, loss = form - pairs.form, pairs.trace
        groups = list(zip(qcqp.groups, multipliers, strict=True))
        worth = [w for group, own in groups for w in group.block.worth(own).tolist()]
        diagonals = sum(float(np.abs(np.einsum("kii->ki", own)).sum()) for own in multipliers)
        norms = np.zeros(qcqp.size)
        for group in qcqp.groups:
            norms[group.rows] = group.block.norm
        border = qcqp.coordinates.border
        return cls(
            form=form,
            summands=qcqp.summands + 2,
            norms=norms,
            references=qcqp.coordinates.position[qcqp.coordinates.references],
            component=qcqp.coordinates.component[qcqp.coordinates.kept],
            border=np.where(border >= 0, qcqp.coordinates.position[border], -1),
            base=math.fsum([qcqp.constant, -loss, *worth]),
            base_error=rounding_error(8, diagonals + abs(qcqp.constant) + loss)
            + rounding_error(COEFFICIENT_ROUNDOFFS, qcqp.constant_magnitude),
        )
