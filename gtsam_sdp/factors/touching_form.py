"""The form of a term that touches a pose's log-map cost in value and gradient (docs/maths/, section 2.5).

With r = (omega, v), E and e as in `pose_form`, every summand of

    G = 1/2 kappa theta^2-like + g2 omega^T M omega + tau / 2 |e|^2 + b . s(E) + c . (e + E^T e) / 2 + const

is linear in the lifted matrix. Here all vectors are real ones of space: the plane is z = 0, its rotations are about z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from gtsam_sdp.factors.geometry import transform
from gtsam_sdp.factors.rotation_form import put
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import rounding_error
from gtsam_sdp.values.space import Space

LARGEST_ESTIMATE = 1.2
"""Angles at the estimate [rad] beyond which no term touches: b grows like 1 / cos(theta^)."""

_ROUNDOFFS = rounding_error(64)
"""Relative error granted to each entry of the gradient and to the value, of the sizes of their summands."""


def series(order: int, theta: Array) -> tuple[Array, Array]:
    """phi = sum (-1)^k theta^2k / (2k + order)! and its derivative over theta, for theta of at most 1.2 rad.

    phi_1 = sin(theta) / theta, phi_2 = (1 - cos(theta)) / theta^2, phi_3 = (theta - sin(theta)) / theta^3, ...
    """
    square = theta**2
    value, slope = np.zeros_like(theta), np.zeros_like(theta)
    for k in range(12, -1, -1):
        share = (-1) ** k / factorial(2 * k + order)
        value = value * square + share
        if k:
            slope = slope * square + 2 * k * share
    return value, slope


def dot(a: Array, b: Array) -> Array:
    """Scalar products of real vectors, (m, k), as (m, 1)."""
    return np.sum(a * b, axis=1, keepdims=True)


@dataclass(frozen=True)
class Curvature:
    """What a term keeps of the curvature: kappa (m,) and M >= 0 (m, 3, 3) of rotations, tau (m,) of translations.

    1/2 tr(M) I - M has to be positive semidefinite (docs/maths/ 2.4).
    """

    kappa: Array
    rest: Array
    tau: Array

    def scaled(self, share: Array) -> Curvature:
        """A share (m,) of it."""
        return Curvature(share * self.kappa, share[:, None, None] * self.rest, share * self.tau)

    def select(self, at: Array | tuple[Array, ...]) -> Curvature:
        """That of some of the factors."""
        return Curvature(self.kappa[at], self.rest[at], self.tau[at])

    @classmethod
    def stack(cls, parts: Sequence[Curvature]) -> Curvature:
        """All of them, along a first axis."""
        return cls(*(np.stack([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class Contact:
    """Coefficients b and c, (m, 3), with which value and gradient of G are those of the cost at (omega^, v^).

    Attributes:
        b: of s(E), the axial vector of the skew part of E.
        c: of (e + E^T e) / 2.
        constant: the cost less what else G is at the estimate, (m,).
        slope_error: bound of what rounding leaves of each entry of the gradient of the cost less G, (m, 6).
        value_error: the same of the value, (m,).
    """

    b: Array
    c: Array
    constant: Array
    slope_error: Array
    value_error: Array

    def select(self, at: Array) -> Contact:
        """Those of some of the factors."""
        return Contact(self.b[at], self.c[at], self.constant[at], self.slope_error[at], self.value_error[at])

    @classmethod
    def none(cls, count: int) -> Contact:
        """Of factors without a term."""
        return cls(*(np.zeros((count, *shape)) for shape in ((3,), (3,), (), (6,), ())))

    @classmethod
    def at(cls, information: Array, curvature: Curvature, omega: Array, v: Array) -> Contact:
        """Solves for b and c.

        Args:
            information: L in space, (m, 6, 6), rotation first.
            curvature: what is kept.
            omega: omega^, (m, 3) [rad].
            v: v^, (m, 3) [m].
        """
        r = np.concatenate([omega, v], axis=1)
        theta = np.linalg.norm(omega, axis=1)
        (g1, _), (g2, d2), (g3, d3), (g4, d4) = (
            tuple(x[:, None] for x in series(order, theta)) for order in (1, 2, 3, 4)
        )
        kappa, tau = curvature.kappa[:, None], curvature.tau[:, None]
        gradient = transform(information, r)
        along, square = dot(omega, v), theta[:, None] ** 2
        turned = square * dot(v, v) - along**2
        m_omega = transform(curvature.rest, omega)
        by_rest = 2 * g2 * m_omega + d2 * dot(omega, m_omega) * omega
        # |e|^2 / 2 = |v|^2 / 2 - phi_4 |omega x v|^2
        by_e = -d4 * turned * omega - 2 * g4 * (dot(v, v) * omega - along * v)
        wanted = gradient[:, 3:] - tau * (v - 2 * g4 * (square * v - along * omega))
        axis = omega / np.where(theta > 0, theta, 1.0)[:, None]
        c = wanted / g1 + axis * dot(axis, wanted) * (1 - 1 / g1)
        by_c = -d3 * (square * dot(c, v) - dot(omega, c) * along) * omega
        by_c -= g3 * (2 * dot(c, v) * omega - along * c - dot(omega, c) * v)
        needed = gradient[:, :3] - kappa * g1 * omega - by_rest - tau * by_e - by_c
        b = needed / g1 + axis * dot(axis, needed) * (1 / np.cos(theta)[:, None] - 1 / g1)
        parts = [
            dot(r, gradient) / 2, -kappa * g2 * square, -g2 * dot(omega, m_omega),
            -tau * (dot(v, v) / 2 - g4 * turned), -g1 * dot(b, omega),
            -(dot(c, v) - g3 * (square * dot(c, v) - dot(omega, c) * along)),
        ]  # fmt: skip
        size = transform(np.abs(information), np.abs(r))
        value_error = _ROUNDOFFS * (dot(np.abs(r), size) + sum(np.abs(p) for p in parts))[:, 0]
        value_error += _ROUNDOFFS * (dot(np.abs(c), np.abs(v)) + dot(np.abs(b), np.abs(omega)))[:, 0]
        # entries of the gradient are sums of numbers no larger than these
        spread = 2 * (np.linalg.norm(c, axis=1) * np.linalg.norm(v, axis=1) * theta)[:, None] + np.abs(b) + _norm(b)
        spread = spread + (curvature.kappa + np.linalg.norm(curvature.rest, axis=(1, 2)))[:, None] * theta[:, None]
        spread = spread + tau * dot(v, v) * theta[:, None]
        moved = np.abs(c) + _norm(c) + 2 * tau * _norm(v)
        slope_error = _ROUNDOFFS * (size + np.concatenate([spread, moved], axis=1))
        return cls(b, c, np.sum(parts, axis=0)[:, 0], slope_error, value_error)


def _norm(vectors: Array) -> Array:
    return np.linalg.norm(vectors, axis=1, keepdims=True)


def touching_matrix(
    curvature: Curvature, contact: Contact, measured: Array, offset: Array, space: Space
) -> tuple[Array, Array, Array]:
    """G on the rows (R_i, R_j, p): matrix, constant, and the sizes of the numbers that the matrix was summed from.

    Args:
        curvature: what is kept.
        contact: the rest.
        measured: R~, (m, rows, rows).
        offset: t~ in the rows of the space, (m, rows) [m].
        space: the plane or space.
    """
    rows, count = space.rows, len(measured)
    first, second, point = slice(0, rows), slice(rows, 2 * rows), slice(2 * rows, 2 * rows + 1)
    if space.dimension == 2:
        on_relative = (1j * contact.b[:, 2] - curvature.kappa)[:, None, None]
        constant = curvature.kappa + contact.constant
        c = space.vectors(contact.c[:, :2]) / 2
    else:
        trace = np.trace(curvature.rest, axis1=1, axis2=2)
        on_relative = _cross(contact.b) / 2 + curvature.rest
        on_relative = on_relative - ((curvature.kappa + trace) / 2)[:, None, None] * np.eye(3)
        constant = 1.5 * curvature.kappa + trace / 2 + contact.constant
        c = contact.c / 2
    residual = np.concatenate([-offset, np.zeros((count, rows)), np.ones((count, 1))], axis=1)
    matrix = (curvature.tau / 2)[:, None, None] * residual.conj()[:, :, None] * residual[:, None, :]
    turned = transform(measured, c)
    put(matrix, first, second, (measured @ on_relative).conj())
    put(matrix, first, point, turned.conj()[:, :, None])
    put(matrix, second, point, c.conj()[:, :, None])
    put(matrix, first, second, -offset.conj()[:, :, None] * c[:, None, :])
    constant = constant - np.real(np.sum(turned.conj() * offset, axis=1))
    magnitude = np.abs(matrix)
    both = (np.abs(measured) @ np.abs(on_relative) + np.abs(offset)[:, :, None] * np.abs(c)[:, None, :]) / 2
    magnitude[:, first, second] = both
    magnitude[:, second, first] = both.swapaxes(1, 2)
    size = 3 * curvature.kappa + np.abs(contact.constant) + np.sum(np.abs(turned) * np.abs(offset), axis=1)
    size = size + np.abs(np.trace(curvature.rest, axis1=1, axis2=2))
    return matrix, constant - _ROUNDOFFS * size, magnitude


def _cross(vectors: Array) -> Array:
    """[b]x, (m, 3, 3)."""
    result = np.zeros((len(vectors), 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        result[:, j, i] = vectors[:, k]
        result[:, i, j] = -vectors[:, k]
    return result
