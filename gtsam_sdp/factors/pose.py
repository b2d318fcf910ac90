"""Log-map factors on poses: BetweenFactorPose*, PriorFactorPose*, with any Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gtsam_sdp.factors.geometry import adjoint, transform
from gtsam_sdp.factors.pose_form import pose_form
from gtsam_sdp.factors.registry import FactorGroup, FixedValues, Lifting, adapter, world_numbers
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.layout import Layout
from gtsam_sdp.values.space import Space

_ROTATION_FIRST = {2: np.array([2, 0, 1]), 3: np.arange(6)}
"""GTSAM's tangent order is (x, y, theta) for Pose2 and (rotation, translation) for Pose3."""


def _measured(group: FactorGroup, space: Space, name: str) -> tuple[Array, Array]:
    """Measured rotations (m, rows, rows) and translations (m, rows)."""
    matrices = group.gather(lambda f: getattr(f, name)().matrix())
    d = space.dimension
    return group.rotations(matrices[:, :d, :d], space), space.vectors(matrices[:, :d, d])


def _rotation_first(information: Array, space: Space) -> Array:
    order = _ROTATION_FIRST[space.dimension]
    return information[:, order[:, None], order]


def _errors(lifting: Lifting, measured: Array, rotation: Array, moved: Array) -> tuple[Array, Array]:
    """E and e of relative poses where the terms touch the cost: at the estimate, or at zero error."""
    if lifting.at_measurements:
        identity = np.eye(measured.shape[1], dtype=measured.dtype)
        return np.broadcast_to(identity, measured.shape), np.zeros_like(moved)
    return adjoint(measured) @ rotation, transform(adjoint(measured), moved)


def _between(group: FactorGroup, lifting: Lifting) -> Terms:
    layout, space = lifting.layout, lifting.layout.space
    first, second = group.numbers[:, 0], group.numbers[:, 1]
    measured, offset = _measured(group, space, "measured")
    frame = adjoint(lifting.rotations(first))
    moved = transform(frame, lifting.translations(second) - lifting.translations(first)) - offset
    terms = _terms(
        group, lifting, measured, offset, _errors(lifting, measured, frame @ lifting.rotations(second), moved)
    )
    return terms(
        rotations=np.stack([layout.rotation[first], layout.rotation[second]], axis=1),
        translations=np.stack([layout.translation[first], layout.translation[second]], axis=1),
        combination=np.array([[-1.0, 1.0]]),
        offset=None,
    )


def _prior(group: FactorGroup, lifting: Lifting) -> Terms:
    """A between factor from the world frame, whose point row is already relative to the measured position."""
    layout, space = lifting.layout, lifting.layout.space
    second = group.numbers[:, 0]
    measured, position = _measured(group, space, "prior")
    errors = _errors(lifting, measured, lifting.rotations(second), lifting.translations(second) - position)
    world = layout.rotation_rows(world_numbers(len(second)))
    return _terms(group, lifting, measured, np.zeros_like(position), errors)(
        rotations=np.stack([world, layout.rotation[second]], axis=1),
        translations=layout.translation[second][:, None],
        combination=np.array([[1.0]]),
        offset=position[:, None, :],
    )


def _terms(
    group: FactorGroup, lifting: Lifting, measured: Array, offset: Array, errors: tuple[Array, Array]
) -> Callable[..., Terms]:
    """Terms of relative poses with errors (E, e); takes the rows that they are on."""
    space = lifting.layout.space
    form = pose_form(
        _rotation_first(group.information, space), measured, offset, *errors, lifting.max_cost, space, lifting.gaps,
        lifting.share, None if group.kept is None else _rotation_first(group.kept, space), touching=lifting.touching,
    )  # fmt: skip
    return partial(
        Terms,
        factor=group.index,
        matrix=form.matrix,
        constant=form.constant,
        exactness=form.exactness,
        magnitude=form.magnitude,
    )


def _fix(group: FactorGroup, layout: Layout, estimate: Array) -> FixedValues:
    rotations, positions = _measured(group, layout.space, "prior")
    return FixedValues(rotations, positions[:, None, :])


for _d in ("2", "3"):
    adapter(f"BetweenFactorPose{_d}", [f"Pose{_d}"] * 2, robust=True, bends=True)(_between)
    adapter(f"PriorFactorPose{_d}", [f"Pose{_d}"], absolute=True, fix=_fix, robust=True, bends=True)(_prior)
