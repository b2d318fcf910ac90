"""The Riemannian staircase: local minima of the lifted problem with p > d columns, until one is the global minimum.

Boumal, Voroninski, Bandeira, "The non-convex Burer-Monteiro approach works on smooth semidefinite programs", NeurIPS
2016; Rosen, Carlone, Bandeira, Leonard, "SE-Sync", IJRR 2019. At a second-order point the multipliers in closed form
either make S positive semidefinite, and no Y of any number of columns is better, or S has a direction of negative
curvature: one more column, a step along it, and down again. See docs/maths/, section 6.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.factorisation import Factorisation, add_to_diagonal
from gtsam_sdp.linalg.real import real_upper
from gtsam_sdp.linalg.sums import inner_product
from gtsam_sdp.lowrank.descent import descend, retracted
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.progress import report_now, report_step
from gtsam_sdp.proof.multipliers import certificate_matrix, closed_form_multipliers

_CONVERGED = 1e-9
"""Relative decrease of the cost that a step has to promise."""

_NEGATIVE = 1e-7
"""Share of the rotations' weights below which curvature counts as negative."""

_LARGEST_SHIFT = 1e3
"""Shift, relative to the largest weight of a rotation, that makes up for all that rotations can lack."""

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
        was_late: whether the time ended first.
    """

    Y: Array
    cost: float
    costs: Sequence[float]
    columns: int
    is_second_order: bool
    was_late: bool = False


def climb(quadratic: Quadratic, Y: Array, *, max_columns: int, ends: float = np.inf, seed: int = 0) -> Climbed:
    """Climbs from a feasible Y with d columns or more.

    Args:
        quadratic: the cost.
        Y: where to start, (n, p), complex in 2D.
        max_columns: no more columns than these.
        ends: no step is begun after this reading of `time.perf_counter` [s].
        seed: of the search for directions of negative curvature.
    """
    qcqp = quadratic.qcqp
    costs: list[float] = []
    while True:
        began = time.perf_counter()
        report_now(f"staircase, {Y.shape[1]} columns")
        descent = descend(quadratic, Y, _CONVERGED, ends=ends)
        Y = descent.Y
        cost = qcqp.cost(Y)
        costs.append(cost)
        what = f"{Y.shape[1]} columns, cost {cost:.10g} after {descent.steps} steps"
        report_step("staircase", what, time.perf_counter() - began)
        direction = negative_curvature(qcqp, Y, seed) if time.perf_counter() < ends else None
        late = time.perf_counter() >= ends
        if direction is None or Y.shape[1] >= max_columns or late:
            return Climbed(Y, cost, tuple(costs), Y.shape[1], direction is None and not late, late)
        moved = _escape(qcqp, Y, direction)
        if moved is None:
            return Climbed(Y, cost, tuple(costs), Y.shape[1], False)
        Y = moved


def rounded(qcqp: Qcqp, Y: Array) -> Array:
    """The feasible Y of d columns nearest to the leading directions of Y, (n, rank)."""
    if not len(qcqp.bounded):
        _, vectors = np.linalg.eigh(Y.conj().T @ Y)
        return Y @ vectors[:, ::-1][:, : qcqp.rank]
    _, _, right = np.linalg.svd(Y[qcqp.bounded], full_matrices=len(qcqp.bounded) < qcqp.rank)
    Z = Y @ right[: qcqp.rank].conj().T
    frames = Z[qcqp.groups[0].rows]
    if qcqp.rank == 3 and len(frames) and (np.linalg.det(frames) < 0).mean() > 0.5:
        Z = Z * np.array([1.0, 1.0, -1.0])
    for group in qcqp.groups:
        Z[group.rows] = group.block.nearest(Z[group.rows], qcqp.layout.space)
    return Z


def negative_curvature(qcqp: Qcqp, Y: Array, seed: int = 0) -> Array | None:
    """A direction v, (n,), with v^H S v < 0, near the most negative one; None if S is positive semidefinite enough.

    S is shifted on the rows of blocks until its LDL^T has positive pivots; the inverse amplifies what is negative.
    """
    S = certificate_matrix(qcqp, closed_form_multipliers(qcqp, Y))
    turning = np.zeros(qcqp.size)
    turning[qcqp.bounded] = 1.0
    weights = np.asarray(qcqp.magnitude.sum(axis=1)).ravel()[turning > 0]
    weights = weights[weights > 0]  # a frame that nothing turns has none
    if not len(weights):
        return None
    upper = real_upper(S)
    wide = np.repeat(turning, 2) if qcqp.rank == 1 else turning
    tiny = 1e-14 * np.abs(upper.diagonal())
    shift = smallest = _NEGATIVE * float(np.median(weights))
    while (factor := Factorisation.of(add_to_diagonal(upper, shift * wide + tiny))) is None or not factor.is_positive:
        shift *= 4
        if shift > _LARGEST_SHIFT * float(weights.max()):  # negative on positions: the cost has no minimum
            return None
    if shift == smallest:
        return None
    rng = np.random.default_rng(seed)
    v = (rng.normal(size=(qcqp.size, 1)) * turning[:, None]).astype(Y.dtype)
    for _ in range(_INVERSE_ITERATIONS):
        v = factor.solve(v * turning[:, None])
        v = v / np.linalg.norm(v * turning[:, None])
    return v[:, 0] if inner_product(v, S @ v) < 0 else None


def _escape(qcqp: Qcqp, Y: Array, direction: Array) -> Array | None:
    """Y with one more column, moved along a direction of negative curvature until the cost is lower."""
    wide = np.column_stack([Y, np.zeros(len(Y), dtype=Y.dtype)])
    cost = qcqp.cost(Y)
    largest = float(np.abs(direction[qcqp.bounded]).max())
    for length in 0.5 ** np.arange(20):
        moved = wide.copy()
        moved[:, -1] = direction * (length / largest)
        moved = retracted(qcqp, moved)
        if qcqp.cost(moved) < cost:
            return moved
    return None
