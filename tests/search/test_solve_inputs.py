"""solve on graphs that are legal but awkward: every bound below the best of many starts, and an answer every time."""

from __future__ import annotations

import time
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import Solution, certify, refine, solve
from tests import problems

DIMENSIONS = pytest.mark.parametrize("d", [2, 3])


def pose_between(d: int) -> Any:
    return gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3


def renamed(graph: gtsam.NonlinearFactorGraph, names: dict[int, int]) -> gtsam.NonlinearFactorGraph:
    """The graph with other keys."""
    moved = gtsam.NonlinearFactorGraph()
    for k in range(graph.size()):
        moved.push_back(graph.at(k).rekey([names[key] for key in graph.at(k).keys()]))
    return moved


def best_cost(graph: gtsam.NonlinearFactorGraph, truth: gtsam.Values, starts: int = 10) -> float:
    """Of the optimum near the truth and of random starts."""
    rng = np.random.default_rng(3)
    found = [problems.optimize(graph, truth)]
    found += [problems.optimize(graph, problems.random_start(truth, rng), 1e-9) for _ in range(starts)]
    return min(graph.error(values) for values in found)


def check_honest(solution: Solution, best: float) -> None:
    assert solution.certificate.lower_bound <= best * (1 + 1e-9)
    assert solution.cost >= best * (1 - 1e-6) or not np.isfinite(best)
    assert solution.certificate or solution.advice


@DIMENSIONS
@pytest.mark.parametrize("frobenius", [False, True])
def test_components_are_solved_together(d: int, frobenius: bool) -> None:
    """Two rings without a factor between them: each is anchored, costs add up."""
    graph, truth = problems.ring(d, 12, 0.05, 0.1, seed=1)
    other, other_truth = problems.ring(d, 8, 0.05, 0.1, seed=2)
    shift = {key: key + 1000 for key in other_truth.keys()}
    both = gtsam.NonlinearFactorGraph(graph)
    both.push_back(renamed(other, shift))
    if frobenius:
        graph, other, both = (problems.as_frobenius(g) for g in (graph, other, both))
    solution = solve(both, tolerance=1e-6 if frobenius else 1e-3)
    expected = sum(g.error(problems.optimize(g, t)) for g, t in ((graph, truth), (other, other_truth)))
    assert solution.certificate
    assert solution.cost == pytest.approx(expected, rel=1e-6)
    assert set(solution.values.keys()) == set(truth.keys()) | set(shift.values())


@DIMENSIONS
@pytest.mark.parametrize("frobenius", [False, True])
def test_duplicate_and_contradictory_edges(d: int, frobenius: bool) -> None:
    """Edges twice, and one that says the opposite."""
    graph, truth = problems.ring(d, 10, 0.05, 0.1, seed=1)
    for k in range(3):
        graph.push_back(graph.at(k))
    turn = gtsam.Pose2(0.3, 0.1, 2.5) if d == 2 else gtsam.Pose3(gtsam.Rot3.Rz(2.5), np.array([0.3, 0.1, 0.0]))
    edge: Any = graph.at(0)
    graph.add(pose_between(d)(*edge.keys(), turn, edge.noiseModel()))
    graph = problems.as_frobenius(graph) if frobenius else graph
    solution = solve(graph)
    check_honest(solution, best_cost(graph, truth))
    assert solution.cost == pytest.approx(best_cost(graph, truth), rel=1e-5)


@DIMENSIONS
def test_edges_without_information(d: int) -> None:
    """Precisions of 0 in some directions, and of 1e-12 in all."""
    graph, truth = problems.ring(d, 10, 0.05, 0.1, seed=1)
    size = 3 if d == 2 else 6
    first, _, second = list(truth.keys())[:3]
    measured = gtsam.Pose2(1, 2, 3) if d == 2 else gtsam.Pose3(gtsam.Rot3.Rx(1.0), np.ones(3))
    rows = np.zeros((size, size))
    rows[0, 0] = 1.0  # an information matrix of rank one, as a square root
    for model in (gtsam.noiseModel.Isotropic.Precision(size, 1e-12), gtsam.noiseModel.Gaussian.SqrtInformation(rows)):
        graph.add(pose_between(d)(first, second, measured, model))
    solution = solve(graph)
    check_honest(solution, best_cost(graph, truth))
    assert solution.certificate.lower_bound > 0


@DIMENSIONS
def test_keys_far_apart(d: int) -> None:
    graph, truth = problems.ring(d, 10, 0.05, 0.1, seed=1)
    far = {key: 2**63 + 10**15 * number for number, key in enumerate(reversed(list(truth.keys())))}
    solution = solve(renamed(graph, far))
    assert solution.certificate
    assert solution.cost == pytest.approx(graph.error(problems.optimize(graph, truth)), rel=1e-6)


@DIMENSIONS
@pytest.mark.parametrize("frobenius", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_weights_over_twelve_decades(d: int, frobenius: bool, seed: int) -> None:
    """Sigmas from 1e-5 to 10, edge by edge."""
    rng = np.random.default_rng(seed)
    _, truth = problems.ring(d, 10, 0.05, 0.1, seed=1)
    keys = list(truth.keys())
    at: Any = truth.atPose2 if d == 2 else truth.atPose3
    graph = gtsam.NonlinearFactorGraph()
    pairs = [(k, (k + 1) % 10) for k in range(10)] + [(0, 5), (2, 7)]
    for i, j in pairs:
        sigma = 10.0 ** rng.uniform(-5, 1)
        noise = problems.noise_model(d, sigma, 2 * sigma)
        measured = at(keys[i]).between(at(keys[j])).retract(sigma * rng.normal(size=3 if d == 2 else 6))
        graph.add(pose_between(d)(keys[i], keys[j], measured, noise))
    graph = problems.as_frobenius(graph) if frobenius else graph
    solution = solve(graph, time_limit=20)
    best = graph.error(problems.optimize(graph, truth))
    check_honest(solution, min(best, solution.cost))
    assert solution.cost <= best * (1 + 1e-4)


@DIMENSIONS
@pytest.mark.parametrize("limit", [0.0, 1e-3])
@pytest.mark.parametrize("given", [True, False])
def test_no_time_at_all(d: int, limit: float, given: bool) -> None:
    """The first step is always done; what is returned is honest."""
    graph, truth = problems.ring(d, 30, 0.05, 0.1, seed=1)
    start = problems.random_start(truth, np.random.default_rng(0)) if given else None
    began = time.perf_counter()
    solution = solve(graph, start, time_limit=limit)
    assert time.perf_counter() - began < 2
    assert solution.cost == graph.error(solution.values)
    assert solution.certificate.lower_bound <= graph.error(problems.optimize(graph, truth)) * (1 + 1e-9)


def test_a_noisy_ring_says_why_and_what_to_try() -> None:
    graph, _ = problems.ring(3, 8, 1.5, 1.0, seed=4)
    gram, vector = (solve(graph, tolerance=1e-9, lift=lift) for lift in ("gram", "vector"))
    assert not gram.certificate
    assert not vector.certificate
    assert gram.advice.endswith('try lift="vector"')
    assert "of 6 cliques of the last relaxation are tight" in vector.advice
    assert 'lift="vector"' not in vector.advice
    assert "gtsam_sdp.refine" not in str(vector)


def test_the_first_finder_keeps_ties() -> None:
    """Rungs that come back to the same cost up to rounding have found nothing."""
    graph, _ = problems.ring(3, 8, 1.5, 1.0, seed=0)
    best = solve(graph, tolerance=1e-9)
    again = refine(graph, best.values, tolerance=1e-9)
    assert len(again.stages) > 5
    assert again.method == "given"
    assert "below the values given" not in str(again)
    for method in ("staircase", "sdp"):
        assert solve(graph, best.values, method=method, tolerance=1e-9).method == "local"


@DIMENSIONS
def test_the_better_start_is_taken_first(d: int) -> None:
    """A random start is worse than the chordal initialisation; the optimum is better."""
    graph, truth = problems.ring(d, 20, 0.05, 0.1, seed=1)
    solution = solve(graph, problems.random_start(truth, np.random.default_rng(0)))
    assert solution.method == "chordal initialisation"
    best = problems.optimize(graph, truth)
    solution = solve(graph, best)
    assert solution.method == "local"
    assert solution.improvement == pytest.approx(0.0, abs=1e-6 * solution.cost)


def test_the_old_name_of_the_relaxation_is_still_taken() -> None:
    """method="chordal", with a warning that names the caller's line; results have the new name."""
    graph, values = problems.small_graph(2, count=9, loops=4, seed=3)
    for called in (
        lambda: solve(graph, values, method="chordal"),  # type: ignore[arg-type]
        lambda: refine(graph, values, method="chordal"),  # type: ignore[arg-type]
        lambda: certify(graph, values, method="chordal"),  # type: ignore[arg-type]
    ):
        with pytest.warns(DeprecationWarning, match='method="chordal" is called method="sdp" now') as told:
            called()
        assert [warning.filename for warning in told] == [__file__]
    with pytest.warns(DeprecationWarning):
        by_sdp = certify(graph, values, method="chordal")  # type: ignore[arg-type]
    assert by_sdp.method == "sdp"
    assert by_sdp.lower_bound == certify(graph, values, method="sdp").lower_bound
