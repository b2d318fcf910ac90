"""Batches of rotations and vectors in the sense of `Space`: matrices in 3D, complex numbers in 2D."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.space import Space


def transform(rotation: Array, vector: Array) -> Array:
    """R v for batches: (m, k, k), (m, k) -> (m, k)."""
    return (rotation @ vector[:, :, None])[:, :, 0]


def adjoint(rotation: Array) -> Array:
    """R^T (the conjugate in 2D)."""
    return rotation.conj().swapaxes(1, 2)


def log_rotation(rotation: Array, space: Space) -> Array:
    """Rotation vectors [rad], (m, 1) in 2D or (m, 3)."""
    if space.dimension == 2:
        return np.angle(rotation[:, :, 0])
    return Rotation.from_matrix(rotation).as_rotvec()


def exp_rotation(omega: Array, space: Space) -> Array:
    """Rotations of rotation vectors [rad]."""
    if space.dimension == 2:
        return np.exp(1j * omega)[:, :, None]
    return Rotation.from_rotvec(omega).as_matrix()


def log_translation(omega: Array, e: Array, space: Space) -> Array:
    """v = V(omega)^-1 e as real vectors (m, d): the translation part of the log map on SE(d)."""
    angle = np.linalg.norm(omega, axis=1)
    half = angle / 2
    small = angle < 1e-4
    safe = np.where(small, 1.0, half)
    cotangent = np.where(small, 1 - half**2 / 3, safe / np.tan(safe))
    if space.dimension == 2:
        v = (cotangent - 0.5j * omega[:, 0])[:, None] * e
        return np.concatenate([v.real, v.imag], axis=1)
    second = np.where(small, 1 / 12, (1 - cotangent) / np.where(small, 1.0, angle**2))
    turned = np.cross(omega, e)
    return e - turned / 2 + second[:, None] * np.cross(omega, turned)


def cosine(rotation: Array, space: Space) -> Array:
    """Cosine of the angle of rotations, (m,)."""
    trace = np.trace(rotation, axis1=1, axis2=2).real
    return trace if space.dimension == 2 else (trace - 1) / 2
