"""ImuFactor and CombinedImuFactor with known biases (docs/maths/, section 2.10).

Their error is the log map on SE_2(3) of the state that the measurements predict and the second state: a rotation and
two vectors, position and velocity, that turn together. With a known bias all measurements are constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import Offender, UnsupportedFactorError
from gtsam_sdp.factors.geometry import adjoint, exp_rotation, log_rotation, log_translation, transform
from gtsam_sdp.factors.pose_form import translation_part
from gtsam_sdp.factors.pose_split import Estimate, Split, choose_split, estimate_of
from gtsam_sdp.factors.registry import FactorGroup, Lifting, adapter, unsupported
from gtsam_sdp.factors.rotation_form import add_anisotropic, isotropic_rotation, put
from gtsam_sdp.factors.weights import axis_weights, give_up
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, rounding_error
from gtsam_sdp.terms.terms import Exactness, Terms

_EXPLAINED = 1e-11
"""How well the log map has to explain a factor's error, relative to the size of the numbers in it."""

_LARGEST_CONDITION = 1e10
"""Condition number of the weights, diagonal scaled to one, up to which a mean of the error is known well enough."""

_WHY_NOT = (
    "its error is not the log map on SE_2(3): it has another ImuFactorErrorMode, or a rotation of the earth; use "
    "ImuFactorErrorMode.Logmap"
)


def _half_turned() -> list[gtsam.NavState]:
    """States at the origin at rest: not turned, and half turns that change the sign of every axis."""
    signs = ([1, 1, 1], [-1, -1, 1], [1, -1, -1])
    return [gtsam.NavState(gtsam.Rot3(np.diag(np.array(s, dtype=float))), np.zeros(3), np.zeros(3)) for s in signs]


def _predicted(measurements: Any, bias: gtsam.imuBias.ConstantBias) -> Array:
    """dR column by column, dP, dV in the first body's frame, g dt^2/2 and g dt in the world's, dt, (22,)."""
    states = [measurements.predict(state, bias) for state in _half_turned()]
    moved = np.array([np.concatenate([s.position(), s.velocity()]).reshape(2, 3) for s in states])
    body = (moved[0] - moved[1]) / 2
    body[:, 2] = (moved[0] - moved[2])[:, 2] / 2
    world = moved[0] - body
    rotation = states[0].attitude().matrix().T.ravel()
    return np.concatenate([rotation, body.ravel(), world.ravel(), [measurements.deltaTij()]])


def _biases(group: FactorGroup, lifting: Lifting, slot: int) -> Array:
    """Prescribed biases, (m, 6)."""
    assert lifting.held is not None
    rows = lifting.layout.translation[group.numbers[:, slot]][:, None] + np.arange(2)
    return lifting.held[rows].reshape(len(rows), 6)


def _bias_of(numbers: Array) -> gtsam.imuBias.ConstantBias:
    return gtsam.imuBias.ConstantBias(numbers[:3], numbers[3:])


class _Measured:
    """What m factors measure, with known biases.

    Attributes:
        rotation: dR, (m, 3, 3).
        body: dP and dV, (m, 2, 3).
        world: g dt^2/2 and g dt, (m, 2, 3).
        seconds: dt, (m,).
        drift: bias_i - bias_j of combined factors, (m, 6) or (m, 0).
    """

    def __init__(self, group: FactorGroup, lifting: Lifting) -> None:
        first = _biases(group, lifting, 4)
        self.drift = np.zeros((len(first), 0))
        if group.keys.shape[1] == 6:
            self.drift = first - _biases(group, lifting, 5)
        biases = iter(first)
        table = group.gather(lambda f: _predicted(f.preintegratedMeasurements(), _bias_of(next(biases))))
        self.rotation = group.rotations(table[:, :9].reshape(-1, 3, 3).swapaxes(1, 2), lifting.layout.space)
        self.body, self.world = table[:, 9:15].reshape(-1, 2, 3), table[:, 15:21].reshape(-1, 2, 3)
        self.seconds = table[:, 21]
        self._check(group, lifting, first)

    def _check(self, group: FactorGroup, lifting: Lifting, biases: Array) -> None:
        """Compares the log map with each factor's error at seeded random states."""
        space, rng, count = lifting.layout.space, np.random.default_rng(7), len(biases)
        turns = exp_rotation(rng.normal(size=(2, 3)), space)
        speed = rng.normal(size=3)
        start = gtsam.Pose3(gtsam.Rot3(turns[0]), rng.normal(size=3))
        p = start.translation() + self.seconds[:, None] * speed + self.world[:, 0] + self.body[:, 0] @ turns[0].T
        v = speed + self.world[:, 1] + self.body[:, 1] @ turns[0].T
        ends = turns[0] @ self.rotation @ exp_rotation(np.full((count, 3), 0.4), space)
        away = rng.normal(size=(2, 3))
        places = iter(zip(ends, p + away[0], v + away[1], biases, self.drift, strict=True))

        def error(factor: Any) -> Array:
            end, position, velocity, bias, drift = next(places)
            more = [_bias_of(bias - drift)] if len(drift) else []
            pose = gtsam.Pose3(gtsam.Rot3(end), position)
            return factor.evaluateError(start, speed, pose, velocity, _bias_of(bias), *more)

        found = group.gather(error)
        omega = log_rotation(adjoint(ends) @ turns[0] @ self.rotation, space)
        back = [log_translation(omega, transform(adjoint(ends), np.tile(-x, (count, 1))), space) for x in away]
        expected = np.concatenate([omega, *back, self.drift], axis=1)
        size = 1 + np.abs(p).max(axis=1) + np.abs(v).max(axis=1)
        bad = np.flatnonzero(~(np.abs(found - expected).max(axis=1) <= _EXPLAINED * size))
        if len(bad):
            raise UnsupportedFactorError(
                [Offender(int(group.index[k]), group.type_name, tuple(group.keys[k].tolist()), _WHY_NOT) for k in bad]
            )


def _mixing(information: Array) -> Array:
    """C with C^T C kron I about as large as the weights of the two vectors, (m, 2, 2), lower triangular."""
    common = axis_weights(information[:, 3:9, 3:9], 3).matrix
    diagonal = np.einsum("kaa->ka", information[:, 3:9, 3:9]).reshape(-1, 2, 3).mean(axis=2)
    diagonal = np.where(diagonal > 0, diagonal, 1.0)
    usable = np.linalg.eigvalsh(common / np.sqrt(diagonal[:, :, None] * diagonal[:, None, :]))[:, 0] > 1e-6
    common = np.where(usable[:, None, None], common, diagonal[:, :, None] * np.eye(2))
    return np.linalg.cholesky(common).swapaxes(1, 2)


def _mixed(information: Array, mixing: Array) -> Array:
    """Weights of (omega, C v), less what rounding may have added."""
    inverse = np.linalg.inv(mixing)
    spread = np.zeros((len(mixing), 9, 9))
    spread[:, :3, :3] = np.eye(3)
    spread[:, 3:, 3:] = np.einsum("kab,ij->kaibj", inverse, np.eye(3)).reshape(-1, 6, 6)
    mixed = spread.swapaxes(1, 2) @ information @ spread
    sizes = np.einsum("kij,ki->kj", np.abs(spread), np.sqrt(np.einsum("kii->ki", information)))
    # v = C^-1 (C v) to rounding of the inverse, which its condition enlarges
    condition = np.linalg.norm(inverse, axis=(1, 2)) * np.linalg.norm(mixing, axis=(1, 2))
    given_up = rounding_error(1024 * (1 + condition[:, None]), sizes**2)
    return (mixed + mixed.swapaxes(1, 2)) / 2 - given_up[:, :, None] * np.eye(9)


def _with_drift(estimate: Estimate, information: Array, whole: Array, mixing: Array, drift: Array) -> Estimate:
    """With the part of the cost that known changes of bias c add: - r^T L_rc c + 1/2 c^T L_cc c.

    Args:
        estimate: without it.
        information: of (omega, v~), (m, 9, 9).
        whole: of the whole error, (m, 15, 15).
        mixing: C, v~ = C v.
        drift: c, (m, 6).
    """
    plain = transform(whole[:, :9, 9:], -drift)
    inverse = np.linalg.inv(mixing).swapaxes(1, 2)
    moving = np.einsum("kab,kbi->kai", inverse, plain[:, 3:].reshape(-1, 2, 3)).reshape(-1, 6)
    slope = np.concatenate([plain[:, :3], moving], axis=1)
    size = np.linalg.norm(transform(np.abs(whole[:, 9:, 9:]), np.abs(drift)), axis=1) * np.linalg.norm(drift, axis=1)
    size += np.pi * np.linalg.norm(transform(np.abs(whole[:, :3, 9:]), np.abs(drift)), axis=1)
    constant = np.einsum("ki,kij,kj->k", drift, whole[:, 9:, 9:], drift) / 2 - rounding_error(64, size)
    # the cost is that of r - s and a number that is not negative: angles are limited around s
    usable = np.linalg.cond(information) < _LARGEST_CONDITION
    shift = np.linalg.norm(transform(np.linalg.pinv(information, hermitian=True), slope)[:, :3], axis=1)
    theta = np.where(usable | ~drift.any(axis=1), np.minimum(np.pi, estimate.theta + shift * (1 + 1e-4)), np.pi)
    return replace(
        estimate, theta=theta, slope_rotation=slope[:, :3], slope_translation=slope[:, 3:], constant=constant
    )  # fmt: skip


def _without_slope(split: Split, estimate: Estimate) -> tuple[Split, Array]:
    """Nothing in place of splits that do not heed the slope of the drift, and where that is, (m,)."""
    slope = np.concatenate([estimate.slope_rotation, estimate.slope_translation], axis=1)
    nothing = ~np.isfinite(split.loss) & slope.any(axis=1)
    kept = (~nothing).astype(float)
    return replace(
        split, tau=kept * split.tau, rotation=kept[:, None, None] * split.rotation, kappa=kept * split.kappa
    ), nothing


def _form(
    split: Split, estimate: Estimate, measured: _Measured, offsets: Array, lifting: Lifting
) -> tuple[Array, Array]:
    """Matrices on the rows (R_i, R_j, p~_1, p~_2), (m, 8, 8), and constants, of twice the terms."""
    space, count = lifting.layout.space, len(split.tau)
    turned = exp_rotation(split.w0, space)
    form = isotropic_rotation(split.kappa, measured.rotation @ turned, adjoint(turned) @ estimate.relative, space)
    coefficient, constant = form.coefficient, form.constant + 2 * split.constant
    add_anisotropic(coefficient, constant, split.rotation, split.kappa, measured.rotation, estimate.relative)
    matrix = np.zeros((count, 8, 8))
    put(matrix, slice(0, 3), slice(3, 6), coefficient)
    for k in range(2):
        own = slice(3 * k, 3 * k + 3)
        part, rows = replace(estimate, e=estimate.e[:, own]), np.array([*range(6), 6 + k])
        single = replace(split, u0=split.u0[:, own])
        block, more = translation_part(single, part, measured.rotation, offsets[:, k], space)
        matrix[:, rows[:, None], rows] += block
        constant = constant + more
    return matrix, constant


def _inertial(group: FactorGroup, lifting: Lifting) -> Terms:
    layout, space, count = lifting.layout, lifting.layout.space, len(group.index)
    measured = _Measured(group, lifting)
    pose_i, velocity_i, pose_j, velocity_j = (group.numbers[:, slot] for slot in range(4))
    t_i, v_i, t_j, v_j = (lifting.translations(n) for n in (pose_i, velocity_i, pose_j, velocity_j))
    whole = group.information
    information, mixing = whole[:, :9, :9], _mixing(whole)
    moved = np.stack(
        [t_j - t_i - measured.seconds[:, None] * v_i - measured.world[:, 0], v_j - v_i - measured.world[:, 1]], axis=1
    )
    frame = adjoint(lifting.rotations(pose_i))
    relative = adjoint(measured.rotation) @ frame @ lifting.rotations(pose_j)
    e = (moved @ frame.swapaxes(1, 2) - measured.body) @ measured.rotation  # rows
    if lifting.at_measurements:
        relative, e = np.broadcast_to(np.eye(3), relative.shape), np.zeros_like(e)
    mixed = _mixed(information, mixing)
    max_cost = np.broadcast_to(lifting.max_cost, count)
    estimate = estimate_of(mixed, relative, (mixing @ e).reshape(count, 6), max_cost, space)
    if measured.drift.any():
        estimate = _with_drift(estimate, mixed, whole, mixing, measured.drift)
    split, nothing = _without_slope(choose_split(mixed, estimate, max_cost, space), estimate)
    matrix, constant = _form(split, estimate, measured, mixing @ measured.body, lifting)
    # p~ = C (d - dt v_i, w) on the rows (R_i, R_j, d, v_i, w)
    rows = np.zeros((count, 8, 9))
    rows[:, :6, :6] = np.eye(6)
    rows[:, 6:, 6], rows[:, 6:, 8] = mixing[:, :, 0], mixing[:, :, 1]
    rows[:, 6:, 7] = -measured.seconds[:, None] * mixing[:, :, 0]
    sized = Bounded.of(matrix / 2).sandwich(rows)
    # measurements are known to the rounding of the numbers that they are differences of
    sizes = np.abs(measured.body) + np.abs(measured.world)
    weights = np.sqrt(np.einsum("kii->ki", whole[:, :9, :9]))
    known = np.concatenate([np.full((count, 3), np.pi), sizes.reshape(count, 6)], axis=1)
    kept, given_up = give_up(rounding_error(16, np.sum(weights * known, axis=1)))
    offset = np.zeros((count, 3, 3))
    offset[:, 0], offset[:, 2] = measured.world[:, 0], measured.world[:, 1]
    exact = np.isfinite(split.loss) & ~nothing
    return Terms(
        factor=group.index,
        rotations=np.stack([layout.rotation[pose_i], layout.rotation[pose_j]], axis=1),
        translations=np.stack([layout.translation[n] for n in (pose_i, velocity_i, pose_j, velocity_j)], axis=1),
        combination=np.array([[-1.0, 0, 1, 0], [0, 1, 0, 0], [0, -1, 0, 1]]),
        offset=offset,
        matrix=kept * sized.value,
        constant=np.where(nothing, 0.0, kept[:, 0, 0] * constant / 2) + given_up,
        exactness=np.where(exact, int(Exactness.TANGENT), int(Exactness.LOWER_BOUND)),
        magnitude=4 * sized.magnitude,
    )


Build = Callable[[FactorGroup, Lifting], Terms]
_STATES = ["Pose3", "Vector", "Pose3", "Vector"]
_NAV_STATE = "values of type NavState are not supported; use ImuFactor, on poses and velocities"
_GRAVITY = "a gravity that is estimated, or its direction, is not supported yet; use ImuFactor with a known one"

adapter("ImuFactor", [*_STATES, "ConstantBias"], absolute=True, vector_length=3, known=(4,))(_inertial)
adapter("CombinedImuFactor", [*_STATES, *["ConstantBias"] * 2], absolute=True, vector_length=3, known=(4, 5))(_inertial)
for _kind in ("Direction", "Vector"):
    for _name in ("ImuFactor", "CombinedImuFactor", "ImuFactor2"):
        unsupported(f"{_name}WithGravity{_kind}", _GRAVITY)
for _name in ("ImuFactor2", "GalileanImuFactor2"):
    unsupported(_name, _NAV_STATE)
