"""solve and refine on graphs with robust losses: false loop closures are thrown out, true ones are kept."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import InvalidGraphError, Solution, certify, refine, relax, solve
from gtsam_sdp.reading.graph import read
from gtsam_sdp.search.methods.graduated import Sorting
from tests import problems

COUNT = 24
LOSSES = gtsam.noiseModel.mEstimator


def robust_graph(
    d: int, false: int, loss: Any, seed: int
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values, gtsam.Values, int]:
    """Two rounds of a ring with true and false loop closures under a loss; the truth, odometry, and the first false."""
    rng = np.random.default_rng(seed)
    half = COUNT // 2
    poses = 2 * problems.ring_poses(d, half)
    chain = [(i, i + 1) for i in range(COUNT - 1)]
    loops = [(i, i + half) for i in range(half)]
    graph, truth = problems.pose_graph(poses, [*chain, *loops], 0.01, 0.03, rng)
    robust = gtsam.NonlinearFactorGraph()
    for index in range(graph.size()):
        factor: Any = graph.at(index)
        noise = gtsam.noiseModel.Robust.Create(loss, factor.noiseModel())
        robust.add(factor if index < len(chain) else factor.cloneWithNewNoiseModel(noise))
    first, between = robust.size(), gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    noise = gtsam.noiseModel.Robust.Create(loss, problems.noise_model(d, 0.01, 0.03))
    for wrong in problems.random_poses(d, false, rng):
        i, j = rng.choice(COUNT, 2, replace=False).tolist()
        robust.add(between(i, j, wrong, noise))
    odometry = gtsam.Values()
    odometry.insert(0, poses[0])
    pose = poses[0]
    for i, _ in chain:
        step: Any = graph.at(i)
        pose = pose.compose(step.measured())
        odometry.insert(i + 1, pose)
    return robust, truth, odometry, first


def thrown_out(solution: Solution) -> list[int]:
    """Places of the factors that the solution throws out."""
    region = solution.certificate.region
    assert region is not None
    return region.index[region.is_outlier].tolist()


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_true_sorting_is_found_and_certified(d: int, seed: int) -> None:
    graph, truth, _, first = robust_graph(d, 12, LOSSES.TruncatedLeastSquares.Create(5.0), seed)
    best = graph.error(problems.optimize(graph, truth))
    solution = solve(graph)
    assert solution.cost == pytest.approx(best, rel=1e-6)
    assert solution.cost == graph.error(solution.values)
    assert thrown_out(solution) == list(range(first, graph.size()))
    assert solution.certificate.lower_bound > (1 - 1e-4) * solution.cost
    assert solution.certificate


@pytest.mark.parametrize("d", [2, 3])
def test_refine_leaves_a_wrong_sorting(d: int) -> None:
    graph, truth, _, first = robust_graph(d, 12, LOSSES.TruncatedLeastSquares.Create(5.0), 0)
    best = graph.error(problems.optimize(graph, truth))
    rng = np.random.default_rng(1)
    wrong = problems.optimize(graph, problems.random_start(truth, rng))
    assert graph.error(wrong) > 1.05 * best
    solution = refine(graph, wrong)
    assert solution.cost == pytest.approx(best, rel=1e-6)
    assert solution.method == "graduated non-convexity"
    assert solution.improvement == pytest.approx(graph.error(wrong) - best, rel=1e-6)
    assert thrown_out(solution) == list(range(first, graph.size()))


@pytest.mark.parametrize("loss", [LOSSES.Cauchy.Create(2.0), LOSSES.GemanMcClure.Create(4.0), LOSSES.Huber.Create(1.5)])
def test_other_losses_end_no_worse_than_from_the_truth(loss: Any) -> None:
    graph, truth, odometry, _ = robust_graph(2, 8, loss, 3)
    best = graph.error(problems.optimize(graph, truth))
    for solution in (solve(graph), solve(graph, odometry), refine(graph, odometry)):
        assert solution.cost <= best * (1 + 1e-6)
        assert solution.certificate.lower_bound <= solution.cost


def test_wrong_loops_alone_do_not_spoil_odometry() -> None:
    graph, _, odometry, first = robust_graph(2, 10, LOSSES.TruncatedLeastSquares.Create(5.0), 0)
    half = COUNT // 2
    for index in range(first - half, first):
        graph.remove(index)
    assert solve(graph).cost <= graph.error(odometry) * (1 + 1e-6)


def test_the_bound_of_gaussian_terms_is_never_kept() -> None:
    """The cost with Gaussian noise is above that with a loss, and its bounds may be above the best robust cost."""
    graph, truth, _, _ = robust_graph(2, 12, LOSSES.GemanMcClure.Create(3.0), 1)
    best = graph.error(problems.optimize(graph, truth))
    for solution in (solve(graph), solve(graph, truth), refine(graph, truth)):
        assert all(stage.lower_bound <= best * (1 + 1e-9) for stage in solution.stages)
        assert {stage.name for stage in solution.stages} <= {
            "graduated non-convexity", "optimise", "certify", "continuation",
        }  # fmt: skip
        assert solution.relaxation is None


@pytest.mark.parametrize("method", ["staircase", "sdp"])
def test_methods_without_a_bound_are_refused(method: Any) -> None:
    graph, truth, _, _ = robust_graph(2, 2, LOSSES.Huber.Create(1.5), 0)
    with pytest.raises(InvalidGraphError, match=f'robust loss, for which method="{method}"'):
        solve(graph, method=method)
    with pytest.raises(InvalidGraphError, match="graduated non-convexity"):
        refine(graph, truth, method=method)


def test_local_only_optimises() -> None:
    graph, truth, _, _ = robust_graph(2, 4, LOSSES.Cauchy.Create(3.0), 0)
    found = [solve(graph, start, method="local") for start in (None, truth)]
    for solution in (*found, refine(graph, truth, method="local")):
        assert "graduated non-convexity" not in [stage.name for stage in solution.stages]
    assert found[1].cost == pytest.approx(graph.error(problems.optimize(graph, truth)), rel=1e-6)


def test_a_short_time_limit_still_certifies_the_start() -> None:
    graph, _, odometry, _ = robust_graph(2, 4, LOSSES.Cauchy.Create(3.0), 0)
    solution = refine(graph, odometry, time_limit=0.0)
    assert solution.cost <= graph.error(odometry)
    assert solution.untried
    assert "graduated non-convexity" in solution.advice


def test_sorts_as_gtsam_does() -> None:
    """GTSAM's optimizer, with the same thresholds and start, throws out the same factors."""
    graph, truth, odometry, first = robust_graph(2, 6, LOSSES.TruncatedLeastSquares.Create(5.0), 2)
    ours = Sorting.of(read(graph, truth, "raise")).truncated(odometry)
    parameters = gtsam.GncLMParams()
    parameters.setLossType(gtsam.GncLossType.TLS)
    parameters.setKnownInliers(list(range(COUNT - 1)))
    optimizer = gtsam.GncLMOptimizer(graph, odometry, parameters)
    optimizer.setInlierCostThresholds(12.5)
    optimizer.optimize()
    assert ours.ended
    np.testing.assert_array_equal(ours.weights > 0.5, optimizer.getWeights()[COUNT - 1 :] > 0.5)
    np.testing.assert_array_equal(np.flatnonzero(ours.weights < 0.5), np.arange(first - COUNT + 1, len(ours.weights)))


def test_a_bound_is_not_carried_over_to_a_certificate_with_a_region() -> None:
    graph, truth, _, _ = robust_graph(2, 4, LOSSES.Cauchy.Create(3.0), 0)
    certificate = certify(graph, truth)
    assert certificate.region is not None
    assert certificate.with_bound(certificate.cost, 0.0, 0.0, "another", {}) is certificate


def test_relax_has_no_terms_for_robust_losses() -> None:
    graph, truth, _, _ = robust_graph(2, 4, LOSSES.Cauchy.Create(3.0), 0)
    for values in (None, truth):
        with pytest.raises(InvalidGraphError, match="robust loss, and its term holds on a region only"):
            relax(graph, values)


@pytest.mark.parametrize("d", [2, 3])
def test_everything_may_be_robust(d: int) -> None:
    """Nothing to hold on to but the measurements that agree."""
    graph, truth, odometry, first = robust_graph(d, 6, LOSSES.TruncatedLeastSquares.Create(5.0), 1)
    model = gtsam.noiseModel.Robust.Create(
        LOSSES.TruncatedLeastSquares.Create(5.0), problems.noise_model(d, 0.01, 0.03)
    )
    for index in range(COUNT - 1):
        factor: Any = graph.at(index)
        graph.replace(index, factor.cloneWithNewNoiseModel(model))
    solution = solve(graph, odometry)
    assert solution.cost == pytest.approx(graph.error(problems.optimize(graph, truth)), rel=1e-6)
    assert thrown_out(solution) == list(range(first, graph.size()))
