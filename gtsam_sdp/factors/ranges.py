"""Distances: RangeFactor*, RangeFactorWithTransform*, VectorNormFactor3, QuadraticRangeFactor2/3.

With d the distance of two positions, d^2 is linear in the lifted matrix, and (d - r)^2 = d^2 - 2 r d + r^2 is a convex
function of it if r >= 0, hence above its tangents (docs/maths/, section 2.6).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, format_factor
from gtsam_sdp.factors.geometry import transform
from gtsam_sdp.factors.registry import FactorGroup, Lifting, adapter, unsupported
from gtsam_sdp.factors.serialised import floating_numbers
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.terms.distances import NEAREST, DistanceTerms
from gtsam_sdp.terms.terms import Exactness, Terms, no_rows, residual_matrix
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.kinds import KINDS

_ARM_TOLERANCE = 1e-9
"""How well a sensor's position, read from the serialised factor, has to explain the factor's error."""


def _range(factor: Any) -> float:
    return factor.measured()


def _norm(factor: Any) -> float:
    return factor.norm()


def _distance_terms(
    group: FactorGroup, lifting: Lifting, measured: Array, square: Array, distance: Array
) -> Callable[..., Terms]:
    """1/2 w (|p| - r)^2 by tangents; takes the rows that p is made of.

    They touch at the estimate; at 2 r where its distance is useless, or where they must not depend on it.

    Args:
        group: the factors.
        lifting: where they touch.
        measured: r, (m,).
        square: matrix of |p|^2, (m or 1, r, r).
        distance: |p| at the estimate, (m,).
    """
    weight, rest = group.information[:, 0, 0] / 2, np.zeros(len(measured))
    bent = np.ones(len(measured), dtype=bool)
    if np.any(lifting.share != 1):
        # s w / 2 (|p| - r)^2 and (1 - s) of its tangent are s w / 2 (|p| - r')^2 and a constant
        share = np.where(lifting.share > 0, lifting.share, 1.0)
        error = np.zeros(len(measured)) if lifting.at_measurements else distance - measured
        rest = -weight * error**2 * (1 - share) / share
        measured, weight = measured - (1 - share) / share * error, share * weight
        bent = (lifting.share > 0) & ((measured > 0) | (error == 0))
    useful = (distance > NEAREST * measured) & (distance > 0)
    point = np.where(measured > 0, np.where(useful & (not lifting.at_measurements), distance, 2 * measured), 1.0)
    exactness = np.where((measured > 0) & (useful | lifting.at_measurements), Exactness.TANGENT, Exactness.LOWER_BOUND)
    exactness = np.where(measured == 0, Exactness.EXACT, exactness)
    exactness = np.where(bent, exactness, Exactness.LOWER_BOUND)
    terms = DistanceTerms(weight[:, None, None] * square, weight, measured, point, rest)
    return partial(
        Terms,
        factor=group.index,
        offset=None,
        matrix=terms.matrix,
        constant=terms.constant,
        exactness=exactness.astype(int),
        distances=terms,
    )


def _between(group: FactorGroup, lifting: Lifting) -> Terms:
    """1/2 w (|p_2 - p_1| - r)^2 for positions of poses and points."""
    layout = lifting.layout
    measured = group.gather(_range)
    moved = lifting.translations(group.numbers[:, 1]) - lifting.translations(group.numbers[:, 0])
    square = np.ones((1, 1, 1), dtype=layout.space.dtype)
    terms = _distance_terms(group, lifting, measured, square, np.linalg.norm(moved, axis=1))
    return terms(
        rotations=no_rows(len(measured)),
        translations=layout.translation[group.numbers],
        combination=np.array([[-1.0, 1.0]]),
    )


def _length(group: FactorGroup, lifting: Lifting) -> Terms:
    """1/2 w (|v| - r)^2."""
    layout = lifting.layout
    measured = group.gather(_norm)
    rows = len(range(0, 3, layout.space.dimension))
    translations = layout.translation[group.numbers] + np.arange(rows)
    lengths = np.linalg.norm(lifting.estimate[translations].reshape(len(measured), -1), axis=1)
    square = np.eye(rows, dtype=layout.space.dtype)[None]
    terms = _distance_terms(group, lifting, measured, square, lengths)
    return terms(
        rotations=no_rows(len(measured)),
        translations=translations,
        combination=np.eye(rows),
    )


def _from_sensor(dimension: int, target: Kind) -> Callable[[FactorGroup, Lifting], Terms]:
    """1/2 w (|p_2 - t_1 - R_1 s| - r)^2 with s the sensor's position in the body frame."""

    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        layout = lifting.layout
        measured = group.gather(_range)
        arms = group.gather(lambda f: _sensor_position(f, dimension))
        _check_arms(group, arms, measured, target)
        arms = layout.space.vectors(arms)
        moved = lifting.translations(group.numbers[:, 1]) - lifting.translations(group.numbers[:, 0])
        moved = moved - transform(lifting.rotations(group.numbers[:, 0]), arms)
        coefficients = np.concatenate([-arms, np.ones((len(arms), 1))], axis=1)
        square = residual_matrix(coefficients)
        terms = _distance_terms(group, lifting, measured, square, np.linalg.norm(moved, axis=1))
        return terms(
            rotations=layout.rotation[group.numbers[:, :1]],
            translations=layout.translation[group.numbers],
            combination=np.array([[-1.0, 1.0]]),
        )

    return build


def _sensor_position(factor: Any, dimension: int) -> Array:
    """Position of body_T_sensor, the last number of the serialised factor: [t, cos, sin] or [R, t]."""
    numbers = floating_numbers(factor)
    return numbers[-4:-2] if dimension == 2 else numbers[-3:]


def _check_arms(group: FactorGroup, arms: Array, measured: Array, target: Kind) -> None:
    """Raises InvalidGraphError where a factor's error is not |p - s| - r."""
    dimension = arms.shape[1]
    point = np.arange(1.0, dimension + 1)
    pose = gtsam.Pose2() if dimension == 2 else gtsam.Pose3()
    end = target.placed(point)
    placed: dict[tuple[int, ...], gtsam.Values] = {}
    for k, factor in enumerate(group.factors):
        keys = tuple(factor.keys())
        values = placed.get(keys)
        if values is None:
            values = placed[keys] = gtsam.Values()
            values.insert(keys[0], pose)
            values.insert(keys[1], end)
        expected = np.linalg.norm(point - arms[k]) - measured[k]
        found = factor.unwhitenedError(values)[0]
        if not abs(found - expected) <= _ARM_TOLERANCE * (1 + abs(measured[k]) + np.abs(arms[k]).max()):
            what = (
                f"The sensor's place in {format_factor(int(group.index[k]), group.type_name, keys)} could not be read: "
                "its error is not the distance from there. Drop the factor ("
            )
            raise InvalidGraphError(Advice(what, Remedy.DROP, ")."))


def _quadratic(group: FactorGroup, lifting: Lifting) -> Terms:
    """1/2 w |t_2 - t_1 - r u|^2 with u a Unit3 or the direction of a Rot2; the noise model does not hold the weight."""
    layout = lifting.layout
    directions = group.numbers[:, 2:]
    turning = layout.rotation[directions]
    is_rotation = bool((turning >= 0).all())
    table = group.gather(lambda f: [f.range(), f.weight()])
    coefficients = np.stack([-table[:, 0], np.ones(len(table))], axis=1).astype(layout.space.dtype)
    return Terms(
        factor=group.index,
        rotations=turning if is_rotation else no_rows(len(table)),
        translations=layout.translation[group.numbers[:, :2]],
        combination=np.array([[-1.0, 1.0]]),
        offset=None,
        matrix=residual_matrix(coefficients, table[:, 1] / 2),
        constant=np.zeros(len(table)),
        exactness=np.full(len(table), int(Exactness.EXACT)),
        singles=None if is_rotation else layout.direction[directions],
    )


for _d in (2, 3):
    adapter(f"RangeFactor{_d}", ["Vector", "Vector"], vector_length=_d, robust=True)(_between)
    for _end, _target in ((f"{_d}D", "Vector"), (f"Pose{_d}", f"Pose{_d}")):
        adapter(f"RangeFactor{_end}", [f"Pose{_d}", _target], vector_length=_d, robust=True)(_between)
        adapter(f"RangeFactorWithTransform{_end}", [f"Pose{_d}", _target], vector_length=_d, robust=True)(
            _from_sensor(_d, KINDS[_target])
        )
    unsupported(
        f"RangeFactorWithTransformBias{_d}D",
        "a bias that is added to a distance is multiplied by it in the cost, which is then no function of squares",
    )
adapter("VectorNormFactor3", ["Vector"], vector_length=3, robust=True)(_length)
adapter("QuadraticRangeFactor2", ["Vector", "Vector", "Rot2"], vector_length=2)(_quadratic)
adapter("QuadraticRangeFactor3", ["Vector", "Vector", "Unit3"], vector_length=3)(_quadratic)
for _name in ("CalibratedCamera", "CalibratedCameraPoint", "SimpleCamera", "SimpleCameraPoint"):
    unsupported(f"RangeFactor{_name}", "values of cameras are not supported; range from the pose instead")
