"""Factors on positions: points and vectors, PoseTranslationPrior*, GPSFactor, RelativeTranslationFactor*,
KnownLandmarkFactor*."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.factors.registry import FactorGroup, FixedValues, Lifting, adapter
from gtsam_sdp.factors.weights import axis_weights
from gtsam_sdp.terms import Exactness, Terms, no_rows, residual_matrix
from gtsam_sdp.tolerances import UNIT_ROUNDOFF
from gtsam_sdp.variables import Array, Layout


def _positions(group: FactorGroup, layout: Layout, name: str) -> Array:
    """Measured vectors as rows, (m, q, rows)."""
    return layout.space.pack(group.gather(lambda f: np.atleast_1d(getattr(f, name)())))


def _difference(group: FactorGroup, lifting: Lifting, measured: Array) -> Terms:
    """1/2 |x_last - x_first - measured|^2 of vectors or of the translations of poses; one key: x - measured."""
    layout = lifting.layout
    weights = axis_weights(group.information, layout.space.dimension)
    rows = weights.matrix.shape[1]
    first = layout.translation[group.numbers]
    signs = [1.0] if first.shape[1] == 1 else [-1.0, 1.0]
    return Terms(
        factor=group.index,
        rotations=no_rows(len(first)),
        translations=(first[:, :, None] + np.arange(rows)).reshape(len(first), -1),
        combination=np.hstack([sign * np.eye(rows) for sign in signs]),
        offset=measured,
        matrix=weights.matrix.astype(layout.space.dtype) / 2,
        constant=np.zeros(len(first)),
        exactness=weights.exactness,
        entrywise=weights.entrywise(np.eye(rows, dtype=layout.space.dtype)),
    )


def _measuring(name: str) -> Callable[[FactorGroup, Lifting], Terms]:
    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        return _difference(group, lifting, _positions(group, lifting.layout, name))

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
        # Both vectors come from sums and differences of errors, and are known to e, the rounding of the largest number:
        # |r + e|_W^2 >= (1 - share) |r|_W^2 - (1 / share - 1) |e|_W^2 for every share
        largest = np.maximum(np.linalg.norm(turned, axis=1), np.linalg.norm(subtracted, axis=1))
        whitened = 8 * UNIT_ROUNDOFF * largest * np.sqrt(np.einsum("kii->k", weights.information))
        share = np.clip(whitened, UNIT_ROUNDOFF, 0.5)
        kept = (1 - share)[:, None, None]
        weights = weights._replace(matrix=kept * weights.matrix, information=kept * weights.information)
        coefficients = np.concatenate([space.vectors(in_body), np.ones((len(turned), 1))], axis=1)
        return Terms(
            factor=group.index,
            rotations=layout.rotation[group.numbers],
            translations=layout.translation[group.numbers],
            combination=np.array([[1.0]]),
            offset=space.vectors(in_world)[:, None, :],
            matrix=residual_matrix(coefficients, weights.matrix[:, 0, 0] / 2),
            constant=-(whitened**2) / share / 2,
            exactness=weights.exactness,
            entrywise=None if inverse else weights.entrywise(coefficients[:, None]),
        )

    return build


for _name in ("Point2", "Point3", "Vector"):
    adapter(f"BetweenFactor{_name}", ["Vector"] * 2, absolute=True)(_measuring("measured"))
for _name in ("Point1", "Point2", "Point3", "Vector", "Vector6"):
    adapter(f"PriorFactor{_name}", ["Vector"], absolute=True, fix=_fix("prior"))(_measuring("prior"))
adapter("GPSFactor", ["Pose3"], absolute=True, fix=_fix("measurementIn"))(_measuring("measurementIn"))
for _d in ("2", "3"):
    adapter(f"PoseTranslationPrior{_d}D", [f"Pose{_d}"], absolute=True, fix=_fix("measured"))(_measuring("measured"))
    adapter(f"RelativeTranslationFactor{_d}", [f"Rot{_d}", "Vector", "Vector"])(_relative_translation)
    adapter(f"KnownLandmarkFactorPose{_d}", [f"Pose{_d}"], absolute=True)(_known_landmark(inverse=True))
    adapter(f"KnownLandmarkFactor2Pose{_d}", [f"Pose{_d}"], absolute=True)(_known_landmark(inverse=False))
