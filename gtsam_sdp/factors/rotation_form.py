"""Minorants of log-map errors on SO(d) for any Gaussian noise (docs/maths/, sections 2.3 and 2.4).

They are linear in the relative rotation E = R~^T R_i^T R_j, and so in the lifted matrix. Rotations are
(m, rows, rows) in the sense of `Space`: one complex number in 2D, so that one text serves both dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtsam_sdp.factors.geometry import adjoint, cosine, exp_rotation, log_rotation
from gtsam_sdp.factors.weights import scaled_identity, smallest_eigenvalue, symmetric
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.tolerances import MAX_TANGENT_ANGLE, NEGLIGIBLE, UNIT_ROUNDOFF
from gtsam_sdp.values.space import Space

_LARGEST_TURN = 1.0
"""Largest turn w0 [rad] of the tangent of a stiff part: beyond it the stiff part is kept with the rest."""

_BISECTIONS = 40

_STIFF = 0.99
"""A rotation axis is stiff if its weight exceeds this share of the sum of the two others."""


@dataclass(frozen=True)
class LocalForm:
    """Quadratic forms of m factors on their local rows, with constants, exactness and `Terms.magnitude`."""

    matrix: Array
    constant: Array
    exactness: Array
    magnitude: Array | None = None


@dataclass(frozen=True)
class RotationForm:
    """coefficient, offset: the form offset + Re <coefficient, R_i^T R_j> on the pair of rotation blocks."""

    coefficient: Array
    constant: Array


def isotropic_rotation(weight: Array, measured: Array, relative: Array, space: Space) -> RotationForm:
    """Tangent of weight * angle(F)^2 where F = measured^T R_i^T R_j; `relative` is F at the estimate.

    theta^2 is convex in u = 1 - cos theta, so theta^2 >= theta_0^2 + slope (u - u_0).
    """
    angle = np.minimum(np.arccos(np.clip(cosine(relative, space), -1, 1)), MAX_TANGENT_ANGLE)
    slope = 2 / np.sinc(angle / np.pi)
    at_tangent = angle**2 - slope * (2 * np.sin(angle / 2) ** 2)
    share = 1.0 if space.dimension == 2 else 0.5  # u = 1 - Re E in 2D, (3 - tr E) / 2 in 3D
    return RotationForm(
        coefficient=-(weight * slope * share)[:, None, None] * measured,
        constant=weight * (at_tangent + slope * (1.0 if space.dimension == 2 else 1.5)),
    )


def largest_angle(weight: Array, relative: Array, gap: float, space: Space) -> Array:
    """Up to which angle of F half of weight * angle(F)^2 exceeds half of `isotropic_rotation` by no more than a gap.

    angle^2 is convex in u, so that its excess over the tangent grows beyond the point where they touch.
    """
    low = np.minimum(np.arccos(np.clip(cosine(relative, space), -1, 1)), MAX_TANGENT_ANGLE)
    slope = 2 / np.sinc(low / np.pi)
    value = low**2 - slope * (2 * np.sin(low / 2) ** 2)
    allowed = 2 * gap * (1 + 1e-6) / np.where(weight > 0, weight, np.finfo(float).tiny)

    def exceeds(angle: Array) -> Array:
        return angle**2 - value - slope * (2 * np.sin(angle / 2) ** 2) > allowed + 1e-12

    near, far = low, np.full_like(low, np.pi)
    unlimited = ~exceeds(far)
    for _ in range(_BISECTIONS):
        middle = (near + far) / 2
        too_far = exceeds(middle)
        near, far = np.where(too_far, near, middle), np.where(too_far, middle, far)
    return np.where(unlimited, np.pi, far * (1 + 1e-9))


def _anisotropic_rotation(weight: Array, measured: Array, relative: Array) -> RotationForm:
    """Minorant of omega^T M omega in 3D, M = weight >= 0 (docs/maths/ 2.4)."""
    identity = np.eye(3)
    trace = np.trace(weight, axis1=1, axis2=2)[:, None, None]
    p = trace / 2 * identity - weight
    h = symmetric(relative) - (np.trace(relative, axis1=1, axis2=2)[:, None, None] - 1) / 2 * identity
    g = symmetric(h @ weight)
    g_trace = np.trace(g, axis1=1, axis2=2)
    on_relative = -2 * p + 2 / 3 * (g - g_trace[:, None, None] / 2 * identity)
    constant = 2 * np.trace(p, axis1=1, axis2=2) + (g_trace - np.einsum("kij,kij->k", h @ weight, h)) / 3
    return RotationForm(coefficient=measured @ on_relative, constant=constant)


def add_anisotropic(
    coefficient: Array, constant: Array, information: Array, kappa: Array, measured: Array, relative: Array
) -> None:
    """Adds the minorant of omega^T (information - kappa I) omega to the factors for which it is not zero."""
    if information.shape[-1] == 1:
        return
    rest = information - scaled_identity(kappa, 3)
    at = np.flatnonzero(np.abs(rest).max(axis=(1, 2)) > NEGLIGIBLE * np.abs(information).max(axis=(1, 2)))
    if len(at):
        more = _anisotropic_rotation(rest[at], measured[at], relative[at])
        coefficient[at] += more.coefficient
        constant[at] += more.constant


@dataclass(frozen=True)
class StiffAxis:
    """The part N of rotation weights that goes by its tangent, and what is left.

    Where one axis is held more stiffly than the other two together, 1/2 tr(L) I - L of section 2.4 is indefinite, and
    the minorant no sum of squares of the lifted rows. There N = delta n n^T, n the stiff axis, is taken out of L:
    omega^T N omega >= 2 omega^^T N omega - omega^^T N omega^.

    Attributes:
        kept: L - N, (m, k, k).
        slope: N omega^, (m, k).
        constant: -1/2 omega^^T N omega^, less the rounding of all this, (m,).
    """

    kept: Array
    slope: Array
    constant: Array

    @classmethod
    def split(cls, information: Array, omega: Array) -> StiffAxis:
        """Takes the stiff part out of weights, (m, 1, 1) or (m, 3, 3), at rotation vectors omega^ [rad]."""
        kept, slope, constant = information, np.zeros_like(omega), np.zeros(len(omega))
        if information.shape[-1] == 1:
            return cls(kept, slope, constant)
        at = np.flatnonzero(~_is_below_share_of_trace(information))
        if not len(at):
            return cls(kept, slope, constant)
        eigenvalues, axes = np.linalg.eigh(information[at])
        excess = eigenvalues[:, 2] - _STIFF * (eigenvalues[:, 0] + eigenvalues[:, 1])
        along = np.sum(axes[:, :, 2] * omega[at], axis=1)
        stiff = np.flatnonzero((excess > 0) & (excess * np.abs(along) <= _LARGEST_TURN * eigenvalues[:, 0]))
        at, axis, excess, along = at[stiff], axes[stiff, :, 2], excess[stiff], along[stiff]
        kept = information.copy()
        kept[at] -= excess[:, None, None] * axis[:, :, None] * axis[:, None, :]
        slope[at] = (excess * along)[:, None] * axis
        rounding = 16 * UNIT_ROUNDOFF * np.pi**2 * np.linalg.norm(information[at], axis=(1, 2))
        constant[at] = -excess * along**2 / 2 - rounding
        return cls(kept, slope, constant)

    def loosened(self, keep: float, omega: Array) -> StiffAxis:
        """A share of what is kept, the rest of it by its tangent too."""
        if keep == 1:
            return self
        slope = (1 - keep) * np.einsum("kij,kj->ki", self.kept, omega)
        size = np.linalg.norm(self.kept, axis=(1, 2))
        constant = self.constant - np.sum(slope * omega, axis=1) / 2 - 32 * UNIT_ROUNDOFF * np.pi**2 * size
        return StiffAxis(keep * self.kept, self.slope + slope, constant)


def _is_below_share_of_trace(information: Array) -> Array:
    """Whether no axis is stiff: A = share * trace * I - L has positive leading minors (cheaper than eigenvalues)."""
    share = _STIFF / (1 + _STIFF) * np.trace(information, axis1=1, axis2=2)
    a, d, f = (share - information[:, i, i] for i in range(3))
    b, c, e = (
        information[:, 0, 1],
        information[:, 0, 2],
        information[:, 1, 2],
    )  # A has them with a minus
    second = a * d - b * b
    third = a * (d * f - e * e) - b * (b * f + c * e) - c * (b * e + c * d)
    return (a > 0) & (second > 0) & (third > 0)


def put(matrix: Array, rows: slice, columns: slice, block: Array) -> None:
    """Adds Re of the pairing with `block`: half of it in each of the two mirrored places."""
    matrix[:, rows, columns] += block / 2
    matrix[:, columns, rows] += block.conj().swapaxes(1, 2) / 2


def rotation_form(information: Array, measured: Array, relative: Array, space: Space) -> LocalForm:
    """Minorant of 1/2 omega^T L omega on the rows (R_i, R_j): sections 2.3 and 2.4.

    Args:
        information: L, (m, 1, 1) or (m, 3, 3), positive semidefinite.
        measured: R~.
        relative: E at the estimate.
        space: the plane or space.
    """
    rows = space.rows
    stiff = StiffAxis.split(information, log_rotation(relative, space))
    smallest = smallest_eigenvalue(
        stiff.kept, None if stiff.kept is information else np.linalg.norm(information, axis=(1, 2))
    )
    kappa = np.maximum(smallest, 0.0)
    w0 = -stiff.slope / np.where(kappa > 0, kappa, 1.0)[:, None]
    turned = exp_rotation(w0, space)
    form = isotropic_rotation(kappa, measured @ turned, adjoint(turned) @ relative, space)
    coefficient, constant = form.coefficient, form.constant + 2 * stiff.constant - kappa * np.sum(w0**2, axis=1)
    add_anisotropic(coefficient, constant, stiff.kept, smallest, measured, relative)
    constant -= (kappa - smallest) * np.pi**2  # a slightly negative eigenvalue, on an angle of at most pi
    matrix = np.zeros((len(kappa), 2 * rows, 2 * rows), dtype=space.dtype)
    put(matrix, slice(0, rows), slice(rows, 2 * rows), coefficient.conj() / 2)
    exactness = np.full(len(kappa), int(Exactness.TANGENT))
    return LocalForm(matrix, constant / 2, exactness)
