"""The staircase: escape, rounding; from random starts to the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gtsam_sdp import solve
from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.lowrank.staircase import climb, negative_curvature, rounded
from tests import problems
from tests.benchmarks.common import lift
from tests.lowrank.test_descent import random_point


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("extra", [0, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_from_random_points_to_the_optimum(d: int, extra: int, seed: int) -> None:
    graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=3)
    graph = problems.as_frobenius(graph)
    best = graph.error(problems.optimize(graph, truth))
    qcqp, _ = lift(graph, truth)
    climbed = climb(Quadratic(qcqp), random_point(qcqp, qcqp.rank + extra, np.random.default_rng(seed)), max_columns=8)
    assert climbed.is_second_order
    assert not climbed.was_late
    assert climbed.cost == pytest.approx(best, rel=1e-7)
    assert list(climbed.costs) == sorted(climbed.costs, reverse=True)
    assert qcqp.violation(climbed.Y) < 1e-9
    values = qcqp.unlift(rounded(qcqp, climbed.Y))
    assert graph.error(values) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_negative_curvature_at_a_wrong_minimum(d: int) -> None:
    """There S has a direction of negative curvature, at the optimum it has none."""
    graph, truth = problems.ring(d, 12, 0.05, 0.1, seed=2)
    graph = problems.as_frobenius(graph)
    best = problems.optimize(graph, truth)
    rng = np.random.default_rng(1)
    tries = [problems.optimize(graph, problems.random_start(truth, rng)) for _ in range(10)]
    wrong = max(tries, key=graph.error)
    assert graph.error(wrong) > 2 * graph.error(best)
    qcqp, Y = lift(graph, wrong)
    Y = descend(Quadratic(qcqp), Y, 1e-10).Y
    assert negative_curvature(qcqp, Y) is not None
    qcqp, Y = lift(graph, best)
    assert negative_curvature(qcqp, Y) is None


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_solve_by_staircase(d: int, sigma: float) -> None:
    """Log-map costs from a wrong minimum: every step is in the report, and the bound is below every minimum."""
    graph, truth = problems.ring(d, 12, sigma, 0.1, seed=2)
    rng = np.random.default_rng(1)
    found = [problems.optimize(graph, problems.random_start(truth, rng)) for _ in range(20)]
    costs = [graph.error(values) for values in [*found, problems.optimize(graph, truth)]]
    solution = solve(graph, max(found, key=graph.error), method="staircase", tolerance=1e-3)
    assert "staircase" in [stage.name for stage in solution.stages]
    assert solution.certificate.lower_bound <= min(costs) * (1 + 1e-9)
    if sigma == 0.05:
        assert solution.certificate
        assert solution.method == "staircase"
        assert solution.cost == pytest.approx(min(costs), rel=1e-6)


def test_a_staircase_that_is_not_tight() -> None:
    """A noisy ring: the bound of the last point is that of the plain relaxation."""
    graph, truth = problems.ring(3, 8, 1.5, 1.0, seed=0)
    methods: list[Any] = ["staircase", "sdp"]
    by_method = {m: solve(graph, truth, method=m, tolerance=1e-9).certificate.lower_bound for m in methods}
    assert 0 < by_method["staircase"] <= by_method["sdp"] * (1 + 1e-5)
