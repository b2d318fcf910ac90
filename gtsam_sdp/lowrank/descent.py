"""Riemannian Newton steps to a local minimum of the lifted cost, over matrices Y of any number of columns.

Each step minimises the second order model on the tangent space by conjugate gradients, turns the rotations back to
the manifold, and minimises over the positions exactly. The conjugate gradients are preconditioned by the cost without
its constraints, whose factorisation is cheap, or by the Hessian of an earlier step: it is factorised once the
iterations that are left would take longer. No step increases the cost. See docs/maths/, section 6.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from gtsam_sdp.deadline import has_time
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.factorisation import Factorisation, add_to_diagonal
from gtsam_sdp.linalg.real import real_upper
from gtsam_sdp.linalg.sums import inner_product
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.proof.multipliers import Multipliers, certificate_matrix, closed_form_multipliers
from gtsam_sdp.tolerances import NOISE_FLOOR

_MAX_STEPS = 200
_MAX_STEPS_NEAR = 30
_MAX_PRODUCTS = 200
"""Conjugate gradient iterations of a step."""

_ACCURACY = 0.1
"""To what share conjugate gradients reduce the gradient."""

_DAMPING = (1e-9, 1e-6, 1e-4, 1e-2, 1.0)
"""Shares of the diagonal that are added to the Hessian, the first that makes it positive definite."""

_NEAR_DAMPINGS = 2
"""So many are tried near a minimum: where they fail there is none near, and a step would find negative curvature."""

_RADIUS = 0.5
"""Largest change of a rotation's entry by a step along negative curvature."""

_SHORTENING = 0.25
_SHORTEST = 1e-6
_STALE = 20
"""A step may always take as many iterations before the Hessian is factorised, again or at all."""

_MAX_HESSIANS = 40

_HESSIAN = 4.0
"""Building and factorising a Hessian takes as long as so many factorisations of Q, where a deadline asks."""


@dataclass(frozen=True)
class Descent:
    """Where a descent ended.

    Attributes:
        Y: a point no worse than the start, (n, p).
        decrease: how much the lifted cost fell.
        steps: Newton steps taken.
        converged: whether the last step promised less than what was asked for.
    """

    Y: Array
    decrease: float
    steps: int
    converged: bool


@dataclass(frozen=True)
class Point:
    """Y, and what every step from it needs.

    Attributes:
        quadratic: the cost.
        Y: feasible, (n, p).
        QY: Q Y.
        multipliers: in closed form, of each group of blocks.
    """

    quadratic: Quadratic
    Y: Array
    QY: Array
    multipliers: Multipliers

    @classmethod
    def at(cls, quadratic: Quadratic, Y: Array) -> Point:
        """The point Y."""
        return cls(quadratic, Y, quadratic.qcqp.Q @ Y, closed_form_multipliers(quadratic.qcqp, Y))

    def tangent(self, V: Array) -> Array:
        """Projection to the tangent space; held blocks stay, (n, p)."""
        V = V.copy()
        for group in self.quadratic.qcqp.groups:
            V[group.rows] = group.block.tangent(self.Y[group.rows], V[group.rows])
        V[self.quadratic.held_rows] = 0
        return V

    @cached_property
    def basis(self) -> scipy.sparse.csc_array:
        """`tangent_basis` at this point."""
        return tangent_basis(self.quadratic, self.Y)

    @property
    def scale(self) -> float:
        """The cost, or what rounding leaves of it."""
        qcqp = self.quadratic.qcqp
        cost = inner_product(self.Y, self.QY) + qcqp.constant
        return max(cost, NOISE_FLOOR * qcqp.term_size(self.Y))

    @property
    def gradient(self) -> Array:
        """Riemannian gradient of <Q, Y Y^H>, (n, p)."""
        return 2 * self.tangent(self.QY)

    def hessian(self, V: Array) -> Array:
        """Riemannian Hessian times a tangent vector, (n, p)."""
        qcqp = self.quadratic.qcqp
        SV = qcqp.Q @ V
        for group, multipliers in zip(qcqp.groups, self.multipliers, strict=True):
            SV[group.rows] -= multipliers @ V[group.rows]
        return 2 * self.tangent(SV)

    def retract(self, V: Array) -> tuple[Array, float]:
        """Y after a step, blocks projected, positions at the minimum, and the exact change of the cost."""
        moved = retracted(self.quadratic.qcqp, self.Y + V)
        moved = self.quadratic.settle(moved)
        difference = moved - self.Y
        change = 2 * inner_product(difference, self.QY)
        return moved, change + inner_product(difference, self.quadratic.qcqp.Q @ difference)


def retracted(qcqp: Qcqp, Y: Array) -> Array:
    """Y with its blocks moved back to their constraints, (n, p)."""
    moved = Y.copy()
    for group in qcqp.groups:
        moved[group.rows] = group.block.retract(moved[group.rows])
    return moved


def descend(quadratic: Quadratic, Y: Array, tolerance: float, *, near: bool = False, ends: float = np.inf) -> Descent:
    """Newton steps until one promises a relative decrease of the cost below a tolerance.

    Args:
        quadratic: the cost.
        Y: feasible, (n, p).
        tolerance: relative to the cost, or to what rounding leaves of it.
        near: Y is near a minimum: factorise the Hessian at once, and end where curvature is negative.
        ends: no step but the first is begun that is predicted to end after this time of the performance counter.
    """
    precondition = Preconditioner(quadratic)
    total = 0.0
    steps = 0
    point = Point.at(quadratic, Y)
    longest = 0.0
    while steps < (_MAX_STEPS_NEAR if near else _MAX_STEPS) and time.perf_counter() + longest < ends:
        if not has_time(seconds=longest):
            break
        began = time.perf_counter()
        gradient = point.gradient
        if not gradient.any():
            return Descent(point.Y, total, steps, True)
        if near and steps == 0 and not precondition.use_hessian(point, _DAMPING[:_NEAR_DAMPINGS]):
            break
        enough = tolerance * point.scale
        step, products, promised = _newton_step(point, gradient, precondition)
        if near and not np.isfinite(promised):
            break
        moved, change = _shorten(point, step)
        if change < 0:
            total, steps = total - change, steps + 1
            point = Point.at(quadratic, moved)
        is_last = promised <= enough and not precondition.is_too_slow(point, products)
        if is_last or change >= 0:
            return Descent(point.Y, total, steps, is_last)
        precondition.improve(point, products, promised / enough)
        longest = max(longest, time.perf_counter() - began)
    return Descent(point.Y, total, steps, False)


def _shorten(point: Point, step: Array) -> tuple[Array, float]:
    """The step, or while it goes uphill a part of it."""
    length = 1.0
    moved, change = point.retract(step)
    while change >= 0 and length > _SHORTEST:
        length *= _SHORTENING
        moved, change = point.retract(length * step)
    return moved, change


def _newton_step(point: Point, gradient: Array, precondition: Preconditioner) -> tuple[Array, int, float]:
    """Truncated conjugate gradients: the step, the products with the Hessian, and the decrease that it promises.

    Where curvature is negative it goes as far as the second order model may hold, and promises everything.
    """
    x = np.zeros_like(gradient)
    residual = -gradient
    z = precondition(point, residual)
    direction = z
    squared = first = inner_product(residual, z)
    products = 0
    limit = precondition.limit(point)
    while products < limit and squared > 0:
        image = point.hessian(direction)
        products += 1
        curvature = inner_product(direction, image)
        if curvature <= 0:
            x = x + direction * (_RADIUS / np.abs(direction[point.quadratic.qcqp.bounded]).max(initial=1e-300))
            return x, products, np.inf
        length = squared / curvature
        x = x + length * direction
        residual = residual - length * image
        z = precondition(point, residual)
        squared, before = inner_product(residual, z), squared
        if squared <= _ACCURACY**2 * first:
            break
        direction = z + squared / before * direction
    return x, products, -inner_product(gradient, x) / 2


class Preconditioner:
    """Approximate inverse of the Hessian: the cost without its constraints, or the Hessian at an earlier point."""

    def __init__(self, quadratic: Quadratic) -> None:
        self._quadratic = quadratic
        self._hessian: Factorisation | None = None
        self._budget = _MAX_HESSIANS

    def __call__(self, point: Point, gradient: Array) -> Array:
        """The approximate inverse times a tangent vector."""
        if self._hessian is None:
            return point.tangent(self._quadratic.solve(gradient))
        T = point.basis
        step = self._hessian.solve((T.conj().T @ gradient.ravel()).real)
        return (T @ step).reshape(gradient.shape)

    def use_hessian(self, point: Point, dampings: Sequence[float] = _DAMPING) -> bool:
        """Factorises the Hessian at a point, damped until it is positive definite; keeps the other if none is.

        Returns:
            Whether one was, or there was no time to tell.
        """
        qcqp = self._quadratic.qcqp
        self._budget -= 1
        if not has_time(_HESSIAN):
            return True
        S = certificate_matrix(qcqp, point.multipliers)
        upper = real_upper(reduced_hessian(S, point.basis, point.Y.shape[1]))
        diagonal = np.abs(upper.diagonal())
        for damping in dampings:
            factor = Factorisation.of(add_to_diagonal(upper, damping * diagonal))
            if factor is not None and factor.is_positive:
                self._hessian = factor
                return True
        return False

    def improve(self, point: Point, products: int, left: float) -> None:
        """Factorises the Hessian if that is cheaper than the iterations left.

        Args:
            point: where.
            products: iterations of the last step.
            left: by what factor the decrease that the last step promised is still larger than it may be.
        """
        is_worth_it = self.is_too_slow(point, products)
        if self._hessian is None and self._quadratic.preconditioner is not None and np.isfinite(left):
            steps = np.log(left) / np.log(1 / _ACCURACY**2)
            is_worth_it |= products * steps > self._break_even
        if is_worth_it and self._can_change(point):
            self.use_hessian(point)

    def limit(self, point: Point) -> int:
        """Conjugate gradient iterations of a step: no more than it takes to factorise the Hessian."""
        return self._break_even if self._can_change(point) else _MAX_PRODUCTS

    def is_too_slow(self, point: Point, products: int) -> bool:
        """Whether a step ended because of its limit, and a factorised Hessian may help."""
        return self._can_change(point) and products >= self._break_even

    def _can_change(self, point: Point) -> bool:
        return self._budget > 0 and point.Y.shape[1] == self._quadratic.qcqp.rank

    @cached_property
    def _break_even(self) -> int:
        """Iterations that take as long as factorising the Hessian, by flops."""
        qcqp, factor = self._quadratic.qcqp, self._quadratic.preconditioner
        if factor is None:
            return _MAX_PRODUCTS
        lengths = np.diff(factor.lower.indptr).astype(float)
        space = qcqp.layout.space
        turning = sum(group.block.freedoms(space) * len(group) for group in qcqp.groups)
        freedoms = turning + space.dimension * len(self._quadratic.positions)
        flops = (lengths**2).sum() * (freedoms / len(lengths)) ** 3
        return max(int(flops / max(4 * lengths.sum() * qcqp.rank, 1.0)), _STALE)


def tangent_basis(quadratic: Quadratic, Y: Array) -> scipy.sparse.csc_array:
    """T, (n * rank, dof), for Y of `rank` columns: columns move one block that is not held, or one position row."""
    qcqp = quadratic.qcqp
    rank, size = qcqp.rank, qcqp.size
    parts: list[tuple[Array, Array, Array]] = []
    count = 0
    for group in qcqp.groups:
        own = group.select(~np.isin(group.starts, quadratic.held_rows))
        moved = group.block.basis(Y[own.rows])  # (k, freedoms, r, rank)
        rows = np.broadcast_to(own.rows[:, None, :, None] * rank + np.arange(rank), moved.shape)
        columns = count + np.arange(len(own) * moved.shape[1]).reshape(*moved.shape[:2], 1, 1)
        parts.append((moved.ravel(), rows.ravel(), np.broadcast_to(columns, moved.shape).ravel()))
        count += len(own) * moved.shape[1]
    units = np.array([1.0, 1.0j]) if rank == 1 else np.ones(3)
    moving = quadratic.positions
    move_rows = np.repeat(moving, 2) if rank == 1 else (moving[:, None] * 3 + np.arange(3)).ravel()
    parts.append((np.tile(units, len(moving)), move_rows, count + np.arange(len(move_rows))))
    values, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    keep = values != 0
    shape = (size * rank, count + len(move_rows))
    return scipy.sparse.coo_array((values[keep], (rows[keep], columns[keep])), shape=shape).tocsc()


def reduced_hessian(S: scipy.sparse.csc_array, T: scipy.sparse.csc_array, columns: int) -> scipy.sparse.csc_array:
    """Riemannian Hessian of the lifted cost in the basis T of tangent vectors of Y, (dof, dof); Y has these columns."""
    wide = S if columns == 1 else scipy.sparse.kron(S, np.eye(columns), format="csc")
    return 2 * (T.conj().T @ (wide @ T)).real.tocsc()
