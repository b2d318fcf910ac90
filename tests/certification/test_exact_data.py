"""Costs that are zero to the digits of the data, and costs that are not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import CertificateStatus, certify, solve
from tests import problems

GTSAM: Any = gtsam
ISO = gtsam.noiseModel.Isotropic.Sigma
SIGMAS = gtsam.noiseModel.Diagonal.Sigmas
Problem = tuple[gtsam.NonlinearFactorGraph, gtsam.Values]


def _odometry() -> Problem:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorPose2(1, gtsam.Pose2(), SIGMAS(np.array([0.3, 0.3, 0.1]))))
    for i in (1, 2):
        graph.add(gtsam.BetweenFactorPose2(i, i + 1, gtsam.Pose2(2, 0, 0), SIGMAS(np.array([0.2, 0.2, 0.1]))))
    starts = [(-0.25, 0.2, 0.15), (2.3, 0.1, -0.2), (4.1, 0.1, 0.1)]
    return graph, problems.to_values((i + 1, gtsam.Pose2(*start)) for i, start in enumerate(starts))


def odometry_with_landmarks() -> Problem:
    graph, values = _odometry()
    noise = SIGMAS(np.array([0.1, 0.2]))
    for pose, landmark, degrees, distance in ((1, 11, 45, np.sqrt(8)), (2, 11, 90, 2.0), (3, 12, 90, 2.0)):
        graph.add(gtsam.BearingRangeFactor2D(pose, landmark, gtsam.Rot2.fromDegrees(degrees), distance, noise))
    values.insert(11, np.array([1.8, 2.1]))
    values.insert(12, np.array([4.1, 1.8]))
    return graph, values


def odometry_with_one_range() -> Problem:
    graph, values = _odometry()
    graph.add(gtsam.RangeFactorPose2(1, 3, 4.0, ISO(1, 0.1)))
    return graph, values


def _difference(measured: np.ndarray, factor: gtsam.CustomFactor, values: gtsam.Values, jacobians: Any) -> np.ndarray:
    """x_b - x_a - measured, or x_a - measured."""
    keys = factor.keys()
    size = len(measured)
    if jacobians is not None:
        for place in range(len(keys)):
            jacobians[place] = (1.0 if place == len(keys) - 1 else -1.0) * np.eye(size)
    first = values.atVector(keys[0]) if len(keys) == 2 else np.zeros(size)
    return values.atVector(keys[-1]) - first - measured


def custom_chain(size: int, noise: float = 0.0) -> Problem:
    rng = np.random.default_rng(0)
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for i in range(6):
        place = np.full(size, 10.0 * i) + noise * rng.normal(size=size)
        graph.add(gtsam.CustomFactor(ISO(size, 1.0), [i], partial(_difference, place)))
        if i:
            graph.add(gtsam.CustomFactor(ISO(size, 0.1), [i - 1, i], partial(_difference, np.full(size, 10.0))))
        values.insert(i, np.full(size, 0.1))
    return graph, values


def prior(value: Any) -> Problem:
    graph = gtsam.NonlinearFactorGraph()
    size = len(value) if isinstance(value, np.ndarray) else value.localCoordinates(value).size
    name = f"Point{size}" if isinstance(value, np.ndarray) else type(value).__name__
    graph.add(getattr(GTSAM, f"PriorFactor{name}")(1, value, ISO(size, 0.1)))
    start = value + 0.1 if isinstance(value, np.ndarray) else value.retract(0.1 * np.ones(size))
    return graph, problems.to_values([(1, start)])


def exact_ranges(d: int, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    anchors, target = rng.normal(size=(d + 2, d)) * 8, rng.normal(size=d) + 4
    graph, values = gtsam.NonlinearFactorGraph(), problems.to_values([(10, target)])
    for k, place in enumerate(anchors):
        graph.add(getattr(GTSAM, f"PriorFactorPoint{d}")(k, place, gtsam.noiseModel.Constrained.All(d)))
        graph.add(getattr(GTSAM, f"RangeFactor{d}")(10, k, float(np.linalg.norm(target - place)), ISO(1, 0.1)))
        values.insert(k, place)
    return graph, values


def written(d: int, digits: int, count: int, sigma: float = 0.05) -> Problem:
    """A ring with closures whose exact measurements are written with a number of decimals."""
    rng = np.random.default_rng(0)
    poses = problems.ring_poses(d, count, radius=count / 6)
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    closures = [(int(a), int(b)) for a, b in rng.integers(0, count, (count // 4, 2)) if a != b]
    size = 3 if d == 2 else 6
    for i, j in [*problems.ring_edges(count), *closures]:
        exact = poses[i].between(poses[j])
        if d == 2:
            measured: Any = gtsam.Pose2(*np.round([exact.x(), exact.y(), exact.theta()], digits))
        else:
            q = exact.rotation().toQuaternion()
            q = np.round([q.w(), q.x(), q.y(), q.z()], digits)
            turn = gtsam.Rot3.Quaternion(*(q / np.linalg.norm(q)))
            measured = gtsam.Pose3(turn, np.round(exact.translation(), digits))
        graph.add(getattr(GTSAM, f"BetweenFactorPose{d}")(i, j, measured, ISO(size, sigma)))
    for i, pose in enumerate(poses):
        values.insert(i, pose.retract(0.01 * rng.normal(size=size)))
    return graph, values


EXACT: dict[str, Callable[[], Problem]] = {
    "landmarks": odometry_with_landmarks,
    "one range": odometry_with_one_range,
    "numbers": partial(custom_chain, 1),
    "vectors of four": partial(custom_chain, 4),
    "prior Pose2": partial(prior, gtsam.Pose2(1, 2, 0.3)),
    "prior Pose3": partial(prior, gtsam.Pose3(gtsam.Rot3.Ypr(1, 0.2, 0.3), np.array([4e5, 5e6, 100.0]))),
    "prior Rot3": partial(prior, gtsam.Rot3.Ypr(1, 0.2, 0.3)),
    "prior Point3": partial(prior, np.array([1.0, 2.0, 3.0])),
    "origin": partial(prior, np.zeros(2)),
    **{f"ranges {d}D {seed}": partial(exact_ranges, d, seed) for d in (2, 3) for seed in range(10)},
    **{f"{d}D, {k} digits": partial(written, d, k, 60) for d in (2, 3) for k in (6, 9)},
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_data_is_certified(name: str) -> None:
    graph, start = EXACT[name]()
    result = gtsam.LevenbergMarquardtOptimizer(graph, start).optimize()
    certificate = certify(graph, result)
    assert certificate.status is CertificateStatus.CERTIFIED
    assert certificate.cost < 1e-7
    if certificate.zero_cost:
        assert f"zero to the digits of the data: {certificate.cost:.1g}" in str(certificate)
    assert solve(graph, start).certificate


@pytest.mark.parametrize("d", [2, 3])
def test_exact_data_of_many_poses_needs_no_search(d: int) -> None:
    graph, start = written(d, 6, 1000)
    solution = solve(graph, start)
    assert solution.certificate.zero_cost
    assert not any("relaxation" in stage.name or stage.name == "staircase" for stage in solution.stages)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("weight", [1e-20, 1e-10, 1.0, 1e6])
def test_a_wrong_turn_is_never_zero(d: int, weight: float) -> None:
    """Exact measurements of a ring, and values with a turn too many: in whatever unit the cost is, it is not zero."""
    graph = gtsam.NonlinearFactorGraph()
    noise = gtsam.noiseModel.Isotropic.Precision(3 if d == 2 else 6, weight)
    poses = problems.ring_poses(2, 40)
    turned = problems.with_turns(problems.to_values(enumerate(poses)), 40, 1)
    lifted = gtsam.Pose3 if d == 3 else gtsam.Pose2
    for i, j in problems.ring_edges(40):
        measured = poses[i].between(poses[j])
        graph.add(getattr(GTSAM, f"BetweenFactorPose{d}")(i, j, lifted(measured), noise))
    wrong = problems.to_values((i, lifted(turned.atPose2(i))) for i in range(40))
    certificate = certify(graph, problems.optimize(graph, wrong), method="multipliers")
    assert certificate.cost > 0.01 * weight
    assert not certificate.zero_cost
    assert not certificate


@pytest.mark.parametrize("sigma", [1e-5, 1e-7])
def test_stiff_axes_excuse_no_other_cost(sigma: float) -> None:
    """Axes that are held to 1e-7 make sums large; a residual of 1% along another axis is no rounding."""
    noise = SIGMAS(np.array([sigma, sigma, 0.05, 0.1, 0.1, sigma]))
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    poses = [gtsam.Pose3(gtsam.Rot3.Rz(0.3 * i), np.array([i, 0.2 * i, 0.0])) for i in range(6)]
    for i, pose in enumerate(poses):
        graph.add(gtsam.PriorFactorPose3(i, pose, noise))
        values.insert(i, pose.retract(np.array([0, 0, 1e-4, 1e-3, 0, 0])))
    certificate = certify(graph, values, method="multipliers")
    assert certificate.cost < 1e-2
    assert not certificate.zero_cost


def test_ordinary_costs_are_not_called_zero() -> None:
    """Chains of points whose bound is equal to the cost in floating point."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
        places = rng.uniform(-50, 50, (8, 3))
        for i, place in enumerate(places):
            graph.add(gtsam.PriorFactorPoint3(i, place + rng.normal(size=3), ISO(3, 1.0)))
            values.insert(i, place)
            if i:
                moved = place - places[i - 1] + rng.normal(size=3)
                graph.add(gtsam.BetweenFactorPoint3(i - 1, i, moved, ISO(3, 1.0)))
        certificate = certify(graph, problems.optimize(graph, values))
        assert certificate
        assert not certificate.zero_cost
        assert "zero" not in str(certificate)


def test_contradiction_in_large_coordinates() -> None:
    """A pose prior and a GPS fix 5 m off, 5,000 km from the origin: a cost of 12.5, whatever the coordinates."""
    pose = gtsam.Pose3(gtsam.Rot3.RzRyRx(0.3, 0.1, 2.0), np.array([4e5, 5e6, 100.0]))
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorPose3(1, pose, SIGMAS(np.array([0.01] * 3 + [1.0] * 3))))
    graph.add(gtsam.GPSFactor(1, pose.translation() + np.array([3.0, -4.0, 0.0]), ISO(3, 0.02)))
    values = problems.to_values([(1, pose)])
    certificate = certify(graph, problems.optimize(graph, values))
    assert certificate
    assert certificate.cost == pytest.approx(12.495, rel=1e-3)
    assert "zero" not in str(certificate)
    unsettled = certify(graph, values)
    assert not unsettled.zero_cost
