"""Descent: derivatives against finite differences, quadratic convergence, no step uphill; chordal initialisation."""

from __future__ import annotations

import gtsam
import numpy as np
import pytest

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.lowrank.descent import Point, descend, reduced_hessian, retracted, tangent_basis
from gtsam_sdp.lowrank.initialise import chordal_initialisation
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.proof.multipliers import certificate_matrix
from tests import problems
from tests.lift.test_qcqp import frobenius_graph
from tests.proof.test_bound import lifted


def random_point(qcqp: Qcqp, columns: int, rng: np.random.Generator) -> np.ndarray:
    """A feasible Y, (n, columns)."""
    return retracted(qcqp, random_rows(qcqp, columns, rng))


PROBLEMS = ["2", "3", "priors", "poses", "nothing"]
"""Pose graphs by dimension, and graphs with directions by what holds them."""


def problem(name: str, sigma: float, seed: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    if name.isdigit():
        return problems.small_graph(int(name), sigma_rotation=sigma, seed=seed)
    return problems.direction_graph(seed, name)


def random_rows(qcqp: Qcqp, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Normal numbers, complex in 2D."""
    Y = rng.normal(size=(qcqp.size, columns))
    return Y + 1j * rng.normal(size=Y.shape) if qcqp.rank == 1 else Y


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("extra", [0, 2])
def test_gradient_and_hessian_by_taylor_slopes(name: str, extra: int) -> None:
    """The error of the first order model falls with the square of the step, of the second with its cube."""
    graph, truth = problem(name, 0.2, 1)
    qcqp, _ = lifted(graph, problems.optimize(graph, truth))
    rng = np.random.default_rng(0)
    quadratic = Quadratic(qcqp)
    point = Point.at(quadratic, quadratic.settle(random_point(qcqp, qcqp.rank + extra, rng)))
    direction = point.tangent(random_rows(qcqp, qcqp.rank + extra, rng))
    # a retraction minimises over positions: they follow the rotations to first order
    still = direction.copy()
    still[quadratic.positions] = 0
    direction[quadratic.positions] = (point.retract(1e-7 * still)[0] - point.Y)[quadratic.positions] / 1e-7
    linear = np.vdot(point.gradient, direction).real
    second_order = np.vdot(direction, point.hessian(direction)).real
    steps = 10.0 ** -np.array([2.0, 2.5, 3.0])
    first, second = [], []
    for step in steps:
        moved, change = point.retract(step * direction)
        assert qcqp.violation(moved) < 1e-12
        first.append(abs(change - step * linear))
        second.append(abs(change - step * linear - step**2 / 2 * second_order))
    slopes = [np.polyfit(np.log(steps), np.log(errors), 1)[0] for errors in (first, second)]
    assert slopes[0] == pytest.approx(2.0, abs=0.15)
    assert slopes[1] > 2.6


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_sparse_hessian_is_the_hessian(name: str) -> None:
    graph, truth = problem(name, 0.2, 1)
    qcqp, _ = lifted(graph, problems.optimize(graph, truth))
    rng = np.random.default_rng(0)
    quadratic = Quadratic(qcqp)
    point = Point.at(quadratic, random_point(qcqp, qcqp.rank, rng))
    T = tangent_basis(quadratic, point.Y)
    matrix = reduced_hessian(certificate_matrix(qcqp, point.multipliers), T, qcqp.rank)
    x = rng.normal(size=(T.T @ point.Y.ravel()).shape)
    V = np.reshape(T @ x, point.Y.shape)
    np.testing.assert_allclose(point.tangent(V), V, atol=1e-12)
    expected = (T.conj().T @ point.hessian(V).ravel()).real
    np.testing.assert_allclose(matrix @ x, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.03])
def test_descent_goes_back_to_the_minimum(d: int, size: float, near: bool) -> None:
    graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=2)
    qcqp, Y = lifted(graph, problems.optimize(graph, truth))
    quadratic = Quadratic(qcqp)
    best = descend(quadratic, Y, 1e-11, near=True)
    point = Point.at(quadratic, Y)
    direction = point.tangent(random_rows(qcqp, qcqp.rank, np.random.default_rng(0)))
    away, _ = point.retract(size * direction)
    back = descend(quadratic, away, 1e-11, near=near)
    assert back.converged
    assert qcqp.violation(back.Y) < 1e-12
    assert qcqp.cost(back.Y) <= qcqp.cost(away)
    assert qcqp.cost(back.Y) == pytest.approx(qcqp.cost(best.Y), rel=1e-8)
    assert back.decrease == pytest.approx(qcqp.cost(away) - qcqp.cost(back.Y), rel=1e-6, abs=1e-9)
    assert np.abs(Point.at(quadratic, back.Y).gradient).max() < 1e-3


@pytest.mark.parametrize("name", ["2", "3", "priors", "nothing"])
@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("extra", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_descent_never_goes_uphill(name: str, near: bool, extra: int, seed: int) -> None:
    """From anywhere, with an indefinite Hessian, to a point without a gradient."""
    graph, truth = problem(name, 0.5, seed)
    qcqp, _ = lifted(graph, truth)
    quadratic = Quadratic(qcqp)
    Y = random_point(qcqp, qcqp.rank + extra, np.random.default_rng(seed))
    end = descend(quadratic, Y, 1e-10, near=near and not extra)
    assert end.decrease >= 0
    if near and not extra:  # it may give up
        return
    assert end.converged or end.steps == 200  # one valley in space is so flat that rounding decides
    assert qcqp.cost(Y) - qcqp.cost(end.Y) == pytest.approx(end.decrease, rel=1e-9)
    assert end.decrease > 0
    assert qcqp.violation(end.Y) < 1e-12
    size = np.linalg.norm(Point.at(quadratic, end.Y).gradient)
    assert size < 1e-3 * np.linalg.norm(Point.at(quadratic, Y).gradient)


@pytest.mark.parametrize("kind", ["Rot2", "Rot3", "Pose2", "Pose3"])
def test_chordal_initialisation_is_near_the_optimum(kind: str) -> None:
    graph, values = frobenius_graph(kind)
    qcqp, _ = lifted(graph, values)
    Y = chordal_initialisation(Quadratic(qcqp))
    assert qcqp.violation(Y) < 1e-12
    best = graph.error(problems.optimize(graph, values))
    start = qcqp.unlift(Y)
    assert qcqp.cost(Y) == pytest.approx(graph.error(start), rel=1e-9)
    assert best * (1 - 1e-9) <= qcqp.cost(Y) <= 3 * best
    assert graph.error(problems.optimize(graph, start)) == pytest.approx(best, rel=1e-6)
