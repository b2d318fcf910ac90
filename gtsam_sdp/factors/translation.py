"""Factors on positions: points, vectors, numbers, biases, PoseTranslationPrior*, GPSFactor, KnownLandmarkFactor*."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, format_factor
from gtsam_sdp.factors.axes import vector_terms
from gtsam_sdp.factors.registry import FactorGroup, FixedValues, Lifting, adapter, unsupported
from gtsam_sdp.factors.serialised import floating_numbers
from gtsam_sdp.factors.weights import axis_weights, give_up
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import rounding_error
from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.terms.terms import Exactness, Terms, no_rows, residual_matrix
from gtsam_sdp.values.layout import Layout


def as_vector(value: Any) -> Array:
    """Numbers of a vector, a number or a bias."""
    return value.vector() if isinstance(value, gtsam.imuBias.ConstantBias) else np.atleast_1d(value)


def _positions(group: FactorGroup, layout: Layout, name: str) -> Array:
    """Measured vectors, numbers or biases as rows, (m, q, rows)."""
    return layout.space.pack(group.gather(lambda f: as_vector(getattr(f, name)())))


def difference(group: FactorGroup, lifting: Lifting, measured: Array) -> Terms:
    """1/2 |x_last - x_first - measured|^2 of vectors or of the translations of poses; one key: x - measured."""
    layout = lifting.layout
    weights = axis_weights(group.information, layout.space.dimension)
    rows = weights.matrix.shape[1]
    first = layout.translation[group.numbers]
    signs = [1.0] if first.shape[1] == 1 else [-1.0, 1.0]
    blank = Terms(
        factor=group.index,
        rotations=no_rows(len(first)),
        translations=(first[:, :, None] + np.arange(rows)).reshape(len(first), -1),
        combination=np.hstack([sign * np.eye(rows) for sign in signs]),
        offset=measured,
        matrix=np.zeros(0),
        constant=np.zeros(len(first)),
        exactness=weights.exactness,
    )
    return vector_terms(blank, np.eye(rows), weights, lifting)


def _measuring(name: str) -> Callable[[FactorGroup, Lifting], Terms]:
    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        return difference(group, lifting, _positions(group, lifting.layout, name))

    return build


def _fix(name: str):
    def fix(group: FactorGroup, layout: Layout, estimate: Array) -> FixedValues:
        return FixedValues(None, _positions(group, layout, name))

    return fix


def _relative_translation(group: FactorGroup, lifting: Lifting) -> Terms:
    """weight / 2 |t_2 - t_1 - R m|^2; the weight is not in the factor's noise model."""
    layout = lifting.layout
    measured = layout.space.vectors(group.gather(lambda f: f.measured()))
    weight = group.gather(lambda f: f.weight())
    coefficients = np.concatenate([-measured, np.ones((len(measured), 1))], axis=1)
    return Terms(
        factor=group.index,
        rotations=layout.rotation[group.numbers[:, :1]],
        translations=layout.translation[group.numbers[:, 1:]],
        combination=np.array([[-1.0, 1.0]]),
        offset=None,
        matrix=residual_matrix(coefficients, weight / 2),
        constant=np.zeros(len(measured)),
        exactness=np.full(len(measured), int(Exactness.EXACT)),
    )


def _half_turns(dimension: int) -> list[Any]:
    """The identity and half turns that change the sign of every axis, as GTSAM poses at the origin."""
    if dimension == 2:
        return [gtsam.Pose2(), gtsam.Pose2(gtsam.Rot2.fromCosSin(-1.0, 0.0), np.zeros(2))]
    diagonals = ([1, 1, 1], [-1, -1, 1], [1, -1, -1])
    return [gtsam.Pose3(gtsam.Rot3(np.diag(np.array(s, dtype=float))), np.zeros(3)) for s in diagonals]


def _known_landmark(inverse: bool) -> Callable[[FactorGroup, Lifting], Terms]:
    """1/2 |t + R m - l|^2. The factor's error is T^-1 l - m (inverse) or T m - l, noise in either frame."""

    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        layout, space = lifting.layout, lifting.layout.space
        errors = [group.gather(lambda f, p=pose: f.evaluateError(p)) for pose in _half_turns(space.dimension)]
        turned = (errors[0] - errors[1]) / 2
        if space.dimension == 3:
            turned[:, 2] = (errors[0] - errors[2])[:, 2] / 2
        subtracted = turned - errors[0]
        in_body, in_world = (subtracted, turned) if inverse else (turned, subtracted)
        weights = axis_weights(group.information, space.dimension)
        # both vectors come from sums and differences of errors, and are known to the rounding of the largest number
        largest = np.maximum(np.linalg.norm(turned, axis=1), np.linalg.norm(subtracted, axis=1))
        kept, given_up = give_up(rounding_error(8, largest) * np.sqrt(np.einsum("kii->k", weights.information)))
        weights = weights._replace(matrix=kept * weights.matrix, information=kept * weights.information)
        coefficients = np.concatenate([space.vectors(in_body), np.ones((len(turned), 1))], axis=1)
        blank = Terms(
            factor=group.index,
            rotations=layout.rotation[group.numbers],
            translations=layout.translation[group.numbers],
            combination=np.array([[1.0]]),
            offset=space.vectors(in_world)[:, None, :],
            matrix=np.zeros(0),
            constant=given_up,
            exactness=weights.exactness,
        )
        return vector_terms(blank, coefficients[:, None], weights, lifting, frame=0 if inverse else None)

    return build


_ARM_TOLERANCE = 1e-9
"""How well an antenna's position, read from the serialised factor, has to explain the factor's error."""


def _gps_arm(group: FactorGroup, lifting: Lifting) -> Terms:
    """1/2 |t + R s - z|^2 with s the antenna's position in the body frame."""
    layout = lifting.layout
    measured = group.gather(lambda f: f.measurementIn())
    arms = group.gather(lambda f: floating_numbers(f)[-3:])
    errors = group.gather(lambda f: f.evaluateError(gtsam.Pose3()))
    scale = 1 + np.abs(measured).max(axis=1) + np.abs(arms).max(axis=1)
    bad = np.flatnonzero(np.abs(arms - measured - errors).max(axis=1) > _ARM_TOLERANCE * scale)
    if len(bad):
        k = bad[0]
        what = (
            f"The lever arm of {format_factor(int(group.index[k]), group.type_name, group.keys[k])} could not be read: "
            "it does not explain the factor's error. Drop the factor ("
        )
        raise InvalidGraphError(Advice(what, Remedy.DROP, ")."))
    weights = axis_weights(group.information, 3)
    blank = Terms(
        factor=group.index,
        rotations=layout.rotation[group.numbers],
        translations=layout.translation[group.numbers],
        combination=np.array([[1.0]]),
        offset=measured[:, None, :],
        matrix=np.zeros(0),
        constant=np.zeros(len(arms)),
        exactness=weights.exactness,
    )
    coefficients = np.concatenate([arms, np.ones((len(arms), 1))], axis=1)[:, None]
    return vector_terms(blank, coefficients, weights, lifting)


def _constant_velocity(length: int) -> Callable[[FactorGroup, Lifting], Terms]:
    """1/2 |x_2 - x_1 - v_1 dt, v_2 - v_1|^2 for positions x and velocities v, vectors of `length` numbers."""

    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        layout = lifting.layout
        d, count = layout.space.dimension, len(group.index)
        rows = -(-length // d)
        zero, one = np.zeros(length), np.ones(length)
        seconds = -group.gather(lambda f: f.evaluateError(zero, one, zero, zero)[0])
        # each of the two residuals is padded to whole rows, with the weights of its first number
        taken = np.where(np.arange(rows * d) < length, np.arange(rows * d), 0)
        split = group.information.reshape(count, 2, length, 2, length)
        padded = split[:, :, taken][..., taken]
        apart = np.arange(rows * d) >= length
        padded[:, :, apart] = padded[..., apart] = 0.0
        for place in np.flatnonzero(apart):
            padded[:, :, place, :, place] = split[:, :, 0, :, 0]
        weights = axis_weights(padded.reshape(count, 2 * rows * d, -1), d)
        identity = np.eye(rows)
        # points x_2 - x_1, v_1, v_2 - v_1: differences of positions are small wherever the map is
        combination = np.kron(np.array([[-1.0, 0, 1, 0], [0, 1, 0, 0], [0, -1, 0, 1]]), identity)
        coefficients = np.zeros((count, 2 * rows, 3 * rows))
        coefficients[:, :rows, :rows] = coefficients[:, rows:, 2 * rows :] = identity
        coefficients[:, :rows, rows : 2 * rows] = -seconds[:, None, None] * identity
        first = layout.translation[group.numbers]
        blank = Terms(
            factor=group.index,
            rotations=no_rows(count),
            translations=(first[:, :, None] + np.arange(rows)).reshape(count, -1),
            combination=combination,
            offset=None,
            matrix=np.zeros(0),
            constant=np.zeros(count),
            exactness=weights.exactness,
        )
        return vector_terms(blank, coefficients, weights, lifting)

    return build


_NAV_STATE = "values of type NavState are not supported; use poses, and GPSFactor or GPSFactorArm"
_MOTION_OF_POSES = "it measures log maps of poses and body velocities, products that the lift does not hold"

for _name in ("Point2", "Point3", "Vector"):
    adapter(f"BetweenFactor{_name}", ["Vector"] * 2, absolute=True)(_measuring("measured"))
for _name in ("Point1", "Point2", "Point3", "Vector", "Vector6"):
    adapter(f"PriorFactor{_name}", ["Vector"], absolute=True, fix=_fix("prior"))(_measuring("prior"))
for _name in ("Double", "ConstantBias"):
    adapter(f"BetweenFactor{_name}", [_name] * 2, absolute=True)(_measuring("measured"))
    adapter(f"PriorFactor{_name}", [_name], absolute=True, fix=_fix("prior"))(_measuring("prior"))
adapter("GPSFactor", ["Pose3"], absolute=True, fix=_fix("measurementIn"))(_measuring("measurementIn"))
adapter("GPSFactorArm", ["Pose3"], absolute=True)(_gps_arm)
unsupported("GPSFactorArmCalib", "a lever arm that is estimated is multiplied by the rotation, which is not linear")
for _name in ("GPSFactor2", "GPSFactor2Arm", "GPSFactor2ArmCalib"):
    unsupported(_name, _NAV_STATE)
for _length in (1, 2, 3):
    adapter(f"WnoaMotionFactorPoint{_length}", ["Vector"] * 4, absolute=True, vector_length=_length)(
        _constant_velocity(_length)
    )
for _d in ("2", "3"):
    unsupported(f"WnoaMotionFactorPose{_d}", _MOTION_OF_POSES)
for _d in ("2", "3"):
    adapter(f"PoseTranslationPrior{_d}D", [f"Pose{_d}"], absolute=True, fix=_fix("measured"))(_measuring("measured"))
    adapter(f"RelativeTranslationFactor{_d}", [f"Rot{_d}", "Vector", "Vector"])(_relative_translation)
    adapter(f"KnownLandmarkFactorPose{_d}", [f"Pose{_d}"], absolute=True)(_known_landmark(inverse=True))
    adapter(f"KnownLandmarkFactor2Pose{_d}", [f"Pose{_d}"], absolute=True)(_known_landmark(inverse=False))
