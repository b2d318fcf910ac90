"""Every factor type of the wheel, and what this package makes of it: the table of docs/factor-types.md.

python -m tests.factor_types    # writes the table
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import gtsam

from gtsam_sdp.factors.families import ADAPTERS, COSTLESS, UNSUPPORTED

PAGE = Path(__file__).parent.parent / "docs" / "factor-types.md"

_BASES = {"NonlinearFactor", "NoiseModelFactor"}
_CAMERA = "a projection divides by the depth: no bound; use points measured with their covariance"
_ESSENTIAL = "an essential or fundamental matrix is a product of unknowns that the lift does not hold"
_GROUP = "values of this type are not supported"
_STATE = "values of type NavState, Gal3 or ExtendedPose3 are not supported; use poses and velocities"
_CALIBRATION = "values of cameras and calibrations are not supported"
_PLANE = "values of planes are not supported"
_CLOCK = "not planned yet: a range with a clock offset, a number that is added to a distance"
_BASIS = "not planned yet: values are matrices of coefficients"

_REASONS = (
    (
        r"^(Extended)?Prior.*(Cal3|Camera|Stereo)|^NonlinearEquality2?(Cal|Pinhole|Spher|Stereo)|^ConcentratedGaussianStereo",
        _CALIBRATION,
    ),
    (r"Cal3|PinholeCamera|SphericalCamera|PlanarProjection|SelfCalibration", _CAMERA),
    (r"GenericStereoFactor3D", _CAMERA),
    (r"Essential|Fundamental", _ESSENTIAL),
    (r"NavState|Gal3|Galilean|ExtendedPose3d|Se23|ConstantVelocityFactor", _STATE),
    (r"SO3|SO4|SOn|SL4|Similarity|ShonanFactor", _GROUP),
    (r"OrientedPlane", _PLANE),
    (r"PriorFactorUnit3", "not planned yet: use a factor on the rotation or position that the direction belongs to"),
    (r"Pseudorange|CarrierPhase|Doppler", _CLOCK),
    (r"Chebyshev|Fourier", _BASIS),
    (r"WnoaInterpFactorPoint", "planned: a factor on an interpolated vector is linear in the states around it"),
    (r"WnoaInterpFactorPose", "planned, after motion priors of poses"),
    (r"AHRSFactor", "planned: with a known bias it is a factor between two rotations"),
    (r"BarometricFactor", "planned: a height less a number"),
    (r"ConcentratedGaussian", "planned: a prior with a mean in the tangent space, as an ExtendedPriorFactor"),
    (r"ReferenceFrameFactor", "a landmark turned by an unknown frame is a product that the lift does not hold"),
    (
        r"CustomFactor|Mag|Wahba|RotateFactor|RotateDirections|AttitudeFactor(Rot|Pose)3",
        "read by evaluating it, if its error is linear in rotations and positions (2.7)",
    ),
    (r"LinearContainerFactor|QpCost", "a quadratic of the tangent space at a linearisation point, not of the values"),
)


def factor_types() -> list[str]:
    """Names of the factor types in `dir(gtsam)`."""
    named = ((name, getattr(gtsam, name)) for name in dir(gtsam))
    return [n for n, t in named if isinstance(t, type) and issubclass(t, gtsam.NonlinearFactor) and n not in _BASES]


def answer(name: str) -> tuple[str, str]:
    """What there is for a type: "term", "read", "planned" or "none", and why; empty strings if nobody has said."""
    if name in ADAPTERS:
        slots = ADAPTERS[name].known
        return "term", "with known biases (held by `NonlinearEqualityConstantBias`)" if slots else ""
    if name in COSTLESS:
        return "term", "costs nothing at any values"
    reason = UNSUPPORTED.get(name) or next((why for pattern, why in _REASONS if re.search(pattern, name)), "")
    kind = reason.split(":")[0].split(",")[0]
    return {"": "", "planned": "planned", "read by evaluating it": "read"}.get(kind, "none"), reason


def page() -> str:
    """The table as Markdown: types with the same answer share a row."""
    rows, count = defaultdict(list), defaultdict(int)
    for name in factor_types():
        rows[answer(name)].append(f"`{name}`")
        count[answer(name)[0]] += 1
    order = ("term", "read", "planned", "none")
    lines = [
        f"| {kind} | {why} | {', '.join(names)} |"
        for (kind, why), names in sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0][1]))
    ]
    totals = ", ".join(f"{count[kind]} {kind}" for kind in order)
    return (
        "# Every factor type of the wheel\n\nWritten by `python -m tests.factor_types` from `dir(gtsam)` and the "
        f"package's own registry ({len(factor_types())} types: {totals}). *term*: there is one, how good it is says "
        "[Supported factors](factors.md). *read*: no adapter, but read where the error turns out to be linear, under "
        "an assumption. *planned*, *none*: refused, with the reason in the second column.\n\n"
        "| answer | why | types |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
