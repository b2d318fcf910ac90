"""Riemannian Newton steps from the user's estimate to a critical point of the lifted cost nearby.

The estimate is critical for the user's cost, and for the terms only up to what their tangents lose. Multipliers in
closed form need a critical point of the terms: each step solves H x = -gradient on rotation angles and translations,
with a sparse LDL^T that is used again as long as it makes progress. No step increases the lifted cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import qdldl
import scipy.sparse as sp

from gtsam_sdp.bound import certificate_matrix, closed_form_multipliers
from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.tolerances import POLISH_DECREASE
from gtsam_sdp.variables import Array
from gtsam_sdp.verification import add_to_diagonal, factorise, real_upper

_CROSS = np.array(
    [[[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]], [[0, -1, 0], [1, 0, 0], [0, 0, 0]]]
)
_MAX_STEPS = 30
_MAX_FACTORISATIONS = 3
_DAMPING = (1e-14, 1e-5, 1e-1)
"""Shares of the diagonal that are added to the Hessian, the first that makes it positive definite."""

_MAX_HALVINGS = 8
_SLOW = 0.3
"""A step with an old factorisation has to reduce the predicted decrease at least to this share."""


@dataclass(frozen=True)
class Polished:
    """Result of polishing.

    Attributes:
        Y: the polished matrix, (n, rank).
        decrease: how much the lifted cost fell.
        steps: Newton steps taken.
        factorisations: of the Hessian.
    """

    Y: Array
    decrease: float
    steps: int
    factorisations: int


def polish(qcqp: Qcqp, Y: Array, scale: float) -> Polished:
    """Newton steps until the predicted decrease is below `POLISH_DECREASE * scale`, or nothing decreases any more."""
    point = Point.at(qcqp, Y)
    if not len(point.gradient):
        return Polished(Y, 0.0, 0, 0)
    total = 0.0
    predictions: list[float] = []
    newton: _Newton | None = None
    used = 0
    fresh = False
    for _ in range(_MAX_STEPS):
        if newton is None:
            newton, tried = _Newton.build(point, _MAX_FACTORISATIONS - used)
            used, fresh = used + tried, True
            if newton is None:
                break
        step, predicted = newton.step(point)
        moved, change = _line_search(point, step, patient=fresh)
        slow = bool(predictions) and not fresh and predicted > _SLOW * predictions[-1]
        done = predicted <= POLISH_DECREASE * scale
        if change >= 0 or slow:
            if done or fresh:
                predictions.append(predicted)
                break
            newton = None
            continue
        predictions.append(predicted)
        total, fresh = total - change, False
        if done:
            return Polished(moved, total, len(predictions), used)
        point = Point.at(qcqp, moved)
    return Polished(point.Y, total, len(predictions), used)


@dataclass(frozen=True)
class Point:
    """Y, and what every step from it needs: the tangent basis T, Q Y and the Riemannian gradient in that basis."""

    qcqp: Qcqp
    Y: Array
    T: sp.csc_array
    QY: Array
    gradient: Array

    @classmethod
    def at(cls, qcqp: Qcqp, Y: Array) -> Point:
        """The point Y."""
        T, QY = tangent_basis(qcqp, Y), qcqp.Q @ Y
        return cls(qcqp, Y, T, QY, 2 * (T.conj().T @ QY.ravel()).real)

    def retract(self, step: Array) -> tuple[Array, float]:
        """Y after a step, rotations projected, and the exact change of the lifted cost (without cancellation)."""
        qcqp = self.qcqp
        moved = self.Y + (self.T @ step).reshape(self.Y.shape)
        at = qcqp.blocks[:, None] + np.arange(qcqp.rank)
        moved[at] = qcqp.layout.space.nearest_rotations(moved[at])
        difference = moved - self.Y
        change = 2 * np.vdot(difference, self.QY).real + np.vdot(difference, qcqp.Q @ difference).real
        return moved, float(change)


def _line_search(point: Point, step: Array, *, patient: bool) -> tuple[Array, float]:
    """The step, or while it goes uphill and patience lasts, half of it."""
    moved, change = point.retract(step)
    halvings = _MAX_HALVINGS if patient else 0
    while change >= 0 and halvings:
        step = step / 2
        halvings -= 1
        moved, change = point.retract(step)
    return moved, change


@dataclass(frozen=True)
class _Newton:
    """A factorised Hessian on the tangent space at some Y."""

    factor: qdldl.Solver

    @classmethod
    def build(cls, point: Point, budget: int) -> tuple[_Newton | None, int]:
        """Hessian 2 Re T^H (S kron I) T, damped until it is positive definite, and the factorisations that took.

        None if no damping within the budget is enough.
        """
        S = certificate_matrix(point.qcqp, closed_form_multipliers(point.qcqp, point.Y))
        hessian = real_upper(reduced_hessian(S, point.T, point.Y.shape[1]))
        diagonal = np.abs(hessian.diagonal())
        for tried, damping in enumerate(_DAMPING[:budget], start=1):
            factor = factorise(add_to_diagonal(hessian, damping * diagonal))
            if factor is not None and (factor.factors()[1] > 0).all():
                return cls(factor), tried
        return None, len(_DAMPING[:budget])

    def step(self, point: Point) -> tuple[Array, float]:
        """Newton step (angles and translations) and half the decrease that it predicts."""
        step = -self.factor.solve(point.gradient)
        return step, float(-point.gradient @ step) / 2


def tangent_basis(qcqp: Qcqp, Y: Array) -> sp.csc_array:
    """T, (n * rank, dof): columns turn one free rotation block, or move one translation row; references stay."""
    rank, size = qcqp.rank, qcqp.size
    references = qcqp.coordinates.position[qcqp.coordinates.references]
    free = np.setdiff1d(qcqp.blocks, references)
    angles = 1 if rank == 1 else 3
    at = free[:, None] + np.arange(rank)
    turned = 1j * Y[at][:, None] if rank == 1 else np.einsum("kab,fbc->fkac", _CROSS, Y[at])
    rows = np.broadcast_to((at[:, None, :, None] * rank + np.arange(rank)), turned.shape)
    columns = np.broadcast_to(np.arange(len(free) * angles).reshape(-1, angles, 1, 1), turned.shape)
    is_moving = np.ones(size, dtype=bool)
    is_moving[(qcqp.blocks[:, None] + np.arange(rank)).ravel()] = False
    moving = np.flatnonzero(is_moving)
    units = np.array([1.0, 1.0j]) if rank == 1 else np.ones(3)
    move_rows = np.repeat(moving, 2) if rank == 1 else (moving[:, None] * 3 + np.arange(3)).ravel()
    move_columns = len(free) * angles + np.arange(len(move_rows))
    values = np.concatenate([turned.ravel(), np.tile(units, len(moving))])
    rows = np.concatenate([rows.ravel(), move_rows])
    columns = np.concatenate([columns.ravel(), move_columns])
    keep = values != 0
    shape = (size * rank, len(free) * angles + len(move_rows))
    return sp.coo_array((values[keep], (rows[keep], columns[keep])), shape=shape).tocsc()


def reduced_hessian(S: sp.csc_array, T: sp.csc_array, columns: int) -> sp.csc_array:
    """Riemannian Hessian of the lifted cost in the basis T of tangent vectors of Y, (dof, dof); Y has these columns."""
    wide = S if columns == 1 else sp.kron(S, np.eye(columns), format="csc")
    return 2 * (T.conj().T @ (wide @ T)).real.tocsc()
