"""The truncated least squares of a GNC problem: GTSAM's own costs, and what certify says of its result."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import InvalidGraphError, certify, truncated_least_squares
from tests import problems

COUNT = 16


def problem(d: int, seed: int = 0) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values, list[int]]:
    """A ring with true and false loop closures, the truth, and the places of the false ones."""
    rng = np.random.default_rng(seed)
    edges = [*problems.ring_edges(COUNT), *((i, i + 3) for i in range(0, COUNT - 3, 2))]
    poses = problems.ring_poses(d, COUNT)
    graph, truth = problems.pose_graph(poses, edges, 0.01, 0.03, rng)
    first, between = graph.size(), gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    for wrong in problems.random_poses(d, 5, rng):
        i, j = rng.choice(COUNT, 2, replace=False).tolist()
        graph.add(between(i, j, wrong, problems.noise_model(d, 0.01, 0.03)))
    return graph, truth, list(range(first, graph.size()))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("thresholds", [None, 8.0, "each"])
def test_costs_are_the_smaller_of_both(d: int, thresholds: Any) -> None:
    graph, truth, _ = problem(d)
    if thresholds == "each":
        thresholds = np.random.default_rng(0).uniform(1.0, 20.0, size=graph.size())
    inliers = list(range(COUNT))
    robust = truncated_least_squares(graph, thresholds=thresholds, known_inliers=inliers)
    values = problems.random_start(truth, np.random.default_rng(1))
    for at in (truth, values):
        optimizer = gtsam.GncLMOptimizer(graph, at, gtsam.GncLMParams())
        if thresholds is None:
            limits = optimizer.getInlierCostThresholds()
        else:
            limits = np.broadcast_to(thresholds, graph.size())
        for place in range(graph.size()):
            plain = graph.at(place).error(at)
            expected = plain if place in inliers else min(plain, limits[place])
            assert robust.at(place).error(at) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_result_of_gnc_is_certified(d: int, seed: int) -> None:
    graph, truth, false = problem(d, seed)
    inliers = list(range(COUNT))
    parameters = gtsam.GncLMParams()
    parameters.setLossType(gtsam.GncLossType.TLS)
    parameters.setKnownInliers(inliers)
    optimizer = gtsam.GncLMOptimizer(graph, truth, parameters)
    optimizer.setInlierCostThresholds(12.5)
    result = optimizer.optimize()
    robust = truncated_least_squares(graph, thresholds=optimizer.getInlierCostThresholds(), known_inliers=inliers)
    result = problems.optimize(robust, result)
    certificate = certify(robust, result)
    weights = optimizer.getWeights()
    assert np.flatnonzero(weights < 0.5).tolist() == false
    assert certificate.cost == robust.error(result)
    assert certificate.region is not None
    np.testing.assert_array_equal(certificate.region.index, np.arange(COUNT, graph.size()))
    np.testing.assert_array_equal(certificate.region.index[certificate.region.is_outlier], false)


def test_places_stay_and_the_graph_is_not_changed() -> None:
    graph, truth, false = problem(2)
    graph.remove(COUNT)
    before = graph.error(truth)
    robust = truncated_least_squares(graph, known_outliers=false)
    assert robust.size() == graph.size()
    assert [robust.at(place) is None for place in (COUNT, *false)] == [True] * (1 + len(false))
    assert graph.error(truth) == before
    again = truncated_least_squares(robust, known_inliers=range(COUNT), thresholds=4.0)
    assert again.at(0).error(truth) == graph.at(0).error(truth)
    kept: Any = again.at(0)
    assert isinstance(kept.noiseModel(), gtsam.noiseModel.Diagonal)


def test_what_cannot_be() -> None:
    graph, _, _ = problem(2)
    for thresholds in (0.0, -1.0, np.nan, [1.0, 2.0]):
        with pytest.raises(ValueError, match="thresholds must be"):
            truncated_least_squares(graph, thresholds=thresholds)
    with pytest.raises(ValueError, match="places in the graph"):
        truncated_least_squares(graph, known_inliers=[graph.size()])
    with pytest.raises(ValueError, match="Factor 3 is a known inlier and a known outlier"):
        truncated_least_squares(graph, known_inliers=[3], known_outliers=[3])
    graph.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), gtsam.noiseModel.Constrained.All(3)))
    with pytest.raises(InvalidGraphError, match="Constrained noise, which cannot be truncated"):
        truncated_least_squares(graph)
    assert truncated_least_squares(graph, known_inliers=[graph.size() - 1]).size() == graph.size()
