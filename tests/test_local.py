"""Levenberg-Marquardt step by step: what `optimize()` finds, unless it is stopped."""

from __future__ import annotations

import time

import gtsam
import pytest

from gtsam_sdp import refine, solve
from gtsam_sdp.datasets import read_dataset
from gtsam_sdp.local import optimise
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
    monkeypatch.setattr("gtsam_sdp.ladder._PATIENCE", 1)
    monkeypatch.setattr("gtsam_sdp.ladder._HOPELESS", 0.5)
    best = problems.optimize(graph, truth)
    solution = refine(graph, best, tolerance=1e-15)
    assert any("stopped after 1 iterations" in stage.note for stage in solution.stages)
    assert solution.method == "given"
    assert solution.cost <= graph.error(best)
