"""Residual vectors with noise that differs along the axes of a frame (docs/maths/, section 2.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gtsam_sdp.factors.geometry import adjoint
from gtsam_sdp.factors.registry import Lifting, world_numbers
from gtsam_sdp.factors.weights import AxisWeights
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Exactness, Terms
from gtsam_sdp.tolerances import UNIT_ROUNDOFF


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
    half = weights.matrix.astype(space.dtype) / 2
    if (weights.exactness == int(Exactness.EXACT)).all():
        sizes = np.abs(coefficients)
        return replace(
            blank,
            matrix=coefficients.conj().swapaxes(1, 2) @ half @ coefficients,
            exactness=weights.exactness,
            magnitude=sizes.swapaxes(1, 2) @ np.abs(half) @ sizes,
        )
    rows = space.rows
    slot: int = blank.rotations.shape[1] if frame is None else frame
    if frame is None:
        world = layout.rotation_rows(world_numbers(count))[:, None]
        blank = replace(blank, rotations=np.concatenate([blank.rotations, world], axis=1))
        zeros = np.zeros((*coefficients.shape[:2], rows), dtype=coefficients.dtype)
        at = slot * rows
        coefficients = np.concatenate([coefficients[:, :, :at], zeros, coefficients[:, :, at:]], axis=2)
    at = slice(slot * rows, (slot + 1) * rows)
    slope, reach, constant = _tangent(blank, coefficients, weights, lifting, at)
    matrix = coefficients.conj().swapaxes(1, 2) @ half @ coefficients
    sizes = np.abs(coefficients)
    magnitude = sizes.swapaxes(1, 2) @ np.abs(half) @ sizes
    across = slope.conj().swapaxes(1, 2) @ coefficients / 2
    across_size = reach.swapaxes(1, 2) @ sizes / 2
    matrix[:, at] += across
    matrix[:, :, at] += across.conj().swapaxes(1, 2)
    magnitude[:, at] += across_size
    magnitude[:, :, at] += across_size.swapaxes(1, 2)
    return replace(
        blank,
        matrix=matrix,
        constant=blank.constant + constant,
        exactness=np.minimum(weights.exactness, int(Exactness.TANGENT)),
        magnitude=magnitude,
        entrywise=weights.entrywise(coefficients, constant=blank.constant) if frame is None else None,
    )


def _tangent(
    blank: Terms, coefficients: Array, weights: AxisWeights, lifting: Lifting, at: slice
) -> tuple[Array, Array, Array]:
    """a as rows (m, q, rows), sizes of the numbers it was summed from, and -1/2 a . s^ less its rounding."""
    space = lifting.layout.space
    d, (count, q) = space.dimension, coefficients.shape[:2]
    if lifting.at_measurements:
        nothing = np.zeros((count, q, space.rows))
        return nothing.astype(space.dtype), nothing, np.zeros(count)
    local = blank.local_rows(lifting.estimate, lifting.layout.world)
    parts = coefficients @ local @ adjoint(local[:, at])  # rows r^T F
    s = np.stack([np.real(parts), np.imag(parts)], axis=-1) if d == 2 else parts
    s = np.ascontiguousarray(s).reshape(count, q * d)
    kept = np.einsum("kab,ij->kaibj", weights.matrix, np.eye(d)).reshape(count, q * d, q * d)
    rest = weights.information - kept
    sizes = np.abs(weights.information) + np.abs(kept)
    exact = weights.exactness == int(Exactness.EXACT)
    rest[exact] = sizes[exact] = 0.0
    slope = np.einsum("kij,kj->ki", rest, s)
    reach = np.einsum("kij,kj->ki", sizes, np.abs(s))
    constant = -np.sum(slope * s, axis=1) / 2 - 16 * UNIT_ROUNDOFF * np.sum(reach * np.abs(s), axis=1)
    rows = space.vectors(slope.reshape(count, q, d))
    largest = reach.reshape(count, q, d)
    largest = np.linalg.norm(largest, axis=2, keepdims=True) if d == 2 else largest
    return rows, largest, constant
