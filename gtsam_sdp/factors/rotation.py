"""Log-map factors on rotations: BetweenFactorRot*, PriorFactorRot*, PoseRotationPrior*."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gtsam_sdp.factors.geometry import adjoint
from gtsam_sdp.factors.registry import COSTLESS, FactorGroup, FixedValues, Lifting, adapter, world_numbers
from gtsam_sdp.factors.rotation_form import rotation_form
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Terms, no_rows
from gtsam_sdp.values.layout import Layout
from gtsam_sdp.values.space import Space


def rotation_terms(group: FactorGroup, lifting: Lifting, first: Array, second: Array, measured: Array) -> Terms:
    """Terms of 1/2 |Log(measured^T R_first^T R_second)|^2 in the group's information."""
    space = lifting.layout.space
    if lifting.at_measurements:
        relative = np.broadcast_to(np.eye(space.rows, dtype=space.dtype), measured.shape)
    else:
        relative = adjoint(measured) @ adjoint(lifting.rotations(first)) @ lifting.rotations(second)
    form = rotation_form(group.information, measured, relative, space)
    return Terms(
        factor=group.index,
        rotations=np.stack([lifting.layout.rotation_rows(n) for n in (first, second)], axis=1),
        translations=no_rows(len(first)),
        combination=np.zeros((0, 0)),
        offset=None,
        matrix=form.matrix,
        constant=form.constant,
        exactness=form.exactness,
    )


def _measured(group: FactorGroup, space: Space, name: str) -> Array:
    return group.rotations(group.gather(lambda f: getattr(f, name)().matrix()), space)


def _between(group: FactorGroup, lifting: Lifting) -> Terms:
    measured = _measured(group, lifting.layout.space, "measured")
    return rotation_terms(group, lifting, group.numbers[:, 0], group.numbers[:, 1], measured)


def rotation_prior(name: str) -> Callable[[FactorGroup, Lifting], Terms]:
    """A between factor from the world frame, its measurement read by its name."""

    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        measured = _measured(group, lifting.layout.space, name)
        return rotation_terms(group, lifting, world_numbers(len(group.index)), group.numbers[:, 0], measured)

    return build


def _fix(name: str):
    def fix(group: FactorGroup, layout: Layout, estimate: Array) -> FixedValues:
        return FixedValues(_measured(group, layout.space, name), None)

    return fix


for _d in ("2", "3"):
    adapter(f"BetweenFactorRot{_d}", [f"Rot{_d}"] * 2)(_between)
    adapter(f"PriorFactorRot{_d}", [f"Rot{_d}"], absolute=True, fix=_fix("prior"))(rotation_prior("prior"))
    adapter(f"PoseRotationPrior{_d}D", [f"Pose{_d}"], absolute=True, fix=_fix("measured"))(rotation_prior("measured"))

for _group in ("Rot2", "Rot3", "Pose2", "Pose3", "SO3", "SO4", "SL4", "Gal3", "Similarity2", "Similarity3"):
    COSTLESS.add(f"KarcherMeanFactor{_group}")
