"""Levenberg-Marquardt step by step: what `optimize()` finds, unless it is stopped."""

from __future__ import annotations

import time
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import refine, solve
from gtsam_sdp.files.datasets import read_dataset
from gtsam_sdp.search.local import Ending, levenberg_marquardt, optimise
from gtsam_sdp.search.methods.continuation import Weights, continued
from tests import problems


@pytest.mark.parametrize("name", ["pose2example", "pose3example", "toyExample", "Klaus3", "goats_16"])
@pytest.mark.parametrize("limit", [3, 100])
def test_steps_are_those_of_optimize(name: str, limit: int) -> None:
    file = read_dataset(name)
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(1e-10)
    parameters.setAbsoluteErrorTol(0.0)
    parameters.setMaxIterations(limit)
    optimizer = gtsam.LevenbergMarquardtOptimizer(file.graph, file.initial, parameters)
    expected = optimizer.optimize()
    found = optimise(file.graph, file.initial, max_iterations=limit)
    assert (found.cost, found.iterations) == (optimizer.error(), optimizer.iterations())
    assert found.values.equals(expected, 0.0)


def test_it_can_be_stopped() -> None:
    file = read_dataset("pose3example-grid")
    asked: list[tuple[int, float]] = []

    def go_on(iterations: int, cost: float) -> bool:
        asked.append((iterations, cost))
        return iterations < 2

    stopped = optimise(file.graph, file.initial, go_on=go_on)
    assert [iterations for iterations, _ in asked] == [1, 2]
    assert (stopped.iterations, stopped.converged, stopped.cost) == (2, False, asked[-1][1])
    late = optimise(file.graph, file.initial, ends=time.perf_counter())
    assert (late.iterations, late.converged) == (1, False)


def test_the_time_limit_stops_the_optimizer() -> None:
    """After an iteration, which is said; what was found is judged all the same."""
    graph, truth = problems.ring(3, 20, 0.05, 0.1, seed=1)
    solution = solve(graph, truth, time_limit=0.0)
    assert solution.stages[0].note.endswith(", stopped after 1 iterations")
    assert solution.cost < graph.error(truth)


def test_a_hopeless_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cost is far above the best after some iterations."""
    graph, truth = problems.ring(2, 16, 0.05, 0.1, seed=2)
    monkeypatch.setattr("gtsam_sdp.search.methods.local._PATIENCE", 1)
    monkeypatch.setattr("gtsam_sdp.search.methods.local._HOPELESS", 0.5)
    best = problems.optimize(graph, truth)
    solution = refine(graph, best, tolerance=1e-15)
    assert any("stopped after 1 iterations" in stage.note for stage in solution.stages)
    assert solution.method == "given"
    assert solution.cost <= graph.error(best)


def stiff_joints(d: int, weight: float) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Two noisy trajectories of unit weight, joined by exact measurements of a large one; and what is true."""
    rng = np.random.default_rng(2)
    between: Any = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    size = 3 * d - 3
    poses = {100 * k + i: curve_pose(d, k, i) for k in range(2) for i in range(12)}
    graph = gtsam.NonlinearFactorGraph()
    for key in poses:
        if key + 1 in poses:
            measured = poses[key].between(poses[key + 1]).retract(0.05 * rng.standard_normal(size))
            graph.add(between(key, key + 1, measured, gtsam.noiseModel.Unit.Create(size)))
    for i in (0, 3, 7, 11):
        noise = gtsam.noiseModel.Isotropic.Precision(size, weight)
        graph.add(between(i, 100 + i, poses[i].between(poses[100 + i]), noise))
    return graph, problems.to_values(poses.items())


def curve_pose(d: int, track: int, i: int) -> Any:
    """Pose i of one of two bent tracks side by side."""
    x, y = 0.5 * i, np.sin(0.3 * i) + 3 * track
    if d == 2:
        return gtsam.Pose2(x, y, 0.2 * i + track)
    return gtsam.Pose3(gtsam.Rot3.RzRyRx(0.1 * np.sin(i), 0.1 * i, 0.2 * i), np.array([x, y, 0.1 * i * track]))


def test_a_run_that_cannot_move_has_not_converged() -> None:
    """GTSAM damps by one number for all directions, and gives up before the first step."""
    graph, truth = stiff_joints(3, 1e12)
    start = problems.random_start(truth, np.random.default_rng(0))
    usual = levenberg_marquardt(graph, start, 100)
    assert (usual.ending, usual.converged, usual.cost) == (Ending.NO_STEP, False, graph.error(start))
    found = optimise(graph, start)
    assert found.diagonal
    assert found.cost < 1e-6 * usual.cost
    assert found.initial_cost == usual.cost
    limited = optimise(graph, start, max_iterations=7)
    assert (limited.iterations, limited.ending) == (7, Ending.LIMIT)


def test_the_number_of_iterations_is_limited() -> None:
    """Also where another damping could go on."""
    graph, truth = stiff_joints(3, 1e8)
    start = problems.random_start(truth, np.random.default_rng(0))
    short = optimise(graph, start, max_iterations=5)
    assert (short.iterations, short.diagonal, short.ending) == (5, 0, Ending.LIMIT)
    long = optimise(graph, start, max_iterations=130)
    assert (long.iterations, long.diagonal) == (130, 30)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("weight", [1e6, 1e8, 1e10, 1e12, 1e14])
def test_stiff_joints(d: int, weight: float) -> None:
    """The optimum hardly depends on a weight that is large; it is found from no start, and from a random one."""
    usual, truth = stiff_joints(d, 1e4)
    best = usual.error(problems.optimize(usual, truth))
    graph, _ = stiff_joints(d, weight)
    for start in (None, problems.random_start(truth, np.random.default_rng(0))):
        assert solve(graph, start, time_limit=20).cost == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("stiff", [1e-5, 1e-6, 1e-7])
def test_a_planar_robot_in_space(stiff: float) -> None:
    """Height, roll and pitch are known much better than the others."""
    graph, start = planar_robot(stiff)
    best = 11.2584
    for initial in (None, start):
        assert solve(graph, initial, tolerance=0.4).cost == pytest.approx(best, rel=1e-4)


def planar_robot(stiff: float) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Poses on a circle in Pose3, and dead reckoning."""
    rng = np.random.default_rng(0)
    sigmas = np.array([stiff, stiff, 0.05, 0.1, 0.1, stiff])
    noise = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
    poses = [
        gtsam.Pose3(gtsam.Rot3.Rz(0.157 * i + 1.5), np.array([6 * np.cos(0.157 * i), 6 * np.sin(0.157 * i), 0]))
        for i in range(40)
    ]
    graph, start = gtsam.NonlinearFactorGraph(), gtsam.Values()
    start.insert(0, poses[0])
    for i, j in [(i, i + 1) for i in range(39)] + [(39, 0), (2, 38), (5, 36), (0, 20)]:
        measured = poses[i].between(poses[j]).retract(sigmas * rng.standard_normal(6))
        graph.add(gtsam.BetweenFactorPose3(i, j, measured, noise))
        if j == i + 1:
            start.insert(j, start.atPose3(i).compose(measured))
    return graph, start


def test_weights_are_stepped_up_to() -> None:
    graph, truth = stiff_joints(3, 1e12)
    weights = Weights.of(graph)
    assert weights.span_decades
    np.testing.assert_allclose(weights.caps, 10.0 ** np.arange(6))
    errors = [weights.softer(cap).error(truth) for cap in weights.caps]
    assert all(np.diff(errors) >= 0)
    assert errors[-1] <= graph.error(truth)
    found = continued(weights, lambda softest: (truth,))
    assert graph.error(found) < 1.01 * graph.error(problems.optimize(stiff_joints(3, 1e4)[0], truth))
    assert not Weights.of(stiff_joints(3, 1e4)[0]).span_decades
    assert not Weights.of(gtsam.NonlinearFactorGraph()).span_decades


def test_weights_that_are_not_stepped() -> None:
    """Robust and hard factors, and those that GTSAM cannot copy, stay as they are."""
    graph, truth = stiff_joints(2, 1e12)
    count = graph.size()
    huber = gtsam.noiseModel.mEstimator.Huber.Create(1.345)
    stiff = gtsam.noiseModel.Isotropic.Precision(3, 1e12)
    between: Any = gtsam.BetweenFactorPose2
    for noise in (gtsam.noiseModel.Robust.Create(huber, stiff), gtsam.noiseModel.Constrained.All(3)):
        graph.add(between(0, 1, gtsam.Pose2(1, 0, 0), noise))
    graph.add(
        gtsam.CustomFactor(stiff, [0], lambda this, values, jacobians: values.atPose2(0).translation()[[0, 0, 1]])
    )
    graph.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), stiff))
    graph.remove(2)
    softer = Weights.of(graph).softer(10.0)
    assert softer.size() == graph.size() - 1
    kept = [softer.at(k).error(truth) for k in range(count - 1, count + 2)]
    np.testing.assert_allclose(kept, [graph.at(k).error(truth) for k in range(count, count + 3)])


def test_a_certified_start_that_did_not_converge_goes_on() -> None:
    """Both kinds of damping creep at this weight; the continuation in the weights does not."""
    usual, truth = rigid_joints(1e6)
    best = usual.error(problems.optimize(usual, truth))
    for weight in (1e8, 1e10):
        graph, _ = rigid_joints(weight)
        assert solve(graph, tolerance=1e-2).cost == pytest.approx(best, rel=1e-6)


def rigid_joints(weight: float) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Longer tracks than those of `stiff_joints`, with six joints."""
    rng = np.random.default_rng(2)
    poses = {100 * k + i: curve_pose(3, k, i) for k in range(2) for i in range(20)}
    graph = gtsam.NonlinearFactorGraph()
    for key in poses:
        if key + 1 in poses:
            measured = poses[key].between(poses[key + 1]).retract(0.05 * rng.standard_normal(6))
            graph.add(gtsam.BetweenFactorPose3(key, key + 1, measured, gtsam.noiseModel.Unit.Create(6)))
    for i in (0, 3, 7, 11, 15, 19):
        noise = gtsam.noiseModel.Isotropic.Precision(6, weight)
        graph.add(gtsam.BetweenFactorPose3(i, 100 + i, poses[i].between(poses[100 + i]), noise))
    return graph, problems.to_values(poses.items())


def test_a_step_that_rounding_hides_is_not_held_back() -> None:
    """At the end of Newton's method; no other damping is tried, and the optimum is one."""
    graph, truth = problems.ring(3, 20, 1e-3, 1e-3, seed=1)
    found = optimise(graph, optimise(graph, truth).values)
    assert found.diagonal <= 1
    again = optimise(graph, truth)
    assert (again.diagonal, again.ending, again.damped) == (0, Ending.CONVERGED, False)
