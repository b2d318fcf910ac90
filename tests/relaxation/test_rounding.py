"""The rounding of bounds, against exact arithmetic: problems whose minimum is a rational number."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import relax
from gtsam_sdp.backends.base import Backend, BackendResult
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.relaxation.vector import VectorLift


class Given(Backend):
    """Clarabel, with other multipliers in place of its own."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def solve(self, problem: Any, *, tolerance: float, time_limit: float | None, verbose: bool) -> BackendResult:
        result = ClarabelBackend().solve(problem, tolerance=tolerance, time_limit=time_limit, verbose=verbose)
        return replace(result, y=self.change(problem, result.y))


def plain_sum(number: float, count: int) -> float:
    total = 0.0
    for _ in range(count):
        total += number
    return total


def test_many_parallel_factors() -> None:
    """Sums of thousands of equal weights are off by more than one roundoff; log-map terms have no diagonal to count."""
    count = 3000
    losses = {w: 1 - plain_sum(w, count) / math.fsum([w] * count) for w in np.linspace(0.3, 0.6, 40)}
    weight = max(losses, key=lambda w: losses[w])
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    total = plain_sum(weight, count)
    graph.add(gtsam.BetweenFactorRot3(1, 2, gtsam.Rot3(), gtsam.noiseModel.Isotropic.Precision(3, total)))
    for _ in range(count):
        graph.add(gtsam.BetweenFactorRot3(2, 3, gtsam.Rot3(), gtsam.noiseModel.Isotropic.Precision(3, weight)))
    for key in (1, 2, 3):
        values.insert(key, gtsam.Rot3())

    def optimal(problem: Any, y: np.ndarray) -> np.ndarray:
        y = y.copy()
        own = problem.columns[1]
        y[own] = 0
        for place, degree in enumerate((2 * total, total)):
            y[own[place, [0, 3, 5]]] = -degree / 4 * problem.scale
        return y

    relaxation = relax(graph, values, lift="vector", tighten=False)
    solution = relaxation.solve(Given(optimal))
    assert solution.bound.value <= graph.error(values) == 0.0
    assert isinstance(relaxation.lift, VectorLift)
    slack = relaxation.lift._slack(0.0, [])
    assert slack.summands.max() >= count


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("far", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("lift_name", ["gram", "vector"])
def test_landmarks_far_away(d: int, far: float, lift_name: Any) -> None:
    """Positions of landmarks are read from errors: the rounding of their distance is part of the bound."""
    rng = np.random.default_rng(0)
    sigmas = np.array([0.5, 1.0, 2.0])[:d]
    noise = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
    factor: Any = gtsam.KnownLandmarkFactor2Pose2 if d == 2 else gtsam.KnownLandmarkFactor2Pose3
    turn: Any = gtsam.PoseRotationPrior2D if d == 2 else gtsam.PoseRotationPrior3D
    rotation: Any = gtsam.Rot2() if d == 2 else gtsam.Rot3()
    held: Any = gtsam.PriorFactorRot2 if d == 2 else gtsam.PriorFactorRot3
    for _ in range(5):
        seen = rng.normal(size=(2, d)) * 1e-3
        base = rng.normal(size=d) * far
        places = [base, base + rng.normal(size=d) * 0.1]
        graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
        for m, place in zip(seen, places, strict=True):
            graph.add(factor(1, m, place, noise))
        graph.add(turn(1, rotation, gtsam.noiseModel.Constrained.All(d * (d - 1) // 2)))
        graph.add(held(9, rotation, gtsam.noiseModel.Isotropic.Precision(d * (d - 1) // 2, 1e-3)))
        middle = (places[0] + places[1] - seen[0] - seen[1]) / 2
        values.insert(1, gtsam.Pose2(rotation, middle) if d == 2 else gtsam.Pose3(rotation, middle))
        values.insert(9, rotation)

        def exact(x: float) -> Fraction:
            return Fraction(float(x))

        minimum = sum(
            (exact(places[0][a]) - exact(places[1][a]) - exact(seen[0][a]) + exact(seen[1][a])) ** 2
            / exact(sigmas[a]) ** 2
            / 4
            for a in range(d)
        )
        bound = relax(graph, values, lift=lift_name).solve().bound.value
        assert Fraction(float(bound)) <= minimum
        if lift_name == "vector":
            assert bound >= float(minimum) * (1 - 1e-6)


@pytest.mark.parametrize("small", [1e-4, 1e-7, 1e-9])
def test_small_entries_of_matrices(small: float) -> None:
    """A matrix is read as I minus an error: a small diagonal entry is known to the rounding of 1 only."""

    def turned(c: float) -> np.ndarray:
        return np.array([[c, -1.0, 0.0], [1.0, c, 0.0], [0.0, 0.0, 1.0]])

    sigmas = np.ones(9)
    sigmas[0] = 1e-6
    for x in small * np.random.default_rng(0).uniform(1, 2, size=5):
        graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
        for sign in (1, -1):
            graph.add(gtsam.FrobeniusPriorRot3(1, turned(sign * x), gtsam.noiseModel.Diagonal.Sigmas(sigmas)))
        values.insert(1, gtsam.Rot3(turned(0.0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = relax(graph, values, lift="vector").solve(Given(lambda problem, y: 0 * y))
        assert solution.bound.value <= graph.error(values)


def test_a_position_that_is_almost_free_to_shift() -> None:
    """Coefficients 1, 1e-17, -1 do not add up to zero, though their rounded sum does."""
    from gtsam_sdp.lift.structure import _exact_row_sums

    rows = np.array([[1.0, 1e-17, -1.0], [1.0, -0.5, -0.5]])
    assert (_exact_row_sums(rows) != 0).tolist() == [True, False]


def exact_cost(factor: Any, error: list[Fraction]) -> Fraction:
    """1/2 |R error|^2 with the numbers that the noise model holds."""
    rows = [[Fraction(float(x)) for x in row] for row in factor.noiseModel().R()]
    whitened = [sum((a * b for a, b in zip(row, error, strict=True)), Fraction(0)) for row in rows]
    return sum((w * w for w in whitened), Fraction(0)) / 2


@pytest.mark.parametrize("lift_name", ["gram", "vector"])
@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("densities", [[1.0, 1.0, 1.0], [1.0, 0.3, 1e-3]])
def test_constant_velocity_of_known_states(lift_name: Any, far: float, densities: list[float]) -> None:
    """All states are known: the bound is for a number that exact arithmetic tells."""
    rng = np.random.default_rng(0)
    for seconds in (0.5, 0.1, 8.0):
        x, v, x2, v2 = (rng.normal(size=3) for _ in range(4))
        x, x2 = x + far, x2 + far
        states = [gtsam.StateData(1, 2, 0.0), gtsam.StateData(3, 4, seconds)]
        graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
        factor = gtsam.WnoaMotionFactorPoint3(states[0], states[1], np.array(densities))
        graph.add(factor)
        for key, value in ((1, x), (2, v), (3, x2), (4, v2)):
            graph.add(gtsam.PriorFactorPoint3(key, value, gtsam.noiseModel.Constrained.All(3)))
            values.insert(key, value)
        e = [[Fraction(float(number)) for number in vector] for vector in (x, v, x2, v2)]
        moved = [c - a - Fraction(seconds) * b for a, b, c in zip(e[0], e[1], e[2], strict=True)]
        turned = [b - a for a, b in zip(e[1], e[3], strict=True)]
        exact = exact_cost(factor, moved + turned)
        bound = relax(graph, values, lift=lift_name).solve().bound.value
        assert Fraction(float(bound)) <= exact
        assert bound >= float(exact) * (1 - 1e-9) - 1e-9 * far


@pytest.mark.parametrize("lift_name", ["gram", "vector"])
@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
def test_lever_arms_of_known_poses(lift_name: Any, far: float) -> None:
    rng = np.random.default_rng(0)
    for sigmas in ([0.5, 0.5, 0.5], [0.5, 1.0, 16.0]):
        place, arm = far + rng.normal(size=3), rng.normal(size=3)
        measured = place + arm + rng.normal(size=3)
        factor = gtsam.GPSFactorArm(1, measured, arm, gtsam.noiseModel.Diagonal.Sigmas(np.array(sigmas)))
        graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
        graph.add(factor)
        pose = gtsam.Pose3(gtsam.Rot3(), place)
        graph.add(gtsam.PriorFactorPose3(1, pose, gtsam.noiseModel.Constrained.All(6)))
        values.insert(1, pose)
        error = [
            Fraction(float(p)) + Fraction(float(a)) - Fraction(float(m))
            for p, a, m in zip(place, arm, measured, strict=True)
        ]
        exact = exact_cost(factor, error)
        bound = relax(graph, values, lift=lift_name).solve().bound.value
        assert Fraction(float(bound)) <= exact
        assert bound >= float(exact) * (1 - 1e-9) - 1e-8 * far
