"""Minorants of log-map errors on SO(d) and SE(d) for any Gaussian noise (docs/maths.md, sections 2.3 to 2.5).

All formulas are for the relative quantities E = R~^T R_i^T R_j and e = R~^T (R_i^T p - t~), p = t_j - t_i, which
are linear in the lifted matrix. Rotations are (m, rows, rows) and vectors (m, rows) in the sense of `Space`: one
complex number in 2D, so that one text serves both dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from gtsam_sdp.terms import Exactness
from gtsam_sdp.tolerances import EIGENVALUE_ROUNDOFFS, MAX_TANGENT_ANGLE, MIXING_LADDER, UNIT_ROUNDOFF
from gtsam_sdp.variables import Array, Space


@dataclass(frozen=True)
class LocalForm:
    """Quadratic forms of m factors on their local rows, with constants and exactness."""

    matrix: Array
    constant: Array
    exactness: Array


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


def _curvature_table() -> tuple[Array, Array]:
    """k(theta) of docs/maths.md 2.5 on a grid over [0, pi]; the first node holds the limit 1/6."""
    theta = np.linspace(0, np.pi, 65)
    x = theta[1:] / 2
    q, s, c = np.sin(x) / x, np.sin(x), np.cos(x)
    quadratic = 1 / q**2 - 1 - s**2 / 3
    mixed = 1 / q - c - 2 / 3 * s**2 * c
    k = (mixed**2 / quadratic - (1 - c**2 - 4 / 3 * s**2 * c**2)) / (2 * s**2)
    return theta, np.concatenate([[1 / 6], k]) + 1e-6


_NEGLIGIBLE = 1e-13
_NEGLIGIBLE_LOSS = 1e-8
_THETA, _CURVATURE = _curvature_table()


def translation_curvature(theta_max: Array) -> Array:
    """An upper bound of k(theta) for theta up to theta_max [rad], clipped to [0, pi]."""
    nodes = np.searchsorted(_THETA, np.minimum(theta_max, np.pi))
    return _CURVATURE[np.minimum(nodes, len(_THETA) - 1)]


def cosine(rotation: Array, space: Space) -> Array:
    """Cosine of the angle of rotations, (m,)."""
    trace = np.trace(rotation, axis1=1, axis2=2).real
    return trace if space.dimension == 2 else (trace - 1) / 2


@dataclass(frozen=True)
class _RotationForm:
    """coefficient, offset: the form offset + Re <coefficient, R_i^T R_j> on the pair of rotation blocks."""

    coefficient: Array
    constant: Array


def _isotropic_rotation(weight: Array, measured: Array, relative: Array, space: Space) -> _RotationForm:
    """Tangent of weight * angle(F)^2 where F = measured^T R_i^T R_j; `relative` is F at the estimate.

    theta^2 is convex in u = 1 - cos theta, so theta^2 >= theta_0^2 + slope (u - u_0).
    """
    angle = np.minimum(np.arccos(np.clip(cosine(relative, space), -1, 1)), MAX_TANGENT_ANGLE)
    slope = 2 / np.sinc(angle / np.pi)
    at_tangent = angle**2 - slope * (2 * np.sin(angle / 2) ** 2)
    share = 1.0 if space.dimension == 2 else 0.5  # u = 1 - Re E in 2D, (3 - tr E) / 2 in 3D
    return _RotationForm(
        coefficient=-(weight * slope * share)[:, None, None] * measured,
        constant=weight * (at_tangent + slope * (1.0 if space.dimension == 2 else 1.5)),
    )


def _anisotropic_rotation(weight: Array, measured: Array, relative: Array) -> _RotationForm:
    """Minorant of omega^T M omega in 3D, M = weight >= 0 (docs/maths.md 2.4)."""
    identity = np.eye(3)
    trace = np.trace(weight, axis1=1, axis2=2)[:, None, None]
    p = trace / 2 * identity - weight
    h = _symmetric(relative) - (np.trace(relative, axis1=1, axis2=2)[:, None, None] - 1) / 2 * identity
    g = _symmetric(h @ weight)
    g_trace = np.trace(g, axis1=1, axis2=2)
    on_relative = -2 * p + 2 / 3 * (g - g_trace[:, None, None] / 2 * identity)
    constant = 2 * np.trace(p, axis1=1, axis2=2) + (g_trace - np.einsum("kij,kij->k", h @ weight, h)) / 3
    return _RotationForm(coefficient=measured @ on_relative, constant=constant)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.swapaxes(1, 2)) / 2


def smallest_eigenvalue(information: Array, scale: Array | None = None) -> Array:
    """A lower bound of the smallest eigenvalues of symmetric matrices (m, k, k), exact for multiples of I.

    Args:
        information: the matrices.
        scale: size of the numbers they were computed from, (m,), if that is larger than the matrices themselves.
    """
    diagonal = np.einsum("kii->ki", information)
    if information.shape[-1] == 1:
        smallest = diagonal[:, 0]
        return smallest if scale is None else smallest - EIGENVALUE_ROUNDOFFS * UNIT_ROUNDOFF * scale
    least = diagonal.min(axis=1)
    off = information - diagonal[:, :, None] * np.eye(information.shape[-1])
    plain = ~off.any(axis=(1, 2))
    size = np.linalg.norm(information, axis=(1, 2)) if scale is None else scale
    if plain.all():
        smallest = least
    else:
        smallest = np.linalg.eigvalsh(information)[:, 0] - EIGENVALUE_ROUNDOFFS * UNIT_ROUNDOFF * size
        smallest = np.where(plain, least, smallest)
    return smallest if scale is None else smallest - np.where(plain, EIGENVALUE_ROUNDOFFS * UNIT_ROUNDOFF * size, 0.0)


def _add_anisotropic(
    coefficient: Array, constant: Array, information: Array, kappa: Array, measured: Array, relative: Array
) -> None:
    """Adds the minorant of omega^T (information - kappa I) omega to the factors for which it is not zero."""
    if information.shape[-1] == 1:
        return
    rest = information - _scaled_identity(kappa, 3)
    at = np.flatnonzero(np.abs(rest).max(axis=(1, 2)) > _NEGLIGIBLE * np.abs(information).max(axis=(1, 2)))
    if len(at):
        more = _anisotropic_rotation(rest[at], measured[at], relative[at])
        coefficient[at] += more.coefficient
        constant[at] += more.constant


def _put(matrix: Array, rows: slice, columns: slice, block: Array) -> None:
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
    kappa = smallest_eigenvalue(information)
    form = _isotropic_rotation(kappa, measured, relative, space)
    coefficient, constant = form.coefficient, form.constant
    _add_anisotropic(coefficient, constant, information, kappa, measured, relative)
    matrix = np.zeros((len(kappa), 2 * rows, 2 * rows), dtype=space.dtype)
    _put(matrix, slice(0, rows), slice(rows, 2 * rows), coefficient.conj() / 2)
    exactness = np.full(len(kappa), int(Exactness.TANGENT))
    return LocalForm(matrix, constant / 2, exactness)


@dataclass(frozen=True)
class _Split:
    """Parameters of the minorant for one share beta (docs/maths.md 2.5, steps 1 and 2), with its loss."""

    tau: Array
    rotation: Array
    kappa: Array
    w0: Array
    u0: Array
    constant: Array
    loss: Array

    def replace_where(self, other: _Split, better: Array) -> _Split:
        def choose(a: Array, b: Array) -> Array:
            return np.where(better.reshape(-1, *[1] * (a.ndim - 1)), b, a)

        return _Split(*(choose(getattr(self, n), getattr(other, n)) for n in self.__dataclass_fields__))


@dataclass(frozen=True)
class _Estimate:
    """Relative quantities at the estimate."""

    relative: Array
    e: Array
    omega: Array
    v: Array
    curvature: Array


def pose_form(
    information: Array, measured: Array, offset: Array, relative: Array, e: Array, max_cost: float, space: Space
) -> LocalForm:
    """Minorant of 1/2 r^T L r, r = Log of the relative pose, on the rows (R_i, R_j, p): section 2.5.

    Args:
        information: L, ordered (rotation, translation), (m, 3, 3) in 2D or (m, 6, 6).
        measured: R~, (m, rows, rows).
        offset: t~ in the rows of the space, (m, rows) [m].
        relative: E at the estimate.
        e: e at the estimate, (m, rows) [m].
        max_cost: cost of the estimate: only points below it have to be bounded, which limits the angle.
        space: the plane or space.
    """
    estimate = _estimate(information, relative, e, max_cost, space)
    split = _choose_split(information, estimate, max_cost, space)
    turned = exp_rotation(split.w0, space)
    form = _isotropic_rotation(split.kappa, measured @ turned, adjoint(turned) @ relative, space)
    coefficient, constant = form.coefficient, form.constant + 2 * split.constant
    _add_anisotropic(coefficient, constant, split.rotation, split.kappa, measured, relative)
    matrix, extra = _translation_part(split, estimate, measured, offset, space)
    rows = space.rows
    _put(matrix, slice(0, rows), slice(rows, 2 * rows), coefficient.conj())
    exactness = np.where(np.isfinite(split.loss), int(Exactness.TANGENT), int(Exactness.LOWER_BOUND))
    return LocalForm(matrix / 2, (constant + extra) / 2, exactness)


def _scaled_identity(scale: Array, size: int) -> Array:
    return scale[:, None, None] * np.eye(size)


def _estimate(information: Array, relative: Array, e: Array, max_cost: float, space: Space) -> _Estimate:
    angles = information.shape[-1] - space.dimension
    omega = log_rotation(relative, space)
    cross = information[:, :angles, angles:]
    inner = information[:, angles:, angles:]
    schur = information[:, :angles, :angles]
    if cross.any():
        schur = schur - cross @ np.linalg.pinv(inner, hermitian=True) @ cross.swapaxes(1, 2)
    smallest = smallest_eigenvalue(schur)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.sqrt(2 * max_cost / np.maximum(smallest * (1 - 1e-9), 0)) * (1 + 1e-9)
    theta = np.where(np.isfinite(theta), theta, np.pi)
    return _Estimate(relative, e, omega, log_translation(omega, e, space), translation_curvature(theta))


def _choose_split(information: Array, estimate: _Estimate, max_cost: float, space: Space) -> _Split:
    """For each factor the share beta that loses least; no more are tried where the loss is negligible."""
    angles = information.shape[-1] - space.dimension
    inner = information[:, angles:, angles:]
    smallest = smallest_eigenvalue(inner)
    spread = np.abs(inner - _scaled_identity(smallest, space.dimension)).max(axis=(1, 2))
    plain = (spread <= _NEGLIGIBLE * smallest) & ~information[:, :angles, angles:].any(axis=(1, 2))
    best = _untangled_split(information, smallest, space)
    if plain.any():
        best = best.replace_where(_split(information, smallest, np.zeros(len(plain)), estimate, space), plain)
    rest = np.flatnonzero(~plain)
    for beta in MIXING_LADDER:
        if not len(rest):
            break
        part = _Estimate(*(getattr(estimate, n)[rest] for n in _Estimate.__dataclass_fields__))
        tried = _split(information[rest], smallest[rest], np.full(len(rest), beta), part, space)
        better = tried.loss < 0.9 * best.loss[rest]
        chosen = np.zeros(len(plain), dtype=bool)
        chosen[rest[better]] = True
        best = best.replace_where(_scatter(tried, rest, len(plain)), chosen)
        rest = rest[best.loss[rest] > _NEGLIGIBLE_LOSS * max_cost / len(plain)]
    return best


def _scale(moved: Array) -> Array | None:
    """Size of the numbers that cancel in L_rr - moved; None if nothing is moved."""
    return 2 * np.linalg.norm(moved, axis=(1, 2)) if moved.any() else None


def _scatter(split: _Split, at: Array, count: int) -> _Split:
    def spread(a: Array) -> Array:
        full = np.zeros((count, *a.shape[1:]))
        full[at] = a
        return full

    return _Split(*(spread(getattr(split, n)) for n in _Split.__dataclass_fields__))


def _split(information: Array, smallest: Array, beta: Array, estimate: _Estimate, space: Space) -> _Split:
    """Steps 1 and 2 of section 2.5 for one share beta a factor; the loss is infinite where it does not apply."""
    angles = information.shape[-1] - space.dimension
    rr, rt, tt = (information[:, :angles, :angles], information[:, :angles, angles:], information[:, angles:, angles:])
    tau = (1 - beta) * smallest
    mixed = beta > 0
    x = tt - _scaled_identity(tau, space.dimension)
    safe = np.where(mixed[:, None, None] & (smallest > 0)[:, None, None], x, np.eye(space.dimension))
    moved = np.zeros_like(rr)
    if mixed.any() and rt.any():
        moved = np.where(mixed[:, None, None], _symmetric(rt @ np.linalg.solve(safe, rt.swapaxes(1, 2))), 0.0)
    rotation = rr - moved
    kappa = smallest_eigenvalue(rotation, _scale(moved))
    applies = (kappa > 0) & (tau > 0)
    omega, v = estimate.omega, estimate.v
    a_rotation = transform(moved, omega) + np.where(mixed[:, None], transform(rt, v), 0.0)
    a_translation = np.where(mixed[:, None], transform(rt.swapaxes(1, 2), omega) + transform(x, v), 0.0)
    w0 = -a_rotation / np.where(applies, kappa, 1.0)[:, None]
    u0 = -a_translation / np.where(applies, tau, 1.0)[:, None]
    bend = tau * estimate.curvature * np.sum(u0**2, axis=1)  # must not outweigh the curvature of the rotation part
    applies &= (np.linalg.norm(w0, axis=1) < np.pi) & (bend <= kappa)
    constant = (
        -(np.sum(omega * a_rotation, axis=1) + np.sum(v * a_translation, axis=1))
        - kappa * np.sum(w0**2, axis=1)
        - tau * np.sum(u0**2, axis=1)
    ) / 2
    loss = np.where(applies, _loss(kappa, tau, w0, u0, estimate, space), np.inf)
    zero = ~applies[:, None]
    return _Split(tau, rotation, kappa, np.where(zero, 0.0, w0), np.where(zero, 0.0, u0), constant, loss)


def _loss(kappa: Array, tau: Array, w0: Array, u0: Array, estimate: _Estimate, space: Space) -> Array:
    """What steps 3 and 4 lose at the estimate, up to parts that do not depend on the split (times 2)."""
    angle = np.arccos(np.clip(cosine(adjoint(exp_rotation(w0, space)) @ estimate.relative, space), -1, 1))
    rotation = kappa * (np.sum((estimate.omega - w0) ** 2, axis=1) - angle**2)
    u = space.vectors(u0)
    world, tangent = _translation_residuals(estimate, u)
    kept = (
        np.sum(np.abs(world) ** 2, axis=1)
        + np.sum(np.abs(tangent) ** 2, axis=1) / 12
        - estimate.curvature * np.sum(u0**2, axis=1) * (1 - cosine(estimate.relative, space))
    )
    return rotation + tau * (np.sum((estimate.v - u0) ** 2, axis=1) - kept)


def _translation_residuals(estimate: _Estimate, u0: Array) -> tuple[Array, Array]:
    """W and w of section 2.5, step 4, at the estimate."""
    relative, e = estimate.relative, estimate.e
    world = e - (u0 + transform(relative, u0)) / 2
    tangent = e - transform(adjoint(relative), e) - transform(relative, u0) + transform(adjoint(relative), u0)
    return world, tangent


def _untangled_split(information: Array, smallest: Array, space: Space) -> _Split:
    """The fallback |v| >= |e| with a block-diagonal part of L below it; the loss is infinite."""
    angles = information.shape[-1] - space.dimension
    rr, rt, tt = (information[:, :angles, :angles], information[:, :angles, angles:], information[:, angles:, angles:])
    coupled = rt.any(axis=(1, 2))
    tau = np.where(coupled, 0.5 * smallest, smallest)
    floor = np.maximum(np.einsum("kii->k", tt), np.finfo(float).tiny) * 1e-12
    x = tt - _scaled_identity(tau, space.dimension) + _scaled_identity(floor, space.dimension)
    moved = np.where(np.reshape(coupled, (-1, 1, 1)), _symmetric(rt @ np.linalg.solve(x, rt.swapaxes(1, 2))), 0.0)
    rotation = rr - moved
    tau = np.maximum(np.where(coupled, tau - floor, tau), 0.0)
    smallest_rotation = smallest_eigenvalue(rotation, _scale(moved))
    usable: Array = smallest_rotation > 0
    rotation = np.where(usable[:, None, None], rotation, 0.0)
    kappa = np.where(usable, smallest_rotation, 0.0)
    tau = np.where(usable | ~coupled, tau, 0.0)
    zeros = np.zeros(len(tau))
    return _Split(
        tau, rotation, kappa, np.zeros((len(tau), angles)), np.zeros((len(tau), space.dimension)), zeros,
        np.full(len(tau), np.inf),
    )  # fmt: skip


def _translation_part(
    split: _Split, estimate: _Estimate, measured: Array, offset: Array, space: Space
) -> tuple[Array, Array]:
    """tau (|W|^2 + (2 w^^T w - |w^|^2) / 12 - k |u0|^2 u) as a matrix on (R_i, R_j, p) and a constant.

    Where the loss is infinite (the fallback) only tau |e|^2 is kept.
    """
    rows = space.rows
    first, second, point = slice(0, rows), slice(rows, 2 * rows), slice(2 * rows, 2 * rows + 1)
    count = len(split.tau)
    u0 = space.vectors(split.u0)
    turned_u0 = transform(measured, u0)
    residual = np.concatenate([-(offset + turned_u0 / 2), -u0 / 2, np.ones((count, 1))], axis=1)
    matrix = split.tau[:, None, None] * residual.conj()[:, :, None] * residual[:, None, :]
    _, w = _translation_residuals(estimate, u0)
    tangent = np.isfinite(split.loss)
    w = np.where(tangent[:, None], w, 0.0)
    share = split.tau / 6
    turned_w = transform(measured, w)
    scaled = share[:, None].astype(space.dtype)
    # w^^T e - w^^T E^T e - w^^T E u0 + w^^T E^T u0, each a product of two rows
    _put(matrix, first, point, (scaled * turned_w.conj())[:, :, None])
    _put(matrix, second, point, -(scaled * w.conj())[:, :, None])
    on_pair = (scaled * (offset + turned_u0))[:, :, None].conj() * w[:, None, :]
    on_pair -= (scaled * turned_w)[:, :, None].conj() * u0[:, None, :]
    _put(matrix, first, second, on_pair)
    squared_w = np.sum(np.abs(w) ** 2, axis=1)
    constant = -share * np.real(np.sum(turned_w.conj() * offset, axis=1)) - share / 2 * squared_w
    bend = split.tau * np.where(tangent, estimate.curvature, 0.0) * np.sum(split.u0**2, axis=1)
    share_u = 1.0 if space.dimension == 2 else 0.5
    _put(matrix, first, second, (bend * share_u)[:, None, None] * measured.conj())
    constant -= bend * (1.0 if space.dimension == 2 else 1.5)
    return matrix, constant
