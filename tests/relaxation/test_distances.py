"""Terms of distances touch where the relaxation is best: valid at any point, and a bound for graphs held by ranges."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import InvalidGraphError, certify, relax, solve
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from tests import problems
from tests.factors.cases import CASES, Case, random_value, to_values
from tests.relaxation.test_rounding import Given
from tests.test_landmarks import best_of

GTSAM: Any = gtsam
Noise = gtsam.noiseModel
RANGES = [case for case in CASES if case.name.startswith(("RangeFactor", "VectorNorm"))]
BEACON = 1000
ANCHORS = np.array([[0.0, 0.0, 0.0], [10.0, 1.0, 3.0], [9.0, 11.0, 0.0], [-1.0, 10.0, 2.0], [4.0, 5.0, 9.0]])


def smooth_trajectory(d: int, count: int, sigma: float, seed: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Positions (keys i) and velocities (keys 10000 + i) with ranges to d + 2 known anchors, and the truth."""
    rng = np.random.default_rng(seed)
    anchors = ANCHORS[: d + 2, :d]
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k, place in enumerate(anchors):
        graph.add(getattr(GTSAM, f"PriorFactorPoint{d}")(90000 + k, place, Noise.Constrained.All(d)))
        values.insert(90000 + k, place)
    for i in range(count):
        place = np.array([5 + 3 * np.cos(0.1 * i), 5 + 3 * np.sin(0.1 * i), 2.0])[:d]
        values.insert(i, place)
        values.insert(10000 + i, np.array([-3 * np.sin(0.1 * i), 3 * np.cos(0.1 * i), 0.0])[:d])
        for k, anchor in enumerate(anchors):
            distance = float(np.linalg.norm(place - anchor) + sigma * rng.normal())
            factor = getattr(GTSAM, f"RangeFactor{d}")
            graph.add(factor(i, 90000 + k, distance, Noise.Isotropic.Sigma(1, sigma)))
    for i in range(count - 1):
        states = [GTSAM.StateData(k, 10000 + k, 0.1 * k) for k in (i, i + 1)]
        graph.add(getattr(GTSAM, f"WnoaMotionFactorPoint{d}")(*states, np.full(d, 3.0)))
    return graph, values


def beacons(
    d: int, count: int, landmarks: int, sigma: float, seed: int
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A ring of poses with odometry and ranges to beacons that are not known, and the truth."""
    rng = np.random.default_rng(seed)
    poses = problems.ring_poses(d, count, radius=6.0)
    graph, values = problems.pose_graph(poses, problems.ring_edges(count), 0.02, 0.05, rng)
    for j in range(landmarks):
        place = rng.uniform(-10, 10, size=d)
        values.insert(BEACON + j, place)
        for i, pose in enumerate(poses):
            distance = abs(pose.range(place) + sigma * rng.normal())
            graph.add(getattr(GTSAM, f"RangeFactor{d}D")(i, BEACON + j, distance, Noise.Isotropic.Sigma(1, sigma)))
    return graph, values


@pytest.mark.parametrize("case", RANGES, ids=lambda case: case.name)
def test_tangents_anywhere_are_below_the_cost(case: Case) -> None:
    """Whatever point the tangent is taken at, it is not above the cost; and it is equal at that distance."""
    rng = np.random.default_rng(0)
    for noise in case.noises:
        for _ in range(10):
            factor, values = case.sample(noise, rng)
            graph = gtsam.NonlinearFactorGraph()
            graph.add(factor)
            reading = read(graph, to_values(values), "raise")
            terms = build_terms(reading)[0]
            world = reading.layout.world
            for _ in range(10):
                moved = terms.touching(np.array([10.0 ** rng.uniform(-4, 4)]))
                other = to_values({key: random_value(kind, rng) for key, kind in zip(values, case.kinds, strict=True)})
                lifted = reading.layout.lift(other)
                cost, size = factor.error(other), float(moved.size(lifted, world)[0])
                assert moved.value(lifted, world)[0] <= cost + 1e-13 * size
                touching = terms.touching_at(lifted, world)
                slack = 1e-13 * float(touching.size(lifted, world)[0])
                assert touching.value(lifted, world)[0] == pytest.approx(cost, rel=1e-9, abs=slack)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_smooth_trajectories_have_a_bound(d: int, sigma: float) -> None:
    """Tangents at the estimate give none; a gap of a few per cent is that of the relaxation."""
    graph, truth = smooth_trajectory(d, 15, sigma, seed=1)
    result = problems.optimize(graph, truth)
    best = best_of(graph, truth, np.random.default_rng(0), 20)
    bounds = {lift: relax(graph, result, lift=lift).solve().bound.value for lift in ("gram", "vector")}
    for bound in bounds.values():
        assert 0.95 * best <= bound <= best * (1 + 1e-9)
    assert bounds["gram"] == pytest.approx(bounds["vector"], rel=1e-3)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_beacons_have_a_bound(d: int, seed: int) -> None:
    graph, truth = beacons(d, 10, 3, 10 ** np.random.default_rng(seed).uniform(-1.5, 0.0), seed)
    result = problems.optimize(graph, truth)
    best = best_of(graph, truth, np.random.default_rng(seed), 20)
    bound = relax(graph, result).solve().bound.value
    assert 0.8 * best <= bound <= best * (1 + 1e-9)
    assert certify(graph, result, method="sdp").lower_bound == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("lift", ["gram", "vector"])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.1, 10.0])
def test_no_multiplier_is_trusted(lift: Any, size: float) -> None:
    """Wrong points of tangency, steep and flat ones included, give a poor bound and not a wrong one."""
    graph, truth = smooth_trajectory(2, 6, 0.3, seed=0)
    best = best_of(graph, truth, np.random.default_rng(0), 20)
    relaxation = relax(graph, problems.optimize(graph, truth), lift=lift)
    rng = np.random.default_rng(1)

    def disturbed(problem: Any, y: np.ndarray) -> np.ndarray:
        y = y.copy()
        for own in problem.slopes:
            y[own.columns] += size * rng.normal(size=own.columns.shape)
        return y

    for _ in range(5):
        assert relaxation.solve(Given(disturbed)).bound.value <= best * (1 + 1e-9)


@pytest.mark.parametrize("lift", ["gram", "vector"])
@pytest.mark.parametrize("far", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("excess", [0.75, 0.01, -0.25])
def test_a_position_between_two_anchors(lift: Any, far: float, excess: float) -> None:
    """Ranges that do not meet: the minimum is w / 4 times the square of what is missing, a rational number."""
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    distances = [far * 0.75 - excess, far * 1.25]
    for key, side in ((1, -1.0), (2, 1.0)):
        place = np.array([side * far, 0.0])
        graph.add(gtsam.PriorFactorPoint2(key, place, Noise.Constrained.All(2)))
        graph.add(GTSAM.RangeFactor2(0, key, distances[key - 1], Noise.Isotropic.Sigma(1, 0.25)))
        values.insert(key, place)
    values.insert(0, np.array([-0.25 * far - excess / 2, 0.0 if excess > 0 else 0.3 * far]))
    missing = max(2 * Fraction(far) - Fraction(distances[0]) - Fraction(distances[1]), Fraction(0))
    minimum = missing**2 * 4
    bound = relax(graph, values, lift=lift).solve().bound.value
    assert Fraction(float(bound)) <= minimum
    assert bound >= float(minimum) * (1 - 1e-4) - 1e-6 * far**2


@pytest.mark.parametrize("d", [2, 3])
def test_ranges_without_noise(d: int) -> None:
    """At the truth every tangent is flat; still the graph is one, and its cost of zero is certified."""
    rng = np.random.default_rng(0)
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k, place in enumerate(ANCHORS[:, :d]):
        graph.add(getattr(GTSAM, f"PriorFactorPoint{d}")(k, place, Noise.Constrained.All(d)))
        values.insert(k, place)
    target = rng.normal(size=d) + 4
    for k, place in enumerate(ANCHORS[:, :d]):
        distance = float(np.linalg.norm(target - place))
        graph.add(getattr(GTSAM, f"RangeFactor{d}")(10, k, distance, Noise.Isotropic.Sigma(1, 0.1)))
    values.insert(10, target)
    assert certify(graph, values)
    away = gtsam.Values(values)
    away.update(10, target + 1)
    assert graph.error(solve(graph, away).values) < 1e-9


def test_a_position_that_nothing_holds() -> None:
    """Where a range has no weight it holds nothing: the error names the key."""
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    graph.add(gtsam.PriorFactorPoint2(0, np.zeros(2), Noise.Isotropic.Sigma(2, 0.1)))
    values.insert(0, np.zeros(2))
    values.insert(1, np.ones(2))
    graph.add(GTSAM.RangeFactor2(0, 1, 1.0, Noise.Isotropic.Precision(1, 0.0)))
    with pytest.raises(InvalidGraphError, match="No factor constrains the position of 1"):
        relax(graph, values).solve()
