"""Polishing: the Hessian against finite differences, quadratic convergence, and no step uphill."""

from __future__ import annotations

import numpy as np
import pytest

from gtsam_sdp.bound import certificate_matrix, closed_form_multipliers
from gtsam_sdp.lowrank.initialise import chordal_initialisation
from gtsam_sdp.lowrank.polish import Point, polish, reduced_hessian
from tests import problems
from tests.test_bound import lifted
from tests.test_qcqp import frobenius_graph


@pytest.mark.parametrize("d", [2, 3])
def test_gradient_and_hessian_by_taylor_slopes(d: int) -> None:
    """The error of the first order model falls with the square of the step, of the second with its cube."""
    graph, truth = problems.small_graph(d, sigma_rotation=0.2, seed=1)
    qcqp, Y = lifted(graph, problems.optimize(graph, truth))
    rng = np.random.default_rng(0)
    first = Point.at(qcqp, Y)
    start, _ = first.retract(0.3 * rng.normal(size=len(first.gradient)))
    point = Point.at(qcqp, start)
    gradient = point.gradient
    S = certificate_matrix(qcqp, closed_form_multipliers(qcqp, start))
    hessian = reduced_hessian(S, point.T, start.shape[1])
    direction = rng.normal(size=len(gradient))
    steps = 10.0 ** -np.arange(1, 4)
    first, second = [], []
    for step in steps:
        _, change = point.retract(step * direction)
        linear = step * gradient @ direction
        first.append(abs(change - linear))
        second.append(abs(change - linear - step**2 / 2 * direction @ (hessian @ direction)))
    slopes = [np.polyfit(np.log(steps), np.log(errors), 1)[0] for errors in (first, second)]
    assert slopes[0] == pytest.approx(2.0, abs=0.15)
    assert slopes[1] > 2.7


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.03])
def test_polishing_goes_back_to_the_critical_point(d: int, size: float) -> None:
    graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=2)
    qcqp, Y = lifted(graph, problems.optimize(graph, truth))
    best = polish(qcqp, Y, 1.0)
    rng = np.random.default_rng(0)
    point = Point.at(qcqp, Y)
    away, _ = point.retract(size * rng.normal(size=len(point.gradient)))
    back = polish(qcqp, away, qcqp.cost(Y))
    assert qcqp.violation(back.Y) < 1e-12
    assert qcqp.cost(back.Y) <= qcqp.cost(away)
    assert qcqp.cost(back.Y) == pytest.approx(qcqp.cost(best.Y), rel=1e-8)
    assert back.decrease == pytest.approx(qcqp.cost(away) - qcqp.cost(back.Y), rel=1e-6, abs=1e-9)
    assert np.abs(Point.at(qcqp, back.Y).gradient).max() < 1e-3


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_polishing_never_goes_uphill(d: int, seed: int) -> None:
    """From anywhere, with an indefinite Hessian."""
    graph, truth = problems.small_graph(d, sigma_rotation=0.5, seed=seed)
    values = problems.random_start(truth, np.random.default_rng(seed))
    qcqp, Y = lifted(graph, values)
    polished = polish(qcqp, Y, qcqp.cost(Y))
    assert qcqp.cost(polished.Y) <= qcqp.cost(Y) * (1 + 1e-12)
    assert polished.decrease >= 0
    assert qcqp.violation(polished.Y) < 1e-12


@pytest.mark.parametrize("kind", ["Rot2", "Rot3", "Pose2", "Pose3"])
def test_chordal_initialisation_is_near_the_optimum(kind: str) -> None:
    graph, values = frobenius_graph(kind)
    qcqp, _ = lifted(graph, values)
    Y = chordal_initialisation(qcqp)
    assert qcqp.violation(Y) < 1e-12
    best = graph.error(problems.optimize(graph, values))
    start = qcqp.unlift(Y)
    assert qcqp.cost(Y) == pytest.approx(graph.error(start), rel=1e-9)
    assert best * (1 - 1e-9) <= qcqp.cost(Y) <= 3 * best
    assert graph.error(problems.optimize(graph, start)) == pytest.approx(best, rel=1e-6)
