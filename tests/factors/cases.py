"""Every supported factor type with every kind of noise it accepts: one line here gives an adapter its property test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gtsam
import numpy as np

Rng = np.random.Generator
GTSAM: Any = gtsam


def random_rotation(d: int, rng: Rng, angle: float = np.pi) -> Any:
    if d == 2:
        return gtsam.Rot2(rng.uniform(-angle, angle))
    axis = rng.normal(size=3)
    return gtsam.Rot3.Expmap(axis / np.linalg.norm(axis) * rng.uniform(0, angle))


def random_pose(d: int, rng: Rng, scale: float = 3.0) -> Any:
    pose_type = gtsam.Pose2 if d == 2 else gtsam.Pose3
    return pose_type(random_rotation(d, rng), rng.normal(size=d) * scale)


def random_bias(rng: Rng) -> Any:
    return gtsam.imuBias.ConstantBias(rng.normal(size=3), rng.normal(size=3) / 10)


def random_value(kind: str, rng: Rng) -> Any:
    """A random value: `Rot2`, `Rot3`, `Unit3`, `Pose2`, `Pose3`, `Double1`, `ConstantBias6`, or `Vector5`."""
    if kind == "Double1":
        return float(rng.normal() * 3)
    if kind == "ConstantBias6":
        return random_bias(rng)
    if kind == "Unit3":
        return gtsam.Unit3(rng.normal(size=3))
    if kind.startswith("Rot"):
        return random_rotation(int(kind[-1]), rng)
    if kind.startswith("Pose"):
        return random_pose(int(kind[-1]), rng)
    return rng.normal(size=int(kind.removeprefix("Vector"))) * 3


def random_direction(d: int, rng: Rng) -> Any:
    return random_rotation(2, rng) if d == 2 else gtsam.Unit3(rng.normal(size=3))


def random_range(rng: Rng) -> float:
    """Mostly ranges as they occur among random values, a few that are far too short."""
    return float(rng.uniform(0, 10) * 10 ** rng.choice([0.0, 0.0, 0.0, -3.0]))


def constant_velocity(keys: list[int], noise: Any, rng: Rng) -> Any:
    """Its power spectral densities are the variances of the noise model."""
    densities = noise.sigmas() ** 2
    start = rng.normal()
    states = [GTSAM.StateData(*keys[:2], start), GTSAM.StateData(*keys[2:], start + 10 ** rng.uniform(-2, 1))]
    return getattr(GTSAM, f"WnoaMotionFactorPoint{len(densities)}")(*states, densities)


def perturbed(value: Any, rng: Rng, size: float) -> Any:
    if isinstance(value, float):
        return value + float(rng.normal()) * size
    if isinstance(value, gtsam.imuBias.ConstantBias):
        moved = value.vector() + rng.normal(size=6) * size
        return gtsam.imuBias.ConstantBias(moved[:3], moved[3:])
    if isinstance(value, np.ndarray):
        return value + rng.normal(size=value.shape) * size
    dimension = value.dim() if hasattr(value, "dim") else {"Rot2": 1, "Rot3": 3}[type(value).__name__]
    return value.retract(rng.normal(size=dimension) * size)


def unit(k: int, rng: Rng) -> Any:
    return gtsam.noiseModel.Unit.Create(k)


def isotropic(k: int, rng: Rng) -> Any:
    return gtsam.noiseModel.Isotropic.Sigma(k, 10 ** rng.uniform(-2, 1))


def diagonal(k: int, rng: Rng) -> Any:
    return gtsam.noiseModel.Diagonal.Sigmas(10 ** rng.uniform(-1.5, 0.5, size=k))


def gaussian(k: int, rng: Rng) -> Any:
    """Full information matrix with all cross terms."""
    root = rng.normal(size=(k, k)) * 10 ** rng.uniform(-1, 1)
    return gtsam.noiseModel.Gaussian.Information(root @ root.T + 0.05 * np.trace(root @ root.T) / k * np.eye(k))


def stiff(k: int, rng: Rng) -> Any:
    """Full information matrix with eigenvalues over six decades."""
    basis, _ = np.linalg.qr(rng.normal(size=(k, k)))
    information = basis * 10 ** rng.uniform(-2, 4, size=k) @ basis.T
    return gtsam.noiseModel.Gaussian.Information((information + information.T) / 2)


ALL = (unit, isotropic, diagonal, gaussian, stiff)
SIGMAS = (unit, isotropic, diagonal)


@dataclass(frozen=True)
class Case:
    """A factor type: kinds of its values, dimension of its noise, and how to make one from keys, noise and rng."""

    name: str
    kinds: tuple[str, ...]
    noise_dimension: int
    make: Callable[[list[int], Any, Rng], Any]
    noises: tuple[Callable[[int, Rng], Any], ...] = ALL
    exact_for: tuple[Callable[[int, Rng], Any], ...] = ()

    def sample(self, noise: Callable[[int, Rng], Any], rng: Rng) -> tuple[Any, dict[int, Any]]:
        """A random factor and random values of its keys."""
        keys = list(range(1, 1 + len(self.kinds)))
        factor = self.make(keys, noise(self.noise_dimension, rng), rng)
        return factor, {key: random_value(kind, rng) for key, kind in zip(keys, self.kinds, strict=True)}


def to_values(values: dict[int, Any]) -> gtsam.Values:
    result = gtsam.Values()
    for key, value in values.items():
        result.insert(key, value)
    return result


def _family(d: int) -> list[Case]:
    g = GTSAM
    rot, pose, vector = f"Rot{d}", f"Pose{d}", f"Vector{d}"
    turn, tangent = d * (d - 1) // 2, d * (d + 1) // 2
    wide = {rot: d * d, pose: (d + 1) ** 2}
    iso = (unit, isotropic)
    cases = [
        Case(f"BetweenFactor{rot}", (rot, rot), turn, lambda k, n, r: getattr(g, f"BetweenFactor{rot}")(*k, random_rotation(d, r), n)),
        Case(f"PriorFactor{rot}", (rot,), turn, lambda k, n, r: getattr(g, f"PriorFactor{rot}")(*k, random_rotation(d, r), n)),
        Case(f"PoseRotationPrior{d}D", (pose,), turn, lambda k, n, r: getattr(g, f"PoseRotationPrior{d}D")(*k, random_rotation(d, r), n)),
        Case(f"BetweenFactor{pose}", (pose, pose), tangent, lambda k, n, r: getattr(g, f"BetweenFactor{pose}")(*k, random_pose(d, r), n)),
        Case(f"PriorFactor{pose}", (pose,), tangent, lambda k, n, r: getattr(g, f"PriorFactor{pose}")(*k, random_pose(d, r), n)),
        Case(f"ExtendedPriorFactor{rot}", (rot,), turn, lambda k, n, r: getattr(g, f"ExtendedPriorFactor{rot}")(*k, random_rotation(d, r), n)),
        Case(f"ExtendedPriorFactor{pose}", (pose,), tangent, lambda k, n, r: getattr(g, f"ExtendedPriorFactor{pose}")(*k, random_pose(d, r), n)),
        Case(f"ExtendedPriorFactorPoint{d}", (vector,), d, lambda k, n, r: getattr(g, f"ExtendedPriorFactorPoint{d}")(*k, r.normal(size=d), r.normal(size=d), n), exact_for=iso),
        Case(f"PoseTranslationPrior{d}D", (pose,), d, lambda k, n, r: getattr(g, f"PoseTranslationPrior{d}D")(*k, r.normal(size=d), n), exact_for=iso),
        Case(f"RelativeTranslationFactor{d}", (rot, vector, vector), d, lambda k, n, r: getattr(g, f"RelativeTranslationFactor{d}")(*k, r.normal(size=d), r.uniform(0.1, 9)), noises=(unit,), exact_for=(unit,)),
        Case(f"KnownLandmarkFactor{pose}", (pose,), d, lambda k, n, r: getattr(g, f"KnownLandmarkFactor{pose}")(*k, r.normal(size=d) * 4, r.normal(size=d), n), exact_for=iso),
        Case(f"KnownLandmarkFactor2{pose}", (pose,), d, lambda k, n, r: getattr(g, f"KnownLandmarkFactor2{pose}")(*k, r.normal(size=d) * 4, r.normal(size=d), n), exact_for=iso),
        Case(f"BetweenFactorPoint{d}", (vector, vector), d, lambda k, n, r: getattr(g, f"BetweenFactorPoint{d}")(*k, r.normal(size=d), n), exact_for=iso),
        Case(f"PriorFactorPoint{d}", (vector,), d, lambda k, n, r: getattr(g, f"PriorFactorPoint{d}")(*k, r.normal(size=d), n), exact_for=iso),
    ]  # fmt: skip
    for name, kinds in ((f"{d}D", (pose, vector)), (pose, (pose, pose))):
        cases += [
            Case(f"BearingRangeFactor{name}", kinds, d, lambda k, n, r, name=name: getattr(g, f"BearingRangeFactor{name}")(*k, random_direction(d, r), random_range(r), n)),
            Case(f"RangeFactor{name}", kinds, 1, lambda k, n, r, name=name: getattr(g, f"RangeFactor{name}")(*k, random_range(r), n)),
            Case(f"RangeFactorWithTransform{name}", kinds, 1, lambda k, n, r, name=name: getattr(g, f"RangeFactorWithTransform{name}")(*k, random_range(r), n, random_pose(d, r, 1.0))),
        ]  # fmt: skip
    cases.append(Case(f"RangeFactor{d}", (vector, vector), 1, lambda k, n, r: getattr(g, f"RangeFactor{d}")(*k, random_range(r), n)))  # fmt: skip
    for kind, make in ((rot, random_rotation), (pose, random_pose)):
        size = wide[kind]
        cases += [
            Case(f"FrobeniusBetweenFactor{kind}", (kind, kind), size, lambda k, n, r, kind=kind, make=make: getattr(g, f"FrobeniusBetweenFactor{kind}")(*k, make(d, r), n), exact_for=iso),
            Case(f"FrobeniusBetweenFactorNL{kind}", (kind, kind), size, lambda k, n, r, kind=kind, make=make: getattr(g, f"FrobeniusBetweenFactorNL{kind}")(*k, make(d, r), n), exact_for=iso),
            Case(f"FrobeniusFactor{kind}", (kind, kind), size, lambda k, n, r, kind=kind: getattr(g, f"FrobeniusFactor{kind}")(*k, n), exact_for=iso),
            Case(f"FrobeniusPrior{kind}", (kind,), size, lambda k, n, r, kind=kind, make=make: getattr(g, f"FrobeniusPrior{kind}")(*k, make(d, r).matrix(), n), exact_for=iso),
        ]  # fmt: skip
        if d == 2:
            cases.append(
                Case(f"FrobeniusLeftBetweenFactor{kind}", (kind, kind), size, lambda k, n, r, kind=kind, make=make: getattr(g, f"FrobeniusLeftBetweenFactor{kind}")(*k, make(d, r), n), exact_for=iso)
            )  # fmt: skip
    return cases


_VECTORS = [
    Case("BetweenFactorVector", ("Vector5", "Vector5"), 5, lambda k, n, r: GTSAM.BetweenFactorVector(*k, r.normal(size=5), n), exact_for=(unit, isotropic)),
    Case("PriorFactorVector", ("Vector4",), 4, lambda k, n, r: GTSAM.PriorFactorVector(*k, r.normal(size=4), n), exact_for=(unit, isotropic)),
    Case("PriorFactorVector6", ("Vector6",), 6, lambda k, n, r: GTSAM.PriorFactorVector6(*k, r.normal(size=6), n), exact_for=(unit, isotropic)),
    Case("PriorFactorPoint1", ("Vector1",), 1, lambda k, n, r: GTSAM.PriorFactorPoint1(*k, r.normal(size=1), n), exact_for=ALL),
    Case("BetweenFactorDouble", ("Double1", "Double1"), 1, lambda k, n, r: GTSAM.BetweenFactorDouble(*k, r.normal(), n), exact_for=ALL),
    Case("PriorFactorDouble", ("Double1",), 1, lambda k, n, r: GTSAM.PriorFactorDouble(*k, r.normal(), n), exact_for=ALL),
    Case("BetweenFactorConstantBias", ("ConstantBias6", "ConstantBias6"), 6, lambda k, n, r: GTSAM.BetweenFactorConstantBias(*k, random_bias(r), n), exact_for=(unit, isotropic)),
    Case("PriorFactorConstantBias", ("ConstantBias6",), 6, lambda k, n, r: GTSAM.PriorFactorConstantBias(*k, random_bias(r), n), exact_for=(unit, isotropic)),
    Case("ExtendedPriorFactorDouble", ("Double1",), 1, lambda k, n, r: GTSAM.ExtendedPriorFactorDouble(*k, r.normal(), r.normal(size=1), n), exact_for=ALL),
    Case("ExtendedPriorFactorConstantBias", ("ConstantBias6",), 6, lambda k, n, r: GTSAM.ExtendedPriorFactorConstantBias(*k, random_bias(r), r.normal(size=6), n), exact_for=(unit, isotropic)),
    Case("ExtendedPriorFactorVector", ("Vector4",), 4, lambda k, n, r: GTSAM.ExtendedPriorFactorVector(*k, r.normal(size=4), n), exact_for=(unit, isotropic)),
    Case("GPSFactorArm", ("Pose3",), 3, lambda k, n, r: GTSAM.GPSFactorArm(*k, r.normal(size=3), r.normal(size=3), n), exact_for=(unit, isotropic)),
    *(
        Case(f"WnoaMotionFactorPoint{k}", (f"Vector{k}",) * 4, k, lambda k, n, r: constant_velocity(k, n, r), noises=(unit, isotropic, diagonal), exact_for=(unit, isotropic, diagonal) if k == 1 else (unit, isotropic))
        for k in (1, 2, 3)
    ),
    Case("VectorNormFactor3", ("Vector3",), 1, lambda k, n, r: GTSAM.VectorNormFactor3(*k, random_range(r), n)),
    Case("QuadraticRangeFactor2", ("Vector2", "Vector2", "Rot2"), 2, lambda k, n, r: GTSAM.QuadraticRangeFactor2(*k, random_range(r), r.uniform(0.1, 9)), noises=(unit,), exact_for=(unit,)),
    Case("QuadraticRangeFactor3", ("Vector3", "Vector3", "Unit3"), 3, lambda k, n, r: GTSAM.QuadraticRangeFactor3(*k, random_range(r), r.uniform(0.1, 9)), noises=(unit,), exact_for=(unit,)),
    Case("GPSFactor", ("Pose3",), 3, lambda k, n, r: GTSAM.GPSFactor(*k, r.normal(size=3), n), exact_for=(unit, isotropic)),
]  # fmt: skip

CASES = [*_family(2), *_family(3), *_VECTORS]
