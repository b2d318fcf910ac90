"""Numbers, biases, and factors that cost nothing, in graphs."""

from __future__ import annotations

import gtsam
import numpy as np
import pytest

from gtsam_sdp import certify, solve
from gtsam_sdp.errors import InvalidGraphError
from gtsam_sdp.factors.registry import COSTLESS
from tests.factors.cases import random_bias, random_rotation


def _sigma(k: int, sigma: float):
    return gtsam.noiseModel.Isotropic.Sigma(k, sigma)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("hard", [False, True])
def test_chain_of_numbers_and_biases_is_certified(seed: int, hard: bool) -> None:
    rng = np.random.default_rng(seed)
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for key in range(5):
        values.insert(key, float(rng.normal()))
        values.insert(10 + key, random_bias(rng))
        graph.add(gtsam.PriorFactorDouble(key, rng.normal(), _sigma(1, 2.0)))
        noise = gtsam.noiseModel.Diagonal.Sigmas(10 ** rng.uniform(-2, 0, size=6))
        graph.add(gtsam.PriorFactorConstantBias(10 + key, random_bias(rng), noise))
        if key:
            graph.add(gtsam.BetweenFactorDouble(key - 1, key, rng.normal(), _sigma(1, 0.1)))
            graph.add(gtsam.BetweenFactorConstantBias(9 + key, 10 + key, gtsam.imuBias.ConstantBias(), noise))
    if hard:
        prescribed = random_bias(rng)
        graph.add(gtsam.NonlinearEqualityConstantBias(12, prescribed))
        graph.add(gtsam.PriorFactorDouble(3, 1.0, gtsam.noiseModel.Constrained.All(1)))
        values.update(12, prescribed)
        values.update(3, 1.0)
    best = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()
    if hard:
        first = certify(graph, best)
        assert first and first.lower_bound == pytest.approx(graph.error(best), rel=1e-6)
        return
    assert certify(graph, best)
    found = solve(graph)
    assert found.certificate and graph.error(found.values) == pytest.approx(graph.error(best), rel=1e-6)
    assert not certify(graph, values)


def test_number_where_a_vector_is_needed_is_named() -> None:
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    graph.add(gtsam.PriorFactorDouble(gtsam.symbol("x", 1), 1.0, _sigma(1, 1.0)))
    values.insert(gtsam.symbol("x", 1), np.ones(1))
    with pytest.raises(InvalidGraphError, match="needs a Double at x1, where the values hold a Vector"):
        certify(graph, values)


def test_factors_that_cost_nothing_leave_the_bound_alone() -> None:
    rng = np.random.default_rng(3)
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    truth = [random_rotation(3, rng) for _ in range(5)]
    for a, b in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0)):
        noisy = truth[a].between(truth[b]).compose(gtsam.Rot3.Expmap(rng.normal(size=3) * 0.05))
        graph.add(gtsam.BetweenFactorRot3(a, b, noisy, _sigma(3, 0.05)))
    for key, value in enumerate(truth):
        values.insert(key, value)
    mean = gtsam.KarcherMeanFactorRot3(list(range(5)), 3, 10.0)
    whole = gtsam.NonlinearFactorGraph(graph)
    whole.add(mean)
    best = gtsam.LevenbergMarquardtOptimizer(whole, values).optimize()
    alone, certificate = certify(graph, best), certify(whole, best)
    assert certificate and certificate.cost == alone.cost
    assert certificate.lower_bound == pytest.approx(alone.lower_bound, rel=1e-9)
    assert "KarcherMeanFactorRot3" in COSTLESS
    for _ in range(1000):
        at = gtsam.Values()
        for key in range(5):
            at.insert(key, random_rotation(3, rng))
        assert mean.error(at) == 0
