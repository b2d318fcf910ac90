"""Graphs of poses, landmarks, ranges and motion priors: certified where noise is small, never above what is found."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import certify, relax
from tests import problems

GTSAM: Any = gtsam
LANDMARK = 1000


def landmark_slam(
    d: int, count: int, landmarks: int, sigma_range: float, sigma_bearing: float, seed: int, seen: int = 4
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A ring of poses with odometry, each of which sees its nearest landmarks; and the truth."""
    rng = np.random.default_rng(seed)
    poses = problems.ring_poses(d, count, radius=8.0)
    steps = [(i, i + 1) for i in range(count - 1)]
    graph, values = problems.pose_graph(poses, steps, 0.02, 0.05, rng)
    places = [np.append(rng.uniform(-12, 12, size=2), rng.normal())[:d] for _ in range(landmarks)]
    used: set[int] = set()
    for i, pose in enumerate(poses):
        for j in np.argsort([pose.range(place) for place in places])[:seen].tolist():
            q = pose.transformTo(places[j])
            graph.add(problems.sighting(i, LANDMARK + j, q, sigma_range, sigma_bearing, rng))
            used.add(j)
    for j in used:
        values.insert(LANDMARK + j, places[j])
    return graph, values


def scattered(values: gtsam.Values, rng: np.random.Generator, size: float) -> gtsam.Values:
    delta, zeros = gtsam.VectorValues(), values.zeroVectors()
    for key in values.keys():
        delta.insert(key, size * rng.normal(size=zeros.at(key).shape))
    return values.retract(delta)


def best_of(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, rng: np.random.Generator, starts: int) -> float:
    found = [graph.error(problems.optimize(graph, values))]
    for _ in range(starts):
        start = scattered(values, rng, 10 ** rng.uniform(-1, 0.7))
        with suppress(RuntimeError):
            found.append(graph.error(problems.optimize(graph, start)))
    return min(cost for cost in found if np.isfinite(cost))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(("ranging", "bearing"), [(0.01, 0.001), (0.1, 0.01), (0.1, 0.05), (0.3, 0.05)])
def test_landmark_slam_is_certified(d: int, ranging: float, bearing: float) -> None:
    for seed in range(2):
        graph, truth = landmark_slam(d, 20, 10, ranging, bearing, seed)
        certificate = certify(graph, problems.optimize(graph, truth, 1e-13))
        assert certificate
        assert certificate.relative_gap < 1e-6


@pytest.mark.parametrize("d", [2, 3])
def test_bounds_of_landmark_graphs_are_below_every_minimum(d: int) -> None:
    """Noise from little to far too much: bounds, from certify and from the relaxation, are below all that is found."""
    rng = np.random.default_rng(d)
    for seed in range(10):
        ranging, bearing = 10 ** rng.uniform([-1.5, -2.0], [0.3, 0.0])
        graph, truth = landmark_slam(d, 5, 3, ranging, bearing, seed, seen=3)
        start = scattered(truth, rng, 0.5) if seed % 2 else truth
        result = problems.optimize(graph, start)
        best = best_of(graph, truth, rng, 15)
        assert certify(graph, result).lower_bound <= best * (1 + 1e-9) + 1e-9
        bound = relax(graph, result).solve().bound.value
        assert min(bound, graph.error(result)) <= best * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("d", [2, 3])
def test_bounds_of_range_graphs_are_below_every_minimum(d: int) -> None:
    """Odometry with ranges to beacons, sensors with a lever arm: a gap is allowed, a bound above a minimum is not."""
    rng = np.random.default_rng(d)
    for seed in range(8):
        poses = problems.ring_poses(d, 6, radius=4.0)
        graph, values = problems.pose_graph(poses, problems.ring_edges(6), 0.1, 0.1, np.random.default_rng(seed))
        sensor = gtsam.Pose2(0.3, 0.1, 0.2) if d == 2 else gtsam.Pose3(gtsam.Rot3(), np.array([0.3, 0.1, -0.2]))
        noise = gtsam.noiseModel.Isotropic.Sigma(1, 0.2)
        for j in range(2):
            place = rng.uniform(-6, 6, size=d)
            values.insert(LANDMARK + j, place)
            for i, pose in enumerate(poses):
                distance = abs(pose.compose(sensor).range(place) + 0.2 * rng.normal())
                arm = getattr(GTSAM, f"RangeFactorWithTransform{d}D")
                graph.add(arm(i, LANDMARK + j, distance, noise, sensor))
        result = problems.optimize(graph, values)
        best = best_of(graph, values, rng, 15)
        assert certify(graph, result).lower_bound <= best * (1 + 1e-9) + 1e-9
        bound = relax(graph, result).solve().bound.value
        assert min(bound, graph.error(result)) <= best * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("vertical", [0.5, 1.5, 2.5])
def test_gps_with_another_vertical_noise(vertical: float) -> None:
    """Where A kron I leaves a gap of a half, the tangent leaves next to none."""
    rng = np.random.default_rng(1)
    sigmas = np.array([0.5, 0.7, vertical])
    poses = problems.ring_poses(3, 12, radius=6.0)
    graph, values = problems.pose_graph(poses, [(i, i + 1) for i in range(11)], 0.05, 0.1, rng)
    for i, pose in enumerate(poses):
        noise = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
        arm = np.array([0.3, 0.1, 1.0])
        graph.add(gtsam.GPSFactorArm(i, pose.transformFrom(arm) + sigmas * rng.normal(size=3), arm, noise))
    result = problems.optimize(graph, values)
    cost = graph.error(result)
    for lift in ("gram", "vector"):
        bound = relax(graph, result, lift=lift).solve().bound.value
        assert cost * (1 - 1e-4) <= bound <= cost * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_directions_between_free_points(seed: int) -> None:
    """A direction is one row with a multiplier of its own: exact terms leave no gap, and need no shift."""
    graph, values = problems.direction_graph(seed, "priors")
    result = problems.optimize(graph, values)
    certificate = certify(graph, result)
    assert certificate.relative_gap < 1e-7
    assert certificate.method == "multipliers"
    best = best_of(graph, values, np.random.default_rng(seed), 20)
    assert certificate.lower_bound <= best * (1 + 1e-9)
    for lift in ("gram", "vector"):
        bound = relax(graph, result, lift=lift).solve().bound
        assert bound.shift == 0.0
        assert (1 - 1e-6) * best <= bound.value <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_directions_among_poses(seed: int) -> None:
    """Points that poses see by bearing and range, and the directions between them."""
    graph, values = problems.direction_graph(seed, "poses")
    result = problems.optimize(graph, values)
    cost = graph.error(result)
    certificate = certify(graph, result)
    assert certificate
    best = best_of(graph, values, np.random.default_rng(seed), 5)
    assert certificate.lower_bound <= best * (1 + 1e-9)
    solution = relax(graph, result, lift="gram").solve()
    assert (1 - 1e-3) * cost <= solution.bound.value <= best * (1 + 1e-9)
    assert graph.error(problems.optimize(graph, solution.recover())) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_directions_that_nothing_holds(seed: int, offset: float) -> None:
    """Points and directions alone have no frame: bounds stay below the best cost, wherever the points are."""
    graph, values = problems.direction_graph(seed, "nothing", offset)
    result = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()
    best = graph.error(result)
    assert certify(graph, result, method="multipliers").lower_bound <= best * (1 + 1e-9)
    for lift in ("gram", "vector"):
        bound = relax(graph, result, lift=lift).solve().bound
        assert bound.value <= best * (1 + 1e-6)


def test_ranges_with_directions_as_variables() -> None:
    """QuadraticRangeFactor3 to known anchors: exact terms, positions recovered, also by the relaxation."""
    rng = np.random.default_rng(0)
    anchors = np.array([[x, y, z] for x in (0, 10) for y in (0, 9) for z in (0, 6)]) + rng.normal(size=(8, 3))
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k, place in enumerate(anchors):
        graph.add(gtsam.PriorFactorPoint3(k, place, gtsam.noiseModel.Isotropic.Sigma(3, 0.01)))
        values.insert(k, place)
    position = np.array([4.0, 5.0, 3.0])
    values.insert(100, position)
    for k, place in enumerate(anchors):
        distance = float(np.linalg.norm(place - position) + 0.05 * rng.normal())
        graph.add(GTSAM.QuadraticRangeFactor3(100, k, 200 + k, distance, 100.0))
        values.insert(200 + k, gtsam.Unit3(place - position))
    result = problems.optimize(graph, values)
    cost = graph.error(result)
    certificate = certify(graph, result)
    assert certificate.terms.counts() == {"EXACT": 16}
    assert certificate.relative_gap < 1e-3
    best = best_of(graph, values, rng, 20)
    assert certificate.lower_bound <= best * (1 + 1e-9)
    for lift in ("gram", "vector"):
        solution = relax(graph, result, lift=lift).solve()
        assert solution.bound.value <= best * (1 + 1e-9)
        assert solution.bound.value >= (1 - 1e-4) * cost
        assert graph.error(problems.optimize(graph, solution.recover())) == pytest.approx(best, rel=1e-4)
