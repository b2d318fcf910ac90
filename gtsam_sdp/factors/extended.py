"""ExtendedPriorFactor*: priors with an origin and, in its tangent space, a mean."""

from __future__ import annotations

import numpy as np

from gtsam_sdp.errors import Offender, UnsupportedFactorError
from gtsam_sdp.factors.pose import pose_prior
from gtsam_sdp.factors.registry import BuildTerms, FactorGroup, Lifting, adapter
from gtsam_sdp.factors.rotation import rotation_prior
from gtsam_sdp.factors.translation import as_vector, difference
from gtsam_sdp.terms.terms import Terms

_WITH_MEAN = "its mean is not zero; give it an origin where the mean is, and none"


def _of_vectors(group: FactorGroup, lifting: Lifting) -> Terms:
    """1/2 |x - origin - mean|^2."""
    origins = group.gather(lambda f: as_vector(f.origin()))
    means = group.gather(lambda f: np.zeros(origins.shape[1]) if f.mean() is None else f.mean())
    return difference(group, lifting, lifting.layout.space.pack(origins + means))


def _without_mean(build: BuildTerms) -> BuildTerms:
    """A prior at the origin; on rotations and poses that is what the factor is if its mean is zero."""

    def checked(group: FactorGroup, lifting: Lifting) -> Terms:
        bad = [k for k, factor in enumerate(group.factors) if factor.mean() is not None and np.any(factor.mean())]
        if bad:
            raise UnsupportedFactorError(
                [Offender(int(group.index[k]), group.type_name, tuple(group.keys[k].tolist()), _WITH_MEAN) for k in bad]
            )
        return build(group, lifting)

    return checked


for _name, _kind in (
    ("Point2", "Vector"),
    ("Point3", "Vector"),
    ("Vector", "Vector"),
    ("Double", "Double"),
    ("ConstantBias", "ConstantBias"),
):
    adapter(f"ExtendedPriorFactor{_name}", [_kind], absolute=True)(_of_vectors)
for _d in ("2", "3"):
    adapter(f"ExtendedPriorFactorRot{_d}", [f"Rot{_d}"], absolute=True)(_without_mean(rotation_prior("origin")))
    adapter(f"ExtendedPriorFactorPose{_d}", [f"Pose{_d}"], absolute=True)(_without_mean(pose_prior("origin")))
