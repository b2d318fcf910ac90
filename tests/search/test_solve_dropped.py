"""solve and refine of graphs of which a part has no term: the whole is optimised, the bound is for every value."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import InvalidGraphError, Solution, UnsupportedFactorError, UnsupportedNoiseError, certify, refine, solve
from tests import problems

HUBER = problems.loss_of_numbers(1.345)


def robust_ring(d: int, outliers: int = 2) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A ring whose further edges have a robust loss without a term, some of them wrong; and what is true."""
    graph, truth = problems.ring(d, 16, 0.05, 0.1, seed=2)
    rng = np.random.default_rng(5)
    at: Any = truth.atPose2 if d == 2 else truth.atPose3
    between: Any = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    noise = gtsam.noiseModel.Robust.Create(HUBER, problems.noise_model(d, 0.05, 0.1))
    for k in range(6):
        i, j = k, k + 8
        measured = at(i).between(at(j)).retract((3.0 if k < outliers else 0.05) * rng.normal(size=3 * d - 3))
        graph.add(between(i, j, measured, noise))
    return graph, truth


def scattered(values: gtsam.Values, rng: np.random.Generator) -> gtsam.Values:
    """Values far from these."""
    zero = values.localCoordinates(values)
    delta = gtsam.VectorValues()
    for key in values.keys():
        delta.insert(key, 2 * rng.normal(size=len(zero.at(key))))
    return values.retract(delta)


def check_sound(graph: gtsam.NonlinearFactorGraph, truth: gtsam.Values, solution: Solution) -> None:
    """The cost is the graph's, and no values that can be found are below the bound."""
    rng = np.random.default_rng(1)
    starts = [truth, solution.values, *(scattered(truth, rng) for _ in range(8))]
    best = min(graph.error(problems.optimize(graph, start)) for start in starts)
    assert solution.cost == graph.error(solution.values)
    assert solution.certificate.lower_bound <= min(best, solution.cost)
    assert all(stage.lower_bound <= best for stage in solution.stages)
    assert "dropped" in str(solution)
    assert set(solution.values.keys()) == set(truth.keys())


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("method", ["auto", "local", "staircase", "sdp"])
@pytest.mark.parametrize("frobenius", [False, True])
def test_robust_edges(d: int, method: Any, frobenius: bool) -> None:
    """Frobenius factors are exact, but the lifted cost is not the whole one: GTSAM has the last word."""
    graph, truth = robust_ring(d)
    if frobenius:
        soft, robust = problems.ring(d, 16, 0.05, 0.1, seed=2)[0], graph
        graph = problems.as_frobenius(soft)
        for k in range(soft.size(), robust.size()):
            graph.push_back(robust.at(k))
    with pytest.raises(UnsupportedNoiseError, match="on_unsupported"):
        solve(graph, method=method)
    wrong = scattered(truth, np.random.default_rng(0))
    best = graph.error(problems.optimize(graph, truth))
    for solution in (
        solve(graph, method=method, on_unsupported="drop"),
        solve(graph, wrong, method=method, on_unsupported="drop"),
        refine(graph, wrong, method=method, on_unsupported="drop"),
    ):
        check_sound(graph, truth, solution)
        assert solution.certificate.stationarity < 1e-6
    assert solve(graph, on_unsupported="drop").cost == pytest.approx(best, rel=1e-6)


def landmarks_by_angle(d: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A ring of poses that see landmarks: bearings in the plane, pixels in space."""
    graph, truth = problems.ring(d, 8, 0.02, 0.05, seed=3)
    for k in range(3):
        key = gtsam.symbol("l", k)
        if d == 2:
            point = np.array([1.0 + 3 * k, 6.0])
            for i in range(4):
                bearing = truth.atPose2(i).bearing(point)
                graph.add(gtsam.BearingFactor2D(i, key, bearing, gtsam.noiseModel.Isotropic.Sigma(1, 0.01)))
        else:
            point = truth.atPose3(0).transformFrom(np.array([k - 1.0, 0.5, 9.0]))
            camera = gtsam.Cal3_S2(500, 500, 0, 320, 240)
            noise = gtsam.noiseModel.Isotropic.Sigma(2, 1.0)
            for i in range(8):
                seen = truth.atPose3(i).transformTo(point)
                if seen[2] > 0.5:
                    pixel = np.array([500 * seen[0] / seen[2] + 320, 500 * seen[1] / seen[2] + 240])
                    graph.add(gtsam.GenericProjectionFactorCal3_S2(pixel, noise, i, key, camera))
        truth.insert(key, point)
    return graph, truth


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("method", ["auto", "staircase", "sdp"])
def test_landmarks_that_only_dropped_factors_hold(d: int, method: Any) -> None:
    """They start where they are given, and move with the rest."""
    graph, truth = landmarks_by_angle(d)
    with pytest.raises(UnsupportedFactorError):
        refine(graph, truth, method=method)
    for solution in (
        refine(graph, truth, method=method, on_unsupported="drop", tolerance=1e-9),
        solve(graph, truth, method=method, on_unsupported="drop", tolerance=1e-9),
    ):
        check_sound(graph, truth, solution)
        assert solution.cost <= graph.error(truth)
    with pytest.raises(InvalidGraphError, match=r"type of l0 is not known .*Give initial values"):
        solve(graph, on_unsupported="drop")


def test_a_key_of_known_type_that_only_dropped_factors_hold_has_no_start() -> None:
    graph, truth = problems.ring(2, 6)
    noise = gtsam.noiseModel.Robust.Create(HUBER, gtsam.noiseModel.Isotropic.Sigma(3, 0.1))
    graph.add(gtsam.BetweenFactorPose2(5, 6, gtsam.Pose2(1, 0, 0), noise))
    with pytest.raises(InvalidGraphError, match=r"Only dropped factors hold 6, .* Give initial values"):
        solve(graph, on_unsupported="drop")
    truth.insert(6, gtsam.Pose2(9, 9, 0))
    solution = solve(graph, truth, on_unsupported="drop")
    check_sound(graph, truth, solution)
    between = solution.values.atPose2(5).between(solution.values.atPose2(6))
    assert between.equals(gtsam.Pose2(1, 0, 0), 1e-3)


def test_everything_is_dropped() -> None:
    """Nothing is bounded, and said to be."""
    graph, truth = problems.ring(2, 6)
    noise = gtsam.noiseModel.Robust.Create(HUBER, gtsam.noiseModel.Isotropic.Sigma(3, 0.1))
    robust = gtsam.NonlinearFactorGraph()
    between: Any = gtsam.BetweenFactorPose2
    for k in range(graph.size()):
        edge: Any = graph.at(k)
        robust.add(between(*edge.keys(), edge.measured(), noise))
    for method in ("auto", "staircase", "sdp"):
        solution = refine(robust, truth, method=method, on_unsupported="drop")
        assert solution.certificate.lower_bound == 0
        assert "most of the gap is what the dropped factors cost" in solution.advice
    with pytest.raises(InvalidGraphError, match="Give initial values"):
        solve(robust, on_unsupported="drop")


def test_a_robust_loss_that_is_negative_is_not_dropped() -> None:
    graph, truth = problems.ring(2, 6)
    loss = gtsam.noiseModel.mEstimator.DCS.Create(-1.0)  # makes no sense, and has no lower bound
    noise = gtsam.noiseModel.Robust.Create(loss, gtsam.noiseModel.Isotropic.Sigma(3, 0.1))
    graph.add(gtsam.BetweenFactorPose2(0, 3, gtsam.Pose2(1, 0, 0), noise))
    with pytest.raises(UnsupportedFactorError, match="cost may be negative"):
        certify(graph, truth, on_unsupported="drop")


def test_what_may_be_negative_is_not_dropped() -> None:
    graph, truth = problems.ring(2, 6)
    linear: Any = gtsam.JacobianFactor
    graph.add(gtsam.LinearContainerFactor(linear(0, np.eye(3), np.ones(3), gtsam.noiseModel.Unit.Create(3)), truth))
    with pytest.raises(UnsupportedFactorError, match="cannot be dropped either"):
        refine(graph, truth, on_unsupported="drop")
    with pytest.raises(ValueError, match="on_unsupported must be"):
        refine(graph, truth, on_unsupported="ignore")  # type: ignore[arg-type]
