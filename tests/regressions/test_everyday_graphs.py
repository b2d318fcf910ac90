"""Graphs as practitioners write them, after public reports: each of a kind that once got no answer, or a wrong one."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import CertificateStatus, certify, relax, solve
from tests import problems
from tests.relaxation.test_distances import smooth_trajectory

GTSAM: Any = gtsam
ISO = gtsam.noiseModel.Isotropic.Sigma
SIGMAS = gtsam.noiseModel.Diagonal.Sigmas
VARIANCES = gtsam.noiseModel.Diagonal.Variances
Problem = tuple[gtsam.NonlinearFactorGraph, gtsam.Values]


# Weak factors


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("loose", [1e2, 1e4, 1e6, 1e8, 1e10, 1e12])
def test_a_weak_prior_costs_nothing(d: int, loose: float) -> None:
    rng = np.random.default_rng(1)
    graph, truth = problems.pose_graph(problems.ring_poses(d, 8), [*problems.ring_edges(8), (0, 4)], 0.05, 0.1, rng)
    without = certify(graph, problems.optimize(graph, truth))
    variances = [loose, loose, 1e-2] if d == 2 else [1e-2] * 3 + [loose] * 3
    at = truth.atPose2(0) if d == 2 else truth.atPose3(0)
    graph.add(getattr(GTSAM, f"PriorFactorPose{d}")(0, at, VARIANCES(np.array(variances))))
    certificate = certify(graph, problems.optimize(graph, truth), method="multipliers")
    assert certificate
    assert certificate.lower_bound == pytest.approx(without.lower_bound, rel=1e-6)


LIO_SAM = (1e-2, 1e-2, np.pi**2, 1e8, 1e8, 1e8)
"""Variances of LIO-SAM's prior on its first pose [rad^2, m^2]."""


def lidar_trajectory(seed: int, prior: tuple[float, ...] | None, gps: str = "") -> Problem:
    """120 poses, two rounds of a hilly circle: odometry, loop closures, a prior, GPS every tenth pose; and the truth.

    `gps`: "factor" for GPSFactors; a number for pose priors with that rotation sigma [rad].
    """
    rng, count = np.random.default_rng(seed), 120
    turn = 4 * np.pi * np.arange(count) / count
    poses = [
        gtsam.Pose3(
            gtsam.Rot3.Ypr(angle, 0.05 * np.sin(i / 7), 0.03 * np.cos(i / 5)),
            np.array([20 * np.cos(angle), 20 * np.sin(angle), 0.5 * np.sin(i / 10)]),
        )
        for i, angle in enumerate(turn)
    ]
    sigmas = np.array([1e-3] * 3 + [1e-2] * 3)
    graph = gtsam.NonlinearFactorGraph()
    closures = [(int(i), int(i) + count // 2) for i in rng.integers(0, count // 2 - 1, 12)]
    for i, j in [*((i, i + 1) for i in range(count - 1)), *closures]:
        measured = poses[i].between(poses[j]).retract(sigmas * rng.normal(size=6))
        graph.add(gtsam.BetweenFactorPose3(i, j, measured, SIGMAS(sigmas)))
    for i in range(0, count, 10) if gps else ():
        place = poses[i].translation() + rng.normal(size=3)
        if gps == "factor":
            graph.add(gtsam.GPSFactor(i, place, ISO(3, 1.0)))
        else:
            noise = SIGMAS(np.array([float(gps)] * 3 + [1.0] * 3))
            graph.add(gtsam.PriorFactorPose3(i, gtsam.Pose3(poses[i].rotation(), place), noise))
    if prior:
        graph.add(gtsam.PriorFactorPose3(0, poses[0], VARIANCES(np.array(prior))))
    return graph, problems.to_values(enumerate(poses))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gps", ["", "factor"])
@pytest.mark.parametrize("prior", [LIO_SAM, (1e-2, 1e-2, np.pi**2, 1.0, 1.0, 1.0)])
def test_lidar_prior(prior: tuple[float, ...], gps: str, seed: int) -> None:
    graph, truth = lidar_trajectory(seed, prior, gps)
    certificate = certify(graph, problems.optimize(graph, truth), method="multipliers")
    assert certificate
    if not gps:
        graph, truth = lidar_trajectory(seed, None)
        without = certify(graph, problems.optimize(graph, truth))
        assert certificate.lower_bound == pytest.approx(without.lower_bound, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sigma", ["1", "100", "1e6", "1e10"])
def test_gps_as_pose_priors(sigma: str, seed: int) -> None:
    graph, truth = lidar_trajectory(seed, None, sigma)
    assert certify(graph, problems.optimize(graph, truth), method="multipliers")


# Weights over many decades


def with_diagonal_damping(graph: gtsam.NonlinearFactorGraph, start: gtsam.Values) -> gtsam.Values:
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setDiagonalDamping(True)
    parameters.setRelativeErrorTol(1e-13)
    parameters.setMaxIterations(500)
    return gtsam.LevenbergMarquardtOptimizer(graph, start, parameters).optimize()


def joined_trajectories(weight: float) -> Problem:
    """Two noisy trajectories of unit weight, joined by six exact measurements of a large one; and the truth."""
    rng, count = np.random.default_rng(2), 20
    graph, truth = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k in (0, 1):
        for i in range(count):
            place = np.array([i * 0.5, np.sin(i * 0.3) + 3 * k, 0.1 * i * k])
            truth.insert(100 * k + i, gtsam.Pose3(gtsam.Rot3.RzRyRx(0.1 * np.sin(i), 0.1 * i, 0.2 * i), place))
    for k in (0, 1):
        for i in range(100 * k, 100 * k + count - 1):
            moved = truth.atPose3(i).between(truth.atPose3(i + 1)).retract(0.05 * rng.normal(size=6))
            graph.add(gtsam.BetweenFactorPose3(i, i + 1, moved, ISO(6, 1.0)))
    for i in (0, 3, 7, 11, 15, 19):
        exact = truth.atPose3(i).between(truth.atPose3(100 + i))
        graph.add(gtsam.BetweenFactorPose3(i, 100 + i, exact, gtsam.noiseModel.Isotropic.Precision(6, weight)))
    return graph, truth


RIGID_JOINTS = 0.02989681
"""The least cost of the joined trajectories for all weights from 1e6 on."""


@pytest.mark.parametrize("weight", [1e6, 1e8, 1e10, 1e12, 1e14])
def test_rigid_joints_are_bounded_at_any_weight(weight: float) -> None:
    """Stiff joints count less in the bound, which costs next to nothing: it is that of the right minimum."""
    graph, truth = joined_trajectories(weight)
    certificate = certify(graph, with_diagonal_damping(graph, truth))
    assert 0.998 * RIGID_JOINTS <= certificate.lower_bound <= RIGID_JOINTS * (1 + 1e-7)


def planar_robot(stiff: float) -> Problem:
    """A robot on a floor in a graph of Pose3: z, roll and pitch known to `stiff`, x, y to 0.1 m, yaw to 0.05 rad."""
    rng, count = np.random.default_rng(0), 40
    sigmas = np.array([stiff, stiff, 0.05, 0.1, 0.1, stiff])
    angles = 0.157 * np.arange(count)
    poses = [gtsam.Pose3(gtsam.Rot3.Rz(a + 1.5), np.array([6 * np.cos(a), 6 * np.sin(a), 0])) for a in angles]
    graph = gtsam.NonlinearFactorGraph()
    for i, j in [*((i, i + 1) for i in range(count - 1)), (count - 1, 0), (2, 38), (5, 36), (0, 20)]:
        measured = poses[i].between(poses[j]).retract(sigmas * rng.normal(size=6))
        graph.add(gtsam.BetweenFactorPose3(i, j, measured, SIGMAS(sigmas)))
    return graph, problems.to_values(enumerate(poses))


@pytest.mark.parametrize(
    ("stiff", "cost", "share"),
    [
        (1e-2, 11.26651, 0.9999),
        (1e-3, 11.25848, 0.9999),
        (1e-4, 11.25840, 0.999),
        (1e-5, 11.2584, 0.8),
        (1e-6, 11.2584, 0.6),
    ],
)
def test_planar_robots_are_bounded(stiff: float, cost: float, share: float) -> None:
    graph, truth = planar_robot(stiff)
    certificate = certify(graph, with_diagonal_damping(graph, truth))
    assert certificate.cost == pytest.approx(cost, rel=1e-6)
    assert share * cost <= certificate.lower_bound <= certificate.cost
    if share < 0.99:
        assert any("weights differ by many decades" in note for note in certificate.notes)


# Accurate ranges


def loop_with_beacons(sigma: float, seed: int) -> Problem:
    """A ring of 20 poses with odometry and ranges to four beacons; the same draws for every sigma."""
    rng = np.random.default_rng(seed)
    sigmas = np.array([sigma, sigma, sigma / 3])
    poses, places = problems.ring_poses(2, 20, radius=10.0), rng.uniform(-15, 15, (4, 2))
    graph, values = gtsam.NonlinearFactorGraph(), problems.to_values(enumerate(poses))
    for i, j in problems.ring_edges(20):
        measured = poses[i].between(poses[j]).retract(sigmas * rng.normal(size=3))
        graph.add(gtsam.BetweenFactorPose2(i, j, measured, SIGMAS(sigmas)))
    for k, place in enumerate(places):
        values.insert(100 + k, place)
        for i, pose in enumerate(poses):
            measured = abs(pose.range(place) + sigma * rng.normal())
            graph.add(GTSAM.RangeFactor2D(i, 100 + k, measured, ISO(1, sigma)))
    return graph, values


@pytest.mark.parametrize("seed", range(12))
def test_less_noise_gives_no_worse_bound(seed: int) -> None:
    """Of the relaxation's own gap, which changes a little with the noise, nothing is lost on the way to the bound."""
    gaps = []
    for sigma in (0.1, 1e-2, 1e-3, 1e-4):
        graph, truth = loop_with_beacons(sigma, seed)
        gaps.append(certify(graph, problems.optimize(graph, truth)).relative_gap)
    assert max(gaps[1:]) <= 1.1 * gaps[0] + 1e-4


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_both_lifts_prove_the_same_of_smooth_trajectories(d: int, seed: int) -> None:
    graph, truth = smooth_trajectory(d, 15, 0.3, seed)
    result = problems.optimize(graph, truth)
    bounds = [relax(graph, result, lift=lift).solve().lower_bound for lift in ("gram", "vector")]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-3)


# What a report says


def test_rounding_in_gtsam_is_no_error() -> None:
    """Pose2.Logmap loses digits just above 1e-10 rad: graph.error falls below the bound of the exact cost."""
    graph = gtsam.NonlinearFactorGraph()
    for place in (np.zeros(2), np.array([1.0, 0.7])):
        graph.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(gtsam.Rot2(), place), ISO(3, 1.0)))
    rng = np.random.default_rng(0)
    angles = 10 ** rng.uniform(-10, -9.5, 5000) * rng.choice((-1, 1), 5000)
    tried = [problems.to_values([(0, gtsam.Pose2(0.5, 0.35, angle))]) for angle in angles]
    values = min(tried, key=graph.error)
    exact = 0.3725
    assert graph.error(values) < exact * (1 - 1e-7)
    certificate = certify(graph, values)
    assert certificate
    assert certificate.lower_bound == certificate.cost == graph.error(values)
    assert any("GTSAM rounds its errors here" in note for note in certificate.notes)


@pytest.mark.parametrize("seed", range(3))
def test_certify_agrees_with_solve(seed: int) -> None:
    """What the relaxation certifies for `solve`, `certify` certifies too, by going on to it where it is short."""
    rng = np.random.default_rng(seed)
    sigmas = np.array([0.1, 0.1, 0.02, 0.1, 0.1, 0.1])
    poses = problems.ring_poses(3, 12, radius=4.0)
    graph = gtsam.NonlinearFactorGraph()
    for i, j in [*problems.ring_edges(12), (0, 6), (3, 9)]:
        measured = poses[i].between(poses[j]).retract(sigmas * rng.normal(size=6))
        graph.add(gtsam.BetweenFactorPose3(i, j, measured, SIGMAS(sigmas)))
    solution = solve(graph, problems.to_values(enumerate(poses)), tolerance=1e-2)
    assert solution.certificate
    assert certify(graph, solution.values, tolerance=1e-2)


def test_stationarity_is_that_of_the_values() -> None:
    """Polishing makes the proof, but the report is about the values given."""
    graph, truth = problems.ring(2, 40, 0.05, 0.1, seed=0)
    best = problems.optimize(graph, truth)
    rough = problems.to_values((k, best.atPose2(k).retract(np.full(3, 1e-3 * (-1) ** k))) for k in range(40))
    certificate = certify(graph, rough, tolerance=0.5)
    gained = 1 - graph.error(best) / graph.error(rough)
    assert certificate
    assert certificate.stationarity == pytest.approx(gained, rel=0.1)


def test_stationarity_where_the_usual_damping_lets_nothing_move() -> None:
    graph, truth = joined_trajectories(1e12)
    moved = problems.to_values((k, truth.atPose3(k)) for k in truth.keys())
    certificate = certify(graph, moved)
    assert certificate.status is not CertificateStatus.CERTIFIED
    assert certificate.stationarity > 0.1
