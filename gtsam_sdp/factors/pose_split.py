"""How the cost of a pose's log map is split into curvature and a tangent (docs/maths/, section 2.5, steps 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gtsam_sdp.factors.geometry import adjoint, cosine, exp_rotation, log_rotation, log_translation, transform
from gtsam_sdp.factors.rotation_form import StiffAxis
from gtsam_sdp.factors.weights import scaled_identity, smallest_eigenvalue, symmetric
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import rounding_error
from gtsam_sdp.tolerances import MIXING_LADDER, NEGLIGIBLE
from gtsam_sdp.values.space import Space

_SPARE = 1e-10
"""Share of the translation weight tau that is kept back, twice, to pay for the rounding of the tangent part."""

_LEAST_ROTATION = 0.3
"""Share of the information of the rotation alone that kappa has to be, for a share beta of the ladder to apply."""

_LEAST_TO_TOUCH = 0.3
"""Share of kappa tau that a touching term has to keep of what the other term has: else the relaxation is not tight."""

NEGLIGIBLE_LOSS = 1e-8
"""Share of the cost that all losses of one choice of beta together may be, for no other to be tried."""


def _curvature_table() -> tuple[Array, Array]:
    """k(theta) of docs/maths/ 2.5 on a grid over [0, pi]; the first node holds the limit 1/6."""
    theta = np.linspace(0, np.pi, 513)
    x = theta[1:] / 2
    q, s, c = np.sin(x) / x, np.sin(x), np.cos(x)
    quadratic = 1 / q**2 - 1 - s**2 / 3
    mixed = 1 / q - c - 2 / 3 * s**2 * c
    k = (mixed**2 / quadratic - (1 - c**2 - 4 / 3 * s**2 * c**2)) / (2 * s**2)
    return theta, np.concatenate([[1 / 6], k]) + 1e-6


_THETA, _CURVATURE = _curvature_table()


def translation_curvature(theta_max: Array) -> Array:
    """An upper bound of k(theta) for theta up to theta_max [rad], clipped to [0, pi]."""
    nodes = np.searchsorted(_THETA, np.minimum(theta_max, np.pi))
    return _CURVATURE[np.minimum(nodes, len(_THETA) - 1)]


@dataclass(frozen=True)
class Split:
    """Parameters of the minorant for one share beta (docs/maths/ 2.5, steps 1 and 2), with its loss."""

    tau: Array
    rotation: Array
    kappa: Array
    w0: Array
    u0: Array
    constant: Array
    loss: Array

    @property
    def least_to_touch(self) -> Array:
        """kappa tau that a touching term has to exceed, (m,)."""
        return np.where(np.isfinite(self.loss), _LEAST_TO_TOUCH * self.kappa * self.tau, 0.0)

    def linear(self, information: Array) -> Array:
        """The part of L that goes by its tangent, but for rounding: what cost less term is at least, (m, k, k).

        Where the loss is infinite M is left out instead: cost less term is at least 1/2 r^T M r. If that is within a
        gap at r^ and at r, so is 1/2 d^T M d / 4 of their difference.
        """
        angles = self.rotation.shape[-1]
        rest = information.copy()
        rounding = 1e-11 * np.linalg.norm(information[:, :angles, :angles], axis=(1, 2))
        rest[:, :angles, :angles] -= self.rotation * (1 + 1e-6) + scaled_identity(rounding, angles)
        rest[:, angles:, angles:] -= scaled_identity(self.tau * (1 + 1e-6), information.shape[-1] - angles)
        return np.where(np.isfinite(self.loss)[:, None, None], rest, rest / 4)

    def replace(self, other: Split, at: Array, chosen: Array) -> Split:
        """This split with other's numbers for the factors `at`, where `chosen`."""

        def merge(mine: Array, theirs: Array) -> Array:
            merged = mine.copy()
            merged[at[chosen]] = theirs[chosen]
            return merged

        return Split(*(merge(getattr(self, n), getattr(other, n)) for n in self.__dataclass_fields__))


@dataclass(frozen=True)
class Estimate:
    """Relative quantities at the estimate, theta_max [rad], and the information of the rotation alone."""

    relative: Array
    e: Array
    omega: Array
    v: Array
    theta: Array
    marginal: Array
    slope_rotation: Array
    slope_translation: Array
    constant: Array

    def bent_less(self, information: Array, bent: Array, marginal: Array) -> Estimate:
        """With a part K of L as curvature, and the tangent r^^T (L - K) r - 1/2 r^^T (L - K) r^: slope and constant.

        `marginal` is the information of the rotation alone in K, (m,).
        """
        angles = self.omega.shape[1]
        slope = transform(information - bent, self.r)
        size = np.linalg.norm(transform(np.abs(information) + np.abs(bent), np.abs(self.r)), axis=1)
        rounding = rounding_error(16, size * (np.pi + np.linalg.norm(self.r, axis=1)))
        constant = -np.sum(slope * self.r, axis=1) / 2 - rounding
        return replace(
            self, marginal=marginal, slope_rotation=slope[:, :angles], slope_translation=slope[:, angles:],
            constant=constant,
        )  # fmt: skip

    @property
    def r(self) -> Array:
        """(omega, v), (m, k)."""
        return np.concatenate([self.omega, self.v], axis=1)

    @property
    def curvature(self) -> Array:
        """k(theta_max), (m,)."""
        return translation_curvature(self.theta)

    def select(self, at: Array) -> Estimate:
        """The quantities of some of the factors."""
        return Estimate(*(getattr(self, n)[at] for n in self.__dataclass_fields__))


def estimate_of(information: Array, relative: Array, e: Array, max_cost: Array, space: Space) -> Estimate:
    """Of errors E and e, where no factor costs more than `max_cost`."""
    angles = information.shape[-1] - space.dimension
    omega = log_rotation(relative, space)
    cross = information[:, :angles, angles:]
    inner = information[:, angles:, angles:]
    smallest = smallest_eigenvalue(information[:, :angles, :angles])
    condition = np.ones(len(information))
    if cross.any():
        moved = symmetric(cross @ np.linalg.pinv(inner, hermitian=True) @ cross.swapaxes(1, 2))
        eigenvalues = np.linalg.eigvalsh(inner)
        condition = np.abs(eigenvalues[:, -1]) / np.maximum(eigenvalues[:, 0], np.finfo(float).tiny)
        uncertain = np.linalg.norm(moved, axis=(1, 2)) * np.maximum(1.0, np.minimum(condition, 1 / rounding_error(1)))
        smallest = smallest_eigenvalue(information[:, :angles, :angles] - moved, uncertain)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.sqrt(2 * max_cost / np.maximum(smallest * (1 - 1e-9), 0)) * (1 + 1e-9)
    theta = np.where(condition > 1e12, np.pi, theta)
    theta = np.where(np.isfinite(theta), theta, np.pi)
    v = log_translation(omega, e, space)
    return Estimate(relative, e, omega, v, theta, np.maximum(smallest, 0.0), 0 * omega, 0 * v, 0 * theta)


def choose_split(information: Array, estimate: Estimate, max_cost: Array, space: Space, keep: float = 1.0) -> Split:
    """For each factor the share beta that loses least; no more are tried where the loss is negligible."""
    angles = information.shape[-1] - space.dimension
    inner = information[:, angles:, angles:]
    smallest = smallest_eigenvalue(inner)
    plain = is_plain(information, space)
    least = keep * _LEAST_ROTATION * estimate.marginal
    best = _split(information, smallest, np.where(plain, 0.0, MIXING_LADDER[0]), least, estimate, space, keep)
    for beta in MIXING_LADDER[1:]:
        rest = np.flatnonzero(~plain & (best.loss > NEGLIGIBLE_LOSS * max_cost / len(plain)))
        if not len(rest):
            break
        part = estimate.select(rest)
        tried = _split(information[rest], smallest[rest], np.full(len(rest), beta), least[rest], part, space, keep)
        better = tried.loss < 0.9 * best.loss[rest]
        best = best.replace(tried, rest, better)
    rest = np.flatnonzero(np.isinf(best.loss))
    if len(rest):
        share = _fair_share(information[rest], smallest[rest], space)
        tried = _split(information[rest], smallest[rest], share, 0.0 * share, estimate.select(rest), space, keep)
        best = best.replace(tried, rest, np.isfinite(tried.loss))
        fallback = _untangled_split(keep * information[rest], keep * smallest[rest], share, space)
        best = best.replace(fallback, rest, np.isinf(tried.loss))
    return best


def is_plain(information: Array, space: Space) -> Array:
    """Whether the translation's information is a multiple of I and nothing is correlated with it, (m,)."""
    angles = information.shape[-1] - space.dimension
    inner = information[:, angles:, angles:]
    smallest = smallest_eigenvalue(inner)
    spread = np.abs(inner - scaled_identity(smallest, space.dimension)).max(axis=(1, 2))
    return (spread <= NEGLIGIBLE * smallest) & ~information[:, :angles, angles:].any(axis=(1, 2))


def _fair_share(information: Array, smallest: Array, space: Space) -> Array:
    """The share beta that leaves translation and rotation half of what their marginal information holds, (m,).

    Strong correlations leave kappa > 0 to no smaller share; to this one they always do, but for rounding.
    """
    angles = information.shape[-1] - space.dimension
    cross = information[:, :angles, angles:]
    moved = cross.swapaxes(1, 2) @ np.linalg.pinv(information[:, :angles, :angles], hermitian=True) @ cross
    marginal = np.linalg.eigvalsh(information[:, angles:, angles:] - symmetric(moved))[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1 - marginal / (2 * smallest)
    return np.where(cross.any(axis=(1, 2)), np.clip(np.nan_to_num(share), 0.5, 1.0), 0.0)


def _split(
    information: Array,
    smallest: Array,
    beta: Array,
    least: Array,
    estimate: Estimate,
    space: Space,
    keep: float = 1.0,
) -> Split:
    """Steps 1 and 2 of section 2.5 for one share beta a factor; the loss is infinite where it does not apply.

    It applies where kappa > `least`, among other conditions. Of the curvature it keeps a share; the rest of it goes by
    its tangent too (for beta > 0).

    The tangent part is M = [G I]^T X [G I] with a floating-point G near X^-1 L_tr: positive semidefinite whatever
    the rounding of G, and the little that L differs from it is given up by `_Complement.charge`.
    """
    part = _Complement.build(information, smallest * (1 - beta), beta > 0, space)
    stiff = StiffAxis.split(part.rotation, estimate.omega).loosened(keep, estimate.omega)
    kappa = smallest_eigenvalue(stiff.kept, _joint_scale(part, stiff))
    held = smallest * (1 - beta)
    tau = held * keep * (1 - np.where(beta > 0, 2 * _SPARE, 0.0))
    applies = (kappa > least) & (tau > 0)
    y = np.where((beta > 0)[:, None], transform(part.gain, estimate.omega) + estimate.v, 0.0)
    a_translation = transform(part.x, y)
    a_rotation = transform(part.gain.swapaxes(1, 2), a_translation) + stiff.slope + estimate.slope_rotation
    linear = np.sum(y * a_translation, axis=1)
    more = estimate.slope_translation
    if keep < 1:
        given_up = (held * (1 - keep))[:, None] * estimate.v
        more = more + given_up
        linear = linear + np.sum(given_up * estimate.v, axis=1)
    a_translation = a_translation + more
    w0 = -a_rotation / np.where(applies, kappa, 1.0)[:, None]
    u0 = -a_translation / np.where(applies, tau, 1.0)[:, None]
    bend = tau * estimate.curvature * np.sum(u0**2, axis=1)  # must not outweigh the curvature of the rotation part
    applies &= (np.linalg.norm(w0, axis=1) < np.pi) & (bend <= kappa)
    constant = (-linear - kappa * np.sum(w0**2, axis=1) - tau * np.sum(u0**2, axis=1)) / 2 - part.charge(
        y, np.where(applies, tau, 1.0), more
    )
    constant += stiff.constant + estimate.constant
    loss = np.where(applies, _loss(kappa, tau, w0, u0, estimate, space), np.inf)
    zero = ~applies[:, None]
    return Split(tau, stiff.kept, kappa, np.where(zero, 0.0, w0), np.where(zero, 0.0, u0), constant, loss)


def _joint_scale(part: _Complement, stiff: StiffAxis) -> Array | None:
    """Size of the numbers that cancel in L' and in L' - N; None if none do."""
    if stiff.kept is part.rotation:
        return part.scale
    size = np.linalg.norm(part.rotation, axis=(1, 2))
    return size if part.scale is None else size + part.scale


@dataclass(frozen=True)
class _Complement:
    """L_rr without the part that goes with X = L_tt - tau I, and the numbers of the tangent part.

    Attributes:
        rotation: L' = L_rr - G^T X G, (m, k, k).
        x: X, (m, d, d).
        gain: G, (m, d, k).
        scale: size of the numbers that cancel in L', (m,), or None if none do.
    """

    rotation: Array
    x: Array
    gain: Array
    scale: Array | None

    @classmethod
    def build(cls, information: Array, tau: Array, mixed: Array, space: Space) -> _Complement:
        """The complement where `mixed` and tau > 0; elsewhere nothing is moved."""
        angles = information.shape[-1] - space.dimension
        rr, rt, tt = (
            information[:, :angles, :angles],
            information[:, :angles, angles:],
            information[:, angles:, angles:],
        )
        x = tt - scaled_identity(tau, space.dimension)
        gain = np.zeros_like(rt.swapaxes(1, 2))
        at = np.flatnonzero(mixed & (tau > 0) & rt.any(axis=(1, 2)))
        if not len(at):
            return cls(rr, x, gain, None)
        gain[at] = np.linalg.solve(x[at], rt[at].swapaxes(1, 2))
        moved = symmetric(gain.swapaxes(1, 2) @ x @ gain)
        reach = np.abs(gain).swapaxes(1, 2) @ np.abs(x) @ np.abs(gain)
        # the cross terms left over, L_tr - X G, are held by the spare share of tau and by this much of L'
        left = np.linalg.norm(rt.swapaxes(1, 2) - x @ gain, axis=(1, 2))
        left += rounding_error(8, np.linalg.norm(np.abs(x) @ np.abs(gain), axis=(1, 2)))
        held = left**2 / (_SPARE * np.where(tau > 0, tau, 1.0))
        rotation = rr - moved - scaled_identity(held, angles)
        return cls(rotation, x, gain, 2 * np.linalg.norm(reach, axis=(1, 2)))

    def charge(self, y: Array, tau: Array, more: Array) -> Array:
        """What rounding of the tangent's slope X y may cost, (m,): half from the spare share of tau, half as angle.

        `more` slope, (m, d), is added to that of the translation.
        """
        size = np.linalg.norm(transform(np.abs(self.x), np.abs(y)) + np.abs(more), axis=1)
        slope = rounding_error(16, size)
        turning = rounding_error(16, np.linalg.norm(np.abs(self.gain), axis=(1, 2))) * size
        return slope**2 / (2 * _SPARE * tau) + np.pi * turning + slope * np.linalg.norm(y, axis=1)


def _loss(kappa: Array, tau: Array, w0: Array, u0: Array, estimate: Estimate, space: Space) -> Array:
    """What steps 3 and 4 lose at the estimate, up to parts that do not depend on the split (times 2)."""
    angle = np.arccos(np.clip(cosine(adjoint(exp_rotation(w0, space)) @ estimate.relative, space), -1, 1))
    rotation = kappa * (np.sum((estimate.omega - w0) ** 2, axis=1) - angle**2)
    u = space.vectors(u0)
    world, tangent = translation_residuals(estimate, u)
    kept = (
        np.sum(np.abs(world) ** 2, axis=1)
        + np.sum(np.abs(tangent) ** 2, axis=1) / 12
        - estimate.curvature * np.sum(u0**2, axis=1) * (1 - cosine(estimate.relative, space))
    )
    return rotation + tau * (np.sum((estimate.v - u0) ** 2, axis=1) - kept)


def translation_residuals(estimate: Estimate, u0: Array) -> tuple[Array, Array]:
    """W and w of section 2.5, step 4, at the estimate."""
    relative, e = estimate.relative, estimate.e
    world = e - (u0 + transform(relative, u0)) / 2
    tangent = e - transform(adjoint(relative), e) - transform(relative, u0) + transform(adjoint(relative), u0)
    return world, tangent


def _untangled_split(information: Array, smallest: Array, share: Array, space: Space) -> Split:
    """The fallback |v| >= |e| with a block-diagonal part of L below it; the loss is infinite."""
    angles = information.shape[-1] - space.dimension
    coupled = share > 0
    kept = (1 - share) * smallest
    part = _Complement.build(information, kept, coupled, space)
    usable_tau = (kept > 0) | ~coupled
    rotation = np.where(usable_tau[:, None, None], part.rotation, 0.0)
    tau = np.maximum(kept * np.where(coupled, 1 - 2 * _SPARE, 1.0), 0.0)
    smallest_rotation = smallest_eigenvalue(rotation, part.scale)
    usable: Array = smallest_rotation > 0
    rotation = np.where(usable[:, None, None], rotation, 0.0)
    kappa = np.where(usable, smallest_rotation, 0.0)
    tau = np.where(usable | ~coupled, tau, 0.0)
    zeros = np.zeros(len(tau))
    return Split(
        tau, rotation, kappa, np.zeros((len(tau), angles)), np.zeros((len(tau), space.dimension)), zeros,
        np.full(len(tau), np.inf),
    )  # fmt: skip
