"""Residual vectors with noise that differs along the axes of a frame (docs/maths/, section 2.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gtsam_sdp.factors.geometry import adjoint
from gtsam_sdp.factors.registry import Lifting, world_numbers
from gtsam_sdp.factors.weights import AxisWeights
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded
from gtsam_sdp.linalg.real import real_entries
from gtsam_sdp.terms.terms import Exactness, Terms
from gtsam_sdp.values.space import Space


def vector_terms(
    blank: Terms, coefficients: Array, weights: AxisWeights, lifting: Lifting, *, frame: int | None = None
) -> Terms:
    """Terms of 1/2 s^T W s with s = F^T r the parts of residual vectors r = B X along the axes of a frame F.

    1/2 s^T W s >= 1/2 sum A_ab r_a . r_b + a . s - 1/2 a . s^ with a = (W - A kron I) s^ and A kron I below W. The
    parts of s are products of rows of F with residuals: linear in the lifted matrix. Equal to the cost at the
    estimate, everywhere if W = A kron I.

    Args:
        blank: the terms' rows; its matrix is replaced, its constant kept.
        coefficients: B, (q, r) or (m, q, r).
        weights: W and A.
        lifting: where the terms touch the cost.
        frame: slot of F among the rotations of `blank`; None for the world.
    """
    layout, space = lifting.layout, lifting.layout.space
    count = len(blank.factor)
    coefficients = np.broadcast_to(coefficients, (count, *coefficients.shape[-2:])).astype(space.dtype)
    half = Bounded.of(weights.matrix.astype(space.dtype) / 2)
    if (weights.exactness == int(Exactness.EXACT)).all():
        form = half.sandwich(coefficients)
        return replace(blank, matrix=form.value, exactness=weights.exactness, magnitude=form.magnitude)
    rows = space.rows
    slot: int = blank.rotations.shape[1] if frame is None else frame
    if frame is None:
        world = layout.rotation_rows(world_numbers(count))[:, None]
        blank = replace(blank, rotations=np.concatenate([blank.rotations, world], axis=1))
        zeros = np.zeros((*coefficients.shape[:2], rows), dtype=coefficients.dtype)
        at = slot * rows
        coefficients = np.concatenate([coefficients[:, :, :at], zeros, coefficients[:, :, at:]], axis=2)
    at = slice(slot * rows, (slot + 1) * rows)
    slope, constant = _tangent(blank, coefficients, weights, lifting, at)
    residuals = Bounded.of(coefficients)
    form = half.sandwich(residuals)
    across = slope.H @ residuals * 0.5
    form[:, at] += across
    form[:, :, at] += across.H
    return replace(
        blank,
        matrix=form.value,
        constant=blank.constant + constant,
        exactness=np.minimum(weights.exactness, int(Exactness.TANGENT)),
        magnitude=form.magnitude,
        entrywise=weights.entrywise(residuals, blank.constant) if frame is None else None,
    )


def _tangent(
    blank: Terms, coefficients: Array, weights: AxisWeights, lifting: Lifting, at: slice
) -> tuple[Bounded, Array]:
    """a as rows (m, q, rows), and -1/2 a . s^ less its rounding."""
    space = lifting.layout.space
    d, (count, q) = space.dimension, coefficients.shape[:2]
    if lifting.at_measurements:
        return Bounded.of(np.zeros((count, q, space.rows), dtype=space.dtype)), np.zeros(count)
    local = blank.local_rows(lifting.estimate, lifting.layout.world)
    s = real_entries(coefficients @ local @ adjoint(local[:, at])).reshape(count, q * d)  # rows r^T F
    kept = np.einsum("kab,ij->kaibj", weights.matrix, np.eye(d)).reshape(count, q * d, q * d)
    rest = Bounded.of(weights.information) - kept
    rest[weights.exactness == int(Exactness.EXACT)] = 0.0
    slope = rest.apply(lambda matrix, x: np.einsum("kij,kj->ki", matrix, x), s)
    loss = (slope * s).apply(lambda x: np.sum(x, axis=1))
    return rows_of(slope.apply(lambda x: x.reshape(count, q, d)), space), -loss.value / 2 - loss.error(16)


def rows_of(vectors: Bounded, space: Space) -> Bounded:
    """Rows of real vectors, (..., d) to (..., rows)."""
    sizes = vectors.magnitude
    sizes = np.linalg.norm(sizes, axis=-1, keepdims=True) if space.rows == 1 else sizes
    return Bounded(space.vectors(vectors.value), sizes)
