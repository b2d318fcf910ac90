"""The Riemannian staircase: local minima of the lifted problem with p > d columns, until one is the global minimum.

Boumal, Voroninski, Bandeira, "The non-convex Burer-Monteiro approach works on smooth semidefinite programs", NeurIPS
2016; Rosen, Carlone, Bandeira, Leonard, "SE-Sync", IJRR 2019. At a second-order point the multipliers in closed form
either make S positive semidefinite, and no Y of any number of columns is better, or S has a direction of negative
curvature: one more column, a step along it, and down again. See docs/maths.md, section 6.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gtsam_sdp.bound import certificate_matrix, closed_form_multipliers
from gtsam_sdp.progress import report_step
from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.variables import Array
from gtsam_sdp.verification import add_to_diagonal, complex_vectors, factorise, real_upper, real_vectors

_MAX_STEPS = 100
_FIRST_DAMPING = 1e-3
_SMALLEST_DAMPING = 1e-12
_LARGEST_DAMPING = 1e8
_CONVERGED = 1e-10
"""Relative decrease of the cost that a step has to promise."""

_NEGATIVE = 1e-7
"""Share of the rotations' weights below which curvature counts as negative."""

_INVERSE_ITERATIONS = 12


@dataclass(frozen=True)
class Climbed:
    """The last point of a staircase.

    Attributes:
        Y: (n, p).
        cost: <Q, Y Y^H> + constant.
        costs: after each number of columns.
        columns: p.
        is_second_order: whether no direction of negative curvature was found.
    """

    Y: Array
    cost: float
    costs: Sequence[float]
    columns: int
    is_second_order: bool


def climb(qcqp: Qcqp, Y: Array, *, max_columns: int, seconds: float = np.inf, seed: int = 0) -> Climbed:
    """Climbs from a feasible Y with d columns or more.

    Args:
        qcqp: the problem, in centred coordinates.
        Y: where to start, (n, p), complex in 2D.
        max_columns: no more columns than these.
        seconds: no step is begun after this time.
        seed: of the search for directions of negative curvature.
    """
    ends = time.perf_counter() + seconds
    costs: list[float] = []
    while True:
        began = time.perf_counter()
        Y, steps = descend(qcqp, Y, ends)
        cost = qcqp.cost(Y)
        costs.append(cost)
        report_step(
            "staircase", f"{Y.shape[1]} columns, cost {cost:.10g} after {steps} steps", time.perf_counter() - began
        )
        direction = negative_curvature(qcqp, Y, seed) if time.perf_counter() < ends else None
        if direction is None or Y.shape[1] >= max_columns or time.perf_counter() >= ends:
            return Climbed(Y, cost, tuple(costs), Y.shape[1], direction is None)
        moved = _escape(qcqp, Y, direction)
        if moved is None:
            return Climbed(Y, cost, tuple(costs), Y.shape[1], False)
        Y = moved


def rounded(qcqp: Qcqp, Y: Array) -> Array:
    """The feasible Y of d columns nearest to the leading directions of Y, (n, rank)."""
    blocks = qcqp.blocks[:, None] + np.arange(qcqp.rank)
    turning = Y[blocks].reshape(-1, Y.shape[1])
    _, _, right = np.linalg.svd(turning, full_matrices=False)
    Z = Y @ right[: qcqp.rank].conj().T
    if qcqp.rank == 3 and (np.linalg.det(Z[blocks]) < 0).mean() > 0.5:
        Z = Z * np.array([1.0, 1.0, -1.0])
    Z[blocks] = qcqp.layout.space.nearest_rotations(Z[blocks])
    return Z


def descend(qcqp: Qcqp, Y: Array, ends: float = np.inf) -> tuple[Array, int]:
    """Damped Riemannian Newton steps to a critical point; returns it and the number of steps."""
    damping = _FIRST_DAMPING
    steps = 0
    scale = abs(qcqp.cost(Y))
    while steps < _MAX_STEPS and time.perf_counter() < ends:
        T = tangent_basis(qcqp, Y)
        gradient = 2 * (T.conj().T @ (qcqp.Q @ Y).ravel()).real
        S = certificate_matrix(qcqp, closed_form_multipliers(qcqp, Y))
        hessian = 2 * (T.conj().T @ (sp.kron(S, sp.eye_array(Y.shape[1]), format="csc") @ T)).real
        upper = real_upper(hessian.tocsc())
        weight = np.abs(upper.diagonal())
        weight += 1e-6 * np.median(weight)
        moved, gain, damping, predicted = _damped_step(qcqp, Y, T, gradient, upper, weight, damping)
        if moved is None:
            break
        Y, steps = moved, steps + 1
        if max(gain, predicted) <= _CONVERGED * max(scale, 1e-300):
            break
    return Y, steps


def _damped_step(
    qcqp: Qcqp, Y: Array, T: sp.csc_array, gradient: Array, upper: sp.csc_array, weight: Array, damping: float
) -> tuple[Array | None, float, float, float]:
    """The first step that goes down as damping grows: Y, its gain, the next damping, the gain predicted."""
    while damping <= _LARGEST_DAMPING:
        factor = factorise(add_to_diagonal(upper, damping * weight))
        if factor is not None and (factor.factors()[1] > 0).all():
            step = -factor.solve(gradient)
            predicted = float(-gradient @ step - 0.5 * step @ _times(upper, step))
            moved = _retract(qcqp, Y + (T @ step).reshape(Y.shape))
            difference = moved - Y
            change = 2 * np.vdot(difference, qcqp.Q @ Y).real + np.vdot(difference, qcqp.Q @ difference).real
            if change < 0:
                good = -change > 0.75 * predicted
                return moved, -float(change), max(damping / (10 if good else 1), _SMALLEST_DAMPING), predicted
            if predicted <= 1e-15 * abs(qcqp.cost(Y)):
                break
        damping *= 10
    return None, 0.0, damping, 0.0


def _times(upper: sp.csc_array, x: Array) -> Array:
    """Product of a symmetric matrix given by its upper triangle."""
    return upper @ x + upper.T @ x - upper.diagonal() * x


def _retract(qcqp: Qcqp, Y: Array) -> Array:
    """Y with its rotation blocks made orthonormal: their polar factors."""
    at = qcqp.blocks[:, None] + np.arange(qcqp.rank)
    if qcqp.rank == 1:
        Y[at] /= np.linalg.norm(Y[at], axis=2, keepdims=True)
    else:
        left, _, right = np.linalg.svd(Y[at], full_matrices=False)
        Y[at] = left @ right
    return Y


def tangent_basis(qcqp: Qcqp, Y: Array) -> sp.csc_array:
    """Columns that turn a block of r orthonormal rows in their span, or towards their complement, or move a position.

    Returns:
        T, (n p, dof): coefficients are real; one rotation for each component stays.
    """
    size, p = Y.shape
    rank = qcqp.rank
    references = qcqp.coordinates.position[qcqp.coordinates.references]
    free = np.setdiff1d(qcqp.blocks, references)
    at = free[:, None] + np.arange(rank)
    turned = _tangents(Y[at], rank)  # (f, k, rank, p)
    count = turned.shape[1]
    rows = np.broadcast_to(at[:, None, :, None] * p + np.arange(p), turned.shape)
    columns = np.broadcast_to(np.arange(len(free) * count).reshape(-1, count, 1, 1), turned.shape)
    moving = np.setdiff1d(np.arange(size), (qcqp.blocks[:, None] + np.arange(rank)).ravel())
    units = np.array([1.0, 1.0j]) if rank == 1 else np.ones(1)
    move_rows = np.repeat((moving[:, None] * p + np.arange(p)).ravel(), len(units))
    move_columns = len(free) * count + np.arange(len(move_rows))
    values = np.concatenate([turned.ravel(), np.tile(units, len(moving) * p)])
    keep = values != 0
    rows = np.concatenate([rows.ravel(), move_rows])[keep]
    columns = np.concatenate([columns.ravel(), move_columns])[keep]
    shape = (size * p, len(free) * count + len(move_rows))
    return sp.coo_array((values[keep], (rows, columns)), shape=shape).tocsc()


def _tangents(blocks: Array, rank: int) -> Array:
    """Tangent vectors of blocks (f, rank, p) of orthonormal rows, (f, k, rank, p)."""
    p = blocks.shape[2]
    complement = np.linalg.svd(blocks, full_matrices=True)[2][
        :, rank:
    ]  # (f, p - rank, p), rows orthogonal to the block
    found = []
    if rank == 1:
        found.append(1j * blocks)
        found += [unit * complement[:, [k]] for k in range(p - 1) for unit in (1.0, 1.0j)]
        return np.stack(found, axis=1)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        turn = np.zeros_like(blocks)
        turn[:, i], turn[:, j] = blocks[:, j], -blocks[:, i]
        found.append(turn)
    for i in range(rank):
        for k in range(p - rank):
            tilt = np.zeros_like(blocks)
            tilt[:, i] = complement[:, k]
            found.append(tilt)
    return np.stack(found, axis=1)


def negative_curvature(qcqp: Qcqp, Y: Array, seed: int = 0) -> Array | None:
    """A direction v, (n,), with v^H S v < 0, near the most negative one; None if S is positive semidefinite enough.

    S is shifted on the rotations' rows until its LDL^T has positive pivots; the inverse amplifies what is negative.
    """
    S = certificate_matrix(qcqp, closed_form_multipliers(qcqp, Y))
    turning = np.zeros(qcqp.size)
    turning[(qcqp.blocks[:, None] + np.arange(qcqp.rank)).ravel()] = 1.0
    weights = np.asarray(qcqp.magnitude.sum(axis=1)).ravel()[turning > 0]
    if not len(weights):
        return None
    shift = _NEGATIVE * float(np.median(weights))
    upper = real_upper(S)
    wide = np.repeat(turning, 2) if qcqp.rank == 1 else turning
    tiny = 1e-14 * np.abs(upper.diagonal())
    factor = None
    shifted = False
    while factor is None:
        trial = factorise(add_to_diagonal(upper, shift * wide + tiny))
        if trial is not None and (trial.factors()[1] > 0).all():
            factor = trial
        else:
            shift, shifted = 4 * shift, True
    if not shifted:
        return None
    rng = np.random.default_rng(seed)
    v = (rng.normal(size=(qcqp.size, 1)) * turning[:, None]).astype(Y.dtype)
    for _ in range(_INVERSE_ITERATIONS):
        solved = np.ascontiguousarray(real_vectors(v * turning[:, None])[:, 0])
        x = factor.solve(solved)[:, None]
        v = complex_vectors(x) if qcqp.rank == 1 else x
        v = v / np.linalg.norm(v * turning[:, None])
    v = v[:, 0]
    return v if np.vdot(v, S @ v).real < 0 else None


def _escape(qcqp: Qcqp, Y: Array, direction: Array) -> Array | None:
    """Y with one more column, moved along a direction of negative curvature until the cost is lower."""
    wide = np.column_stack([Y, np.zeros(len(Y), dtype=Y.dtype)])
    cost = qcqp.cost(Y)
    blocks = qcqp.blocks[:, None] + np.arange(qcqp.rank)
    largest = float(np.abs(direction[blocks]).max())
    for length in 0.5 ** np.arange(20):
        moved = wide.copy()
        moved[:, -1] = direction * (length / largest)
        moved = _retract(qcqp, moved)
        if qcqp.cost(moved) < cost:
            return moved
    return None
